/* Puts a planned pool on a device: allocates once, poisons, describes what is there. How it fills
 * is pool_fill.c's business. */
#include "pool.h"

#include <stdlib.h>
#include <string.h>

#include "pool_state.h"

/* What repeats is copied in pieces of this size, which caches hold. */
#define POOL_COPY_BYTES ((uint64_t)16 << 20)

enum status pool_state_repeat(const struct backend_ops *ops, struct backend_device *device,
                              void *dev_to, const void *image, uint64_t image_bytes, uint64_t bytes,
                              struct status_text *text) {
    uint8_t *dev_start = dev_to;
    enum status status = bytes > 0
                             ? ops->memory_write(device, dev_start, image,
                                                 bytes < image_bytes ? bytes : image_bytes, text)
                             : STATUS_OK;
    const uint64_t most_images = POOL_COPY_BYTES / image_bytes;
    const uint64_t most = (most_images > 0 ? most_images : 1) * image_bytes;
    for (uint64_t done = image_bytes; done < bytes && status == STATUS_OK;) {
        const uint64_t left = bytes - done < most ? bytes - done : most;
        const uint64_t next = done < left ? done : left;
        status = ops->stream_copy(device, dev_start + done, dev_start, next, text);
        done += next;
    }
    return status;
}

/* Uploads the bank. Where the host can read device memory in place, that copy is the only one. */
static enum status upload_bank(struct pool *pool, struct pool_group_state *group,
                               struct status_text *text) {
    const struct backend_ops *ops = pool->ops;
    struct generate_bank *bank = &group->bank;
    const uint64_t rows = bank->rows * bank->kv_heads;
    const uint64_t k_bytes = rows * bank->k_dim * sizeof(float);
    const uint64_t v_bytes = rows * bank->v_dim * sizeof(float);
    enum status status = ops->memory_allocate(pool->device, k_bytes + v_bytes, "the test data",
                                              &group->bank_memory, text);
    if (status != STATUS_OK)
        return status;
    group->dev_k_rows = group->bank_memory.dev_address;
    status =
        ops->memory_write(pool->device, group->bank_memory.dev_address, bank->k, k_bytes, text);
    if (bank->v != NULL && status == STATUS_OK) {
        uint8_t *dev_v = (uint8_t *)group->bank_memory.dev_address + k_bytes;
        group->dev_v_rows = (const float *)dev_v;
        status = ops->memory_write(pool->device, dev_v, bank->v, v_bytes, text);
    }
    const void *host = status == STATUS_OK && ops->memory_host != NULL
                           ? ops->memory_host(pool->device, group->bank_memory.dev_address)
                           : NULL;
    if (host != NULL) {
        const bool has_v = bank->v != NULL;
        free(bank->k);
        free(bank->v);
        bank->k = (float *)host;
        bank->v = has_v ? bank->k + rows * bank->k_dim : NULL;
        group->bank_on_device = true;
    }
    return status;
}

/* The rows each sequence reaches, here and on the device. */
static enum status create_rows(struct pool *pool, uint32_t g, struct status_text *text) {
    struct pool_group_state *group = &pool->groups[g];
    const struct pool_group_layout *layout = &pool->layout.groups[g];
    const uint64_t bytes = (uint64_t)pool->seqs * sizeof *group->rows;
    group->rows = malloc(bytes);
    if (group->rows == NULL)
        return status_set(text, STATUS_OUT_OF_MEMORY, "no host memory for %u sequences",
                          pool->seqs);
    for (uint32_t s = 0; s < pool->seqs; s++)
        group->rows[s] = pool_layout_rows(layout, pool->lengths[s]);
    return pool->ops->memory_write(pool->device, pool_state_at(pool, layout->rows_offset_bytes),
                                   group->rows, bytes, text);
}

