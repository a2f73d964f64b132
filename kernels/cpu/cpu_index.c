/* A sparse index: scores of all cached keys, tile by tile (cpu_tile.c), and the exact choice of the
 * largest by counting digits of the scores, taken as ordered integers. */
#include <stdlib.h>
#include <string.h>

#include "cpu_device.h"
#include "index_order.h"

/* A sequence is scored in at most this many pieces, none shorter than the least. */
enum { SCORE_MOST_PIECES = 64, SCORE_LEAST_TOKENS = 512 };

/* What one thread scores with; `tile` and the like as cpu_tile.h wants them. */
struct score_scratch {
    float *queries;
    float *tile;
    float *scales;
    float *products;
    float *head_weights;
};

/* One allocation; NULL without memory. */
static float *allocate_scratch(uint32_t dim, uint32_t heads, struct score_scratch *out) {
    const uint32_t stride = cpu_tile_stride(dim);
    const uint64_t queries = cpu_tile_aligned((uint64_t)heads * stride);
    const uint64_t tile = cpu_tile_aligned((uint64_t)CPU_TILE_TOKENS * stride);
    const uint64_t scales =
        cpu_tile_aligned((uint64_t)CPU_TILE_TOKENS * cpu_tile_stride(stride / 16));
    const uint64_t products = cpu_tile_aligned((uint64_t)heads * CPU_TILE_TOKENS);
    const uint64_t bytes =
        (queries + tile + scales + products + cpu_tile_aligned(heads)) * sizeof(float);
    float *base = aligned_alloc(CPU_TILE_ALIGNMENT, bytes);
    if (base == NULL)
        return NULL;
    memset(base, 0, bytes); /* the padding of rows stays zero */
    out->queries = base;
    out->tile = out->queries + queries;
    out->scales = out->tile + tile;
    out->products = out->scales + scales;
    out->head_weights = out->products + products;
    return base;
}

/* Keys [first, first + count) of one sequence. K's tensor scale is positive, so that it may stand
 * outside the max() and join the weights. */
static void score_piece(const struct backend_device *device, const struct backend_index_score *work,
                        uint32_t seq, uint64_t first, uint64_t count,
                        const struct score_scratch *scratch) {
    const struct backend_cache *cache = &work->cache;
    const uint32_t dim = cache->page.shape.k_dim, stride = cpu_tile_stride(dim);
    for (uint32_t h = 0; h < work->heads; h++) {
        const uint64_t head = (uint64_t)seq * work->heads + h;
        memcpy(scratch->queries + (uint64_t)h * stride, work->dev_queries + head * dim,
               dim * sizeof(float));
        scratch->head_weights[h] = work->dev_weights[head] * cache->k_tensor_scale;
    }
    const struct cpu_tile_job job = {
        .page = &cache->page,
        .pages = cache->dev_pages,
        .table = cache->dev_page_table + (uint64_t)seq * cache->page_table_columns,
        .columns = cache->page_table_columns,
        .first_token = first,
        .token_count = count,
        .heads = work->heads,
        .queries = scratch->queries,
        .tile = scratch->tile,
        .scales = scratch->scales,
        .weights = scratch->products,
    };
    device->tile->index(&job, scratch->head_weights,
                        work->dev_scores + seq * work->score_stride + first);
}

enum status cpu_index_score(struct backend_device *device, const struct backend_index_score *work,
                            struct status_text *text) {
    if (work->cache.page.shape.kv_heads != 1)
        return status_set(text, STATUS_REFUSED, "index scores: keys of one KV head, not of %u",
                          work->cache.page.shape.kv_heads);
    uint64_t piece_tokens =
        (work->longest / SCORE_MOST_PIECES / CPU_TILE_TOKENS + 1) * (uint64_t)CPU_TILE_TOKENS;
    piece_tokens = piece_tokens < SCORE_LEAST_TOKENS ? SCORE_LEAST_TOKENS : piece_tokens;
    const uint64_t pieces = (work->longest + piece_tokens - 1) / piece_tokens;
    const uint64_t turns = pieces * work->cache.seqs;
    bool have_memory = true;
#pragma omp parallel num_threads(device->threads) reduction(&& : have_memory)
    {
        struct score_scratch scratch = {0};
        float *base = allocate_scratch(work->cache.page.shape.k_dim, work->heads, &scratch);
        have_memory = base != NULL;
#pragma omp for schedule(dynamic)
        for (uint64_t turn = 0; turn < turns; turn++) {
            const uint32_t seq = (uint32_t)(turn / pieces);
            const uint64_t first = turn % pieces * piece_tokens, length = work->dev_lengths[seq];
            if (base == NULL || first >= length)
                continue;
            score_piece(device, work, seq, first,
                        length - first < piece_tokens ? length - first : piece_tokens, &scratch);
        }
        free(base);
    }
    return have_memory ? STATUS_OK
                       : status_set(text, STATUS_OUT_OF_MEMORY,
                                    "no host memory for a thread's tiles of keys");
}

/* Keys are looked at by digits, the highest first: 11, 11 and 10 bits. */
enum { KEY_BITS = 32, DIGIT_BITS = 11, DIGIT_VALUES = 1 << DIGIT_BITS };

/* Pieces that a long sequence is chosen from side by side are no shorter than this. */
enum { SELECT_LEAST_PLACES = 16384 };

/* What is known of one piece of a sequence. */
struct select_piece {
    uint64_t first, end; /* places */
    uint32_t counts[DIGIT_VALUES];
    uint64_t above, equal; /* keys above the least chosen one, and as large */
};

