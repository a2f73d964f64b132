/* Builds and fills the cache of a case, and keeps what every byte of it must be. */
#include "conformance.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend_check.h"

enum { GUARD_BYTE = 0x5A, PADDING_BYTE = 0xA5, SPARE_PAGES = 3 };
static const uint64_t far_bytes = (uint64_t)5 << 30;
/* Odd, and smaller than most lengths: rows wrap at places that are no page's edge. */
enum { BANK_ROWS = 61, ROW_OFFSET = 45, SEED = 20 };

void conformance_describe(const struct conformance_case *which, char *out, uint32_t out_bytes) {
    static const char *const lengths[] = {"empty",    "1 token", "page - 1", "page",
                                          "page + 1", "ragged",  "long",     "within a page"};
    (void)snprintf(
        out, out_bytes,
        "%s/%s %ux%u/%u%s group %u page %u lengths %s window %llu%s%s%s%s%s data %d tile "
        "%u workers %u",
        format_get(which->k_format)->name, format_get(which->v_format)->name, which->kv_heads,
        which->k_dim, which->v_dim, which->v_in_k ? " in K" : "", which->group_size,
        which->page_tokens, lengths[which->lengths], (unsigned long long)which->window_tokens,
        which->ring ? " ring" : "", which->share_prefix ? " shared" : "",
        which->sinks ? " sinks" : "", which->scale_amax ? " amax" : "", which->far ? " far" : "",
        (int)which->data, which->tile_tokens, which->workers);
}

static void set_lengths(struct conformance_world *world) {
    const struct conformance_case *which = world->which;
    const uint64_t page = which->page_tokens;
    const uint64_t several = page < 100 ? 2 * page + 1 : page + 9;
    const uint64_t table[CONFORMANCE_LENGTHS_COUNT + 1][CONFORMANCE_MAX_SEQS + 1] = {
        [CONFORMANCE_EMPTY] = {3, 0, 5, 0},
        [CONFORMANCE_ONE] = {2, 1, 1},
        [CONFORMANCE_PAGE_LESS_ONE] = {2, page - 1, page - 1},
        [CONFORMANCE_PAGE] = {2, page, page},
        [CONFORMANCE_PAGE_AND_ONE] = {2, page + 1, page + 1},
        [CONFORMANCE_RAGGED] = {5, 1, several, 0, 37, 130},
        [CONFORMANCE_LONG] = {1, 739},
        [CONFORMANCE_WITHIN] = {5, 1, 37, 37, 0, page - 3},
    };
    world->seqs = (uint32_t)table[which->lengths][0];
    for (uint32_t s = 0; s < world->seqs; s++)
        world->lengths[s] = table[which->lengths][s + 1];
    /* Sequences that share pages must hold the same rows there. */
    for (uint32_t s = 0; s < world->seqs; s++)
        world->start_rows[s] = which->share_prefix ? 7 : (uint64_t)s * 13;
}

/* What a page holds before anyone writes to it. */
static void poison_page(const struct page_layout *page, uint8_t *image) {
    const struct page_shape *shape = &page->shape;
    memset(image, PADDING_BYTE, page->stride_bytes);
    for (uint32_t head = 0; head < shape->kv_heads; head++) {
        for (uint32_t slot = 0; slot < shape->page_tokens; slot++) {
            struct page_place at = page_locate(&page->k, shape->page_tokens, head, slot);
            format_poison_row(shape->k_format, image + at.payload_bytes, image + at.scale_bytes,
                              shape->k_dim);
            if (shape->v_in_k)
                continue;
            at = page_locate(&page->v, shape->page_tokens, head, slot);
            format_poison_row(shape->v_format, image + at.payload_bytes, image + at.scale_bytes,
                              shape->v_dim);
        }
    }
}