/* Pages and the rows that will fill them. */
static enum status create_pages(struct pool *pool, uint32_t g, const struct pool_request *request,
                                struct status_text *text) {
    struct pool_group_state *group = &pool->groups[g];
    const struct pool_group_layout *layout = &pool->layout.groups[g];
    const struct page_shape *shape = &layout->page.shape;
    enum status status = pool_pages_create(
        pool->seqs, layout->columns, layout->page_count, request->page_tokens,
        layout->window_tokens, request->sequential_pages, request->seed + g, &group->pages, text);
    if (status != STATUS_OK)
        return status;
    const uint64_t rows = pool_layout_bank_rows(pool->lengths, pool->seqs);
    status =
        generate_bank_create(request->seed, g, request->data, rows, shape->kv_heads, shape->k_dim,
                             shape->v_in_k ? 0 : shape->v_dim, &group->bank, text);
    if (status != STATUS_OK)
        return status;
    if (request->rotate)
        group->rotated = rotate_points_of(pool->model->groups[g].kind, shape);
    rotate_bank(&group->bank, group->rotated);
    const struct generate_bank *bank = &group->bank;
    group->k_tensor_scale =
        format_tensor_scale(shape->k_format, bank->k_amax, request->kv_scale_amax);
    group->v_tensor_scale =
        shape->v_in_k ? group->k_tensor_scale
                      : format_tensor_scale(shape->v_format, bank->v_amax, request->kv_scale_amax);
    status = pool->ops->memory_allocate(pool->device, 3 * (uint64_t)pool->seqs * sizeof(uint64_t),
                                        "append arguments", &group->arguments, text);
    return status == STATUS_OK ? upload_bank(pool, group, text) : status;
}

/* Every slot of every page gets codes no data gives, and every OS page is touched. */
static enum status poison_pages(struct pool *pool, uint32_t g, struct status_text *text) {
    const struct pool_group_layout *layout = &pool->layout.groups[g];
    const struct page_layout *page = &layout->page;
    const struct page_shape *shape = &page->shape;
    uint8_t *image = calloc(1, page->stride_bytes);
    if (image == NULL)
        return status_set(text, STATUS_OUT_OF_MEMORY, "no host memory for a page of %llu bytes",
                          (unsigned long long)page->stride_bytes);
    for (uint32_t head = 0; head < shape->kv_heads; head++) {
        for (uint32_t slot = 0; slot < shape->page_tokens; slot++) {
            struct page_place place = page_locate(&page->k, shape->page_tokens, head, slot);
            format_poison_row(shape->k_format, image + place.payload_bytes,
                              image + place.scale_bytes, shape->k_dim);
            if (shape->v_in_k)
                continue;
            place = page_locate(&page->v, shape->page_tokens, head, slot);
            format_poison_row(shape->v_format, image + place.payload_bytes,
                              image + place.scale_bytes, shape->v_dim);
        }
    }
    const uint64_t bytes = layout->page_count * page->stride_bytes * pool->model->groups[g].layers;
    const enum status status =
        pool_state_repeat(pool->ops, pool->device, pool_state_at(pool, layout->pages_offset_bytes),
                          image, page->stride_bytes, bytes, text);
    free(image);
    return status;
}

/* The fp32 scales, for formats that have them: K then V, layer by layer. */
static enum status write_scales(struct pool *pool, uint32_t g, struct status_text *text) {
    const struct pool_group_layout *layout = &pool->layout.groups[g];
    const struct page_shape *shape = &layout->page.shape;
    uint64_t offset = layout->scales_offset_bytes;
    enum status status = STATUS_OK;
    for (uint32_t layer = 0; layer < pool->model->groups[g].layers; layer++) {
        const struct {
            bool has;
            float scale;
        } sides[] = {
            {format_get(shape->k_format)->has_tensor_scale, pool->groups[g].k_tensor_scale},
            {!shape->v_in_k && format_get(shape->v_format)->has_tensor_scale,
             pool->groups[g].v_tensor_scale}};
        for (int side = 0; side < 2 && status == STATUS_OK; side++) {
            if (!sides[side].has)
                continue;
            status = pool->ops->memory_write(pool->device, pool_state_at(pool, offset),
                                             &sides[side].scale, sizeof(float), text);
            offset += sizeof(float);
        }
    }
    return status;
}

enum status pool_state_send_table(struct pool *pool, uint32_t g, struct status_text *text) {
    const struct pool_pages *pages = &pool->groups[g].pages;
    return pool->ops->memory_write(
        pool->device, pool_state_at(pool, pool->layout.groups[g].table_offset_bytes), pages->table,
        (uint64_t)pages->seqs * pages->columns * sizeof *pages->table, text);
}

