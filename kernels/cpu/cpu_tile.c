/* Attention over one segment: decode a tile of K, score it for all query heads, update the online
 * softmax, decode the tile of V, accumulate. Each stored value is decoded once per KV head, however
 * many query heads read it. Compiled once per instruction set under its own CPU_TILE_VARIANT. */
#include "cpu_tile.h"

#include <math.h>
#include <stddef.h>

#include "cpu_decode.h"
#include "cpu_vector.h"

#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)
#define STRING_(a) #a
#define STRING(a) STRING_(a)

#if defined(__GNUC__)
#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define PREFETCH(address) __builtin_prefetch(address, 0, 2) /* into the second level */
#endif

/* The stretch of the segment a tile covers, page by page: `run` tokens lie in one page. */
struct place {
    const uint8_t *page;
    uint32_t slot;
    uint32_t run;
};

static struct place locate(const struct cpu_tile_job *job, uint64_t token, uint64_t end) {
    const uint32_t page_tokens = job->page->shape.page_tokens;
    const uint64_t logical = token / page_tokens;
    struct place place;
    place.page =
        job->pages + (uint64_t)job->table[logical % job->columns] * job->page->stride_bytes;
    place.slot = (uint32_t)(token - logical * page_tokens);
    const uint64_t left = end - token;
    place.run = page_tokens - place.slot;
    if (place.run > left)
        place.run = (uint32_t)left;
    return place;
}

/* Rows of tokens [token, token + count) into job->tile, `stride` values apart. */
static void decode_rows(const struct cpu_tile_job *job, const struct page_plane *plane,
                        enum format_id format, uint32_t dim, uint32_t stride, uint64_t token,
                        uint32_t count) {
    const cpu_decoder decode = cpu_decoders[format];
    const uint64_t end = token + count;
    float *out = job->tile;
    while (token < end) {
        const struct place place = locate(job, token, end);
        const struct page_place at =
            page_locate(plane, job->page->shape.page_tokens, job->kv_head, place.slot);
        const uint8_t *payload = place.page + at.payload_bytes;
        const uint8_t *scales = place.page + at.scale_bytes;
        if (stride == dim) {
            decode(payload, scales, (uint64_t)place.run * dim, out);
        } else {
            for (uint32_t row = 0; row < place.run; row++) {
                decode(payload + (uint64_t)row * plane->row_payload_bytes,
                       scales + (uint64_t)row * plane->row_scale_bytes, dim, out + row * stride);
                for (uint32_t i = dim; i < stride; i++)
                    out[row * stride + i] = 0;
            }
        }
        out += (uint64_t)place.run * stride;
        token += place.run;
    }
}

static void prefetch_bytes(const uint8_t *from, uint64_t bytes) {
    for (uint64_t i = 0; i < bytes; i += 64)
        PREFETCH(from + i);
}

/* Asks for the rows of the next tile while this one is worked on: pages lie anywhere, so the
 * hardware's own prefetching sees no pattern across them. */
static void prefetch_rows(const struct cpu_tile_job *job, const struct page_plane *plane,
                          uint64_t token, uint32_t count) {
    const uint64_t end = token + count;
    while (token < end) {
        const struct place place = locate(job, token, end);
        const struct page_place at =
            page_locate(plane, job->page->shape.page_tokens, job->kv_head, place.slot);
        prefetch_bytes(place.page + at.payload_bytes,
                       (uint64_t)place.run * plane->row_payload_bytes);
        prefetch_bytes(place.page + at.scale_bytes, (uint64_t)place.run * plane->row_scale_bytes);
        token += place.run;
    }
}

/* Scores of 4 tokens x `heads` (a constant where this is inlined) query heads. */
ALWAYS_INLINE void score_tokens(const float *rows, uint32_t stride, const float *queries,
                                uint32_t heads, float *scores) {
    vf sums[4][4];
    for (uint32_t h = 0; h < heads; h++)
        for (uint32_t t = 0; t < 4; t++)
            sums[h][t] = vf_all(0);
    for (uint32_t i = 0; i < stride; i += CPU_LANES) {
        vf k[4];
        for (uint32_t t = 0; t < 4; t++)
            k[t] = vf_load(rows + (size_t)t * stride + i);
        for (uint32_t h = 0; h < heads; h++) {
            const vf q = vf_load(queries + (size_t)h * stride + i);
            for (uint32_t t = 0; t < 4; t++)
                sums[h][t] += q * k[t];
        }
    }
    for (uint32_t h = 0; h < heads; h++)
        vf_sum4(sums[h][0], sums[h][1], sums[h][2], sums[h][3], scores + h * CPU_TILE_TOKENS);
}

