/* What the warps of a launch did: how often each instruction was issued, and what its accesses cost
 * in sectors and in passes over the banks. For ptx_count; the backend runs without it. */
#ifndef PTX_COUNTER_H
#define PTX_COUNTER_H

#include <map>

#include "ptx_warp.h"

/* Accesses to memory: of all instructions, or of one. */
struct ptx_traffic {
    uint64_t issued;
    uint64_t bytes;   /* of global memory, asked for */
    uint64_t sectors; /* of 32 bytes, that a warp's instruction touched; not across instructions */
    uint64_t wavefronts, least_wavefronts; /* of ld, st and ldmatrix on shared memory */
};

struct ptx_counter {
    uint64_t issued[PTX_CLASSES];
    ptx_traffic all, copies; /* copies: cp.async's part */
    std::map<const ptx_instruction *, ptx_traffic> instructions;
    const ptx_kernel *kernel;
};

void ptx_traffic_add(ptx_traffic &to, const ptx_traffic &from);

/* One instruction's accesses by `lanes`, each of `bytes` bytes. */
void ptx_count_global(const ptx_warp &warp, const ptx_instruction &in, const uint64_t *addresses,
                      uint32_t lanes, uint32_t bytes);
/* Of the lanes that execute it; ldmatrix: all 32, of 16 bytes each. */
void ptx_count_shared(const ptx_warp &warp, const ptx_instruction &in, const uint64_t *addresses,
                      uint32_t bytes);

#endif
