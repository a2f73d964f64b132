/* Sixteen tokens against 64 values of the head dim ("a unit"), in registers: one place where K
 * becomes scores and V becomes outputs, for every format.
 *
 * Scores: S^T += K Q^T, tokens on m16, eight query heads on n8. sums[n][0..3] of lane 4 g + t: rows
 * g, g, g + 8, g + 8 of heads 8 n + 2 t and + 1. The order in which a unit's values pass the tensor
 * core is the order in which they come out of their bytes; unit_query_value names it, and the
 * queries follow. Outputs: O^T += V^T P^T, values on m16 in a permuted order (unit_output_value),
 * undone when they are stored. */
#ifndef UNIT_CUH
#define UNIT_CUH

#include "tile.cuh"

enum { UNIT_STEPS = 4 /* k16 steps and m16 tiles of 64 values */, UNIT_HEADS = 8 };

/* Lane 4 g + t of a warp. */
struct unit_lane {
    uint32_t lane, g, t;
};

GPU_DEVICE struct unit_lane unit_lane_make(uint32_t lane) {
    struct unit_lane out;
    out.lane = lane;
    out.g = lane >> 2;
    out.t = lane & 3;
    return out;
}

/* Where in a tile a lane reads, computed once. Of K or of V, 64 values (`unit`) at a time: */
struct unit_place {
    uint32_t row;      /* bytes from the first row to the lane's */
    uint32_t own;      /* what its chunks' byte offsets are combined with (exclusive or) */
    uint32_t scales;   /* bytes to the first of the lane's scale words */
    uint32_t selector; /* of the lane's bytes in them (formats of 16 values per scale) */
};

/* Whether codes are unsigned with a zero point to take off (q8_0, q4_0). */
template <class F> GPU_CONSTEXPR bool unit_has_zero() {
    if constexpr (F::SCALE == DECODE_SCALE_BLOCK)
        return F::HAS_ZERO;
    else
        return false;
}

/* By how many powers of two weights are lifted before V's block scales multiply them. */
template <class F> GPU_CONSTEXPR float unit_lift() {
    if constexpr (F::SCALE == DECODE_SCALE_BLOCK)
        return F::LIFT;
    else
        return 0.0f;
}

/* What the sums of m16 tile `tile` of a unit are still to be multiplied by. */
template <class F> GPU_CONSTEXPR float unit_tile_factor(uint32_t tile) {
    return F::BITS == 4 && unit_has_zero<F>() && tile % 2 == 1 ? 0.0625f : 1.0f;
}

template <class F>
GPU_DEVICE void unit_mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    if (F::BF16)
        ptx_mma_bf16(d, a, b0, b1);
    else
        ptx_mma_f16(d, a, b0, b1);
}

/* Two numbers as this format's arithmetic has them. */
template <class F> GPU_DEVICE uint32_t unit_pack(float low, float high) {
    return F::BF16 ? ptx_pack_bf16x2(low, high) : ptx_pack_f16x2(low, high);
}

/* Which value of the unit lane t's number `half` of pair `pair` (0 or 1) is in k16 step `step`. */
template <class F>
GPU_DEVICE uint32_t unit_query_value(uint32_t step, uint32_t pair, uint32_t half, uint32_t t) {
    if constexpr (F::BITS == 16)
        return 16 * step + 8 * pair + 2 * t + half;
    else if constexpr (F::BITS == 8)
        return 16 * step + 4 * t + F::pair_value(pair, half);
    else if constexpr (F::SCALE == DECODE_SCALE_FRAGMENT)
        return 16 * t + 8 * (step >> 1) + F::pair_value(2 * (step & 1) + pair, half);
    else
        return 32 * (step >> 1) + F::block_value(t, 2 * (step & 1) + pair, half);
}

/* Which value of the unit row `g` (half 0) or g + 8 (half 1) of m16 tile `tile` is. */
template <class F> GPU_DEVICE uint32_t unit_output_value(uint32_t tile, uint32_t half, uint32_t g) {
    if constexpr (F::BITS == 16)
        return 16 * tile + 8 * half + g;
    else if constexpr (F::BITS == 8)
        return 16 * tile + 2 * g + half;
    else if constexpr (F::SCALE == DECODE_SCALE_FRAGMENT || !unit_has_zero<F>())
        return 32 * (tile >> 1) + 4 * g + 2 * (tile & 1) + half;
    else
        return 32 * (tile >> 1) + 16 * (tile & 1) + 2 * g + half;
}

