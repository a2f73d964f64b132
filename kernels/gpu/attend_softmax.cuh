/* The running softmax of the mma kernels, on score fragments, and where a finished sum goes. */
#ifndef ATTEND_SOFTMAX_CUH
#define ATTEND_SOFTMAX_CUH

#include "attend_walk.cuh"

/* Scores of tokens that are not wanted. Rows g and g + 8 of a tile are these tokens of it: */
GPU_DEVICE uint32_t attend_token_of(uint32_t g) {
    return 4 * (g >> 1) + (g & 1);
}

template <uint32_t tiles>
GPU_DEVICE void attend_mask(float (&sums)[tiles][4], const struct attend_walk &walk,
                            uint32_t position, const struct unit_lane &lane) {
    const uint32_t near = position + attend_token_of(lane.g), far = near + 2;
    const bool near_real = near >= walk.begin && near < walk.end;
    const bool far_real = far >= walk.begin && far < walk.end;
    GPU_UNROLL
    for (uint32_t n = 0; n < tiles; n++) {
        sums[n][0] = near_real ? sums[n][0] : -INFINITY;
        sums[n][1] = near_real ? sums[n][1] : -INFINITY;
        sums[n][2] = far_real ? sums[n][2] : -INFINITY;
        sums[n][3] = far_real ? sums[n][3] : -INFINITY;
    }
}

/* Softmax so far, of heads 8 n + 2 t + i. largest: unscaled scores, the same in all lanes of a
 * head; sums: this lane's own rows only. */
template <uint32_t tiles> struct attend_softmax {
    float largest[tiles][2];
    float sums[tiles][2];
};

/* Raises the maxima if any score of the warp is above its own. True when one was: what was summed
 * before must be multiplied by `factors`. Rare after the first tiles. */
template <uint32_t tiles, uint32_t together>
GPU_DEVICE bool attend_raise(struct attend_softmax<tiles> &softmax,
                             const float (&scores)[together][tiles][4], float score_scale,
                             float (&factors)[tiles][2]) {
    float top[tiles][2];
    bool above = false;
    GPU_UNROLL
    for (uint32_t n = 0; n < tiles; n++) {
        GPU_UNROLL
        for (uint32_t i = 0; i < 2; i++) {
            top[n][i] = fmaxf(scores[0][n][i], scores[0][n][i + 2]);
            GPU_UNROLL
            for (uint32_t s = 1; s < together; s++)
                top[n][i] = fmaxf(top[n][i], fmaxf(scores[s][n][i], scores[s][n][i + 2]));
            above = above || top[n][i] > softmax.largest[n][i];
        }
    }
    if (!gpu_any(above))
        return false;
    GPU_UNROLL
    for (uint32_t n = 0; n < tiles; n++) {
        GPU_UNROLL
        for (uint32_t i = 0; i < 2; i++) {
            GPU_UNROLL
            for (uint32_t bits = 4; bits < 32; bits *= 2)
                top[n][i] = fmaxf(top[n][i], gpu_shuffle_xor(top[n][i], bits));
            top[n][i] = fmaxf(top[n][i], softmax.largest[n][i]);
            factors[n][i] = ptx_exp2((softmax.largest[n][i] - top[n][i]) * score_scale);
            softmax.largest[n][i] = top[n][i];
            softmax.sums[n][i] *= factors[n][i];
        }
    }
    return true;
}

/* Scores of one tile to weights, summed, and to the B fragments of P^T. */
template <class V, uint32_t tiles>
GPU_DEVICE void attend_weights(uint32_t (&out)[tiles][2], struct attend_softmax<tiles> &softmax,
                               const float (&scores)[tiles][4], float score_scale) {
    GPU_UNROLL
    for (uint32_t n = 0; n < tiles; n++) {
        const float shift0 = unit_lift<V>() - softmax.largest[n][0] * score_scale;
        const float shift1 = unit_lift<V>() - softmax.largest[n][1] * score_scale;
        const float p0 = ptx_exp2(fmaf(scores[n][0], score_scale, shift0));
        const float p1 = ptx_exp2(fmaf(scores[n][1], score_scale, shift1));
        const float p2 = ptx_exp2(fmaf(scores[n][2], score_scale, shift0));
        const float p3 = ptx_exp2(fmaf(scores[n][3], score_scale, shift1));
        softmax.sums[n][0] += p0 + p2;
        softmax.sums[n][1] += p1 + p3;
        out[n][0] = ptx_movmatrix_trans(unit_pack<V>(p0, p1));
        out[n][1] = ptx_movmatrix_trans(unit_pack<V>(p2, p3));
    }
}

/* A finished sum goes to the outputs, or to the partial results when its row has other segments. */
GPU_DEVICE void attend_store(const struct attend_arguments &a,
                             const struct backend_segment &segment, uint32_t segment_number,
                             bool whole, uint32_t head, uint32_t value, float output, float largest,
                             float sum) {
    if (whole) {
        const uint32_t query_head = segment.kv_head * a.group_heads + head;
        a.dev_outputs[attend_output_row(a, segment, head) * a.v_dim + value] =
            output * attend_final_factor(a, query_head, largest, sum);
        return;
    }
    attend_partial_output(a, segment_number, head)[value] = output;
    if (value == 0) {
        float *numbers = attend_partial_numbers(a, segment_number, head);
        numbers[ATTEND_PARTIAL_LARGEST] = largest;
        numbers[ATTEND_PARTIAL_SUM] = sum;
    }
}

#endif
