/* Attention over one segment, tile by tile: score the K rows for all query heads, update the online
 * softmax, add up the V rows; index scores end after the first of these. The inner loops read
 * stored rows in place, decoding in registers; where more heads read a row than fit one pass, the
 * tile is decoded to fp32 once instead. Compiled once per instruction set under its own
 * CPU_TILE_VARIANT. */
#include "cpu_tile.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "cpu_blocks.h"

#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)
#define STRING_(a) #a
#define STRING(a) STRING_(a)

/* A run of tokens that lie in one page. */
struct place {
    const uint8_t *page;
    uint32_t slot;
    uint32_t tokens;
};

/* The tokens of one tile, page by page. */
struct tile {
    uint32_t tokens; /* 0: the segment is at its end */
    uint32_t place_count;
    struct place places[CPU_TILE_TOKENS];
};

/* Where the next tile starts. Kept up by counting: divisions cost as much as the work on a token.
 */
struct cursor {
    uint64_t left_tokens;
    uint32_t column;
    uint32_t slot;
};

static struct cursor start_cursor(const struct cpu_tile_job *job) {
    const uint32_t page_tokens = job->page->shape.page_tokens;
    return (struct cursor){
        .left_tokens = job->token_count,
        .column = (uint32_t)(job->first_token / page_tokens % job->columns),
        .slot = (uint32_t)(job->first_token % page_tokens),
    };
}

/* Selected tokens lie anywhere: each is a place of its own. */
static void next_selected(const struct cpu_tile_job *job, struct cursor *cursor,
                          struct tile *tile) {
    const uint32_t page_tokens = job->page->shape.page_tokens;
    const int32_t *selected = job->selected + (job->token_count - cursor->left_tokens);
    for (uint32_t i = 0; i < tile->tokens; i++) {
        const uint32_t token = (uint32_t)selected[i], page = token / page_tokens;
        tile->places[i] = (struct place){
            .page =
                job->pages + (uint64_t)job->table[page % job->columns] * job->page->stride_bytes,
            .slot = token - page * page_tokens,
            .tokens = 1,
        };
    }
    tile->place_count = tile->tokens;
    cursor->left_tokens -= tile->tokens;
}

static void next_tile(const struct cpu_tile_job *job, struct cursor *cursor, struct tile *tile) {
    const uint32_t page_tokens = job->page->shape.page_tokens;
    const uint64_t left = cursor->left_tokens;
    tile->tokens = left < CPU_TILE_TOKENS ? (uint32_t)left : CPU_TILE_TOKENS;
    tile->place_count = 0;
    if (job->selected != NULL) {
        next_selected(job, cursor, tile);
        return;
    }
    for (uint32_t taken = 0; taken < tile->tokens;) {
        struct place *place = &tile->places[tile->place_count++];
        const uint32_t here = page_tokens - cursor->slot, wanted = tile->tokens - taken;
        place->page = job->pages + (uint64_t)job->table[cursor->column] * job->page->stride_bytes;
        place->slot = cursor->slot;
        place->tokens = here < wanted ? here : wanted;
        taken += place->tokens;
        cursor->slot += place->tokens;
        if (cursor->slot == page_tokens) {
            cursor->slot = 0;
            cursor->column = cursor->column + 1 < job->columns ? cursor->column + 1 : 0;
        }
    }
    cursor->left_tokens -= tile->tokens;
}

/* The first row of a place, of one plane. */
struct run {
    const uint8_t *payload;
    const uint8_t *scales;
};

static struct run locate_run(const struct cpu_tile_job *job, const struct page_plane *plane,
                             const struct place *place) {
    const struct page_place at =
        page_locate(plane, job->page->shape.page_tokens, job->kv_head, place->slot);
    return (struct run){place->page + at.payload_bytes, place->page + at.scale_bytes};
}

