/* The two inner loops of the tiled kernel, for every format of cpu_formats.def: scores of K rows,
 * and weighted sums of V rows. Both are cut into blocks whose accumulators stay in registers; rows
 * are decoded on the way in, never to memory. Compiled once per instruction set (cpu_tile.c). */
#ifndef CPU_BLOCKS_H
#define CPU_BLOCKS_H

#include "cpu_load.h"
#include "cpu_tile.h"
#include "cpu_vector.h"

/* A block is heads x tokens of scores, or heads x vectors of outputs: as many accumulators as there
 * are registers for beside the operands. Wide blocks decode a row once for eight heads. */
#if CPU_REGISTERS == 32
enum { BLOCK_TOKENS = 4, BLOCK_VECTORS = 4, WIDE_HEADS = 8 };
#else
enum { BLOCK_TOKENS = 2, BLOCK_VECTORS = 2, WIDE_HEADS = 0 /* none */ };
#endif
enum { BLOCK_HEADS = 4, WIDE_TOKENS = 2, WIDE_VECTORS = 3, MOST_HEADS = 8, MOST_PER_HEAD = 4 };

/* The rows of one tile, as the loops read them. */
struct cpu_rows {
    const uint8_t *payload[CPU_TILE_TOKENS];
    const float *scales[CPU_TILE_TOKENS]; /* one per group; not read without group scales */
    const uint8_t
        *next[CPU_TILE_TOKENS]; /* rows of the tile after this one, to be asked for early */
};

/* Asks for the part of a row that holds values [i, i + count). */
CPU_INLINE void ask_ahead(enum format_id format, const uint8_t *payload, uint32_t i,
                          uint32_t count) {
    if (format == CPU_FP32)
        return;
    const uint32_t first = cpu_payload_bytes(format, i), end = cpu_payload_bytes(format, i + count);
    for (uint32_t at = (first + 63) / 64 * 64; at < end; at += 64)
        CPU_PREFETCH(payload + at);
}

/* Values [i, i + CPU_LANES) of `tokens` rows against `heads` queries. */
CPU_INLINE void score_step(enum format_id format, const uint8_t *const *payload,
                           const float *const *scales, uint32_t i, uint32_t heads, uint32_t tokens,
                           const float *queries, uint32_t q_stride,
                           vf sums[MOST_HEADS][MOST_PER_HEAD]) {
    vf k[MOST_PER_HEAD];
    for (uint32_t t = 0; t < tokens; t++)
        k[t] = cpu_load(format, payload[t], scales[t], i);
    for (uint32_t h = 0; h < heads; h++) {
        const vf q = vf_load(queries + (size_t)h * q_stride + i);
        for (uint32_t t = 0; t < tokens; t++)
            sums[h][t] += q * k[t];
    }
}

/* weights[h][t] = score, for `heads` x `tokens` (constants where this is inlined); `tokens` is 2 or
 * 4. */
CPU_INLINE void score_block(enum format_id format, const uint8_t *const *payload,
                            const float *const *scales, const uint8_t *const *ahead, uint32_t dim,
                            uint32_t heads, uint32_t tokens, const float *queries,
                            uint32_t q_stride, float *weights) {
    vf sums[MOST_HEADS][MOST_PER_HEAD];
    for (uint32_t h = 0; h < heads; h++)
        for (uint32_t t = 0; t < tokens; t++)
            sums[h][t] = vf_all(0);
    uint32_t i = 0;
    for (; i + 32 <= dim; i += 32) { /* where in its group of 32 a vector lies is then a constant */
        for (uint32_t t = 0; ahead != NULL && t < tokens; t++)
            ask_ahead(format, ahead[t], i, 32);
        for (uint32_t j = 0; j < 32; j += CPU_LANES)
            score_step(format, payload, scales, i + j, heads, tokens, queries, q_stride, sums);
    }
    for (; i < dim; i += CPU_LANES)
        score_step(format, payload, scales, i, heads, tokens, queries, q_stride, sums);
    const float unit = cpu_unit(format);
    if (tokens == 4) {
        for (uint32_t h = 0; h < heads; h++) {
            const v4f four = vf_sum4(sums[h][0], sums[h][1], sums[h][2], sums[h][3]) * unit;
            memcpy(weights + h * CPU_TILE_TOKENS, &four, sizeof four);
        }
        return;
    }
    for (uint32_t h = 0; h < heads; h += 2) {
        const uint32_t other = h + 1 < heads ? h + 1 : h;
        const v4f four = vf_sum4(sums[h][0], sums[h][1], sums[other][0], sums[other][1]) * unit;
        memcpy(weights + h * CPU_TILE_TOKENS, &four, sizeof four / 2);
        memcpy(weights + other * CPU_TILE_TOKENS, (const float *)&four + 2, sizeof four / 2);
    }
}

