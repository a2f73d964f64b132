/* Paged decode attention on tensor cores, for head dims up to 256: KV tokens on m16, the query
 * heads of one KV head on n8. Each warp takes its own tiles of tokens, keeps its own softmax and
 * outputs in registers, and copies its own tokens ahead through a ring in shared memory; no barrier
 * of the block stands in the loop. The warps of a block are merged once per segment. Wider rows and
 * latents, and selected tokens: attend_wide.cuh. */
#ifndef ATTEND_MMA_CUH
#define ATTEND_MMA_CUH

#include "attend_softmax.cuh"
#include "attend_walk.cuh"
#include "unit_outputs.cuh"
#include "unit_scores.cuh"

enum { ATTEND_MMA_WARPS = 4 /* at most; fewer where shared memory is short */ };

template <class K, class V, uint32_t KD, uint32_t VD, uint32_t tiles> struct attend_mma_shape {
    typedef tile_parts<K, V, KD, VD> parts;
    static constexpr uint32_t HEADS = tiles * UNIT_HEADS;
    /* Tiles that are copied and attended together: 4-bit ones are small. */
    static constexpr uint32_t TOGETHER = K::BITS == 4 && V::BITS == 4 && !parts::RAW ? 2 : 1;
    static constexpr uint32_t K_RAW_AT = parts::BYTES;
    static constexpr uint32_t V_RAW_AT = K_RAW_AT + TILE_TOKENS * parts::K_RAW_ROW;
    static constexpr uint32_t TILE_BYTES =
        (V_RAW_AT + TILE_TOKENS * parts::V_RAW_ROW + 127) / 128 * 128;
    static constexpr uint32_t STAGE_BYTES = TOGETHER * TILE_BYTES;
    static constexpr uint32_t STAGE_TOKENS = TOGETHER * TILE_TOKENS;
    /* 16-bit numbers; the odd length spreads the heads over the banks */
    static constexpr uint32_t QUERY_ROW_BYTES = (KD + 8) * 2;
    static constexpr uint32_t QUERY_BYTES = HEADS * QUERY_ROW_BYTES;
    static constexpr uint32_t MERGE_ROW = VD + 4; /* fp32 */
    static constexpr uint32_t MERGE_BYTES = HEADS * (MERGE_ROW + ATTEND_PARTIAL_NUMBERS) * 4;
    static constexpr uint32_t K_UNITS = KD / TILE_UNIT_VALUES, V_UNITS = VD / TILE_UNIT_VALUES;
    /* Blocks per multiprocessor that registers are kept for: sums of single blocks and zero points
     * take more of them, and 16-bit rings do not leave room for a third block. */
    static constexpr bool BLOCK_SCALES =
        K::SCALE == DECODE_SCALE_BLOCK || V::SCALE == DECODE_SCALE_BLOCK;
    static constexpr bool LARGE = KD > 192 ||
                                  (KD > 64 && (tiles > 1 || (K::BITS == 16 && V::BITS == 16)));
    static constexpr bool MIDDLE = KD > 128 || tiles > 1 || (KD > 64 && BLOCK_SCALES);
    /* An instruction's own offset is twelve bits with a sign: an address in the middle of 4 KiB
     * serves twice as many turns of a copy as one at their start. */
    static constexpr uint32_t MIDDLE_BYTES = parts::K_ROW > 128 || parts::V_ROW > 128 ? 2048 : 0;
    static constexpr uint32_t BLOCKS = LARGE ? 2 : MIDDLE ? 3 : 4;
    static_assert(QUERY_BYTES % 128 == 0 && TILE_BYTES % 128 == 0, "tiles start on 128 bytes");
};