/* job->weights[h][t] = score of token t, for a whole tile; `padded` is a multiple of 4 and the
 * rows past the last token hold something finite. */
static void score_tile(const struct cpu_tile_job *job, uint32_t stride, uint32_t padded) {
    uint32_t h = 0;
    for (; h + 4 <= job->heads; h += 4)
        for (uint32_t t = 0; t < padded; t += 4)
            score_tokens(job->tile + (size_t)t * stride, stride, job->queries + (size_t)h * stride,
                         4, job->weights + (size_t)h * CPU_TILE_TOKENS + t);
    const uint32_t left = job->heads - h;
    for (uint32_t t = 0; left > 0 && t < padded; t += 4) {
        const float *rows = job->tile + (size_t)t * stride;
        const float *queries = job->queries + (size_t)h * stride;
        float *scores = job->weights + (size_t)h * CPU_TILE_TOKENS + t;
        if (left == 1)
            score_tokens(rows, stride, queries, 1, scores);
        else if (left == 2)
            score_tokens(rows, stride, queries, 2, scores);
        else
            score_tokens(rows, stride, queries, 3, scores);
    }
}

static void scale_row(float *row, uint32_t values, float by) {
    for (uint32_t i = 0; i < values; i += CPU_LANES)
        vf_store(row + i, vf_load(row + i) * by);
}

/* Scores to weights 2^(score - largest), with the sums and outputs so far rescaled when a larger
 * score turns up. */
static void soften_tile(const struct cpu_tile_job *job, uint32_t count, uint32_t v_stride) {
    for (uint32_t h = 0; h < job->heads; h++) {
        float *row = job->weights + (size_t)h * CPU_TILE_TOKENS;
        for (uint32_t t = count; t < CPU_TILE_TOKENS; t++)
            row[t] = -INFINITY;
        vf most = vf_load(row);
        for (uint32_t t = CPU_LANES; t < CPU_TILE_TOKENS; t += CPU_LANES) {
            const vf other = vf_load(row + t);
            most = vf_max(most, other);
        }
        float largest = job->largest[h];
        for (uint32_t i = 0; i < CPU_LANES; i++)
            largest = most[i] > largest ? most[i] : largest;
        if (largest > job->largest[h]) {
            const float shrink = exp2f(job->largest[h] - largest);
            job->sums[h] *= shrink;
            scale_row(job->outputs + (size_t)h * v_stride, v_stride, shrink);
            job->largest[h] = largest;
        }
        vf sum = vf_all(0);
        for (uint32_t t = 0; t < CPU_TILE_TOKENS; t += CPU_LANES) {
            const vf weights = vf_exp2(vf_load(row + t) - largest);
            vf_store(row + t, weights);
            sum += weights;
        }
        job->sums[h] += vf_sum(sum);
    }
}

/* outputs[h][i ..] += sum over tokens of weight x V, for `heads` x `vectors` (constants where this
 * is inlined) accumulators. */
ALWAYS_INLINE void gather_values(const float *rows, uint32_t row_stride, uint32_t count,
                                 const float *weights, uint32_t heads, uint32_t vectors,
                                 float *outputs, uint32_t out_stride) {
    vf sums[4][4];
    for (uint32_t h = 0; h < heads; h++)
        for (uint32_t i = 0; i < vectors; i++)
            sums[h][i] = vf_load(outputs + (size_t)h * out_stride + i * CPU_LANES);
    for (uint32_t t = 0; t < count; t++) {
        vf v[4];
        for (uint32_t i = 0; i < vectors; i++)
            v[i] = vf_load(rows + (size_t)t * row_stride + i * CPU_LANES);
        for (uint32_t h = 0; h < heads; h++) {
            const float weight = weights[h * CPU_TILE_TOKENS + t];
            for (uint32_t i = 0; i < vectors; i++)
                sums[h][i] += v[i] * weight;
        }
    }
    for (uint32_t h = 0; h < heads; h++)
        for (uint32_t i = 0; i < vectors; i++)
            vf_store(outputs + (size_t)h * out_stride + i * CPU_LANES, sums[h][i]);
}

