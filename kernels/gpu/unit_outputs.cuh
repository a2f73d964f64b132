/* V: 16 tokens' weights times 64 values each, for every format. */
#ifndef UNIT_OUTPUTS_CUH
#define UNIT_OUTPUTS_CUH

#include "unit.cuh"

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

/* The weights of 16 tokens, times their scales `which` where those go on the weights. */
template <class F, uint32_t tiles>
GPU_DEVICE void unit_scale_weights(uint32_t (&out)[tiles][2], const uint32_t (&weights)[tiles][2],
                                   const uint32_t (&first)[2], const uint32_t (&second)[2],
                                   uint32_t which) {
    GPU_UNROLL
    for (uint32_t n = 0; n < tiles; n++) {
        out[n][0] = weights[n][0];
        out[n][1] = weights[n][1];
        if constexpr (F::SCALE == DECODE_SCALE_BLOCK) {
            out[n][0] = F::multiply(out[n][0], F::weight_scales(first[0], first[1], which));
            out[n][1] = F::multiply(out[n][1], F::weight_scales(second[0], second[1], which));
        }
    }
}

template <class F, uint32_t dim, uint32_t tiles>
GPU_DEVICE void
unit_outputs_16(float (&outputs)[UNIT_STEPS][tiles][4], const uint32_t (&weights)[tiles][2],
                const struct unit_planes &planes, uint32_t unit, const struct unit_place &place) {
    GPU_UNROLL
    for (uint32_t tile = 0; tile < UNIT_STEPS; tile++) {
        uint32_t a[4];
        unit_matrices<tile_row_bytes<F>(dim), true>(a, planes, 8 * unit + 2 * tile, place);
        unit_output_mma<F, tiles>(outputs[tile], a, weights, 0);
    }
}

template <class F, uint32_t dim, uint32_t tiles>
GPU_DEVICE void
unit_outputs_8(float (&outputs)[UNIT_STEPS][tiles][4], const uint32_t (&weights)[tiles][2],
               const struct unit_planes &planes, uint32_t unit, const struct unit_place &place) {
    constexpr bool scaled = F::SCALE == DECODE_SCALE_BLOCK;
    uint32_t first[2] = {}, second[2] = {};
    if constexpr (scaled) {
        unit_scale_words<F, dim>(first, planes, unit, place, 0);
        unit_scale_words<F, dim>(second, planes, unit, place, 8);
    }
    GPU_UNROLL
    for (uint32_t block = 0; block < 2; block++) {
        uint32_t r[4], of_block[tiles][2];
        unit_matrices<tile_row_bytes<F>(dim), true>(r, planes, 4 * unit + 2 * block, place);
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
GPU_DEVICE void
unit_outputs_4(float (&outputs)[UNIT_STEPS][tiles][4], const uint32_t (&weights)[tiles][2],
               const struct unit_planes &planes, uint32_t unit, const struct unit_place &place) {
    constexpr bool in_fragments = F::SCALE == DECODE_SCALE_FRAGMENT;
    uint32_t first[2], second[2], r[4];
    unit_scale_words<F, dim>(first, planes, unit, place, 0);
    unit_scale_words<F, dim>(second, planes, unit, place, 8);
    uint32_t near_scales[2] = {}, far_scales[2] = {};
    if constexpr (in_fragments) {
        F::column_scales(near_scales, first[0], first[1], place.selector);
        F::column_scales(far_scales, second[0], second[1], place.selector);
    }
    unit_matrices<tile_row_bytes<F>(dim), true>(r, planes, 2 * unit, place);
    GPU_UNROLL
    for (uint32_t chunk = 0; chunk < 2; chunk++) {
        uint32_t near[4], far[4], of_block[tiles][2];
        F::columns(near, r[2 * chunk]);
        F::columns(far, r[2 * chunk + 1]);
        unit_scale_weights<F, tiles>(of_block, weights, first, second,
                                     unit_scale_of<F, dim>(unit, chunk));
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

/* Adds 16 tokens' weighted values of this unit. weights: the lane's B fragments of P^T. planes:
 * the tile's V, `dim` values a row. */
template <class F, uint32_t dim, uint32_t tiles>
GPU_DEVICE void unit_outputs(float (&outputs)[UNIT_STEPS][tiles][4],
                             const uint32_t (&weights)[tiles][2], const struct unit_planes &planes,
                             uint32_t unit, const struct unit_place &place) {
    if constexpr (F::BITS == 16)
        unit_outputs_16<F, dim, tiles>(outputs, weights, planes, unit, place);
    else if constexpr (F::BITS == 8)
        unit_outputs_8<F, dim, tiles>(outputs, weights, planes, unit, place);
    else
        unit_outputs_4<F, dim, tiles>(outputs, weights, planes, unit, place);
}

#endif
