/* Paged decode attention on tensor cores for rows too wide for one warp's registers: head dim 512,
 * 256 with sixteen query heads, and latents (V is the first values of K's own rows).
 * The four warps of a block share every tile of tokens and split the head dim: each takes every
 * fourth unit of 64 values. Partial scores are added up through shared memory; after that every
 * warp has all weights and adds its own units of V, so that each value is decoded once for K and
 * once for V, and nothing is merged at the end. Heads past 8 x tiles are other blocks'
 * (head_chunks), which find the same tiles in the second-level cache. */
#ifndef ATTEND_WIDE_CUH
#define ATTEND_WIDE_CUH

#include "attend_softmax.cuh"
#include "attend_wide_copy.cuh"
#include "unit_outputs.cuh"
#include "unit_scores.cuh"

/* The queries of all heads as B fragments in shared memory: [unit][8 heads][half][lane][4]. The
 * ring is free while this goes on. */
template <class S, class K, uint32_t KD, uint32_t tiles>
GPU_DEVICE void attend_wide_queries(const struct attend_arguments &a,
                                    const struct backend_segment &segment, uint32_t first_head,
                                    uint32_t shared, const struct unit_lane &lane) {
    const uint32_t rows = shared + S::RING_AT, warp = gpu_thread() / GPU_WARP_LANES;
    attend_stage_queries<K, KD, S::HEADS>(a, segment, first_head, rows, S::QUERY_ROW_BYTES);
    gpu_sync_block();
    for (uint32_t i = warp; i < S::K_UNITS * tiles; i += ATTEND_WIDE_WARPS) {
        uint32_t fragment[8];
        attend_query_fragments<K>(fragment, rows + i % tiles * UNIT_HEADS * S::QUERY_ROW_BYTES,
                                  S::QUERY_ROW_BYTES, i / tiles, lane);
        const uint32_t to = shared + i * 1024 + lane.lane * 16;
        const uint32_t low[4] = {fragment[0], fragment[1], fragment[2], fragment[3]};
        const uint32_t high[4] = {fragment[4], fragment[5], fragment[6], fragment[7]};
        ptx_store_shared_v4(to, low);
        ptx_store_shared_v4(to + 512, high);
    }
    gpu_sync_block();
}

template <uint32_t tiles>
GPU_DEVICE void attend_wide_load_queries(uint32_t (&out)[tiles][8], uint32_t shared, uint32_t unit,
                                         const struct unit_lane &lane) {
    GPU_UNROLL
    for (uint32_t n = 0; n < tiles; n++) {
        const uint32_t from = shared + (unit * tiles + n) * 1024 + lane.lane * 16;
        uint32_t low[4], high[4];
        ptx_load_shared_v4(low, from);
        ptx_load_shared_v4(high, from + 512);
        GPU_UNROLL
        for (uint32_t i = 0; i < 4; i++) {
            out[n][i] = low[i];
            out[n][4 + i] = high[i];
        }
    }
}

/* Every warp's part of the scores, added up in the same order by every warp, so that all of them go
 * on with the same numbers. */
template <class S, uint32_t tiles>
GPU_DEVICE void attend_wide_exchange(float (&scores)[S::TOGETHER][tiles][4], uint32_t exchange,
                                     const struct unit_lane &lane) {
    const uint32_t warp = gpu_thread() / GPU_WARP_LANES;
    GPU_UNROLL
    for (uint32_t s = 0; s < S::TOGETHER; s++) {
        GPU_UNROLL
        for (uint32_t n = 0; n < tiles; n++) {
            uint32_t bits[4];
            memcpy(bits, scores[s][n], sizeof bits);
            ptx_store_shared_v4(
                exchange + warp * S::EXCHANGE_PART + (s * tiles + n) * 512 + lane.lane * 16, bits);
        }
    }
    gpu_sync_block();
    GPU_UNROLL
    for (uint32_t s = 0; s < S::TOGETHER; s++) {
        GPU_UNROLL
        for (uint32_t n = 0; n < tiles; n++) {
            GPU_UNROLL
            for (uint32_t w = 0; w < ATTEND_WIDE_WARPS; w++) {
                uint32_t bits[4];
                float part[4];
                ptx_load_shared_v4(bits, exchange + w * S::EXCHANGE_PART + (s * tiles + n) * 512 +
                                             lane.lane * 16);
                memcpy(part, bits, sizeof part);
                GPU_UNROLL
                for (uint32_t e = 0; e < 4; e++)
                    scores[s][n][e] = w == 0 ? part[e] : scores[s][n][e] + part[e];
            }
        }
    }
}

