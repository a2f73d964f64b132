/* Looks at the work as the device holds it, in pieces: a table may be large, and no piece of it
 * is read twice in a row. */
#include "backend_check.h"

#include <stdlib.h>

/* The most and the least that is read at once. */
enum { CHECK_MOST_BYTES = 1 << 20, CHECK_LEAST_BYTES = 1 << 12 };

/* An array on the device, of which one piece is at hand. */
struct array {
    const struct backend_ops *ops;
    struct backend_device *device;
    const uint8_t *dev_from;
    uint64_t count;
    uint64_t item_bytes;
    const uint8_t *piece; /* items [first, first + held) */
    uint64_t first, held;
    uint8_t *buffer; /* NULL where the host reads device memory in place */
};

static enum status array_open(const struct backend_ops *ops, struct backend_device *device,
                              const void *dev_from, uint64_t count, uint64_t item_bytes,
                              struct array *out, struct status_text *text) {
    *out = (struct array){.ops = ops,
                          .device = device,
                          .dev_from = dev_from,
                          .count = count,
                          .item_bytes = item_bytes};
    if (ops->memory_host != NULL)
        out->piece = ops->memory_host(device, dev_from);
    if (out->piece != NULL) {
        out->held = count;
        return STATUS_OK;
    }
    out->buffer = malloc(CHECK_MOST_BYTES);
    return out->buffer != NULL ? STATUS_OK
                               : status_set(text, STATUS_OUT_OF_MEMORY,
                                            "no host memory to look at what the device is given");
}

static void array_close(struct array *array) {
    free(array->buffer);
}

/* Item `index`, at hand until the next call; `wanted` items from it on will be asked for. */
static enum status array_at(struct array *array, uint64_t index, uint64_t wanted, const void **out,
                            struct status_text *text) {
    if (index < array->first || index - array->first >= array->held) {
        const uint64_t most = CHECK_MOST_BYTES / array->item_bytes;
        const uint64_t least = CHECK_LEAST_BYTES / array->item_bytes;
        uint64_t count = wanted < least ? least : wanted;
        count = count < most ? count : most;
        count = count < array->count - index ? count : array->count - index;
        const enum status status = array->ops->memory_read(
            array->device, array->buffer, array->dev_from + index * array->item_bytes,
            count * array->item_bytes, text);
        if (status != STATUS_OK)
            return status;
        array->piece = array->buffer;
        array->first = index;
        array->held = count;
    }
    *out = array->piece + (index - array->first) * array->item_bytes;
    return STATUS_OK;
}

/* Tokens [first, first + count) of a sequence, count above 0, must not share columns of the table.
 */
static enum status check_columns(const char *who, const struct backend_cache *cache, uint32_t seq,
                                 uint64_t first, uint64_t count, struct status_text *text) {
    const uint32_t page_tokens = cache->page.shape.page_tokens;
    const uint64_t last = first + count - 1;
    const uint64_t pages = last / page_tokens - first / page_tokens + 1;
    if (pages <= cache->page_table_columns)
        return STATUS_OK;
    return status_set(
        text, STATUS_BAD_INPUT,
        "%s: tokens %llu to %llu of sequence %u lie in %llu pages, and its page table "
        "has %u columns",
        who, (unsigned long long)first, (unsigned long long)last, seq, (unsigned long long)pages,
        cache->page_table_columns);
}

/* Each of their pages must be one of the layer's. */
static enum status check_entries(const char *who, const struct backend_cache *cache,
                                 struct array *table, uint32_t seq, uint64_t first, uint64_t count,
                                 struct status_text *text) {
    const uint32_t page_tokens = cache->page.shape.page_tokens;
    const uint32_t columns = cache->page_table_columns;
    const uint64_t last_page = (first + count - 1) / page_tokens;
    for (uint64_t page = first / page_tokens; page <= last_page; page++) {
        const uint32_t column = (uint32_t)(page % columns);
        const uint64_t to_end = last_page - page + 1, to_wrap = columns - column;
        const void *entry;
        const enum status status = array_at(table, (uint64_t)seq * columns + column,
                                            to_end < to_wrap ? to_end : to_wrap, &entry, text);
        if (status != STATUS_OK)
            return status;
        const int32_t id = *(const int32_t *)entry;
        if (id < 0 || (uint32_t)id >= cache->page_count)
            return status_set(text, STATUS_BAD_INPUT,
                              "%s: sequence %u, page table column %u holds %d where token %llu "
                              "belongs; the layer has %u pages",
                              who, seq, column, id, (unsigned long long)(page * page_tokens),
                              cache->page_count);
    }
    return STATUS_OK;
}