template <uint32_t row_bytes>
GPU_DEVICE void unit_place_row(struct unit_place &place, uint32_t row, uint32_t half) {
    constexpr uint32_t chunks = row_bytes / TILE_CHUNK_BYTES;
    place.row = gpu_keep(row * row_bytes);
    place.own = gpu_keep((half ^ tile_swizzle<chunks>(row)) * TILE_CHUNK_BYTES);
}

/* K: ldmatrix wants the address of row `lane % 16` from each lane, first chunk or second; formats
 * of 16 values per scale read 8 bytes of row g instead. */
template <class F, uint32_t dim>
GPU_DEVICE struct unit_place unit_place_k(const struct unit_lane &lane) {
    struct unit_place place = {};
    if constexpr (F::SCALE == DECODE_SCALE_FRAGMENT) {
        unit_place_row<tile_row_bytes<F>(dim)>(place, lane.g, lane.t >> 1);
        place.row = gpu_keep(place.row + (lane.t & 1) * 8);
        place.selector = gpu_keep(F::fragment_selector(lane.t));
    } else {
        unit_place_row<tile_row_bytes<F>(dim)>(place, lane.lane % 16, lane.lane >> 4);
    }
    place.scales = gpu_keep(lane.g * tile_scale<F>::UNIT_BYTES);
    return place;
}

/* V: likewise; of 16-bit V the two middle matrices change places, so that they come out in the
 * order in which they are a fragment. The scales are those of rows 2 t and 2 t + 1 (and + 8). */
template <class F, uint32_t dim>
GPU_DEVICE struct unit_place unit_place_v(const struct unit_lane &lane) {
    struct unit_place place = {};
    if constexpr (F::BITS == 16)
        unit_place_row<tile_row_bytes<F>(dim)>(place, lane.lane % 8 + (lane.lane >> 4) * 8,
                                               lane.lane >> 3 & 1);
    else
        unit_place_row<tile_row_bytes<F>(dim)>(place, lane.lane % 16, lane.lane >> 4);
    if constexpr (F::SCALE == DECODE_SCALE_FRAGMENT)
        place.selector = gpu_keep(decode_column_selector(lane.g >> 2));
    place.scales = gpu_keep(2 * lane.t * tile_scale<F>::UNIT_BYTES);
    return place;
}

/* Four 8 x 8 matrices: 16 rows of chunks `chunk` and chunk + 1; chunk is even. */
template <bool transposed>
GPU_DEVICE void unit_matrices(uint32_t (&out)[4], uint32_t rows, uint32_t chunk,
                              const struct unit_place &place) {
    const uint32_t at = rows + place.row + ((chunk * TILE_CHUNK_BYTES) ^ place.own);
    if (transposed)
        ptx_ldmatrix_x4_trans(out, at);
    else
        ptx_ldmatrix_x4(out, at);
}

/* The lane's scale word of a unit, `rows_on` rows further on. */
template <class F>
GPU_DEVICE uint32_t unit_scale_word(uint32_t scales, uint32_t unit, const struct unit_place &place,
                                    uint32_t rows_on) {
    const uint32_t at =
        scales + place.scales + (unit * TILE_TOKENS + rows_on) * F::UNIT_SCALE_BYTES;
    return F::UNIT_SCALE_BYTES == 4 ? ptx_load_shared_u32(at) : ptx_load_shared_u16(at);
}

/* And that of the row beside it. */
template <class F>
GPU_DEVICE void unit_scale_words(uint32_t (&out)[2], uint32_t scales, uint32_t unit,
                                 const struct unit_place &place, uint32_t rows_on) {
    const uint32_t at =
        scales + place.scales + (unit * TILE_TOKENS + rows_on) * F::UNIT_SCALE_BYTES;
    if (F::UNIT_SCALE_BYTES == 4) {
        ptx_load_shared_v2(out, at);
    } else {
        const uint32_t both = ptx_load_shared_u32(at);
        out[0] = both & 0xFFFFu;
        out[1] = both >> 16;
    }
}

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
                               uint32_t rows, uint32_t unit, const struct unit_place &place) {
    GPU_UNROLL
    for (uint32_t step = 0; step < UNIT_STEPS; step++) {
        uint32_t a[4];
        unit_matrices<false>(a, rows, 8 * unit + 2 * step, place);
        GPU_UNROLL
        for (uint32_t n = 0; n < tiles; n++)
            unit_mma<F>(sums[n], a, queries[n][2 * step], queries[n][2 * step + 1]);
    }
}

