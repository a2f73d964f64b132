/* Copies pages to where a table of its own says they are. */
#include "stored.h"

#include <stdlib.h>
#include <string.h>

/* Tokens of one output whose bytes are looked at, at most. */
enum { STORED_MOST_TOKENS = 2048 };

bool stored_in_place(const struct backend_ops *ops, struct backend_device *device,
                     const struct backend_cache *cache, const struct pool_pages *tables,
                     struct stored *out) {
    *out = (struct stored){.tables = tables->table, .table_step = tables->columns};
    if (ops->memory_host != NULL)
        out->pages = ops->memory_host(device, cache->dev_pages);
    return out->pages != NULL;
}

enum status stored_read(const struct backend_ops *ops, struct backend_device *device,
                        const struct backend_cache *cache, const struct pool_pages *tables,
                        uint32_t seq, uint64_t first_token, uint64_t token_count,
                        struct stored *out, struct status_text *text) {
    const uint64_t stride = cache->page.stride_bytes;
    const uint64_t first = first_token / tables->page_tokens;
    const uint64_t count =
        token_count == 0 ? 0 : (first_token + token_count - 1) / tables->page_tokens - first + 1;
    *out = (struct stored){.page_copy = malloc(count * stride + 1),
                           .table_copy = malloc(tables->columns * sizeof(int32_t))};
    if (out->page_copy == NULL || out->table_copy == NULL) {
        stored_free(out);
        return status_set(text, STATUS_OUT_OF_MEMORY,
                          "no host memory for %llu bytes of one sequence to verify",
                          (unsigned long long)(count * stride));
    }
    out->pages = out->page_copy;
    out->tables = out->table_copy;
    const int32_t *table = tables->table + (uint64_t)seq * tables->columns;
    for (uint64_t i = 0; i < tables->columns; i++)
        out->table_copy[i] = -1;
    enum status status = STATUS_OK;
    for (uint64_t i = 0, run; i < count && status == STATUS_OK; i += run) {
        const int32_t id = table[(first + i) % tables->columns];
        /* Pages that lie behind each other are read at once. */
        run = 1;
        while (i + run < count && table[(first + i + run) % tables->columns] == id + (int32_t)run)
            run++;
        for (uint64_t j = i; j < i + run; j++)
            out->table_copy[(first + j) % tables->columns] = (int32_t)j;
        status = ops->memory_read(device, out->page_copy + i * stride,
                                  cache->dev_pages + (uint64_t)id * stride, run * stride, text);
    }
    if (status != STATUS_OK)
        stored_free(out);
    return status;
}

void stored_free(struct stored *stored) {
    free(stored->page_copy);
    free(stored->table_copy);
    *stored = (struct stored){0};
}

/* One row of K or V against its encoding; `codes` has room for a row's payload and scales. */
static bool row_is_encoded(const struct reference_view *view, bool side_v, uint32_t kv_head,
                           uint64_t token, uint8_t *codes) {
    const struct page_shape *shape = &view->page->shape;
    const struct page_plane *plane = side_v ? &view->page->v : &view->page->k;
    const uint32_t dim = side_v ? shape->v_dim : shape->k_dim;
    const uint64_t row = (view->exact_first_row + token) % view->exact_rows;
    const float *exact =
        (side_v ? view->exact_v : view->exact_k) + (row * shape->kv_heads + kv_head) * dim;
    uint8_t *scales = codes + plane->row_payload_bytes;
    format_encode_row(side_v ? shape->v_format : shape->k_format, exact, dim,
                      side_v ? view->v_tensor_scale : view->k_tensor_scale, codes, scales, NULL);
    const uint64_t column = token / shape->page_tokens % view->page_table_columns;
    const uint8_t *page =
        view->pages + (uint64_t)view->page_table[column] * view->page->stride_bytes;
    const struct page_place place =
        page_locate(plane, shape->page_tokens, kv_head, (uint32_t)(token % shape->page_tokens));
    return memcmp(page + place.payload_bytes, codes, plane->row_payload_bytes) == 0 &&
           memcmp(page + place.scale_bytes, scales, plane->row_scale_bytes) == 0;
}

enum status stored_check_codes(const struct reference_view *view, uint32_t kv_head,
                               uint64_t first_token, uint64_t token_count, uint64_t *out_token) {
    const struct page_plane *k = &view->page->k, *v = &view->page->v;
    const uint64_t k_bytes = (uint64_t)k->row_payload_bytes + k->row_scale_bytes;
    const uint64_t v_bytes = (uint64_t)v->row_payload_bytes + v->row_scale_bytes;
    uint8_t *codes = malloc(k_bytes > v_bytes ? k_bytes : v_bytes);
    if (codes == NULL)
        return STATUS_OUT_OF_MEMORY;
    const uint64_t step = token_count / STORED_MOST_TOKENS + 1;
    enum status status = STATUS_OK;
    /* From the last one backwards: that is what a step has written. */
    for (uint64_t back = 1; back <= token_count && status == STATUS_OK; back += step) {
        *out_token = first_token + token_count - back;
        if (view->selected != NULL)
            *out_token = (uint64_t)view->selected[*out_token];
        if (!row_is_encoded(view, false, kv_head, *out_token, codes) ||
            (!view->page->shape.v_in_k && !row_is_encoded(view, true, kv_head, *out_token, codes)))
            status = STATUS_WRONG;
    }
    free(codes);
    return status;
}
