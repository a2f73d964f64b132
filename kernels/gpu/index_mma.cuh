/* Index scores on tensor cores, head dim 128: keys on m16, index heads on n8, as attention scores
 * its K (unit_scores.cuh). A warp takes 32 keys at a time through a ring of its own, 32 heads after
 * the other, and adds the heads up in registers. */
#ifndef INDEX_MMA_CUH
#define INDEX_MMA_CUH

#include "attend_softmax.cuh"
#include "attend_wide.cuh"
#include "index_piece.cuh"

enum { INDEX_MMA_WARPS = ATTEND_WIDE_WARPS, INDEX_MMA_DIM = 128, INDEX_MMA_TILES = 4 };

template <class K> struct index_mma_shape {
    typedef tile_parts<K, K, INDEX_MMA_DIM, 0> parts;
    static constexpr uint32_t HEADS = INDEX_MMA_TILES * UNIT_HEADS; /* at a time */
    static constexpr uint32_t TOGETHER = 2; /* tiles that meet the same queries' fragments */
    static constexpr uint32_t STAGE_TOKENS = TOGETHER * TILE_TOKENS;
    static constexpr uint32_t STAGE_BYTES = TOGETHER * parts::BYTES;
    static constexpr uint32_t K_UNITS = INDEX_MMA_DIM / TILE_UNIT_VALUES;
    /* Shared memory: fragments of 32 heads' queries for each chunk of heads, weights, rings. Rows
     * of a chunk are staged behind its fragments. */
    static constexpr uint32_t QUERY_BYTES = K_UNITS * INDEX_MMA_TILES * GPU_WARP_LANES * 8 * 4;
    static constexpr uint32_t CHUNK_BYTES = QUERY_BYTES + HEADS * 4;
    static constexpr uint32_t RING_AT = QUERY_BYTES;
    static constexpr uint32_t QUERY_ROW_BYTES = (INDEX_MMA_DIM + 8) * 2;
    static constexpr uint32_t STAGING_BYTES = HEADS * QUERY_ROW_BYTES;
    static_assert(!parts::RAW, "whole blocks are for the simple kernel");
    static_assert(INDEX_MMA_WARPS * 2 * STAGE_BYTES >= STAGING_BYTES, "staging is in the rings");
    static_assert(CHUNK_BYTES % 128 == 0 && STAGE_BYTES % 128 == 0, "tiles start on 128 bytes");
};

/* Each lane its own token's row, as attention copies pages of any size. */
template <class S>
GPU_DEVICE void index_mma_copy(const struct attend_walk &walk, const struct attend_ahead &ahead,
                               uint32_t position, uint32_t tile, uint32_t lane) {
    typedef typename S::parts P;
    const bool real = position + tile_token_of(lane) < walk.end;
    const uint8_t *page = tile_page(walk.source, ahead.page);
    tile_copy_rows<P::K_ROW>(tile, page + ahead.slot * P::K_ROW, real, lane);
    if constexpr (P::K_SCALES_ROW > 0)
        tile_copy_scales<P::K_SCALES_ROW, P::K_SCALE_BYTES>(
            tile + P::K_SCALES_AT, page + walk.source.k_scales + ahead.slot * P::K_SCALES_ROW, real,
            lane);
}

/* 32 keys against 32 heads: adds to rows g and g + 8 of both tiles. */
template <class S, class K>
GPU_DEVICE void index_mma_chunk(float (&sums)[S::TOGETHER][2], uint32_t stage, uint32_t chunk,
                                const float *weights, const struct unit_place &place,
                                const struct unit_lane &lane) {
    float scores[S::TOGETHER][INDEX_MMA_TILES][4] = {};
    GPU_UNROLL
    for (uint32_t u = 0; u < S::K_UNITS; u++) {
        uint32_t queries[INDEX_MMA_TILES][8];
        attend_wide_load_queries<INDEX_MMA_TILES>(queries, chunk, u, lane);
        GPU_UNROLL
        for (uint32_t s = 0; s < S::TOGETHER; s++) {
            const struct unit_planes planes = {stage, s * S::parts::BYTES,
                                               s * S::parts::BYTES + S::parts::K_SCALES_AT};
            unit_scores<K, INDEX_MMA_DIM, INDEX_MMA_TILES>(scores[s], queries, planes, u, place);
        }
    }
    GPU_UNROLL
    for (uint32_t n = 0; n < INDEX_MMA_TILES; n++) {
        const float low = weights[n * UNIT_HEADS + 2 * lane.t];
        const float high = weights[n * UNIT_HEADS + 2 * lane.t + 1];
        GPU_UNROLL
        for (uint32_t s = 0; s < S::TOGETHER; s++) {
            sums[s][0] += low * index_relu(scores[s][n][0]) + high * index_relu(scores[s][n][1]);
            sums[s][1] += low * index_relu(scores[s][n][2]) + high * index_relu(scores[s][n][3]);
        }
    }
}

/* All heads' queries as fragments, and their weights with every scale in them; zeros past the last
 * head. */
