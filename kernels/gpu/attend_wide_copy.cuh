/* What shared memory holds in the wide kernel, and how a block's threads copy tokens into it. */
#ifndef ATTEND_WIDE_COPY_CUH
#define ATTEND_WIDE_COPY_CUH

#include "attend_walk.cuh"

enum { ATTEND_WIDE_WARPS = 4, ATTEND_WIDE_THREADS = ATTEND_WIDE_WARPS * GPU_WARP_LANES };

/* VD: values of an output row. latent: V is read from K's rows. */
template <class K, class V, uint32_t KD, uint32_t VD, uint32_t tiles, bool latent>
struct attend_wide_shape {
    typedef tile_parts<K, V, KD, latent ? 0 : VD> parts;
    static constexpr uint32_t HEADS = tiles * UNIT_HEADS;
    static constexpr uint32_t K_RAW_AT = parts::BYTES;
    static constexpr uint32_t V_RAW_AT = K_RAW_AT + TILE_TOKENS * parts::K_RAW_ROW;
    static constexpr uint32_t TILE_BYTES =
        (V_RAW_AT + TILE_TOKENS * parts::V_RAW_ROW + 127) / 128 * 128;
    /* Two tiles at a time where two stages of them fit the smallest shared memory (99 KiB), and
     * their scores the registers beside sums of single blocks. */
    static constexpr bool BLOCK_SCALES =
        K::SCALE == DECODE_SCALE_BLOCK || V::SCALE == DECODE_SCALE_BLOCK;
    static constexpr uint32_t TOGETHER =
        2 * TILE_BYTES <= 40960 && !(tiles > 2 && BLOCK_SCALES) ? 2 : 1;
    static constexpr uint32_t STAGE_BYTES = TOGETHER * TILE_BYTES;
    static constexpr uint32_t STAGE_TOKENS = TOGETHER * TILE_TOKENS;
    static constexpr uint32_t K_UNITS = KD / TILE_UNIT_VALUES, V_UNITS = VD / TILE_UNIT_VALUES;
    static constexpr uint32_t OWN_K_UNITS = (K_UNITS + ATTEND_WIDE_WARPS - 1) / ATTEND_WIDE_WARPS;
    static constexpr uint32_t OWN_V_UNITS = (V_UNITS + ATTEND_WIDE_WARPS - 1) / ATTEND_WIDE_WARPS;
    /* Shared memory: query fragments, exchange of scores, ring. */
    static constexpr uint32_t QUERY_BYTES = K_UNITS * tiles * GPU_WARP_LANES * 8 * 4;
    static constexpr uint32_t EXCHANGE_PART = TOGETHER * tiles * GPU_WARP_LANES * 16;
    static constexpr uint32_t EXCHANGE_BYTES = ATTEND_WIDE_WARPS * EXCHANGE_PART;
    static constexpr uint32_t RING_AT = QUERY_BYTES + EXCHANGE_BYTES;
    static constexpr uint32_t QUERY_ROW_BYTES = (KD + 8) * 2; /* while they are staged */
    static constexpr uint32_t OUTPUT_ROW = VD + 4;            /* fp32, when all is done */
    static constexpr uint32_t OUTPUT_BYTES = HEADS * (OUTPUT_ROW + ATTEND_PARTIAL_NUMBERS) * 4;
    static constexpr uint32_t STAGING_BYTES = HEADS * QUERY_ROW_BYTES;
    /* of the ring's place: queries while they are staged, and what outputs need past the place of
     * query fragments and exchange, which are done with by then */
    static constexpr uint32_t OUTPUT_PAST = OUTPUT_BYTES > RING_AT ? OUTPUT_BYTES - RING_AT : 0;
    static constexpr uint32_t AROUND_BYTES =
        OUTPUT_PAST > STAGING_BYTES ? OUTPUT_PAST : STAGING_BYTES;
    /* Threads that copy one token. */
    static constexpr uint32_t COPIERS = ATTEND_WIDE_THREADS / STAGE_TOKENS;
    static_assert(parts::V_SCALES_ROW == 0 || parts::V_SCALE_PIECE == parts::V_SCALE_BYTES,
                  "V's scales are whole words");
    static_assert(RING_AT % 128 == 0 && TILE_BYTES % 128 == 0, "tiles start on 128 bytes");
};

