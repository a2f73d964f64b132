/* One number out of all threads of a block: softmax over more tokens than a warp has lanes. */
#ifndef BLOCK_ALL_CUH
#define BLOCK_ALL_CUH

#include <math.h>

#include "gpu_lang.cuh"

/* The largest (or the sum) of all threads' numbers, in every thread. of_warps: shared, [warps], of
 * use to nobody else in between. Every thread of the block's `warps` warps is to come here. */
template <bool of_largest, uint32_t warps> GPU_DEVICE float block_all(float mine, float *of_warps) {
    for (uint32_t bits = 1; bits < GPU_WARP_LANES; bits *= 2) {
        const float other = gpu_shuffle_xor(mine, bits);
        mine = of_largest ? fmaxf(mine, other) : mine + other;
    }
    gpu_sync_block(); /* what was there before has been read */
    if (gpu_thread() % GPU_WARP_LANES == 0)
        of_warps[gpu_thread() / GPU_WARP_LANES] = mine;
    gpu_sync_block();
    float all = of_warps[0];
    for (uint32_t w = 1; w < warps; w++)
        all = of_largest ? fmaxf(all, of_warps[w]) : all + of_warps[w];
    return all;
}

#endif