static enum status create_pages(struct conformance_world *world, struct status_text *text) {
    const struct conformance_case *which = world->which;
    const struct page_layout *page = &world->cache.page;
    const uint64_t window = which->ring ? which->window_tokens : 0;
    uint64_t columns = 1, count = SPARE_PAGES;
    for (uint32_t s = 0; s < world->seqs; s++) {
        const uint64_t peak = pool_pages_peak(world->lengths[s], which->page_tokens, window);
        columns = peak > columns ? peak : columns;
        count += peak;
    }
    enum status status =
        pool_pages_create(world->seqs, (uint32_t)columns, (uint32_t)count, which->page_tokens,
                          window, false, SEED, &world->pages, text);
    if (status != STATUS_OK)
        return status;
    world->expected_bytes = count * page->stride_bytes + CONFORMANCE_GUARD_BYTES;
    world->expected = malloc(world->expected_bytes);
    if (world->expected == NULL)
        return status_set(text, STATUS_OUT_OF_MEMORY, "no memory for the expected pages");
    for (uint64_t p = 0; p < count; p++) {
        if (p == 0)
            poison_page(page, world->expected);
        else
            memcpy(world->expected + p * page->stride_bytes, world->expected, page->stride_bytes);
    }
    memset(world->expected + count * page->stride_bytes, GUARD_BYTE, CONFORMANCE_GUARD_BYTES);
    status = world->ops->memory_allocate(world->device, world->expected_bytes, "pages",
                                         &world->page_memory, text);
    if (status == STATUS_OK)
        status = world->ops->memory_write(world->device, world->page_memory.dev_address,
                                          world->expected, world->expected_bytes, text);
    if (status == STATUS_OK)
        status = world->ops->memory_allocate(world->device, world->seqs * columns * sizeof(int32_t),
                                             "page table", &world->table_memory, text);
    /* The pages before the first one are address space that nobody may touch, not memory. */
    world->first_page = which->far ? (uint32_t)(far_bytes / page->stride_bytes) + 1 : 0;
    world->cache.dev_pages = (void *)((uintptr_t)world->page_memory.dev_address -
                                      world->first_page * page->stride_bytes);
    world->cache.dev_page_table = world->table_memory.dev_address;
    world->cache.page_table_columns = (uint32_t)columns;
    world->cache.page_count = world->first_page + world->pages.page_count;
    return status;
}

static enum status create_bank(struct conformance_world *world, struct status_text *text) {
    const struct conformance_case *which = world->which;
    enum status status =
        generate_bank_create(SEED, which->k_dim, which->data, BANK_ROWS, which->kv_heads,
                             which->k_dim, which->v_in_k ? 0 : which->v_dim, &world->bank, text);
    if (status != STATUS_OK)
        return status;
    const struct generate_bank *bank = &world->bank;
    world->cache.k_tensor_scale =
        format_tensor_scale(which->k_format, bank->k_amax, which->scale_amax);
    world->cache.v_tensor_scale =
        which->v_in_k ? world->cache.k_tensor_scale
                      : format_tensor_scale(which->v_format, bank->v_amax, which->scale_amax);
    const uint64_t rows = (uint64_t)BANK_ROWS * which->kv_heads;
    const uint64_t k_bytes = rows * which->k_dim * sizeof(float);
    const uint64_t v_bytes = bank->v != NULL ? rows * which->v_dim * sizeof(float) : 0;
    status = world->ops->memory_allocate(world->device, k_bytes + v_bytes, "source rows",
                                         &world->bank_memory, text);
    if (status == STATUS_OK)
        status = world->ops->memory_write(world->device, world->bank_memory.dev_address, bank->k,
                                          k_bytes, text);
    if (status == STATUS_OK && v_bytes > 0)
        status = world->ops->memory_write(world->device,
                                          (uint8_t *)world->bank_memory.dev_address + k_bytes,
                                          bank->v, v_bytes, text);
    return status;
}