/* A thread copies its own token's row, every COPIERS-th piece of it. */
template <class S, uint32_t row_bytes>
GPU_DEVICE void attend_wide_copy_row(uint32_t rows, uint32_t row, const uint8_t *from,
                                     uint32_t copier, bool real) {
    constexpr uint32_t chunks = row_bytes / TILE_CHUNK_BYTES;
    const uint32_t to = rows + row * row_bytes;
    GPU_UNROLL
    for (uint32_t i = 0; i < (chunks + S::COPIERS - 1) / S::COPIERS; i++) {
        const uint32_t chunk = copier + S::COPIERS * i;
        if (chunks % S::COPIERS == 0 || chunk < chunks)
            ptx_cp_async_16(to + (chunk ^ tile_swizzle<chunks>(row)) * TILE_CHUNK_BYTES,
                            from + chunk * TILE_CHUNK_BYTES, real);
    }
}

template <class S, uint32_t row_bytes, uint32_t unit_bytes>
GPU_DEVICE void attend_wide_copy_scales(uint32_t scales, uint32_t row, const uint8_t *from,
                                        uint32_t copier, bool real) {
    constexpr uint32_t words = row_bytes / unit_bytes;
    GPU_UNROLL
    for (uint32_t i = 0; i < (words + S::COPIERS - 1) / S::COPIERS; i++) {
        const uint32_t word = copier + S::COPIERS * i;
        if (word < words)
            tile_copy<unit_bytes>(scales + (word * TILE_TOKENS + row) * unit_bytes,
                                  from + word * unit_bytes, real);
    }
}

template <class S, uint32_t row_bytes>
GPU_DEVICE void attend_wide_copy_raw(uint32_t raw, uint32_t token, const uint8_t *from,
                                     uint32_t copier, bool real) {
    constexpr uint32_t width = tile_copy_bytes(row_bytes), pieces = row_bytes / width;
    for (uint32_t piece = copier; piece < pieces; piece += S::COPIERS)
        tile_copy<width>(raw + token * row_bytes + piece * width, from + piece * width, real);
}

/* Asks for this thread's token of one stage. */
template <class S>
GPU_DEVICE void attend_wide_copy(const struct attend_walk &walk, const struct attend_ahead &ahead,
                                 uint32_t position, uint32_t stage) {
    typedef typename S::parts P;
    const uint32_t token = gpu_thread() / S::COPIERS, copier = gpu_thread() % S::COPIERS;
    const bool real = position + token < walk.end;
    const uint32_t tile = stage + token / TILE_TOKENS * S::TILE_BYTES;
    const uint32_t in_tile = token % TILE_TOKENS, row = tile_row_of(in_tile);
    const struct tile_source &source = walk.source;
    const uint8_t *page = tile_page(source, ahead.page);
    if constexpr (P::K_RAW_ROW > 0) {
        attend_wide_copy_raw<S, P::K_RAW_ROW>(tile + S::K_RAW_AT, in_tile,
                                              page + ahead.slot * P::K_RAW_ROW, copier, real);
    } else {
        attend_wide_copy_row<S, P::K_ROW>(tile, row, page + ahead.slot * P::K_ROW, copier, real);
        if constexpr (P::K_SCALES_ROW > 0)
            attend_wide_copy_scales<S, P::K_SCALES_ROW, P::K_SCALE_BYTES>(
                tile + P::K_SCALES_AT, row, page + source.k_scales + ahead.slot * P::K_SCALES_ROW,
                copier, real);
    }
    if constexpr (P::V_ROW > 0) {
        const uint8_t *v_values = page + source.v_values;
        if constexpr (P::V_RAW_ROW > 0) {
            attend_wide_copy_raw<S, P::V_RAW_ROW>(
                tile + S::V_RAW_AT, in_tile, v_values + ahead.slot * P::V_RAW_ROW, copier, real);
        } else {
            attend_wide_copy_row<S, P::V_ROW>(tile + P::V_AT, row, v_values + ahead.slot * P::V_ROW,
                                              copier, real);
            if constexpr (P::V_SCALES_ROW > 0)
                attend_wide_copy_scales<S, P::V_SCALES_ROW, P::V_SCALE_BYTES>(
                    tile + P::V_SCALES_AT, row,
                    page + source.v_scales + ahead.slot * P::V_SCALES_ROW, copier, real);
        }
    }
}

#endif
