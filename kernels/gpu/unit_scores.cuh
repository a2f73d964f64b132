/* K: 16 tokens' scores against 64 values of the queries, for every format. */
#ifndef UNIT_SCORES_CUH
#define UNIT_SCORES_CUH

#include "unit.cuh"

/* sums += of_block, rows g and g + 8 each times their own scale. */
template <uint32_t tiles>
GPU_DEVICE void unit_add_scaled(float (&sums)[tiles][4], const float (&of_block)[tiles][4],
                                float scale_g, float scale_g8) {
    GPU_UNROLL
    for (uint32_t n = 0; n < tiles; n++) {
        sums[n][0] += of_block[n][0] * scale_g;
        sums[n][1] += of_block[n][1] * scale_g;
        sums[n][2] += of_block[n][2] * scale_g8;
        sums[n][3] += of_block[n][3] * scale_g8;
    }
}

/* 16-bit K: the chunks are the fragments. */
template <class F, uint32_t dim, uint32_t tiles>
GPU_DEVICE void unit_scores_16(float (&sums)[tiles][4], const uint32_t (&queries)[tiles][8],
                               const struct unit_planes &planes, uint32_t unit,
                               const struct unit_place &place) {
    GPU_UNROLL
    for (uint32_t step = 0; step < UNIT_STEPS; step++) {
        uint32_t a[4];
        unit_matrices<tile_row_bytes<F>(dim), false>(a, planes, 8 * unit + 2 * step, place);
        GPU_UNROLL
        for (uint32_t n = 0; n < tiles; n++)
            unit_mma<F>(sums[n], a, queries[n][2 * step], queries[n][2 * step + 1]);
    }
}

/* 8-bit K: a chunk is a k16 step. Scales of 32 values, where there are any, on the sums of two. */
template <class F, uint32_t dim, uint32_t tiles>
GPU_DEVICE void unit_scores_8(float (&sums)[tiles][4], const uint32_t (&queries)[tiles][8],
                              const struct unit_planes &planes, uint32_t unit,
                              const struct unit_place &place) {
    constexpr bool scaled = F::SCALE == DECODE_SCALE_BLOCK;
    uint32_t scale_g = 0, scale_g8 = 0;
    if constexpr (scaled) {
        scale_g = unit_scale_word<F, dim>(planes, unit, place, 0);
        scale_g8 = unit_scale_word<F, dim>(planes, unit, place, 8);
    }
    GPU_UNROLL
    for (uint32_t block = 0; block < 2; block++) {
        uint32_t words[4];
        unit_matrices<tile_row_bytes<F>(dim), false>(words, planes, 4 * unit + 2 * block, place);
        float of_block[tiles][4] = {};
        GPU_UNROLL
        for (uint32_t e = 0; e < 2; e++) {
            uint32_t upper[2], lower[2];
            F::pairs(upper, words[2 * e]);
            F::pairs(lower, words[2 * e + 1]);
            const uint32_t a[4] = {upper[0], lower[0], upper[1], lower[1]};
            const uint32_t step = 2 * block + e;
            GPU_UNROLL
            for (uint32_t n = 0; n < tiles; n++) {
                float(&d)[4] = scaled ? of_block[n] : sums[n];
                unit_mma<F>(d, a, queries[n][2 * step], queries[n][2 * step + 1]);
                if constexpr (scaled) {
                    const uint32_t zero[4] = {F::zero(0), F::zero(0), F::zero(1), F::zero(1)};
                    unit_mma<F>(d, zero, queries[n][2 * step], queries[n][2 * step + 1]);
                }
            }
        }
        if constexpr (scaled)
            unit_add_scaled<tiles>(sums, of_block, F::block_scale(scale_g, block),
                                   F::block_scale(scale_g8, block));
    }
}

/* 4-bit K with a scale for 16 values: lane t reads the 8 bytes that share one, of rows g and
 * g + 8. */
