/* What the warps of a launch did: how often each instruction was issued, and what its accesses cost
 * in sectors and in passes over the banks. For ptx_count; the backend runs without it. */
#ifndef PTX_COUNTER_H
#define PTX_COUNTER_H

#include "ptx_warp.h"

struct ptx_counter {
    uint64_t issued[PTX_CLASSES];
    uint64_t global_bytes; /* asked for */
    uint64_t sectors;      /* of 32 bytes, that a warp's instruction touched; not across them */
    uint64_t copy_bytes, copy_sectors;     /* cp.async's part of both */
    uint64_t wavefronts, least_wavefronts; /* of ld, st and ldmatrix on shared memory */
};

/* One instruction's accesses by `lanes`, each of `bytes` bytes. */
void ptx_count_global(const ptx_warp &warp, const ptx_instruction &in, const uint64_t *addresses,
                      uint32_t lanes, uint32_t bytes);
/* Of the lanes that execute it; ldmatrix: all 32, of 16 bytes each. */
void ptx_count_shared(const ptx_warp &warp, const ptx_instruction &in, const uint64_t *addresses,
                      uint32_t bytes);

#endif