CPU_INLINE void score_heads(enum format_id format, const struct cpu_rows *rows, uint32_t padded,
                            uint32_t dim, uint32_t heads, uint32_t tokens, const float *queries,
                            uint32_t q_stride, float *weights) {
    for (uint32_t t = 0; t < padded; t += tokens)
        score_block(format, rows->payload + t, rows->scales + t, rows->next + t, dim, heads, tokens,
                    queries, q_stride, weights + t);
}

/* weights[h][t] = score of row t and query h; `padded` rows, a multiple of 4. */
CPU_INLINE void score_rows(enum format_id format, const struct cpu_rows *rows, uint32_t padded,
                           uint32_t dim, uint32_t heads, const float *queries, uint32_t q_stride,
                           float *weights) {
    uint32_t h = 0;
#define SCORE(count, tokens)                                                                       \
    score_heads(format, rows, padded, dim, count, tokens, queries + (size_t)h * q_stride,          \
                q_stride, weights + (size_t)h * CPU_TILE_TOKENS)
    if (WIDE_HEADS > 0)
        for (; h + WIDE_HEADS <= heads; h += WIDE_HEADS)
            SCORE(WIDE_HEADS, WIDE_TOKENS);
    for (; h + BLOCK_HEADS <= heads; h += BLOCK_HEADS)
        SCORE(BLOCK_HEADS, BLOCK_TOKENS);
    const uint32_t left = heads - h;
    if (left == 1)
        SCORE(1, BLOCK_TOKENS);
    else if (left == 2)
        SCORE(2, BLOCK_TOKENS);
    else if (left == 3)
        SCORE(3, BLOCK_TOKENS);
#undef SCORE
}

/* outputs[h][i ...] += sum over `count` rows of weight x value, for `heads` x `vectors` (constants
 * where this is inlined). */
CPU_INLINE void gather_block(enum format_id format, const struct cpu_rows *rows, uint32_t count,
                             uint32_t i, uint32_t heads, uint32_t vectors, const float *weights,
                             float *outputs, uint32_t stride) {
    const float unit = cpu_unit(format);
    vf sums[MOST_HEADS][MOST_PER_HEAD];
    for (uint32_t h = 0; h < heads; h++)
        for (uint32_t j = 0; j < vectors; j++)
            sums[h][j] = vf_all(0);
    for (uint32_t t = 0; t < count; t++) {
        vf v[MOST_PER_HEAD];
        ask_ahead(format, rows->next[t], i, vectors * CPU_LANES);
        for (uint32_t j = 0; j < vectors; j++)
            v[j] = cpu_load(format, rows->payload[t], rows->scales[t], i + j * CPU_LANES);
        for (uint32_t h = 0; h < heads; h++) {
            const float weight = weights[h * CPU_TILE_TOKENS + t];
            for (uint32_t j = 0; j < vectors; j++)
                sums[h][j] += v[j] * weight;
        }
    }
    for (uint32_t h = 0; h < heads; h++)
        for (uint32_t j = 0; j < vectors; j++) {
            float *to = outputs + (size_t)h * stride + i + j * CPU_LANES;
            vf_store(to, vf_load(to) + sums[h][j] * unit);
        }
}

CPU_INLINE void gather_heads(enum format_id format, const struct cpu_rows *rows, uint32_t count,
                             uint32_t dim, uint32_t heads, uint32_t vectors, const float *weights,
                             float *outputs, uint32_t stride) {
    uint32_t i = 0;
    for (; i + vectors * CPU_LANES <= dim; i += vectors * CPU_LANES)
        gather_block(format, rows, count, i, heads, vectors, weights, outputs, stride);
    if (vectors > 2)
        for (; i + 2 * CPU_LANES <= dim; i += 2 * CPU_LANES)
            gather_block(format, rows, count, i, heads, 2, weights, outputs, stride);
    for (; i < dim; i += CPU_LANES)
        gather_block(format, rows, count, i, heads, 1, weights, outputs, stride);
}