/* Which digit: `bits` of a key from `shift` on, of those keys whose higher bits are `prefix`. */
struct digit {
    uint32_t prefix;
    uint32_t shift, bits;
};

static void count_digits(struct select_piece *piece, const float *scores, struct digit digit) {
    const uint32_t above = digit.shift + digit.bits, mask = ((uint32_t)1 << digit.bits) - 1;
    memset(piece->counts, 0, sizeof piece->counts);
    for (uint64_t i = piece->first; i < piece->end; i++) {
        const uint32_t key = index_order_key(scores[i]);
        if ((uint64_t)key >> above == digit.prefix)
            piece->counts[key >> digit.shift & mask]++;
    }
}

static void count_around(struct select_piece *piece, const float *scores, uint32_t least) {
    piece->above = piece->equal = 0;
    for (uint64_t i = piece->first; i < piece->end; i++) {
        const uint32_t key = index_order_key(scores[i]);
        piece->above += key > least;
        piece->equal += key == least;
    }
}

/* The places of a piece that are chosen, lower ones first among `equal_wanted` equal ones. */
static void write_chosen(const struct select_piece *piece, const float *scores, uint32_t least,
                         uint64_t equal_wanted, int32_t *out) {
    for (uint64_t i = piece->first; i < piece->end; i++) {
        const uint32_t key = index_order_key(scores[i]);
        if (key < least || (key == least && equal_wanted == 0))
            continue;
        equal_wanted -= key == least;
        *out++ = (int32_t)i;
    }
}

/* The key of the `wanted`-th largest score, digit by digit; wanted is from 1 to all. */
static uint32_t find_least(struct select_piece *pieces, uint32_t piece_count, const float *scores,
                           uint64_t wanted) {
    struct digit digit = {.shift = KEY_BITS};
    while (digit.shift > 0) {
        digit.bits = digit.shift < DIGIT_BITS ? digit.shift : DIGIT_BITS;
        digit.shift -= digit.bits;
#pragma omp parallel for num_threads(piece_count) if (piece_count > 1)
        for (uint32_t p = 0; p < piece_count; p++)
            count_digits(&pieces[p], scores, digit);
        uint32_t value = (uint32_t)1 << digit.bits;
        for (;;) { /* ends: the keys with this prefix are no fewer than are wanted of them */
            uint64_t here = 0;
            value--;
            for (uint32_t p = 0; p < piece_count; p++)
                here += pieces[p].counts[value];
            if (here >= wanted)
                break;
            wanted -= here;
        }
        digit.prefix = digit.prefix << digit.bits | value;
    }
    return digit.prefix;
}

static void select_sequence(const struct backend_index_select *work, uint32_t seq,
                            struct select_piece *pieces, uint32_t most_pieces) {
    const float *scores = work->dev_scores + seq * work->score_stride;
    const uint64_t length = work->dev_lengths[seq];
    const uint64_t wanted = length < work->top_k ? length : work->top_k;
    int32_t *out = work->dev_selected + (uint64_t)seq * work->top_k;
    for (uint64_t i = wanted; i < work->top_k; i++)
        out[i] = -1;
    if (wanted == 0)
        return;
    const uint64_t whole = length / SELECT_LEAST_PLACES;
    const uint32_t count = whole < 1 ? 1 : whole < most_pieces ? (uint32_t)whole : most_pieces;
    for (uint32_t p = 0; p < count; p++) {
        pieces[p].first = length / count * p;
        pieces[p].end = p + 1 < count ? length / count * (p + 1) : length;
    }
    const uint32_t least = find_least(pieces, count, scores, wanted);
#pragma omp parallel for num_threads(count) if (count > 1)
    for (uint32_t p = 0; p < count; p++)
        count_around(&pieces[p], scores, least);
    uint64_t above = 0;
    for (uint32_t p = 0; p < count; p++)
        above += pieces[p].above;
    const uint64_t equal_wanted = wanted - above;
#pragma omp parallel for num_threads(count) if (count > 1)
    for (uint32_t p = 0; p < count; p++) {
        uint64_t at = 0, equal = 0;
        for (uint32_t before = 0; before < p; before++) {
            at += pieces[before].above;
            equal += pieces[before].equal;
        }
        equal = equal < equal_wanted ? equal : equal_wanted;
        write_chosen(&pieces[p], scores, least, equal_wanted - equal, out + at + equal);
    }
}

enum status cpu_index_select(struct backend_device *device, const struct backend_index_select *work,
                             struct status_text *text) {
    if (work->longest > INT32_MAX)
        return status_set(text, STATUS_REFUSED, "index: at most %d scores of a sequence",
                          INT32_MAX);
    /* Many sequences: a thread each. Few: all threads on one after the other. */
    const bool by_sequence = work->seqs >= device->threads;
    struct select_piece *pieces = malloc(device->threads * sizeof *pieces);
    if (pieces == NULL)
        return status_set(text, STATUS_OUT_OF_MEMORY, "no host memory to choose keys in");
    if (by_sequence) {
#pragma omp parallel num_threads(device->threads)
        {
            struct select_piece own;
#pragma omp for schedule(dynamic)
            for (uint32_t seq = 0; seq < work->seqs; seq++)
                select_sequence(work, seq, &own, 1);
        }
    } else {
        for (uint32_t seq = 0; seq < work->seqs; seq++)
            select_sequence(work, seq, pieces, device->threads);
    }
    free(pieces);
    return STATUS_OK;
}