/* 8-bit K: a chunk is a k16 step. Scales of 32 values, where there are any, on the sums of two. */
template <class F, uint32_t dim, uint32_t tiles>
GPU_DEVICE void unit_scores_8(float (&sums)[tiles][4], const uint32_t (&queries)[tiles][8],
                              uint32_t rows, uint32_t scales, uint32_t unit,
                              const struct unit_place &place) {
    constexpr bool scaled = F::SCALE == DECODE_SCALE_BLOCK;
    uint32_t scale_g = 0, scale_g8 = 0;
    if constexpr (scaled) {
        scale_g = unit_scale_word<F>(scales, unit, place, 0);
        scale_g8 = unit_scale_word<F>(scales, unit, place, 8);
    }
    GPU_UNROLL
    for (uint32_t block = 0; block < 2; block++) {
        uint32_t words[4];
        unit_matrices<false>(words, rows, 4 * unit + 2 * block, place);
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
                                       uint32_t rows, uint32_t scales, uint32_t unit,
                                       const struct unit_place &place) {
    constexpr uint32_t row_bytes = tile_row_bytes<F>(dim);
    const uint32_t at = rows + place.row + ((2 * unit * TILE_CHUNK_BYTES) ^ place.own);
    uint32_t upper_words[2], lower_words[2];
    ptx_load_shared_v2(upper_words, at);
    ptx_load_shared_v2(lower_words,
                       at + 8 * row_bytes); /* tile_swizzle(g + 8) is tile_swizzle(g) */
    const uint32_t upper_scale =
        F::fragment_scale(unit_scale_word<F>(scales, unit, place, 0), place.selector);
    const uint32_t lower_scale =
        F::fragment_scale(unit_scale_word<F>(scales, unit, place, 8), place.selector);
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
                                    uint32_t rows, uint32_t scales, uint32_t unit,
                                    const struct unit_place &place) {
    const uint32_t scale_g = unit_scale_word<F>(scales, unit, place, 0);
    const uint32_t scale_g8 = unit_scale_word<F>(scales, unit, place, 8);
    uint32_t words[4];
    unit_matrices<false>(words, rows, 2 * unit, place);
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
        unit_add_scaled<tiles>(sums, of_block, F::block_scale(scale_g, block),
                               F::block_scale(scale_g8, block));
    }
}

/* Adds this unit's part of 16 tokens' scores with `tiles` x 8 query heads. queries: the lane's B
 * fragments of the unit. rows, scales: the tile's K. */
template <class F, uint32_t dim, uint32_t tiles>
GPU_DEVICE void unit_scores(float (&sums)[tiles][4], const uint32_t (&queries)[tiles][8],
                            uint32_t rows, uint32_t scales, uint32_t unit,
                            const struct unit_place &place) {
    if constexpr (F::BITS == 16)
        unit_scores_16<F, dim, tiles>(sums, queries, rows, unit, place);
    else if constexpr (F::BITS == 8)
        unit_scores_8<F, dim, tiles>(sums, queries, rows, scales, unit, place);
    else if constexpr (F::SCALE == DECODE_SCALE_FRAGMENT)
        unit_scores_4_fragment<F, dim, tiles>(sums, queries, rows, scales, unit, place);
    else
        unit_scores_4_block<F, dim, tiles>(sums, queries, rows, scales, unit, place);
}

/* One block's products into an m16 tile, and the zero point's beside them. */
template <class F, uint32_t tiles>
GPU_DEVICE void unit_output_mma(float (&outputs)[tiles][4], const uint32_t (&a)[4],
                                const uint32_t (&weights)[tiles][2], uint32_t pair) {
    GPU_UNROLL
    for (uint32_t n = 0; n < tiles; n++) {
        unit_mma<F>(outputs[n], a, weights[n][0], weights[n][1]);
        if constexpr (unit_has_zero<F>()) {
            const uint32_t zero[4] = {F::zero(pair), F::zero(pair), F::zero(pair), F::zero(pair)};
            unit_mma<F>(outputs[n], zero, weights[n][0], weights[n][1]);
        }
        (void)pair;
    }
}

/* The weights of 16 tokens, times their scales of one block where those go on the weights. */
template <class F, uint32_t tiles>
GPU_DEVICE void unit_scale_weights(uint32_t (&out)[tiles][2], const uint32_t (&weights)[tiles][2],
                                   const uint32_t (&first)[2], const uint32_t (&second)[2],
                                   uint32_t block) {
    GPU_UNROLL
    for (uint32_t n = 0; n < tiles; n++) {
        out[n][0] = weights[n][0];
        out[n][1] = weights[n][1];
        if constexpr (F::SCALE == DECODE_SCALE_BLOCK) {
            out[n][0] = F::multiply(out[n][0], F::weight_scales(first[0], first[1], block));
            out[n][1] = F::multiply(out[n][1], F::weight_scales(second[0], second[1], block));
        }
    }
}

