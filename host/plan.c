/* Cuts rows of token tiles into equal ranges, one per worker. */
#include "plan.h"

#include <stdlib.h>

#include "checked.h"

/* The tokens a row must read: behind the window's edge, counted from there in tiles. */
static void row_range(uint64_t length, uint64_t window_tokens, uint64_t *first, uint64_t *count) {
    *first = window_tokens > 0 && length > window_tokens ? length - window_tokens : 0;
    *count = length - *first;
}

static uint64_t row_tiles(uint64_t length, uint64_t window_tokens, uint32_t tile_tokens) {
    uint64_t first, count;
    row_range(length, window_tokens, &first, &count);
    return checked_divide_up(count, tile_tokens);
}

static enum status allocate(struct plan *plan, uint64_t rows, uint32_t workers,
                            struct status_text *text) {
    const uint64_t most = rows + workers;
    plan->segments = malloc(most * sizeof *plan->segments);
    plan->row_first = malloc((rows + 1) * sizeof *plan->row_first);
    plan->worker_first = malloc(((uint64_t)workers + 1) * sizeof *plan->worker_first);
    if (plan->segments != NULL && plan->row_first != NULL && plan->worker_first != NULL)
        return STATUS_OK;
    return status_set(text, STATUS_OUT_OF_MEMORY, "no host memory to plan %llu rows for %u workers",
                      (unsigned long long)rows, workers);
}

/* Walks all rows once. Worker w starts at tile w * tiles / workers of the whole; a segment ends
 * where its row or its worker's range does. */
static void cut(const uint64_t *lengths, uint32_t kv_heads, uint64_t window_tokens,
                uint32_t tile_tokens, uint64_t tiles, struct plan *plan) {
    const uint64_t workers = plan->worker_count;
    uint64_t tile = 0, worker = 0;
    plan->worker_first[0] = 0;
    for (uint32_t row = 0; row < plan->row_count; row++) {
        uint64_t first, count;
        row_range(lengths[row / kv_heads], window_tokens, &first, &count);
        const uint64_t end = tile + checked_divide_up(count, tile_tokens);
        uint64_t at = 0; /* tokens of this row already given */
        plan->row_first[row] = plan->segment_count;
        do {
            /* 128-bit-safe split of tiles * (worker + 1) / workers. */
            uint64_t limit =
                tiles / workers * (worker + 1) + tiles % workers * (worker + 1) / workers;
            while (tile >= limit && worker + 1 < workers) {
                plan->worker_first[++worker] = plan->segment_count;
                limit = tiles / workers * (worker + 1) + tiles % workers * (worker + 1) / workers;
            }
            const uint64_t stop = end < limit ? end : limit;
            uint64_t tokens = (stop - tile) * tile_tokens;
            if (stop == end)
                tokens = count - at;
            plan->segments[plan->segment_count++] =
                (struct backend_segment){.seq = row / kv_heads,
                                         .kv_head = row % kv_heads,
                                         .first_token = first + at,
                                         .token_count = tokens};
            at += tokens;
            tile = stop;
        } while (tile < end);
    }
    plan->row_first[plan->row_count] = plan->segment_count;
    while (worker < workers)
        plan->worker_first[++worker] = plan->segment_count;
}

enum status plan_create(const uint64_t *lengths, uint32_t seqs, uint32_t kv_heads,
                        uint64_t window_tokens, uint32_t tile_tokens, uint32_t workers,
                        struct plan *out, struct status_text *text) {
    *out = (struct plan){0};
    const uint64_t rows = (uint64_t)seqs * kv_heads;
    if (seqs == 0 || kv_heads == 0 || tile_tokens == 0 || workers == 0)
        return status_set(text, STATUS_BAD_INPUT,
                          "a plan needs sequences, KV heads, tile tokens and workers above zero");
    if (rows + workers >= UINT32_MAX)
        return status_set(text, STATUS_REFUSED,
                          "%u sequences x %u KV heads are more rows than a plan can hold", seqs,
                          kv_heads);
    uint64_t tiles = 0;
    for (uint32_t s = 0; s < seqs; s++) {
        uint64_t of_seq;
        if (!checked_multiply(row_tiles(lengths[s], window_tokens, tile_tokens), kv_heads,
                              &of_seq) ||
            !checked_add(tiles, of_seq, &tiles))
            return status_set(text, STATUS_OVERFLOW, "the tokens to attend do not fit 64 bits");
    }
    const enum status status = allocate(out, rows, workers, text);
    if (status != STATUS_OK) {
        plan_destroy(out);
        return status;
    }
    out->row_count = (uint32_t)rows;
    out->worker_count = workers;
    cut(lengths, kv_heads, window_tokens, tile_tokens, tiles, out);
    return STATUS_OK;
}

void plan_destroy(struct plan *plan) {
    free(plan->segments);
    free(plan->row_first);
    free(plan->worker_first);
    *plan = (struct plan){0};
}
