/* The tables of compiled attend kernels: one per pair of formats, attend_pair_<K>_<V>[], ended by a
 * row without entry. Which one serves a shape is gpu_attend.c's choice. */
#ifndef ATTEND_KERNEL_H
#define ATTEND_KERNEL_H

#include <stdbool.h>
#include <stdint.h>

struct attend_kernel {
    const void *entry; /* NULL ends a table */
    uint32_t k_dim, v_dim;
    bool latent;         /* V is the first v_dim values of K */
    bool selects;        /* reads selected tokens too */
    uint32_t head_tiles; /* of eight query heads that one block does */
    uint32_t least_warps, most_warps;
    bool rings_per_warp;       /* a ring of stages for each warp, or one for the block */
    uint32_t shared_bytes;     /* of a block, beside its rings */
    uint32_t stage_bytes;      /* of one stage of a ring */
    uint32_t ring_least_bytes; /* a ring's place is needed for other things before and after */
};

#endif