template <class K, class V, uint32_t KD, uint32_t VD, uint32_t tiles, bool latent>
struct attend_wide_warp {
    typedef attend_wide_shape<K, V, KD, VD, tiles, latent> S;
    float outputs[S::OWN_V_UNITS][UNIT_STEPS][tiles][4];
    struct attend_softmax<tiles> softmax;
    struct unit_place k_place, v_place;

    GPU_DEVICE void clear(const struct unit_lane &lane) {
        k_place = unit_place_k<K, KD>(lane);
        v_place = unit_place_v < V, latent ? KD : VD > (lane);
        GPU_UNROLL
        for (uint32_t u = 0; u < S::OWN_V_UNITS; u++) {
            GPU_UNROLL
            for (uint32_t i = 0; i < UNIT_STEPS; i++) {
                GPU_UNROLL
                for (uint32_t n = 0; n < tiles; n++) {
                    GPU_UNROLL
                    for (uint32_t e = 0; e < 4; e++) {
                        outputs[u][i][n][e] = 0.0f;
                    }
                }
            }
        }
        GPU_UNROLL
        for (uint32_t n = 0; n < tiles; n++) {
            softmax.largest[n][0] = softmax.largest[n][1] = -INFINITY;
            softmax.sums[n][0] = softmax.sums[n][1] = 0.0f;
        }
    }

    GPU_DEVICE void rescale(const float (&factors)[tiles][2]) {
        GPU_UNROLL
        for (uint32_t u = 0; u < S::OWN_V_UNITS; u++) {
            GPU_UNROLL
            for (uint32_t i = 0; i < UNIT_STEPS; i++) {
                GPU_UNROLL
                for (uint32_t n = 0; n < tiles; n++) {
                    GPU_UNROLL
                    for (uint32_t e = 0; e < 4; e++) {
                        outputs[u][i][n][e] *= factors[n][e & 1];
                    }
                }
            }
        }
    }

    GPU_DEVICE void attend(const struct attend_walk &walk, uint32_t position, uint32_t stage,
                           uint32_t shared, float score_scale, const struct unit_lane &lane) {
        typedef typename S::parts P;
        const uint32_t warp = gpu_thread() / GPU_WARP_LANES;
        float scores[S::TOGETHER][tiles][4] = {};
        GPU_UNROLL
        for (uint32_t own = 0; own < S::OWN_K_UNITS; own++) {
            const uint32_t unit = warp + ATTEND_WIDE_WARPS * own;
            if (unit < S::K_UNITS) {
                uint32_t queries[tiles][8];
                attend_wide_load_queries<tiles>(queries, shared, unit, lane);
                GPU_UNROLL
                for (uint32_t s = 0; s < S::TOGETHER; s++) {
                    const struct unit_planes planes = {stage, s * S::TILE_BYTES,
                                                       s * S::TILE_BYTES + P::K_SCALES_AT};
                    unit_scores<K, KD, tiles>(scores[s], queries, planes, unit, k_place);
                }
            }
        }
        attend_wide_exchange<S, tiles>(scores, shared + S::QUERY_BYTES, lane);
        if (position + S::STAGE_TOKENS > walk.end) {
            GPU_UNROLL
            for (uint32_t s = 0; s < S::TOGETHER; s++)
                attend_mask<tiles>(scores[s], walk, position + s * TILE_TOKENS, lane);
        }
        float factors[tiles][2];
        if (attend_raise<tiles, S::TOGETHER>(softmax, scores, score_scale, factors))
            rescale(factors);
        GPU_UNROLL
        for (uint32_t s = 0; s < S::TOGETHER; s++) {
            const uint32_t rows_at = s * S::TILE_BYTES + (latent ? 0 : P::V_AT);
            const uint32_t scales_at =
                s * S::TILE_BYTES + (latent ? P::K_SCALES_AT : P::V_SCALES_AT);
            const struct unit_planes planes = {stage, rows_at, scales_at};
            uint32_t weights[tiles][2];
            attend_weights<V, tiles>(weights, softmax, scores[s], score_scale);
            GPU_UNROLL
            for (uint32_t own = 0; own < S::OWN_V_UNITS; own++)
                unit_outputs<V, latent ? KD : VD, tiles>(outputs[own], weights, planes,
                                                         warp + ATTEND_WIDE_WARPS * own, v_place);
        }
    }