ALWAYS_INLINE void gather_heads(const struct cpu_tile_job *job, uint32_t h, uint32_t heads,
                                uint32_t row_stride, uint32_t count, uint32_t v_stride) {
    const float *weights = job->weights + (size_t)h * CPU_TILE_TOKENS;
    float *outputs = job->outputs + (size_t)h * v_stride;
    uint32_t i = 0;
    for (; i + 4 * CPU_LANES <= v_stride; i += 4 * CPU_LANES)
        gather_values(job->tile + i, row_stride, count, weights, heads, 4, outputs + i, v_stride);
    for (; i < v_stride; i += CPU_LANES)
        gather_values(job->tile + i, row_stride, count, weights, heads, 1, outputs + i, v_stride);
}

static void gather_tile(const struct cpu_tile_job *job, uint32_t row_stride, uint32_t count,
                        uint32_t v_stride) {
    uint32_t h = 0;
    for (; h + 4 <= job->heads; h += 4)
        gather_heads(job, h, 4, row_stride, count, v_stride);
    const uint32_t left = job->heads - h;
    if (left == 1)
        gather_heads(job, h, 1, row_stride, count, v_stride);
    else if (left == 2)
        gather_heads(job, h, 2, row_stride, count, v_stride);
    else if (left == 3)
        gather_heads(job, h, 3, row_stride, count, v_stride);
}

static void segment(const struct cpu_tile_job *job) {
    const struct page_shape *shape = &job->page->shape;
    const uint32_t k_stride = cpu_tile_stride(shape->k_dim);
    const uint32_t v_stride = cpu_tile_stride(shape->v_dim);
    const uint32_t tile_tokens =
        k_stride > CPU_TILE_WIDE_VALUES ? CPU_TILE_WIDE_TOKENS : CPU_TILE_TOKENS;
    for (uint32_t h = 0; h < job->heads; h++) {
        job->largest[h] = -INFINITY;
        job->sums[h] = 0;
        for (uint32_t i = 0; i < v_stride; i++)
            job->outputs[(size_t)h * v_stride + i] = 0;
    }
    const uint64_t end = job->first_token + job->token_count;
    for (uint64_t token = job->first_token; token < end; token += tile_tokens) {
        const uint64_t left = end - token;
        const uint32_t count = left < tile_tokens ? (uint32_t)left : tile_tokens;
        const uint64_t after = left - count;
        const uint32_t next = after < tile_tokens ? (uint32_t)after : tile_tokens;
        decode_rows(job, &job->page->k, shape->k_format, shape->k_dim, k_stride, token, count);
        const uint32_t padded = (count + 3) / 4 * 4;
        for (size_t i = (size_t)count * k_stride; i < (size_t)padded * k_stride; i++)
            job->tile[i] = 0;
        prefetch_rows(job, &job->page->k, token + count, next);
        score_tile(job, k_stride, padded);
        soften_tile(job, count, v_stride);
        if (shape->v_in_k) {
            gather_tile(job, k_stride, count, v_stride);
            continue;
        }
        decode_rows(job, &job->page->v, shape->v_format, shape->v_dim, v_stride, token, count);
        prefetch_rows(job, &job->page->v, token + count, next);
        gather_tile(job, v_stride, count, v_stride);
    }
}

static uint64_t stream(const uint8_t *from, uint64_t bytes) {
    typedef uint64_t wide __attribute__((vector_size(CPU_LANES * 4)));
    typedef uint64_t wide_unaligned
        __attribute__((vector_size(CPU_LANES * 4), aligned(1), may_alias));
    enum { WAYS = 8, STEP = WAYS * sizeof(wide) };
    wide sums[WAYS] = {0};
    uint64_t i = 0;
    for (; i + STEP <= bytes; i += STEP) {
        for (uint64_t line = 0; line < STEP; line += 64)
            PREFETCH(from + i + 4096 + line);
        for (int way = 0; way < WAYS; way++)
            sums[way] ^= (wide) * (const wide_unaligned *)(from + i + (uint64_t)way * sizeof(wide));
    }
    uint64_t all = 0;
    for (; i < bytes; i++)
        all ^= from[i];
    for (int way = 0; way < WAYS; way++)
        for (size_t lane = 0; lane < sizeof(wide) / 8; lane++)
            all ^= sums[way][lane];
    return all;
}

extern const struct cpu_tile_ops PASTE(cpu_tile_, CPU_TILE_VARIANT);
const struct cpu_tile_ops PASTE(cpu_tile_, CPU_TILE_VARIANT) = {
    .name = STRING(CPU_TILE_VARIANT),
    .segment = segment,
    .stream = stream,
};