/* Where a lane's copies go, computed once. */
template <class S> struct attend_mma_places {
    typedef typename S::parts P;
    uint32_t lane;
    uint32_t from; /* bytes to the lane's first chunk, and MIDDLE_BYTES further */
    uint32_t k_values, v_values, k_scales, v_scales;

    /* the lane's number, out of a register that is held in any case */
    GPU_DEVICE uint32_t lanes_before() const {
        return (from - S::MIDDLE_BYTES) / TILE_CHUNK_BYTES;
    }
    GPU_DEVICE void make(uint32_t own_lane) {
        lane = own_lane;
        from = gpu_keep(own_lane * TILE_CHUNK_BYTES + S::MIDDLE_BYTES);
        k_values = tile_rows_place<P::K_ROW>(lane);
        v_values = P::V_ROW == P::K_ROW ? k_values : tile_rows_place<P::V_ROW>(lane);
        if constexpr (P::K_SCALES_ROW > 0)
            k_scales = tile_scales_place<P::K_SCALES_ROW, P::K_SCALE_BYTES>(lane);
        if constexpr (P::V_SCALES_ROW > 0 && P::V_SCALES_ROW == P::K_SCALES_ROW &&
                      P::V_SCALE_BYTES == P::K_SCALE_BYTES)
            v_scales = k_scales;
        else if constexpr (P::V_SCALES_ROW > 0)
            v_scales = tile_scales_place<P::V_SCALES_ROW, P::V_SCALE_BYTES>(lane);
    }
};

/* Asks for 16 tokens, whose tile lies `at` bytes into the stage. */
template <class S>
GPU_DEVICE void attend_mma_copy(const struct attend_walk &walk, const struct attend_ahead &ahead,
                                uint32_t position, uint32_t stage, uint32_t at,
                                const struct attend_mma_places<S> &places) {
    typedef typename S::parts P;
    const struct tile_source &source = walk.source;
    const uint32_t lane = places.lane;
    const bool inside = position >= walk.begin && position + TILE_TOKENS <= walk.end;
    if (!P::RAW && walk.linear && inside) {
        const uint8_t *page = tile_page(source, ahead.page);
        const uint32_t slot = ahead.slot;
        tile_copy_rows_linear<P::K_ROW>(stage, at,
                                        page + (slot * P::K_ROW + places.from) - S::MIDDLE_BYTES,
                                        places.k_values, lane);
        tile_copy_rows_linear<P::V_ROW>(stage, at + P::V_AT,
                                        page + (slot * P::V_ROW + places.from + source.v_values) -
                                            S::MIDDLE_BYTES,
                                        places.v_values, lane);
        if constexpr (P::K_SCALES_ROW > 0)
            tile_copy_scales_linear<P::K_SCALES_ROW, P::K_SCALE_BYTES>(
                stage, at + P::K_SCALES_AT,
                page + (slot * P::K_SCALES_ROW + places.lanes_before() * P::K_SCALE_BYTES +
                        source.k_scales),
                places.k_scales, lane);
        if constexpr (P::V_SCALES_ROW > 0)
            tile_copy_scales_linear<P::V_SCALES_ROW, P::V_SCALE_BYTES, P::V_SCALE_PIECE>(
                stage, at + P::V_SCALES_AT,
                page + (slot * P::V_SCALES_ROW + places.lanes_before() * P::V_SCALE_BYTES +
                        source.v_scales),
                places.v_scales, lane);
        return;
    }
    /* edges of the segment, pages of other sizes, rows of whole blocks: each lane its own token */
    const uint32_t tile = stage + at;
    const uint32_t token = tile_token_of(lane), own = position + token;
    const bool real = own >= walk.begin && own < walk.end;
    const uint32_t slot = ahead.slot + (walk.linear ? token : 0);
    const uint8_t *page = tile_page(source, ahead.page);
    const uint8_t *v_values = page + source.v_values;
    if constexpr (P::K_RAW_ROW > 0)
        tile_copy_raw<P::K_RAW_ROW>(tile + S::K_RAW_AT, page + slot * P::K_RAW_ROW, real, lane);
    else
        tile_copy_rows<P::K_ROW>(tile, page + slot * P::K_ROW, real, lane);
    if constexpr (P::V_RAW_ROW > 0)
        tile_copy_raw<P::V_RAW_ROW>(tile + S::V_RAW_AT, v_values + slot * P::V_RAW_ROW, real, lane);
    else
        tile_copy_rows<P::V_ROW>(tile + P::V_AT, v_values + slot * P::V_ROW, real, lane);
    if constexpr (P::K_RAW_ROW == 0 && P::K_SCALES_ROW > 0)
        tile_copy_scales<P::K_SCALES_ROW, P::K_SCALE_BYTES>(
            tile + P::K_SCALES_AT, page + source.k_scales + slot * P::K_SCALES_ROW, real, lane);
    if constexpr (P::V_RAW_ROW == 0 && P::V_SCALES_ROW > 0)
        tile_copy_scales<P::V_SCALES_ROW, P::V_SCALE_BYTES, P::V_SCALE_PIECE>(
            tile + P::V_SCALES_AT, page + source.v_scales + slot * P::V_SCALES_ROW, real, lane);
}