template <class F, uint32_t dim, uint32_t tiles>
GPU_DEVICE void unit_outputs_16(float (&outputs)[UNIT_STEPS][tiles][4],
                                const uint32_t (&weights)[tiles][2], uint32_t rows, uint32_t unit,
                                const struct unit_place &place) {
    GPU_UNROLL
    for (uint32_t tile = 0; tile < UNIT_STEPS; tile++) {
        uint32_t a[4];
        unit_matrices<true>(a, rows, 8 * unit + 2 * tile, place);
        unit_output_mma<F, tiles>(outputs[tile], a, weights, 0);
    }
}

template <class F, uint32_t dim, uint32_t tiles>
GPU_DEVICE void unit_outputs_8(float (&outputs)[UNIT_STEPS][tiles][4],
                               const uint32_t (&weights)[tiles][2], uint32_t rows, uint32_t scales,
                               uint32_t unit, const struct unit_place &place) {
    constexpr bool scaled = F::SCALE == DECODE_SCALE_BLOCK;
    uint32_t first[2] = {}, second[2] = {};
    if constexpr (scaled) {
        unit_scale_words<F>(first, scales, unit, place, 0);
        unit_scale_words<F>(second, scales, unit, place, 8);
    }
    GPU_UNROLL
    for (uint32_t block = 0; block < 2; block++) {
        uint32_t r[4], of_block[tiles][2];
        unit_matrices<true>(r, rows, 4 * unit + 2 * block, place);
        unit_scale_weights<F, tiles>(of_block, weights, first, second, block);
        GPU_UNROLL
        for (uint32_t e = 0; e < 2; e++) {
            uint32_t near[2], far[2];
            F::columns(near, r[2 * e]);
            F::columns(far, r[2 * e + 1]);
            const uint32_t a[4] = {near[0], near[1], far[0], far[1]};
            unit_output_mma<F, tiles>(outputs[2 * block + e], a, of_block, 0);
        }
    }
}

template <class F, uint32_t dim, uint32_t tiles>
GPU_DEVICE void unit_outputs_4(float (&outputs)[UNIT_STEPS][tiles][4],
                               const uint32_t (&weights)[tiles][2], uint32_t rows, uint32_t scales,
                               uint32_t unit, const struct unit_place &place) {
    constexpr bool in_fragments = F::SCALE == DECODE_SCALE_FRAGMENT;
    uint32_t first[2], second[2], r[4];
    unit_scale_words<F>(first, scales, unit, place, 0);
    unit_scale_words<F>(second, scales, unit, place, 8);
    uint32_t near_scales[2] = {}, far_scales[2] = {};
    if constexpr (in_fragments) {
        F::column_scales(near_scales, first[0], first[1], place.selector);
        F::column_scales(far_scales, second[0], second[1], place.selector);
    }
    unit_matrices<true>(r, rows, 2 * unit, place);
    GPU_UNROLL
    for (uint32_t chunk = 0; chunk < 2; chunk++) {
        uint32_t near[4], far[4], of_block[tiles][2];
        F::columns(near, r[2 * chunk]);
        F::columns(far, r[2 * chunk + 1]);
        unit_scale_weights<F, tiles>(of_block, weights, first, second, chunk);
        GPU_UNROLL
        for (uint32_t e = 0; e < 2; e++) {
            uint32_t a[4] = {near[2 * e], near[2 * e + 1], far[2 * e], far[2 * e + 1]};
            if constexpr (in_fragments) {
                for (uint32_t i = 0; i < 4; i++)
                    a[i] = F::multiply(a[i], i < 2 ? near_scales[chunk] : far_scales[chunk]);
            }
            unit_output_mma<F, tiles>(outputs[2 * chunk + e], a, of_block, 2 * e);
        }
    }
}

/* Adds 16 tokens' weighted values of this unit. weights: the lane's B fragments of P^T. rows,
 * scales: the tile's V, `dim` values a row. */
template <class F, uint32_t dim, uint32_t tiles>
GPU_DEVICE void unit_outputs(float (&outputs)[UNIT_STEPS][tiles][4],
                             const uint32_t (&weights)[tiles][2], uint32_t rows, uint32_t scales,
                             uint32_t unit, const struct unit_place &place) {
    if constexpr (F::BITS == 16)
        unit_outputs_16<F, dim, tiles>(outputs, weights, rows, unit, place);
    else if constexpr (F::BITS == 8)
        unit_outputs_8<F, dim, tiles>(outputs, weights, rows, scales, unit, place);
    else
        unit_outputs_4<F, dim, tiles>(outputs, weights, rows, scales, unit, place);
}

#endif