template <class F, uint32_t dim, uint32_t tiles>
GPU_DEVICE void unit_scores_4_fragment(float (&sums)[tiles][4], const uint32_t (&queries)[tiles][8],
                                       const struct unit_planes &planes, uint32_t unit,
                                       const struct unit_place &place) {
    constexpr uint32_t row_bytes = tile_row_bytes<F>(dim);
    const uint32_t at = unit_chunk_at<row_bytes>(planes, 2 * unit, place);
    uint32_t upper_words[2], lower_words[2];
    ptx_load_shared_v2(upper_words, at);
    ptx_load_shared_v2(lower_words,
                       at + 8 * row_bytes); /* tile_swizzle(g + 8) is tile_swizzle(g) */
    const uint32_t upper_scale =
        F::fragment_scale(unit_scale_word<F, dim>(planes, unit, place, 0), place.selector);
    const uint32_t lower_scale =
        F::fragment_scale(unit_scale_word<F, dim>(planes, unit, place, 8), place.selector);
    GPU_UNROLL
    for (uint32_t word = 0; word < 2; word++) {
        uint32_t upper[4], lower[4];
        F::pairs(upper, upper_words[word]);
        F::pairs(lower, lower_words[word]);
        GPU_UNROLL
        for (uint32_t e = 0; e < 2; e++) {
            const uint32_t a[4] = {F::multiply(upper[2 * e], upper_scale),
                                   F::multiply(lower[2 * e], lower_scale),
                                   F::multiply(upper[2 * e + 1], upper_scale),
                                   F::multiply(lower[2 * e + 1], lower_scale)};
            const uint32_t step = 2 * word + e;
            GPU_UNROLL
            for (uint32_t n = 0; n < tiles; n++)
                unit_mma<F>(sums[n], a, queries[n][2 * step], queries[n][2 * step + 1]);
        }
    }
}

/* 4-bit K with a scale for 32 values: a chunk is a block. */
template <class F, uint32_t dim, uint32_t tiles>
GPU_DEVICE void unit_scores_4_block(float (&sums)[tiles][4], const uint32_t (&queries)[tiles][8],
                                    const struct unit_planes &planes, uint32_t unit,
                                    const struct unit_place &place) {
    const uint32_t scale_g = unit_scale_word<F, dim>(planes, unit, place, 0);
    const uint32_t scale_g8 = unit_scale_word<F, dim>(planes, unit, place, 8);
    uint32_t words[4];
    unit_matrices<tile_row_bytes<F>(dim), false>(words, planes, 2 * unit, place);
    GPU_UNROLL
    for (uint32_t block = 0; block < 2; block++) {
        uint32_t upper[4], lower[4];
        F::pairs(upper, words[2 * block]);
        F::pairs(lower, words[2 * block + 1]);
        float of_block[tiles][4] = {};
        GPU_UNROLL
        for (uint32_t e = 0; e < 2; e++) {
            const uint32_t a[4] = {upper[2 * e], lower[2 * e], upper[2 * e + 1], lower[2 * e + 1]};
            const uint32_t step = 2 * block + e;
            GPU_UNROLL
            for (uint32_t n = 0; n < tiles; n++) {
                unit_mma<F>(of_block[n], a, queries[n][2 * step], queries[n][2 * step + 1]);
                if constexpr (F::HAS_ZERO) {
                    const uint32_t zero[4] = {F::zero(2 * e), F::zero(2 * e), F::zero(2 * e),
                                              F::zero(2 * e)};
                    unit_mma<F>(of_block[n], zero, queries[n][2 * step], queries[n][2 * step + 1]);
                }
            }
        }
        const uint32_t which = unit_scale_of<F, dim>(unit, block);
        unit_add_scaled<tiles>(sums, of_block, F::block_scale(scale_g, which),
                               F::block_scale(scale_g8, which));
    }
}

/* Adds this unit's part of 16 tokens' scores with `tiles` x 8 query heads. queries: the lane's B
 * fragments of the unit. planes: the tile's K. */
template <class F, uint32_t dim, uint32_t tiles>
GPU_DEVICE void unit_scores(float (&sums)[tiles][4], const uint32_t (&queries)[tiles][8],
                            const struct unit_planes &planes, uint32_t unit,
                            const struct unit_place &place) {
    if constexpr (F::BITS == 16)
        unit_scores_16<F, dim, tiles>(sums, queries, planes, unit, place);
    else if constexpr (F::BITS == 8)
        unit_scores_8<F, dim, tiles>(sums, queries, planes, unit, place);
    else if constexpr (F::SCALE == DECODE_SCALE_FRAGMENT)
        unit_scores_4_fragment<F, dim, tiles>(sums, queries, planes, unit, place);
    else
        unit_scores_4_block<F, dim, tiles>(sums, queries, planes, unit, place);
}

#endif