static enum status open_table(const struct backend_ops *ops, struct backend_device *device,
                              const struct backend_cache *cache, struct array *out,
                              struct status_text *text) {
    return array_open(ops, device, cache->dev_page_table,
                      (uint64_t)cache->seqs * cache->page_table_columns, sizeof(int32_t), out,
                      text);
}

/* Tokens [0, length) of every sequence; array `lengths`. A token's number is an int32_t in a list
 * of selected ones. */
static enum status check_lengths(const char *who, const struct backend_cache *cache,
                                 struct array *lengths, struct array *table,
                                 struct status_text *text) {
    for (uint32_t s = 0; s < cache->seqs; s++) {
        const void *item;
        enum status status = array_at(lengths, s, cache->seqs - s, &item, text);
        if (status != STATUS_OK)
            return status;
        const uint64_t length = *(const uint64_t *)item;
        if (length == 0)
            continue;
        if (length > INT32_MAX)
            return status_set(text, STATUS_REFUSED,
                              "%s: sequence %u of %llu tokens; at most %d can be selected from",
                              who, s, (unsigned long long)length, INT32_MAX);
        status = check_columns(who, cache, s, 0, length, text);
        if (status == STATUS_OK)
            status = check_entries(who, cache, table, s, 0, length, text);
        if (status != STATUS_OK)
            return status;
    }
    return STATUS_OK;
}

static enum status refuse_row(const struct backend_cache *cache,
                              const struct backend_segment *segment, struct status_text *text) {
    return status_set(text, STATUS_BAD_INPUT,
                      "attend: a segment of sequence %u and KV head %u, of %u and %u", segment->seq,
                      segment->kv_head, cache->seqs, cache->page.shape.kv_heads);
}

/* A segment by itself; row_first is the first token of those it goes on from. */
static enum status check_segment(const struct backend_attend *work, struct array *table,
                                 const struct backend_segment *segment, uint64_t row_first,
                                 struct status_text *text) {
    const struct backend_cache *cache = &work->cache;
    const uint64_t first = segment->first_token, count = segment->token_count;
    if (segment->seq >= cache->seqs || segment->kv_head >= cache->page.shape.kv_heads)
        return refuse_row(cache, segment, text);
    if (count == 0)
        return STATUS_OK;
    /* Kernels count positions from the first slot of a segment's first page. */
    const uint64_t slots = first % cache->page.shape.page_tokens;
    if (count > INT32_MAX || slots + count > INT32_MAX)
        return status_set(text, STATUS_REFUSED,
                          "attend: a segment of %llu tokens in sequence %u; at most %d, counted "
                          "from the start of its first page, are possible",
                          (unsigned long long)count, segment->seq, INT32_MAX);
    const enum status status =
        check_columns("attend", cache, segment->seq, row_first, first + count - row_first, text);
    return status == STATUS_OK
               ? check_entries("attend", cache, table, segment->seq, first, count, text)
               : status;
}

/* A segment's tokens are places in its sequence's list, which holds as many as there are tokens. */
static enum status check_places(const struct backend_attend *work, struct array *segments,
                                struct array *lengths, struct status_text *text) {
    const struct backend_cache *cache = &work->cache;
    for (uint32_t i = 0; i < work->plan.segment_count; i++) {
        const void *item;
        enum status status = array_at(segments, i, work->plan.segment_count - i, &item, text);
        if (status != STATUS_OK)
            return status;
        const struct backend_segment segment = *(const struct backend_segment *)item;
        if (segment.seq >= cache->seqs || segment.kv_head >= cache->page.shape.kv_heads)
            return refuse_row(cache, &segment, text);
        status = array_at(lengths, segment.seq, cache->seqs - segment.seq, &item, text);
        if (status != STATUS_OK)
            return status;
        const uint64_t length = *(const uint64_t *)item;
        const uint64_t places = length < work->selected_stride ? length : work->selected_stride;
        if (segment.first_token > places || segment.token_count > places - segment.first_token)
            return status_set(text, STATUS_BAD_INPUT,
                              "attend: places %llu to %llu of sequence %u's selected tokens, of "
                              "which there are %llu",
                              (unsigned long long)segment.first_token,
                              (unsigned long long)(segment.first_token + segment.token_count),
                              segment.seq, (unsigned long long)places);
    }
    return STATUS_OK;
}

static bool goes_on(const struct backend_segment *segment, const struct backend_segment *before) {
    return segment->seq == before->seq && segment->kv_head == before->kv_head &&
           segment->first_token == before->first_token + before->token_count;
}