enum status conformance_create(const struct backend_ops *ops, struct backend_device *device,
                               const struct conformance_case *which,
                               struct conformance_world *world, struct status_text *text) {
    *world = (struct conformance_world){.ops = ops, .device = device, .which = which};
    const struct page_shape shape = {.kv_heads = which->kv_heads,
                                     .page_tokens = which->page_tokens,
                                     .k_dim = which->k_dim,
                                     .v_dim = which->v_dim,
                                     .v_in_k = which->v_in_k,
                                     .k_format = which->k_format,
                                     .v_format = which->v_format};
    enum status status = page_plan(&shape, &world->cache.page, text);
    if (status != STATUS_OK)
        return status;
    set_lengths(world);
    world->cache.seqs = world->seqs;
    status = create_pages(world, text);
    if (status == STATUS_OK)
        status = create_bank(world, text);
    if (status == STATUS_OK)
        status = ops->memory_allocate(device, 3 * CONFORMANCE_MAX_SEQS * sizeof(uint64_t),
                                      "append arguments", &world->argument_memory, text);
    return status;
}

void conformance_destroy(struct conformance_world *world) {
    pool_pages_destroy(&world->pages);
    generate_bank_destroy(&world->bank);
    struct backend_memory *const memories[] = {&world->page_memory, &world->table_memory,
                                               &world->bank_memory, &world->argument_memory};
    for (size_t i = 0; i < sizeof memories / sizeof memories[0]; i++)
        world->ops->memory_free(world->device, memories[i]);
    free(world->expected);
    free(world->queries);
    free(world->sinks);
    free(world->outputs);
    free(world->selected);
}

/* What append must leave of one token. */
static void expect_token(struct conformance_world *world, uint32_t seq, uint64_t token) {
    const struct page_layout *page = &world->cache.page;
    const struct page_shape *shape = &page->shape;
    const struct generate_bank *bank = &world->bank;
    const uint64_t row = (ROW_OFFSET + world->start_rows[seq] + token) % bank->rows;
    uint8_t *base =
        world->expected + (uint64_t)pool_pages_find(&world->pages, seq, token) * page->stride_bytes;
    const uint32_t slot = (uint32_t)(token % shape->page_tokens);
    for (uint32_t head = 0; head < shape->kv_heads; head++) {
        const uint64_t source = row * shape->kv_heads + head;
        struct page_place at = page_locate(&page->k, shape->page_tokens, head, slot);
        format_encode_row(shape->k_format, bank->k + source * shape->k_dim, shape->k_dim,
                          world->cache.k_tensor_scale, base + at.payload_bytes,
                          base + at.scale_bytes, &world->expected_replaced);
        if (shape->v_in_k)
            continue;
        at = page_locate(&page->v, shape->page_tokens, head, slot);
        format_encode_row(shape->v_format, bank->v + source * shape->v_dim, shape->v_dim,
                          world->cache.v_tensor_scale, base + at.payload_bytes,
                          base + at.scale_bytes, &world->expected_replaced);
    }
}

/* The page table as the device sees it. */
static enum status write_table(struct conformance_world *world, struct status_text *text) {
    const uint64_t count = (uint64_t)world->seqs * world->pages.columns;
    int32_t *ids = malloc(count * sizeof *ids);
    if (ids == NULL)
        return status_set(text, STATUS_OUT_OF_MEMORY, "no memory for a page table");
    for (uint64_t i = 0; i < count; i++) {
        const int32_t id = world->pages.table[i];
        ids[i] = id < 0 ? id : id + (int32_t)world->first_page;
    }
    const enum status status = world->ops->memory_write(
        world->device, world->table_memory.dev_address, ids, count * sizeof *ids, text);
    free(ids);
    return status;
}