/* One side of the cache, as a segment reads it. */
struct side {
    const struct page_plane *plane;
    enum format_id format;
    uint32_t dim;
    uint32_t stride; /* of decoded rows */
    uint32_t groups; /* scales of a row */
    bool in_place;
    const struct cpu_codec *codec; /* without functions where rows go through format_decode_row */
    const struct cpu_codec *loops; /* those of fp32 rows when not read in place */
};

static struct side plan_side(const struct cpu_tile_job *job, bool is_k) {
    const struct page_shape *shape = &job->page->shape;
    struct side side;
    side.plane = is_k ? &job->page->k : &job->page->v;
    side.format = is_k ? shape->k_format : shape->v_format;
    side.dim = is_k ? shape->k_dim : shape->v_dim;
    side.stride = cpu_tile_stride(side.dim);
    const uint32_t group_values = format_get(side.format)->group_values;
    side.groups = group_values > 1 ? side.dim / group_values : 0;
    side.codec = cpu_codec_of(side.format);
    side.in_place = side.dim % CPU_LANES == 0 && job->heads <= CPU_TILE_IN_PLACE_HEADS &&
                    side.codec->score != NULL;
    side.loops = side.in_place ? side.codec : cpu_codec_of(CPU_FP32);
    return side;
}

/* One stored row to fp32, padded with zeros. `scratch` has room for the row's scales. */
static void decode_row(const struct side *side, const uint8_t *payload, const uint8_t *scales,
                       float *scratch, float *out) {
    const struct cpu_codec *codec = side->codec;
    if (codec->decode != NULL && side->dim % CPU_LANES == 0) {
        codec->widen(payload, scales, side->groups, scratch);
        codec->decode(payload, scratch, side->dim, out);
    } else {
        format_decode_row(side->format, payload, scales, side->dim, 1, out);
    }
    for (uint32_t i = side->dim; i < side->stride; i++)
        out[i] = 0;
}

static void prefetch_bytes(const uint8_t *from, uint64_t bytes) {
    for (uint64_t i = 0; i < bytes; i += 64)
        CPU_PREFETCH(from + i);
}

/* Has the rows of the next tile asked for while this one is worked on: pages lie anywhere, so the
 * hardware's own prefetching sees no pattern across them. Loops that read in place ask row by row,
 * because many requests at once wait for each other and hold up the loads behind them. */
static void take_next(const struct cpu_tile_job *job, const struct side *side,
                      const struct tile *next, struct cpu_rows *rows) {
    const struct page_plane *plane = side->plane;
    uint32_t t = 0;
    for (uint32_t p = 0; p < next->place_count; p++) {
        const uint32_t tokens = next->places[p].tokens;
        const struct run run = locate_run(job, plane, &next->places[p]);
        prefetch_bytes(run.scales, (uint64_t)tokens * plane->row_scale_bytes);
        if (!side->in_place)
            prefetch_bytes(run.payload, (uint64_t)tokens * plane->row_payload_bytes);
        for (uint32_t i = 0; i < tokens; i++)
            rows->next[t++] = run.payload + (size_t)i * plane->row_payload_bytes;
    }
    for (; t < CPU_TILE_TOKENS; t++)
        rows->next[t] = rows->payload[0];
}

/* Makes a tile readable as rows. Rows past its tokens, up to a multiple of four, repeat the first:
 * what comes of them is thrown away. */
static void take_rows(const struct cpu_tile_job *job, const struct side *side,
                      const struct tile *tile, const struct tile *next, struct cpu_rows *rows) {
    const struct page_plane *plane = side->plane;
    float *scales = job->scales;
    uint32_t t = 0;
    for (uint32_t p = 0; p < tile->place_count; p++) {
        const uint32_t tokens = tile->places[p].tokens;
        const struct run run = locate_run(job, plane, &tile->places[p]);
        if (side->in_place)
            side->loops->widen(run.payload, run.scales, tokens * side->groups, scales);
        for (uint32_t i = 0; i < tokens; i++, t++) {
            const uint8_t *payload = run.payload + (size_t)i * plane->row_payload_bytes;
            rows->payload[t] = payload;
            rows->scales[t] = scales + (size_t)i * side->groups;
            if (!side->in_place) {
                float *out = job->tile + (size_t)t * side->stride;
                decode_row(side, payload, run.scales + (size_t)i * plane->row_scale_bytes,
                           job->scales, out);
                rows->payload[t] = (const uint8_t *)out;
            }
        }
        if (side->in_place)
            scales += cpu_tile_stride(tokens * side->groups);
    }
    for (; t % 4 != 0; t++) {
        rows->payload[t] = rows->payload[0];
        rows->scales[t] = rows->scales[0];
    }
    take_next(job, side, next, rows);
}