    /* Own units of the outputs, and from the first warp the numbers. */
    GPU_DEVICE void leave(float *to, float score_scale, const struct unit_lane &lane) {
        const uint32_t warp = gpu_thread() / GPU_WARP_LANES;
        float *numbers = to + S::HEADS * S::OUTPUT_ROW;
        GPU_UNROLL
        for (uint32_t n = 0; n < tiles; n++) {
            GPU_UNROLL
            for (uint32_t e = 0; e < 4; e++) {
                const uint32_t head = UNIT_HEADS * n + 2 * lane.t + (e & 1);
                GPU_UNROLL
                for (uint32_t own = 0; own < S::OWN_V_UNITS; own++) {
                    GPU_UNROLL
                    for (uint32_t i = 0; i < UNIT_STEPS; i++)
                        to[head * S::OUTPUT_ROW +
                           (warp + ATTEND_WIDE_WARPS * own) * TILE_UNIT_VALUES +
                           unit_output_value<V>(i, e >> 1, lane.g)] =
                            outputs[own][i][n][e] * unit_tile_factor<V>(i);
                }
            }
            GPU_UNROLL
            for (uint32_t i = 0; i < 2; i++) {
                float sum = softmax.sums[n][i];
                GPU_UNROLL
                for (uint32_t bits = 4; bits < 32; bits *= 2)
                    sum += gpu_shuffle_xor(sum, bits);
                if (warp == 0 && lane.g == 0) {
                    float *of_head = numbers + (UNIT_HEADS * n + 2 * lane.t + i) *
                                                   (uint32_t)ATTEND_PARTIAL_NUMBERS;
                    of_head[ATTEND_PARTIAL_LARGEST] = softmax.largest[n][i] * score_scale;
                    of_head[ATTEND_PARTIAL_SUM] = sum;
                }
            }
        }
    }
};

template <class S, class V, uint32_t VD>
GPU_DEVICE void attend_wide_store(const struct attend_arguments &a,
                                  const struct backend_segment &segment, uint32_t segment_number,
                                  uint32_t first_head, const float *from) {
    const float unlift = ptx_exp2(-unit_lift<V>());
    const float output_scale = a.v_tensor_scale * V::UNDO * unlift;
    const bool whole = attend_is_whole(a, segment);
    const uint32_t left = a.group_heads - first_head;
    const uint32_t heads = left < S::HEADS ? left : S::HEADS;
    for (uint32_t i = gpu_thread(); i < heads * VD; i += gpu_threads()) {
        const uint32_t head = i / VD, value = i % VD;
        const float *numbers =
            from + S::HEADS * S::OUTPUT_ROW + head * (uint32_t)ATTEND_PARTIAL_NUMBERS;
        attend_store(a, segment, segment_number, whole, first_head + head, value,
                     from[head * S::OUTPUT_ROW + value] * output_scale,
                     numbers[ATTEND_PARTIAL_LARGEST], numbers[ATTEND_PARTIAL_SUM] * unlift);
    }
}

