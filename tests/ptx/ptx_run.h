/* Runs a kernel's blocks one after the other. A warp goes on with those of its lanes that are
 * furthest behind in the text, so that lanes meet again where their ways do; it runs until it ends
 * or waits at a barrier. */
#ifndef PTX_RUN_H
#define PTX_RUN_H

#include "ptx_warp.h"

struct ptx_grid {
    uint32_t blocks, threads; /* threads: a multiple of 32, at most 1024 */
    uint32_t shared_bytes;    /* the dynamic part */
    bool backwards;           /* blocks and warps from the last to the first */
};

/* `arguments`: the kernel's parameter_bytes. What goes wrong throws ptx_failure, saying where. */
void ptx_run(const ptx_kernel &kernel, const ptx_grid &grid, const void *arguments,
             ptx_counter *counter);

/* For instructions: the lanes that execute it go on at `pc`, or end. */
void ptx_warp_branch(ptx_warp &warp, uint32_t pc);
void ptx_warp_end(ptx_warp &warp);

#endif
