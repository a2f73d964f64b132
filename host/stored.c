/* Copies pages to where a table of its own says they are. */
#include "stored.h"

#include <stdlib.h>

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