static enum status create_group(struct pool *pool, uint32_t g, const struct pool_request *request,
                                struct status_text *text) {
    const struct pool_group_layout *layout = &pool->layout.groups[g];
    enum status status = STATUS_OK;
    if (layout->has_rows) {
        status = create_rows(pool, g, text);
        if (status == STATUS_OK)
            status = create_pages(pool, g, request, text);
        if (status == STATUS_OK)
            status = poison_pages(pool, g, text);
        if (status == STATUS_OK)
            status = write_scales(pool, g, text);
        if (status == STATUS_OK)
            status = pool_state_send_table(pool, g, text);
    }
    if (status == STATUS_OK && pool_slots_any(&layout->slots))
        status =
            pool_slots_fill(pool->ops, pool->device, &layout->slots, pool->model->groups[g].layers,
                            request->seed + g, pool_state_at(pool, 0), text);
    return status;
}

/* What the device lost between two looks at it; 0 when it does not count or gained. */
static uint64_t driver_bytes(const struct backend_facts *before,
                             const struct backend_facts *after) {
    if (after->memory_taken_bytes == 0)
        return 0;
    if (after->integrated)
        return after->memory_taken_bytes - before->memory_taken_bytes;
    return before->memory_free_bytes > after->memory_free_bytes
               ? before->memory_free_bytes - after->memory_free_bytes
               : 0;
}

static enum status build(struct pool *pool, const struct pool_request *request,
                         const struct memory_budget *budget, struct status_text *text) {
    enum status status = pool_layout_make(request, &pool->layout, text);
    if (status != STATUS_OK)
        return status;
    const uint64_t bytes = pool->layout.sizes.pool_bytes;
    if (budget != NULL && bytes > budget->budget_bytes)
        return status_set(
            text, STATUS_OUT_OF_MEMORY, "the pool takes %llu bytes and the budget is %llu (%s)",
            (unsigned long long)bytes, (unsigned long long)budget->budget_bytes, budget->source);
    pool->lengths = malloc((uint64_t)pool->seqs * sizeof *pool->lengths);
    pool->host_arguments = calloc(3 * (uint64_t)pool->seqs, sizeof *pool->host_arguments);
    if (pool->lengths == NULL || pool->host_arguments == NULL)
        return status_set(text, STATUS_OUT_OF_MEMORY, "no host memory for %u sequences",
                          pool->seqs);
    memcpy(pool->lengths, request->lengths, (uint64_t)pool->seqs * sizeof *pool->lengths);
    struct backend_facts before, after;
    pool->ops->facts(pool->device, &before);
    status = pool->ops->memory_allocate(pool->device, bytes, "the pool", &pool->memory, text);
    pool->ops->facts(pool->device, &after);
    pool->driver_bytes = driver_bytes(&before, &after);
    for (uint32_t g = 0; g < pool->layout.group_count && status == STATUS_OK; g++)
        status = create_group(pool, g, request, text);
    if (status == STATUS_OK)
        status = pool->ops->memory_write(
            pool->device, pool_state_at(pool, pool->layout.lengths_offset_bytes), pool->lengths,
            (uint64_t)pool->seqs * sizeof *pool->lengths, text);
    return status;
}

enum status pool_create(const struct backend_ops *ops, struct backend_device *device,
                        const struct pool_request *request, const struct memory_budget *budget,
                        struct pool **out, struct status_text *text) {
    *out = NULL;
    struct pool *pool = calloc(1, sizeof *pool);
    if (pool == NULL)
        return status_set(text, STATUS_OUT_OF_MEMORY, "no host memory for a pool");
    pool->ops = ops;
    pool->device = device;
    pool->model = request->model;
    pool->seqs = request->seqs;
    pool->share_prefix_tokens = request->share_prefix_tokens;
    pool->one_start = request->data == OPTIONS_DATA_SINK;
    const enum status status = build(pool, request, budget, text);
    if (status != STATUS_OK) {
        pool_destroy(pool);
        return status;
    }
    *out = pool;
    return STATUS_OK;
}

void pool_destroy(struct pool *pool) {
    if (pool == NULL)
        return;
    for (uint32_t g = 0; g < MODEL_MAX_GROUPS; g++) {
        pool_pages_destroy(&pool->groups[g].pages);
        if (pool->groups[g].bank_on_device)
            pool->groups[g].bank.k = pool->groups[g].bank.v = NULL;
        generate_bank_destroy(&pool->groups[g].bank);
        pool->ops->memory_free(pool->device, &pool->groups[g].bank_memory);
        pool->ops->memory_free(pool->device, &pool->groups[g].arguments);
        free(pool->groups[g].rows);
    }
    pool->ops->memory_free(pool->device, &pool->memory);
    free(pool->host_arguments);
    free(pool->lengths);
    free(pool);
}

