/* Tiny kernels, some right and most with one fault planted, for test_simt.cc. */
#ifndef PLANTED_H
#define PLANTED_H

#include <cstdint>

struct planted_arguments {
    const uint32_t *dev_in; /* word i is i + 1 */
    uint32_t *dev_out;      /* [blocks x threads] */
    uint32_t rounds;
};

enum planted {
    PLANTED_NOTHING_REDUCE,
    PLANTED_NOTHING_RING,
    PLANTED_NOTHING_UNREAL_COPY,
    PLANTED_NOTHING_EXCHANGE,
    PLANTED_NO_BARRIER,
    PLANTED_TWO_BARRIERS,
    PLANTED_EXIT_BEFORE_BARRIER,
    PLANTED_HALF_WARP,
    PLANTED_TWO_SHUFFLES,
    PLANTED_BARRIER_IN_WARP,
    PLANTED_WRITE_PAST_SHARED,
    PLANTED_READ_PAST_SHARED,
    PLANTED_LOAD_PAST_SHARED,
    PLANTED_NO_WAIT,
    PLANTED_WAIT_FOR_OLDER,
    PLANTED_EXIT_WITH_COPY,
    PLANTED_LIVE_REFILL,
    PLANTED_NO_WARP_SYNC,
    PLANTED_NOBODY_WROTE,
    PLANTED_NOBODY_WROTE_GLOBAL,
    PLANTED_BLOCKS_COLLIDE,
    PLANTED_WRITE_PAST_GLOBAL,
    PLANTED_READ_PAST_GLOBAL,
    PLANTED_ODD_COPY,
    PLANTED_ODD_LOAD,
    PLANTED_COUNT
};

const void *planted_kernel(enum planted which); /* a gpu_launch's entry */

enum { PLANTED_THREADS = 64, PLANTED_SHARED_BYTES = 1040 }; /* not a multiple of 128 */

#endif