static enum status check_segments(const struct backend_attend *work, struct array *segments,
                                  struct array *table, struct status_text *text) {
    struct backend_segment before = {0};
    uint64_t row_first = 0;
    for (uint32_t i = 0; i < work->plan.segment_count; i++) {
        const void *item;
        enum status status = array_at(segments, i, work->plan.segment_count - i, &item, text);
        if (status != STATUS_OK)
            return status;
        const struct backend_segment segment = *(const struct backend_segment *)item;
        if (i == 0 || !goes_on(&segment, &before))
            row_first = segment.first_token;
        status = check_segment(work, table, &segment, row_first, text);
        if (status != STATUS_OK)
            return status;
        before = segment;
    }
    return STATUS_OK;
}

enum status backend_check_attend(const struct backend_ops *ops, struct backend_device *device,
                                 const struct backend_attend *work, struct status_text *text) {
    struct array segments = {0}, table = {0}, lengths = {0};
    const bool selected = work->dev_selected != NULL;
    enum status status = array_open(ops, device, work->plan.dev_segments, work->plan.segment_count,
                                    sizeof(struct backend_segment), &segments, text);
    if (status == STATUS_OK)
        status = open_table(ops, device, &work->cache, &table, text);
    if (status == STATUS_OK && selected)
        status = array_open(ops, device, work->dev_lengths, work->cache.seqs, sizeof(uint64_t),
                            &lengths, text);
    if (status == STATUS_OK && selected)
        status = check_lengths("attend", &work->cache, &lengths, &table, text);
    if (status == STATUS_OK)
        status = selected ? check_places(work, &segments, &lengths, text)
                          : check_segments(work, &segments, &table, text);
    array_close(&lengths);
    array_close(&table);
    array_close(&segments);
    return status;
}

static enum status check_longest(const struct backend_index_score *work, struct array *lengths,
                                 struct status_text *text) {
    for (uint32_t s = 0; s < work->cache.seqs; s++) {
        const void *item;
        const enum status status = array_at(lengths, s, work->cache.seqs - s, &item, text);
        if (status != STATUS_OK)
            return status;
        const uint64_t length = *(const uint64_t *)item;
        if (length > work->longest || length > work->score_stride)
            return status_set(
                text, STATUS_BAD_INPUT,
                "index scores: sequence %u has %llu keys; the longest is said to have "
                "%llu, and there is room for %llu scores",
                s, (unsigned long long)length, (unsigned long long)work->longest,
                (unsigned long long)work->score_stride);
    }
    return STATUS_OK;
}

enum status backend_check_index_score(const struct backend_ops *ops, struct backend_device *device,
                                      const struct backend_index_score *work,
                                      struct status_text *text) {
    struct array lengths = {0}, table = {0};
    enum status status = array_open(ops, device, work->dev_lengths, work->cache.seqs,
                                    sizeof(uint64_t), &lengths, text);
    if (status == STATUS_OK)
        status = open_table(ops, device, &work->cache, &table, text);
    if (status == STATUS_OK)
        status = check_longest(work, &lengths, text);
    if (status == STATUS_OK)
        status = check_lengths("index scores", &work->cache, &lengths, &table, text);
    array_close(&table);
    array_close(&lengths);
    return status;
}

static enum status check_append(const struct backend_append *work, struct array *firsts,
                                struct array *counts, struct array *table,
                                struct status_text *text) {
    const struct backend_cache *cache = &work->cache;
    for (uint32_t s = 0; s < cache->seqs; s++) {
        const void *first_item, *count_item;
        enum status status = array_at(firsts, s, cache->seqs - s, &first_item, text);
        if (status == STATUS_OK)
            status = array_at(counts, s, cache->seqs - s, &count_item, text);
        if (status != STATUS_OK)
            return status;
        const uint64_t first = *(const uint64_t *)first_item;
        const uint64_t count = *(const uint64_t *)count_item;
        if (count == 0)
            continue;
        status = check_columns("append", cache, s, first, count, text);
        if (status == STATUS_OK)
            status = check_entries("append", cache, table, s, first, count, text);
        if (status != STATUS_OK)
            return status;
    }
    return STATUS_OK;
}

enum status backend_check_append(const struct backend_ops *ops, struct backend_device *device,
                                 const struct backend_append *work, struct status_text *text) {
    struct array firsts = {0}, counts = {0}, table = {0};
    const uint32_t seqs = work->cache.seqs;
    enum status status =
        array_open(ops, device, work->dev_first_tokens, seqs, sizeof(uint64_t), &firsts, text);
    if (status == STATUS_OK)
        status =
            array_open(ops, device, work->dev_token_counts, seqs, sizeof(uint64_t), &counts, text);
    if (status == STATUS_OK)
        status = open_table(ops, device, &work->cache, &table, text);
    if (status == STATUS_OK)
        status = check_append(work, &firsts, &counts, &table, text);
    array_close(&table);
    array_close(&counts);
    array_close(&firsts);
    return status;
}