/* outputs[h] += sum over rows of weights[h][t] x row t. */
CPU_INLINE void gather_rows(enum format_id format, const struct cpu_rows *rows, uint32_t count,
                            uint32_t dim, uint32_t heads, const float *weights, float *outputs,
                            uint32_t stride) {
    uint32_t h = 0;
#define GATHER(heads_, vectors)                                                                    \
    gather_heads(format, rows, count, dim, heads_, vectors, weights + (size_t)h * CPU_TILE_TOKENS, \
                 outputs + (size_t)h * stride, stride)
    if (WIDE_HEADS > 0)
        for (; h + WIDE_HEADS <= heads; h += WIDE_HEADS)
            GATHER(WIDE_HEADS, WIDE_VECTORS);
    for (; h + BLOCK_HEADS <= heads; h += BLOCK_HEADS)
        GATHER(BLOCK_HEADS, BLOCK_VECTORS);
    const uint32_t left = heads - h;
    if (left == 1)
        GATHER(1, BLOCK_VECTORS);
    else if (left == 2)
        GATHER(2, BLOCK_VECTORS);
    else if (left == 3)
        GATHER(3, BLOCK_VECTORS);
#undef GATHER
}

/* The loops of one format. */
struct cpu_codec {
    void (*score)(const struct cpu_rows *rows, uint32_t padded, uint32_t dim, uint32_t heads,
                  const float *queries, uint32_t q_stride, float *weights);
    void (*gather)(const struct cpu_rows *rows, uint32_t count, uint32_t dim, uint32_t heads,
                   const float *weights, float *outputs, uint32_t stride);
    void (*widen)(const uint8_t *payload, const uint8_t *scales, uint32_t groups, float *out);
    void (*decode)(const uint8_t *payload, const float *scales, uint32_t dim, float *out);
};

#define CPU_LOOPS(ID, id)                                                                          \
    static void score_##id(const struct cpu_rows *rows, uint32_t padded, uint32_t dim,             \
                           uint32_t heads, const float *queries, uint32_t q_stride,                \
                           float *weights) {                                                       \
        score_rows(ID, rows, padded, dim, heads, queries, q_stride, weights);                      \
    }                                                                                              \
    static void gather_##id(const struct cpu_rows *rows, uint32_t count, uint32_t dim,             \
                            uint32_t heads, const float *weights, float *outputs,                  \
                            uint32_t stride) {                                                     \
        gather_rows(ID, rows, count, dim, heads, weights, outputs, stride);                        \
    }                                                                                              \
    static void widen_##id(const uint8_t *payload, const uint8_t *scales, uint32_t groups,         \
                           float *out) {                                                           \
        cpu_widen(ID, payload, scales, groups, out);                                               \
    }                                                                                              \
    static void decode_##id(const uint8_t *payload, const float *scales, uint32_t dim,             \
                            float *out) {                                                          \
        for (uint32_t i = 0; i < dim; i += CPU_LANES)                                              \
            vf_store(out + i, cpu_load(ID, payload, scales, i) * cpu_unit(ID));                    \
    }
CPU_LOOPS(CPU_FP32, fp32)
#define CPU_FORMAT(ID, id) CPU_LOOPS(FORMAT_##ID, id)
#include "cpu_formats.def"
#undef CPU_FORMAT
#undef CPU_LOOPS

#define CPU_FORMAT(ID, id)                                                                         \
    static const struct cpu_codec codec_##id = {score_##id, gather_##id, widen_##id, decode_##id};
CPU_FORMAT(FP32, fp32)
#include "cpu_formats.def"
#undef CPU_FORMAT

/* The loops of a format; no functions where it has no loader. */
static inline const struct cpu_codec *cpu_codec_of(enum format_id format) {
    static const struct cpu_codec none = {NULL, NULL, NULL, NULL};
    switch (format) {
#define CPU_FORMAT(ID, id)                                                                         \
    case FORMAT_##ID:                                                                              \
        return &codec_##id;
#include "cpu_formats.def"
#undef CPU_FORMAT
    case CPU_FP32:
        return &codec_fp32;
    default:
        return &none;
    }
}

#endif