template <class S, class K, class V, uint32_t KD, uint32_t VD>
GPU_DEVICE void attend_wide_repack(uint32_t stage) {
    typedef typename S::parts P;
    for (uint32_t s = 0; s < S::TOGETHER; s++) {
        const uint32_t tile = stage + s * S::TILE_BYTES;
        if constexpr (P::K_RAW_ROW > 0)
            tile_repack<K, KD>(tile, tile + P::K_SCALES_AT, tile + S::K_RAW_AT, gpu_thread(),
                               ATTEND_WIDE_THREADS);
        if constexpr (P::V_RAW_ROW > 0)
            tile_repack<V, VD>(tile + P::V_AT, tile + P::V_SCALES_AT, tile + S::V_RAW_AT,
                               gpu_thread(), ATTEND_WIDE_THREADS);
    }
}

template <class K, class V, uint32_t KD, uint32_t VD, uint32_t tiles, bool latent>
GPU_DEVICE void attend_wide_segment(const struct attend_arguments &a, uint32_t segment_number,
                                    uint32_t first_head, unsigned char *shared) {
    typedef attend_wide_shape<K, V, KD, VD, tiles, latent> S;
    const struct backend_segment segment = a.dev_segments[segment_number];
    struct attend_walk walk = attend_walk_make<true>(a, segment);
    /* every thread asks for its own token: nothing to align */
    walk.start = walk.begin;
    walk.begin = 0; /* what lies before the start is in no tile: one side less to mask */
    walk.ahead = gpu_thread() / S::COPIERS;
    const struct unit_lane lane = unit_lane_make(gpu_thread() % GPU_WARP_LANES);
    const uint32_t base = ptx_shared_address(shared), ring = base + S::RING_AT;
    const float score_scale = a.score_scale * K::UNDO;

    uint32_t asked = walk.start;
    struct attend_ahead ahead = {0, 0};
    const auto look = [&]() { ahead = attend_look_ahead<true>(a, walk, asked); };
    const auto ask = [&](uint32_t stage) {
        if (asked < walk.end) {
            attend_wide_copy<S>(walk, ahead, asked, stage);
            asked += S::STAGE_TOKENS;
            if (asked < walk.end)
                look();
        }
        ptx_cp_async_commit();
    };

    if (asked < walk.end)
        look();
    attend_wide_queries<S, K, KD, tiles>(a, segment, first_head, base, lane);
    for (uint32_t stage = 0; stage + 1 < a.stages; stage++)
        ask(ring + stage * S::STAGE_BYTES);
    struct attend_wide_warp<K, V, KD, VD, tiles, latent> state;
    state.clear(lane);

    const uint32_t ring_end = ring + a.stages * S::STAGE_BYTES;
    uint32_t reading = ring, writing = ring_end - S::STAGE_BYTES;
    for (uint32_t position = walk.start; position < walk.end; position += S::STAGE_TOKENS) {
        attend_wait_stage(a.stages);
        gpu_sync_block(); /* all copies are seen; the stage behind and the exchange are read */
        ask(writing);
        if constexpr (S::parts::RAW) {
            attend_wide_repack<S, K, V, KD, VD>(reading);
            gpu_sync_block();
        }
        state.attend(walk, position, reading, base, score_scale, lane);
        writing = reading; /* read now, and free behind the next barrier */
        reading = reading + S::STAGE_BYTES == ring_end ? ring : reading + S::STAGE_BYTES;
    }
    ptx_cp_async_wait<0>();
    gpu_sync_block();
    float *outputs = reinterpret_cast<float *>(shared);
    state.leave(outputs, score_scale, lane);
    gpu_sync_block();
    attend_wide_store<S, V, VD>(a, segment, segment_number, first_head, outputs);
    gpu_sync_block();
}

template <class K, class V, uint32_t KD, uint32_t VD, uint32_t tiles, bool latent>
GPU_KERNEL(ATTEND_WIDE_THREADS, 2)
attend_wide(const struct attend_arguments a) {
    GPU_SHARED(shared);
    const uint32_t worker = gpu_block() / a.head_chunks, chunk = gpu_block() % a.head_chunks;
    const uint32_t end = a.dev_worker_first[worker + 1];
    for (uint32_t segment = a.dev_worker_first[worker]; segment < end; segment++)
        attend_wide_segment<typename decode_for_scores<K>::type, V, KD, VD, tiles, latent>(
            a, segment, chunk * tiles * UNIT_HEADS, shared);
}

#endif
