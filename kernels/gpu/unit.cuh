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
    uint32_t row;      /* bytes from the first row to the lane's, its swizzle's bits already in */
    uint32_t scales;   /* bytes to the first of the lane's scale words */
    uint32_t selector; /* of the lane's bytes in them (formats of 16 values per scale) */
};

/* What a unit is read from: a tile in shared memory, and how many bytes into it K's or V's rows and
 * scales lie. Told apart because only `tile` changes from trip to trip. */
struct unit_planes {
    uint32_t tile, rows, scales;
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
    place.row = gpu_keep(row * row_bytes + (half ^ tile_swizzle<chunks>(row)) * TILE_CHUNK_BYTES);
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
    place.scales = gpu_keep(lane.g * tile_scale<F, dim>::WORD_BYTES);
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
    place.scales = gpu_keep(2 * lane.t * tile_scale<F, dim>::WORD_BYTES);
    return place;
}

/* Where in shared memory the lane finds chunk `chunk` (an even one) of its row. Tiles and their
 * rows start on whole periods of the swizzle, so that the chunk's number within a period can be
 * combined with the address itself: one addition serves all chunks, and the rest are constants. */
template <uint32_t row_bytes>
GPU_DEVICE uint32_t unit_chunk_at(const struct unit_planes &planes, uint32_t chunk,
                                  const struct unit_place &place) {
    constexpr uint32_t period = tile_period(row_bytes / TILE_CHUNK_BYTES);
    return ((planes.tile + place.row) ^ (chunk % period * TILE_CHUNK_BYTES)) +
           (planes.rows + chunk / period * period * TILE_CHUNK_BYTES);
}

/* Four 8 x 8 matrices: 16 rows of chunks `chunk` and chunk + 1; chunk is even. */
template <uint32_t row_bytes, bool transposed>
GPU_DEVICE void unit_matrices(uint32_t (&out)[4], const struct unit_planes &planes, uint32_t chunk,
                              const struct unit_place &place) {
    const uint32_t at = unit_chunk_at<row_bytes>(planes, chunk, place);
    if (transposed)
        ptx_ldmatrix_x4_trans(out, at);
    else
        ptx_ldmatrix_x4(out, at);
}

/* Where the lane finds its scale word of a unit, `rows_on` rows further on. */
template <class F, uint32_t dim>
GPU_DEVICE uint32_t unit_scale_at(const struct unit_planes &planes, uint32_t unit,
                                  const struct unit_place &place, uint32_t rows_on) {
    typedef tile_scale<F, dim> scale;
    const uint32_t row = unit / scale::WORD_UNITS * TILE_TOKENS + rows_on;
    return planes.tile + place.scales + (planes.scales + row * scale::WORD_BYTES);
}

/* The word. */
template <class F, uint32_t dim>
GPU_DEVICE uint32_t unit_scale_word(const struct unit_planes &planes, uint32_t unit,
                                    const struct unit_place &place, uint32_t rows_on) {
    const uint32_t at = unit_scale_at<F, dim>(planes, unit, place, rows_on);
    return tile_scale<F, dim>::WORD_BYTES == 4 ? ptx_load_shared_u32(at) : ptx_load_shared_u16(at);
}

/* And that of the row beside it. */
template <class F, uint32_t dim>
GPU_DEVICE void unit_scale_words(uint32_t (&out)[2], const struct unit_planes &planes,
                                 uint32_t unit, const struct unit_place &place, uint32_t rows_on) {
    const uint32_t at = unit_scale_at<F, dim>(planes, unit, place, rows_on);
    if (tile_scale<F, dim>::WORD_BYTES == 4) {
        ptx_load_shared_v2(out, at);
    } else {
        const uint32_t both = ptx_load_shared_u32(at);
        out[0] = both & 0xFFFFu;
        out[1] = both >> 16;
    }
}

/* Which scale of its word a unit's block `block` has. */
template <class F, uint32_t dim> GPU_DEVICE uint32_t unit_scale_of(uint32_t unit, uint32_t block) {
    return unit % tile_scale<F, dim>::WORD_UNITS * 2 + block;
}

#endif
