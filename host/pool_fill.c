/* Fills a pool through the backend's append, chunk by chunk, and describes the append of a step. */
#include "pool.h"

#include <string.h>

#include "backend_check.h"
#include "pool_state.h"

enum { POOL_CHUNK_ROWS = 512 };

/* Bank row that row 0 of a sequence takes in layer 0. Sequences that share pages hold the same
 * data, so they start at the same row; the first row of sink data is its sink. */
static uint64_t seq_first_row(const struct pool *pool, uint32_t seq) {
    return pool->share_prefix_tokens > 0 || pool->one_start ? 0 : (uint64_t)seq * 37;
}

static uint64_t layer_row_offset(const struct pool *pool, uint32_t layer) {
    return pool->one_start ? 0 : (uint64_t)layer * 101;
}

uint64_t pool_first_row(const struct pool *pool, uint32_t group, uint32_t layer, uint32_t seq) {
    return (layer_row_offset(pool, layer) + seq_first_row(pool, seq)) %
           pool->groups[group].bank.rows;
}

static void append_work(const struct pool *pool, uint32_t g, uint32_t layer,
                        struct backend_append *out) {
    const uint64_t *dev_arguments = pool->groups[g].arguments.dev_address;
    *out = (struct backend_append){.dev_k_rows = pool->groups[g].dev_k_rows,
                                   .dev_v_rows = pool->groups[g].dev_v_rows,
                                   .row_count = pool->groups[g].bank.rows,
                                   .row_offset = layer_row_offset(pool, layer),
                                   .dev_first_tokens = dev_arguments,
                                   .dev_token_counts = dev_arguments + pool->seqs,
                                   .dev_first_rows = dev_arguments + 2 * (uint64_t)pool->seqs};
    pool_cache(pool, g, layer, &out->cache);
}

static enum status send_arguments(struct pool *pool, uint32_t g, struct status_text *text) {
    return pool->ops->memory_write(pool->device, pool->groups[g].arguments.dev_address,
                                   pool->host_arguments,
                                   3 * (uint64_t)pool->seqs * sizeof *pool->host_arguments, text);
}

/* Takes pages for the next chunk of sequences [from_seq, end_seq); *rows is what was taken over
 * all of them. Sets first rows and counts: what a window has already dropped is not written. */
static enum status advance(struct pool *pool, uint32_t g, uint32_t from_seq, uint32_t end_seq,
                           uint64_t *rows, struct status_text *text) {
    struct pool_pages *pages = &pool->groups[g].pages;
    *rows = 0;
    memset(pool->host_arguments, 0, 3 * (uint64_t)pool->seqs * sizeof *pool->host_arguments);
    for (uint32_t s = from_seq; s < end_seq; s++) {
        uint64_t from = pages->lengths[s];
        uint64_t count = pool->groups[g].rows[s] - from;
        count = count > POOL_CHUNK_ROWS ? POOL_CHUNK_ROWS : count;
        const enum status status = pool_pages_append(pages, s, count, text);
        if (status != STATUS_OK)
            return status;
        *rows += count;
        if (pages->window_tokens > 0 && count > pages->window_tokens) {
            from += count - pages->window_tokens;
            count = pages->window_tokens;
        }
        pool->host_arguments[s] = from;
        pool->host_arguments[pool->seqs + s] = count;
    }
    return STATUS_OK;
}

/* Appends what host_arguments say in every layer: row t comes from bank row first_row + t. */
static enum status append_layers(struct pool *pool, uint32_t g, struct status_text *text) {
    for (uint32_t s = 0; s < pool->seqs; s++)
        pool->host_arguments[2 * (uint64_t)pool->seqs + s] =
            seq_first_row(pool, s) + pool->host_arguments[s];
    enum status status = send_arguments(pool, g, text);
    struct backend_append work;
    append_work(pool, g, 0, &work);
    if (status == STATUS_OK)
        status = backend_check_append(pool->ops, pool->device, &work, text);
    for (uint32_t layer = 0; layer < pool->model->groups[g].layers && status == STATUS_OK;
         layer++) {
        append_work(pool, g, layer, &work);
        status = pool->ops->append(pool->device, &work, &pool->replaced, text);
    }
    return status;
}

/* Grows sequences [from_seq, end_seq) to their lengths, chunk by chunk. */
static enum status grow(struct pool *pool, uint32_t g, uint32_t from_seq, uint32_t end_seq,
                        bool (*should_stop)(void), struct status_text *text) {
    for (;;) {
        if (should_stop != NULL && should_stop())
            return status_set(text, STATUS_INTERRUPTED, "interrupted while filling");
        uint64_t rows;
        enum status status = advance(pool, g, from_seq, end_seq, &rows, text);
        if (status != STATUS_OK || rows == 0)
            return status;
        status = pool_state_send_table(pool, g, text);
        if (status == STATUS_OK)
            status = append_layers(pool, g, text);
        if (status != STATUS_OK)
            return status;
    }
}

static enum status fill_group(struct pool *pool, uint32_t g, bool (*should_stop)(void),
                              struct status_text *text) {
    struct pool_pages *pages = &pool->groups[g].pages;
    /* What others point to is there first. */
    if (pool->share_prefix_tokens > 0 && pages->window_tokens == 0) {
        const uint32_t owner = pool_layout_owner(pool->lengths, pool->seqs);
        const enum status status = grow(pool, g, owner, owner + 1, should_stop, text);
        if (status != STATUS_OK)
            return status;
        for (uint32_t s = 0; s < pool->seqs; s++) {
            const uint64_t shared = pool->share_prefix_tokens < pool->lengths[s]
                                        ? pool->share_prefix_tokens
                                        : pool->lengths[s];
            (void)pool_pages_share(pages, owner, s,
                                   pool_layout_rows(&pool->layout.groups[g], shared));
        }
    }
    enum status status = grow(pool, g, 0, pool->seqs, should_stop, text);
    /* Also where nothing was left to write: shared pages are in it now. */
    if (status == STATUS_OK)
        status = pool_state_send_table(pool, g, text);
    return status;
}

/* The arguments of a step: the last row of every sequence, once more. */
static enum status prepare_step(struct pool *pool, uint32_t g, struct status_text *text) {
    const uint64_t *rows = pool->groups[g].rows;
    for (uint32_t s = 0; s < pool->seqs; s++) {
        const bool any = rows[s] > 0;
        pool->host_arguments[s] = any ? rows[s] - 1 : 0;
        pool->host_arguments[pool->seqs + s] = any;
        pool->host_arguments[2 * (uint64_t)pool->seqs + s] =
            seq_first_row(pool, s) + pool->host_arguments[s];
    }
    return send_arguments(pool, g, text);
}

enum status pool_fill(struct pool *pool, bool (*should_stop)(void), struct status_text *text) {
    enum status status = STATUS_OK;
    for (uint32_t g = 0; g < pool->layout.group_count && status == STATUS_OK; g++) {
        if (!pool->layout.groups[g].has_rows)
            continue;
        status = fill_group(pool, g, should_stop, text);
        if (status == STATUS_OK)
            status = prepare_step(pool, g, text);
    }
    if (status == STATUS_OK)
        status = pool->ops->synchronize(pool->device, text);
    return status;
}

void pool_step_append(const struct pool *pool, uint32_t group, uint32_t layer,
                      struct backend_append *out) {
    append_work(pool, group, layer, out);
}