/* arguments: [3][seqs] first tokens, counts, first rows. */
static enum status append(struct conformance_world *world, uint64_t *arguments,
                          struct status_text *text) {
    const struct backend_ops *ops = world->ops;
    const uint32_t seqs = world->seqs;
    enum status status = write_table(world, text);
    if (status == STATUS_OK)
        status = ops->memory_write(world->device, world->argument_memory.dev_address, arguments,
                                   3 * (uint64_t)seqs * sizeof(uint64_t), text);
    if (status != STATUS_OK)
        return status;
    const uint64_t *dev_arguments = world->argument_memory.dev_address;
    const float *dev_rows = world->bank_memory.dev_address;
    const struct backend_append work = {
        .cache = world->cache,
        .dev_k_rows = dev_rows,
        .dev_v_rows = world->which->v_in_k
                          ? NULL
                          : dev_rows + world->bank.rows * world->bank.kv_heads * world->bank.k_dim,
        .row_count = world->bank.rows,
        .row_offset = ROW_OFFSET,
        .dev_first_tokens = dev_arguments,
        .dev_token_counts = dev_arguments + seqs,
        .dev_first_rows = dev_arguments + 2 * (uint64_t)seqs,
    };
    status = backend_check_append(ops, world->device, &work, text);
    if (status == STATUS_OK)
        status = ops->append(world->device, &work, &world->replaced, text);
    return status == STATUS_OK ? ops->synchronize(world->device, text) : status;
}

/* Grows sequences [from, end) by chunks of their own until all are done. */
static enum status grow(struct conformance_world *world, uint32_t from, uint32_t end,
                        struct status_text *text) {
    struct generate_random random;
    generate_random_seed(&random, SEED + from);
    for (;;) {
        uint64_t arguments[3 * CONFORMANCE_MAX_SEQS] = {0}, grown = 0;
        for (uint32_t s = from; s < end; s++) {
            uint64_t first = world->pages.lengths[s];
            const uint64_t left = world->lengths[s] - first;
            uint64_t count = 1 + generate_random_below(&random, 150);
            count = count < left ? count : left;
            const enum status status = pool_pages_append(&world->pages, s, count, text);
            if (status != STATUS_OK)
                return status;
            grown += count;
            const uint64_t window = world->pages.window_tokens;
            if (window > 0 && count > window) {
                first += count - window;
                count = window;
            }
            for (uint64_t t = first; t < first + count; t++)
                expect_token(world, s, t);
            arguments[s] = first;
            arguments[world->seqs + s] = count;
            arguments[2 * world->seqs + s] = world->start_rows[s] + first;
        }
        /* The last call writes nothing, and must not: counts of zero are legal. */
        const enum status status = append(world, arguments, text);
        if (status != STATUS_OK || grown == 0)
            return status;
    }
}

enum status conformance_fill(struct conformance_world *world, struct status_text *text) {
    if (!world->which->share_prefix)
        return grow(world, 0, world->seqs, text);
    uint32_t owner = 0;
    for (uint32_t s = 0; s < world->seqs; s++)
        owner = world->lengths[s] > world->lengths[owner] ? s : owner;
    enum status status = grow(world, owner, owner + 1, text);
    if (status != STATUS_OK)
        return status;
    for (uint32_t s = 0; s < world->seqs; s++)
        (void)pool_pages_share(&world->pages, owner, s, world->lengths[s]);
    return grow(world, 0, world->seqs, text);
}

enum status conformance_check_bytes(struct conformance_world *world, struct status_text *text) {
    uint8_t *stored = malloc(world->expected_bytes);
    if (stored == NULL)
        return status_set(text, STATUS_OUT_OF_MEMORY, "no memory to read the pages back");
    enum status status = world->ops->memory_read(
        world->device, stored, world->page_memory.dev_address, world->expected_bytes, text);
    const uint64_t stride = world->cache.page.stride_bytes;
    for (uint64_t i = 0; i < world->expected_bytes && status == STATUS_OK; i++)
        if (stored[i] != world->expected[i])
            status = status_set(text, STATUS_WRONG, "page %llu byte %llu is %02x, not %02x",
                                (unsigned long long)(i / stride), (unsigned long long)(i % stride),
                                stored[i], world->expected[i]);
    free(stored);
    if (status == STATUS_OK &&
        (world->replaced.nan_values != world->expected_replaced.nan_values ||
         world->replaced.infinite_values != world->expected_replaced.infinite_values))
        status = status_set(text, STATUS_WRONG, "append counts %llu NaN and %llu infinities",
                            (unsigned long long)world->replaced.nan_values,
                            (unsigned long long)world->replaced.infinite_values);
    return status;
}