const void *pool_dev_memory(const struct pool *pool, uint64_t *bytes) {
    *bytes = pool->layout.sizes.pool_bytes;
    return pool->memory.dev_address;
}

void pool_sizes_get(const struct pool *pool, struct pool_sizes *out) {
    *out = pool->layout.sizes;
}

bool pool_driver_bytes(const struct pool *pool, uint64_t *out) {
    *out = pool->driver_bytes;
    return pool->driver_bytes > 0;
}

bool pool_resident_bytes(const struct pool *pool, uint64_t *out) {
    const void *host = pool->ops->memory_host != NULL
                           ? pool->ops->memory_host(pool->device, pool->memory.dev_address)
                           : NULL;
    return host != NULL && memory_resident_bytes(host, pool->layout.sizes.pool_bytes, out);
}

void pool_replaced_get(const struct pool *pool, struct format_replaced *out) {
    *out = pool->replaced;
}

const struct model *pool_model(const struct pool *pool) {
    return pool->model;
}

uint32_t pool_seqs(const struct pool *pool) {
    return pool->seqs;
}

uint32_t pool_rotate_points(const struct pool *pool, uint32_t group) {
    return pool->groups[group].rotated.k;
}

uint32_t pool_group_count(const struct pool *pool) {
    return pool->layout.group_count;
}

const struct model_group *pool_group(const struct pool *pool, uint32_t group) {
    return &pool->model->groups[group];
}

uint64_t pool_group_formula_bytes(const struct pool *pool, uint32_t group) {
    return pool->layout.groups[group].formula_bytes;
}

uint64_t pool_group_bytes(const struct pool *pool, uint32_t group) {
    return pool->layout.groups[group].bytes;
}

bool pool_group_has_rows(const struct pool *pool, uint32_t group) {
    return pool->layout.groups[group].has_rows;
}

const uint64_t *pool_group_rows(const struct pool *pool, uint32_t group) {
    return pool->groups[group].rows;
}

const uint64_t *pool_group_dev_rows(const struct pool *pool, uint32_t group) {
    return (const uint64_t *)pool_state_at(pool, pool->layout.groups[group].rows_offset_bytes);
}

const struct pool_slots *pool_group_slots(const struct pool *pool, uint32_t group) {
    const struct pool_slots *slots = &pool->layout.groups[group].slots;
    return pool_slots_any(slots) ? slots : NULL;
}

void *pool_dev_state(const struct pool *pool, uint32_t group, uint32_t layer) {
    const struct pool_slots *slots = &pool->layout.groups[group].slots;
    return slots->layer_bytes > 0
               ? pool_state_at(pool, slots->offset_bytes + layer * slots->layer_bytes)
               : NULL;
}

uint16_t *pool_dev_conv(const struct pool *pool, uint32_t group, uint32_t layer) {
    const struct pool_slots *slots = &pool->layout.groups[group].slots;
    return slots->conv_layer_bytes > 0
               ? (uint16_t *)pool_state_at(pool, slots->conv_offset_bytes +
                                                     layer * slots->conv_layer_bytes)
               : NULL;
}

const struct page_layout *pool_group_page(const struct pool *pool, uint32_t group) {
    return &pool->layout.groups[group].page;
}

void pool_cache(const struct pool *pool, uint32_t group, uint32_t layer,
                struct backend_cache *out) {
    const struct pool_group_layout *layout = &pool->layout.groups[group];
    *out = (struct backend_cache){
        .page = layout->page,
        .dev_pages =
            pool_state_at(pool, layout->pages_offset_bytes + (uint64_t)layer * layout->page_count *
                                                                 layout->page.stride_bytes),
        .dev_page_table = (const int32_t *)pool_state_at(pool, layout->table_offset_bytes),
        .page_table_columns = layout->columns,
        .page_count = layout->page_count,
        .seqs = pool->seqs,
        .k_tensor_scale = pool->groups[group].k_tensor_scale,
        .v_tensor_scale = pool->groups[group].v_tensor_scale,
    };
}

const struct generate_bank *pool_bank(const struct pool *pool, uint32_t group) {
    return &pool->groups[group].bank;
}

const uint64_t *pool_lengths(const struct pool *pool) {
    return pool->lengths;
}

const uint64_t *pool_dev_lengths(const struct pool *pool) {
    return (const uint64_t *)pool_state_at(pool, pool->layout.lengths_offset_bytes);
}

const struct pool_pages *pool_group_pages(const struct pool *pool, uint32_t group) {
    return &pool->groups[group].pages;
}
