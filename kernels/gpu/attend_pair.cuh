/* All mma kernels of one pair of formats: PAIR_K, PAIR_V and PAIR_DIMS_ALL or PAIR_DIMS_MIXED come
 * from a generated file (pairs.cmake). With GPU_SMALL head dim 128 and one latent: one kernel of
 * each shape, for builds that show that all is well, not for use. */
#include "attend_kernel.h"
#include "attend_mma.cuh"
#include "attend_wide.cuh"

#define PAIR_JOIN(a, b) a##b
#define PAIR_FORMAT(id) PAIR_JOIN(FORMAT_, id)
#define PAIR_TABLE_NAME(k, v) attend_pair_##k##_##v
#define PAIR_TABLE(k, v) PAIR_TABLE_NAME(k, v)

typedef decode_of<PAIR_FORMAT(PAIR_K)>::type pair_k;
typedef decode_of<PAIR_FORMAT(PAIR_V)>::type pair_v;

/* static: every pair has its own, and a linker would take one file's for all. */
template <uint32_t KD, uint32_t VD, uint32_t tiles> static struct attend_kernel pair_narrow() {
    typedef attend_mma_shape<pair_k, pair_v, KD, VD, tiles> S;
    struct attend_kernel kernel = {};
    kernel.entry = GPU_ENTRY(struct attend_arguments, attend_mma<pair_k, pair_v, KD, VD, tiles>);
    kernel.k_dim = KD;
    kernel.v_dim = VD;
    kernel.head_tiles = tiles;
    kernel.least_warps = 1;
    kernel.most_warps = ATTEND_MMA_WARPS;
    kernel.rings_per_warp = true;
    kernel.shared_bytes = S::QUERY_BYTES;
    kernel.stage_bytes = S::STAGE_BYTES;
    kernel.ring_least_bytes = S::MERGE_BYTES;
    return kernel;
}

template <uint32_t KD, uint32_t VD, uint32_t tiles, bool latent>
static struct attend_kernel pair_wide() {
    typedef attend_wide_shape<pair_k, pair_v, KD, VD, tiles, latent> S;
    struct attend_kernel kernel = {};
    kernel.entry =
        GPU_ENTRY(struct attend_arguments, attend_wide<pair_k, pair_v, KD, VD, tiles, latent>);
    kernel.k_dim = KD;
    kernel.v_dim = VD;
    kernel.latent = latent;
    kernel.selects = true;
    kernel.head_tiles = tiles;
    kernel.least_warps = kernel.most_warps = ATTEND_WIDE_WARPS;
    kernel.shared_bytes = S::RING_AT;
    kernel.stage_bytes = S::STAGE_BYTES;
    kernel.ring_least_bytes = S::AROUND_BYTES;
    return kernel;
}

extern "C" {
extern const struct attend_kernel PAIR_TABLE(PAIR_K, PAIR_V)[];
const struct attend_kernel PAIR_TABLE(PAIR_K, PAIR_V)[] = {
    pair_narrow<128, 128, 1>(),
    pair_narrow<128, 128, 2>(),
#ifdef GPU_SMALL
#ifdef PAIR_DIMS_ALL
    pair_wide<320, 256, 1, true>(),
#endif
#else
    pair_narrow<256, 256, 1>(),
    pair_wide<256, 256, 2, false>(),
#ifdef PAIR_DIMS_ALL
    pair_narrow<64, 64, 1>(),
    pair_narrow<64, 64, 2>(),
    pair_narrow<192, 128, 1>(),
    pair_narrow<192, 128, 2>(),
    pair_wide<512, 512, 1, false>(),
    pair_wide<512, 512, 2, false>(),
    pair_wide<576, 512, 1, true>(),
    pair_wide<576, 512, 2, true>(),
    pair_wide<576, 512, 4, true>(),
    pair_wide<320, 256, 1, true>(),
    pair_wide<320, 256, 2, true>(),
    pair_wide<320, 256, 4, true>(),
    pair_wide<512, 512, 1, true>(),
    pair_wide<512, 512, 2, true>(),
    pair_wide<512, 512, 4, true>(),
#endif
#endif
    {},
};
}
