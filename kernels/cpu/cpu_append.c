/* Appends through the reference codecs, all cores. */
#include <stdlib.h>

#include "cpu_device.h"

/* Work of one sequence at most this many tokens long is one turn of a thread. */
enum { APPEND_PIECE_TOKENS = 16 };

static void append_token(const struct backend_append *work, uint32_t s, uint64_t i,
                         struct format_replaced *replaced) {
    const struct backend_cache *cache = &work->cache;
    const struct page_layout *page = &cache->page;
    const struct page_shape *shape = &page->shape;
    const uint64_t token = work->dev_first_tokens[s] + i;
    const uint64_t row = (work->row_offset + work->dev_first_rows[s] + i) % work->row_count;
    const uint64_t column = token / shape->page_tokens % cache->page_table_columns;
    const int32_t id = cache->dev_page_table[(uint64_t)s * cache->page_table_columns + column];
    uint8_t *base = cache->dev_pages + (uint64_t)id * page->stride_bytes;
    const uint32_t slot = (uint32_t)(token % shape->page_tokens);
    for (uint32_t head = 0; head < shape->kv_heads; head++) {
        const uint64_t source = row * shape->kv_heads + head;
        struct page_place at = page_locate(&page->k, shape->page_tokens, head, slot);
        format_encode_row(shape->k_format, work->dev_k_rows + source * shape->k_dim, shape->k_dim,
                          cache->k_tensor_scale, base + at.payload_bytes, base + at.scale_bytes,
                          replaced);
        if (shape->v_in_k)
            continue;
        at = page_locate(&page->v, shape->page_tokens, head, slot);
        format_encode_row(shape->v_format, work->dev_v_rows + source * shape->v_dim, shape->v_dim,
                          cache->v_tensor_scale, base + at.payload_bytes, base + at.scale_bytes,
                          replaced);
    }
}

enum status cpu_append(struct backend_device *device, const struct backend_append *work,
                       struct format_replaced *replaced, struct status_text *text) {
    (void)text;
    uint64_t longest = 0;
    for (uint32_t s = 0; s < work->cache.seqs; s++)
        longest = work->dev_token_counts[s] > longest ? work->dev_token_counts[s] : longest;
    const uint64_t pieces = (longest + APPEND_PIECE_TOKENS - 1) / APPEND_PIECE_TOKENS;
    const uint64_t turns = pieces * work->cache.seqs;
    uint64_t nan_values = 0, infinite_values = 0;
#pragma omp parallel for schedule(dynamic) num_threads(device->threads)                            \
    reduction(+ : nan_values, infinite_values)
    for (uint64_t turn = 0; turn < turns; turn++) {
        const uint32_t s = (uint32_t)(turn / pieces);
        const uint64_t first = turn % pieces * APPEND_PIECE_TOKENS;
        const uint64_t count = work->dev_token_counts[s];
        struct format_replaced counted = {0};
        for (uint64_t i = first; i < count && i < first + APPEND_PIECE_TOKENS; i++)
            append_token(work, s, i, &counted);
        nan_values += counted.nan_values;
        infinite_values += counted.infinite_values;
    }
    if (replaced != NULL) {
        replaced->nan_values += nan_values;
        replaced->infinite_values += infinite_values;
    }
    return STATUS_OK;
}