static void scale_row(float *row, uint32_t values, float by) {
    for (uint32_t i = 0; i < values; i += CPU_LANES)
        vf_store(row + i, vf_load(row + i) * by);
}

/* A larger score has turned up: sums and outputs so far are brought down to it. */
static void raise_largest(const struct cpu_tile_job *job, uint32_t h, vf scores,
                          uint32_t v_stride) {
    float largest = job->largest[h];
    for (uint32_t i = 0; i < CPU_LANES; i++)
        largest = scores[i] > largest ? scores[i] : largest;
    const float shrink = exp2f(job->largest[h] - largest);
    scale_row(job->lane_sums + (size_t)h * CPU_LANES, CPU_LANES, shrink);
    scale_row(job->outputs + (size_t)h * v_stride, v_stride, shrink);
    job->largest[h] = largest;
}

/* Scores to weights 2^(score - largest so far). */
static void soften_tile(const struct cpu_tile_job *job, uint32_t count, uint32_t v_stride) {
    for (uint32_t h = 0; h < job->heads; h++) {
        float *row = job->weights + (size_t)h * CPU_TILE_TOKENS;
        for (uint32_t t = count; t < CPU_TILE_TOKENS; t++)
            row[t] = -INFINITY;
        vf most = vf_load(row);
        for (uint32_t t = CPU_LANES; t < CPU_TILE_TOKENS; t += CPU_LANES)
            most = vf_max(most, vf_load(row + t));
        if (vf_any_above(most, job->largest[h]))
            raise_largest(job, h, most, v_stride);
        vf sum = vf_load(job->lane_sums + (size_t)h * CPU_LANES);
        for (uint32_t t = 0; t < CPU_TILE_TOKENS; t += CPU_LANES) {
            const vf weights = vf_exp2(vf_load(row + t) - job->largest[h]);
            vf_store(row + t, weights);
            sum += weights;
        }
        vf_store(job->lane_sums + (size_t)h * CPU_LANES, sum);
    }
}

static void segment(const struct cpu_tile_job *job) {
    const struct page_shape *shape = &job->page->shape;
    const struct side k = plan_side(job, true), v = plan_side(job, false);
    memset(job->lane_sums, 0, (size_t)job->heads * CPU_LANES * sizeof(float));
    memset(job->outputs, 0, (size_t)job->heads * v.stride * sizeof(float));
    for (uint32_t h = 0; h < job->heads; h++)
        job->largest[h] = -INFINITY;
    struct cursor cursor = start_cursor(job);
    struct tile tiles[2];
    next_tile(job, &cursor, &tiles[0]);
    for (uint32_t turn = 0; tiles[turn].tokens > 0; turn ^= 1) {
        const struct tile *tile = &tiles[turn], *next = &tiles[turn ^ 1];
        struct cpu_rows rows;
        next_tile(job, &cursor, &tiles[turn ^ 1]);
        take_rows(job, &k, tile, next, &rows);
        k.loops->score(&rows, (tile->tokens + 3) / 4 * 4, k.in_place ? k.dim : k.stride, job->heads,
                       job->queries, k.stride, job->weights);
        soften_tile(job, tile->tokens, v.stride);
        if (!shape->v_in_k) {
            take_rows(job, &v, tile, next, &rows);
        }
        const struct side *from = shape->v_in_k ? &k : &v;
        from->loops->gather(&rows, tile->tokens, from->in_place ? v.dim : v.stride, job->heads,
                            job->weights, job->outputs, v.stride);
    }
    for (uint32_t h = 0; h < job->heads; h++)
        job->sums[h] = vf_sum(vf_load(job->lane_sums + (size_t)h * CPU_LANES));
}