/* What came as whole blocks is sorted into the planes. */
template <class S, class K, class V, uint32_t KD, uint32_t VD>
GPU_DEVICE void attend_mma_repack(uint32_t tile, uint32_t lane) {
    typedef typename S::parts P;
    if constexpr (P::K_RAW_ROW > 0)
        tile_repack<K, KD>(tile, tile + P::K_SCALES_AT, tile + S::K_RAW_AT, lane, GPU_WARP_LANES);
    if constexpr (P::V_RAW_ROW > 0)
        tile_repack<V, VD>(tile + P::V_AT, tile + P::V_SCALES_AT, tile + S::V_RAW_AT, lane,
                           GPU_WARP_LANES);
}

template <class K, class V, uint32_t KD, uint32_t VD, uint32_t tiles> struct attend_mma_warp {
    typedef attend_mma_shape<K, V, KD, VD, tiles> S;
    float outputs[S::V_UNITS][UNIT_STEPS][tiles][4];
    struct attend_softmax<tiles> softmax;
    uint32_t queries[S::K_UNITS][tiles][8];
    struct unit_place k_place, v_place;

    GPU_DEVICE void clear(const struct unit_lane &lane) {
        k_place = unit_place_k<K, KD>(lane);
        v_place = unit_place_v<V, VD>(lane);
        GPU_UNROLL
        for (uint32_t u = 0; u < S::V_UNITS; u++) {
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
        for (uint32_t u = 0; u < S::V_UNITS; u++) {
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

    /* One stage: its scores, the softmax, its values. */
    GPU_DEVICE void attend(const struct attend_walk &walk, uint32_t position, uint32_t stage,
                           float score_scale, const struct unit_lane &lane) {
        typedef typename S::parts P;
        float scores[S::TOGETHER][tiles][4] = {};
        GPU_UNROLL
        for (uint32_t s = 0; s < S::TOGETHER; s++) {
            const struct unit_planes planes = {stage, s * S::TILE_BYTES,
                                               s * S::TILE_BYTES + P::K_SCALES_AT};
            GPU_UNROLL
            for (uint32_t u = 0; u < S::K_UNITS; u++)
                unit_scores<K, KD, tiles>(scores[s], queries[u], planes, u, k_place);
        }
        if (position < walk.begin || position + S::STAGE_TOKENS > walk.end) {
            GPU_UNROLL
            for (uint32_t s = 0; s < S::TOGETHER; s++)
                attend_mask<tiles>(scores[s], walk, position + s * TILE_TOKENS, lane);
        }
        float factors[tiles][2];
        if (attend_raise<tiles, S::TOGETHER>(softmax, scores, score_scale, factors))
            rescale(factors);
        GPU_UNROLL
        for (uint32_t s = 0; s < S::TOGETHER; s++) {
            const struct unit_planes planes = {stage, s * S::TILE_BYTES + P::V_AT,
                                               s * S::TILE_BYTES + P::V_SCALES_AT};
            uint32_t weights[tiles][2];
            attend_weights<V, tiles>(weights, softmax, scores[s], score_scale);
            GPU_UNROLL
            for (uint32_t u = 0; u < S::V_UNITS; u++)
                unit_outputs<V, VD, tiles>(outputs[u], weights, planes, u, v_place);
        }
    }

    /* Leaves this warp's outputs and numbers in `merge`: [heads][MERGE_ROW], [heads][2]. */
    GPU_DEVICE void leave(float *merge, float score_scale, const struct unit_lane &lane) {
        float *numbers = merge + S::HEADS * S::MERGE_ROW;
        GPU_UNROLL
        for (uint32_t n = 0; n < tiles; n++) {
            GPU_UNROLL
            for (uint32_t e = 0; e < 4; e++) {
                const uint32_t head = UNIT_HEADS * n + 2 * lane.t + (e & 1);
                GPU_UNROLL
                for (uint32_t u = 0; u < S::V_UNITS; u++) {
                    GPU_UNROLL
                    for (uint32_t i = 0; i < UNIT_STEPS; i++)
                        merge[head * S::MERGE_ROW + u * TILE_UNIT_VALUES +
                              unit_output_value<V>(i, e >> 1, lane.g)] =
                            outputs[u][i][n][e] * unit_tile_factor<V>(i);
                }
            }
            GPU_UNROLL
            for (uint32_t i = 0; i < 2; i++) {
                float sum = softmax.sums[n][i];
                GPU_UNROLL
                for (uint32_t bits = 4; bits < 32; bits *= 2)
                    sum += gpu_shuffle_xor(sum, bits);
                if (lane.g == 0) {
                    float *of_head = numbers + (UNIT_HEADS * n + 2 * lane.t + i) *
                                                   (uint32_t)ATTEND_PARTIAL_NUMBERS;
                    of_head[ATTEND_PARTIAL_LARGEST] = softmax.largest[n][i] * score_scale;
                    of_head[ATTEND_PARTIAL_SUM] = sum;
                }
            }
        }
    }
};

/* All warps' results of a segment become one. */
template <class S, class V, uint32_t VD>
GPU_DEVICE void attend_mma_merge(const struct attend_arguments &a,
                                 const struct backend_segment &segment, uint32_t segment_number,
                                 uint32_t first_head, const float *merge) {
    constexpr uint32_t warp_floats = S::MERGE_BYTES / 4;
    const uint32_t warps = gpu_threads() / GPU_WARP_LANES;
    const float unlift = ptx_exp2(-unit_lift<V>());
    const float output_scale = a.v_tensor_scale * V::UNDO * unlift;
    const bool whole = attend_is_whole(a, segment);
    const uint32_t left = a.group_heads - first_head;
    const uint32_t heads = left < S::HEADS ? left : S::HEADS;
    for (uint32_t i = gpu_thread(); i < heads * VD; i += gpu_threads()) {
        const uint32_t head = i / VD, value = i % VD;
        const float *numbers =
            merge + S::HEADS * S::MERGE_ROW + head * (uint32_t)ATTEND_PARTIAL_NUMBERS;
        float largest = -INFINITY, sum = 0.0f, output = 0.0f;
        for (uint32_t w = 0; w < warps; w++)
            largest = fmaxf(largest, numbers[w * warp_floats + ATTEND_PARTIAL_LARGEST]);
        for (uint32_t w = 0; w < warps; w++) {
            const float own = numbers[w * warp_floats + ATTEND_PARTIAL_LARGEST];
            /* a warp without tokens has nothing to add, and -inf less -inf is no number */
            const float factor = own == largest ? 1.0f : ptx_exp2(own - largest);
            sum += factor * numbers[w * warp_floats + ATTEND_PARTIAL_SUM];
            output += factor * merge[w * warp_floats + head * S::MERGE_ROW + value];
        }
        attend_store(a, segment, segment_number, whole, first_head + head, value,
                     output * output_scale, largest, sum * unlift);
    }
}

template <class K, class V, uint32_t KD, uint32_t VD, uint32_t tiles>
GPU_DEVICE void attend_mma_segment(const struct attend_arguments &a, uint32_t segment_number,
                                   uint32_t first_head, unsigned char *shared) {
    typedef attend_mma_shape<K, V, KD, VD, tiles> S;
    const struct backend_segment segment = a.dev_segments[segment_number];
    const struct attend_walk walk = attend_walk_make<false>(a, segment);
    const uint32_t warp = gpu_thread() / GPU_WARP_LANES, warps = gpu_threads() / GPU_WARP_LANES;
    const struct unit_lane lane = unit_lane_make(gpu_thread() % GPU_WARP_LANES);
    const uint32_t queries = ptx_shared_address(shared);
    const uint32_t ring_bytes = a.stages * S::STAGE_BYTES;
    const uint32_t ring = queries + S::QUERY_BYTES + warp * ring_bytes;
    const float score_scale = a.score_scale * K::UNDO;

    const uint32_t step = gpu_keep(warps * S::STAGE_TOKENS);
    uint32_t asked = walk.start + warp * S::STAGE_TOKENS; /* position of the next tile to ask for */
    struct attend_ahead ahead[S::TOGETHER];
    struct attend_mma_places<S> places;
    places.make(lane.lane);
    const auto look = [&](uint32_t position) {
        GPU_UNROLL
        for (uint32_t s = 0; s < S::TOGETHER; s++)
            ahead[s] = attend_look_ahead<false>(a, walk, position + s * TILE_TOKENS);
    };
    const auto ask = [&](uint32_t stage) {
        if (asked < walk.end) {
            GPU_UNROLL
            for (uint32_t s = 0; s < S::TOGETHER; s++)
                attend_mma_copy<S>(walk, ahead[s], asked + s * TILE_TOKENS, stage,
                                   s * S::TILE_BYTES, places);
            asked += step;
            look(asked); /* past the end: the last token's page, once per warp */
        }
        ptx_cp_async_commit();
    };

    if (asked < walk.end)
        look(asked);
    for (uint32_t stage = 0; stage + 1 < a.stages; stage++)
        ask(ring + stage * S::STAGE_BYTES);
    attend_stage_queries<K, KD, S::HEADS>(a, segment, first_head, queries, S::QUERY_ROW_BYTES);
    gpu_sync_block();
    struct attend_mma_warp<K, V, KD, VD, tiles> state;
    GPU_UNROLL
    for (uint32_t u = 0; u < S::K_UNITS; u++) {
        GPU_UNROLL
        for (uint32_t n = 0; n < tiles; n++) {
            attend_query_fragments<K>(state.queries[u][n],
                                      queries + n * UNIT_HEADS * S::QUERY_ROW_BYTES,
                                      S::QUERY_ROW_BYTES, u, lane);
        }
    }
    state.clear(lane);

    const uint32_t ring_end = ring + ring_bytes;
    uint32_t reading = ring, writing = ring_end - S::STAGE_BYTES;
    for (uint32_t position = walk.start + warp * S::STAGE_TOKENS; position < walk.end;
         position += step) {
        attend_wait_stage(a.stages);
        gpu_sync_warp(); /* everyone's copies are seen, and the stage behind is no longer read */
        ask(writing);
        if constexpr (S::parts::RAW) {
            attend_mma_repack<S, K, V, KD, VD>(reading, lane.lane);
            gpu_sync_warp();
        }
        state.attend(walk, position, reading, score_scale, lane);
        writing = reading; /* the oldest stage: everyone is done with it when the next trip asks */
        reading = reading + S::STAGE_BYTES == ring_end ? ring : reading + S::STAGE_BYTES;
    }
    ptx_cp_async_wait<0>();
    gpu_sync_block(); /* the rings become the place of the merge */
    float *merge = reinterpret_cast<float *>(shared + S::QUERY_BYTES);
    state.leave(merge + warp * (S::MERGE_BYTES / 4), score_scale, lane);
    gpu_sync_block();
    attend_mma_merge<S, V, VD>(a, segment, segment_number, first_head, merge);
    gpu_sync_block();
}

template <class K, class V, uint32_t KD, uint32_t VD, uint32_t tiles>
GPU_KERNEL(ATTEND_MMA_WARPS *GPU_WARP_LANES, (attend_mma_shape<K, V, KD, VD, tiles>::BLOCKS))
attend_mma(const struct attend_arguments a) {
    GPU_SHARED(shared);
    const uint32_t worker = gpu_block() / a.head_chunks, chunk = gpu_block() % a.head_chunks;
    const uint32_t end = a.dev_worker_first[worker + 1];
    for (uint32_t segment = a.dev_worker_first[worker]; segment < end; segment++)
        attend_mma_segment<typename decode_for_scores<K>::type, V, KD, VD, tiles>(
            a, segment, chunk * tiles * UNIT_HEADS, shared);
}

#endif