template <class S, class K>
GPU_DEVICE void index_mma_queries(const struct index_arguments &a,
                                  const struct backend_segment &segment, unsigned char *shared,
                                  const struct unit_lane &lane) {
    const uint32_t base = ptx_shared_address(shared);
    const uint32_t heads = a.cache.head_chunks * S::HEADS;
    for (uint32_t chunk = 0; chunk < a.cache.head_chunks; chunk++)
        attend_wide_queries<S, K, INDEX_MMA_DIM, INDEX_MMA_TILES>(
            a.cache, segment, chunk * S::HEADS, base + chunk * S::QUERY_BYTES, lane);
    float *weights = reinterpret_cast<float *>(shared + a.cache.head_chunks * S::QUERY_BYTES);
    for (uint32_t h = gpu_thread(); h < heads; h += gpu_threads())
        weights[h] = h < a.heads ? a.dev_weights[(uint64_t)segment.seq * a.heads + h] *
                                       (a.k_tensor_scale * K::UNDO)
                                 : 0.0f;
    gpu_sync_block();
}

template <class K>
GPU_DEVICE void index_mma_segment(const struct index_arguments &a,
                                  const struct backend_segment &segment, unsigned char *shared) {
    typedef index_mma_shape<K> S;
    const uint32_t warp = gpu_thread() / GPU_WARP_LANES;
    const struct unit_lane lane = unit_lane_make(gpu_thread() % GPU_WARP_LANES);
    struct attend_walk walk = attend_walk_make<false>(a.cache, segment);
    walk.start = walk.begin;
    walk.ahead = tile_token_of(lane.lane);
    index_mma_queries<S, K>(a, segment, shared, lane);

    const uint32_t base = ptx_shared_address(shared);
    const float *weights = reinterpret_cast<float *>(shared + a.cache.head_chunks * S::QUERY_BYTES);
    const uint32_t ring_bytes = a.cache.stages * S::STAGE_BYTES;
    const uint32_t ring = base + a.cache.head_chunks * S::CHUNK_BYTES + warp * ring_bytes;
    const uint32_t step = INDEX_MMA_WARPS * S::STAGE_TOKENS;
    uint32_t asked = walk.start + warp * S::STAGE_TOKENS; /* position of the next to ask for */
    struct attend_ahead ahead[S::TOGETHER];
    const auto look = [&]() {
        GPU_UNROLL
        for (uint32_t s = 0; s < S::TOGETHER; s++)
            ahead[s] = attend_look_ahead<false>(a.cache, walk, asked + s * TILE_TOKENS);
    };
    const auto ask = [&](uint32_t stage) {
        if (asked < walk.end) {
            GPU_UNROLL
            for (uint32_t s = 0; s < S::TOGETHER; s++)
                index_mma_copy<S>(walk, ahead[s], asked + s * TILE_TOKENS,
                                  stage + s * S::parts::BYTES, lane.lane);
            asked += step;
            look(); /* past the end: the last token's page, once per warp */
        }
        ptx_cp_async_commit();
    };
    if (asked < walk.end)
        look();
    for (uint32_t stage = 0; stage + 1 < a.cache.stages; stage++)
        ask(ring + stage * S::STAGE_BYTES);

    const struct unit_place place = unit_place_k<K, INDEX_MMA_DIM>(lane);
    const uint32_t ring_end = ring + ring_bytes;
    float *scores = a.dev_scores + segment.seq * a.score_stride + segment.first_token;
    uint32_t reading = ring, writing = ring_end - S::STAGE_BYTES;
    for (uint32_t position = walk.start + warp * S::STAGE_TOKENS; position < walk.end;
         position += step) {
        attend_wait_stage(a.cache.stages);
        gpu_sync_warp(); /* everyone's copies are seen, and the stage behind is no longer read */
        ask(writing);
        float sums[S::TOGETHER][2] = {};
        for (uint32_t chunk = 0; chunk < a.cache.head_chunks; chunk++)
            index_mma_chunk<S, K>(sums, reading, base + chunk * S::QUERY_BYTES,
                                  weights + chunk * S::HEADS, place, lane);
        GPU_UNROLL
        for (uint32_t s = 0; s < S::TOGETHER; s++) {
            GPU_UNROLL
            for (uint32_t half = 0; half < 2; half++) {
                sums[s][half] += gpu_shuffle_xor(sums[s][half], 1);
                sums[s][half] += gpu_shuffle_xor(sums[s][half], 2);
            }
        }
        /* lane t of four: row g or g + 8 of the first tile or the second */
        const uint32_t tile = lane.t >> 1, half = lane.t & 1;
        const uint32_t at =
            position - walk.begin + tile * TILE_TOKENS + attend_token_of(lane.g) + 2 * half;
        const float first = half != 0 ? sums[0][1] : sums[0][0];
        const float second = half != 0 ? sums[1][1] : sums[1][0];
        if (at < walk.end - walk.begin)
            scores[at] = tile != 0 ? second : first;
        writing = reading;
        reading = reading + S::STAGE_BYTES == ring_end ? ring : reading + S::STAGE_BYTES;
    }
    ptx_cp_async_wait<0>();
}

template <class K>
GPU_KERNEL(INDEX_MMA_WARPS *GPU_WARP_LANES, 3)
index_mma(const struct index_arguments a) {
    GPU_SHARED(shared);
    const struct backend_segment segment = index_piece(a);
    if (segment.token_count > 0)
        index_mma_segment<typename decode_for_scores<K>::type>(a, segment, shared);
}

#endif