/* scores[t] = sum over heads of weight * max(0, product), of one tile. */
static void add_heads(const struct cpu_tile_job *job, const float *head_weights, uint32_t count,
                      float *scores) {
    alignas(CPU_TILE_ALIGNMENT) float sums[CPU_TILE_TOKENS];
    for (uint32_t t = 0; t < CPU_TILE_TOKENS; t += CPU_LANES) {
        vf sum = vf_all(0);
        for (uint32_t h = 0; h < job->heads; h++) {
            const vf product = vf_load(job->weights + (size_t)h * CPU_TILE_TOKENS + t);
            const vi negative = product < 0.0f;
            sum += (vf)((vi)product & ~negative) * head_weights[h];
        }
        vf_store(sums + t, sum);
    }
    memcpy(scores, sums, count * sizeof *scores);
}

static void index_scores(const struct cpu_tile_job *job, const float *head_weights, float *scores) {
    const struct side k = plan_side(job, true);
    struct cursor cursor = start_cursor(job);
    struct tile tiles[2];
    next_tile(job, &cursor, &tiles[0]);
    for (uint32_t turn = 0; tiles[turn].tokens > 0; turn ^= 1) {
        const struct tile *tile = &tiles[turn];
        struct cpu_rows rows;
        next_tile(job, &cursor, &tiles[turn ^ 1]);
        take_rows(job, &k, tile, &tiles[turn ^ 1], &rows);
        k.loops->score(&rows, (tile->tokens + 3) / 4 * 4, k.in_place ? k.dim : k.stride, job->heads,
                       job->queries, k.stride, job->weights);
        add_heads(job, head_weights, tile->tokens, scores);
        scores += tile->tokens;
    }
}

static uint64_t stream(const uint8_t *from, uint64_t bytes) {
    typedef uint64_t wide __attribute__((vector_size(CPU_LANES * 4)));
    typedef uint64_t wide_unaligned
        __attribute__((vector_size(CPU_LANES * 4), aligned(1), may_alias));
    /* Four quarters side by side keep more of the hardware's prefetching busy than one stream with
     * prefetches of its own: 59 against 51 GB/s on two cores of Zen 4, November 2026. */
    enum { STREAMS = 4, STEP = 128, LOADS = STEP / sizeof(wide), WAYS = 8 };
    const uint64_t part = bytes / STREAMS / STEP * STEP;
    wide sums[WAYS] = {0};
    for (uint64_t i = 0; i < part; i += STEP)
        for (uint32_t load = 0; load < STREAMS * LOADS; load++)
            sums[load % WAYS] ^= (wide) * (const wide_unaligned *)(from + load / LOADS * part + i +
                                                                   load % LOADS * sizeof(wide));
    uint64_t all = 0;
    for (uint64_t i = STREAMS * part; i < bytes; i++)
        all ^= from[i];
    for (int way = 0; way < WAYS; way++)
        for (size_t lane = 0; lane < sizeof(wide) / 8; lane++)
            all ^= sums[way][lane];
    return all;
}

void PASTE(cpu_state_rows_, CPU_TILE_VARIANT)(const struct cpu_state_rows *job);

extern const struct cpu_tile_ops PASTE(cpu_tile_, CPU_TILE_VARIANT);
const struct cpu_tile_ops PASTE(cpu_tile_, CPU_TILE_VARIANT) = {
    .name = STRING(CPU_TILE_VARIANT),
    .segment = segment,
    .index = index_scores,
    .stream = stream,
    .state_rows = PASTE(cpu_state_rows_, CPU_TILE_VARIANT),
};
