/* Every byte of a pool, before anything is allocated. */
#include "pool_layout.h"

#include "checked.h"

/* A prime, so that repeats fall differently on pages. */
enum { POOL_BANK_ROWS = 1021 };

uint64_t pool_layout_bank_rows(const uint64_t *lengths, uint32_t seqs) {
    uint64_t rows = 1;
    for (uint32_t s = 0; s < seqs; s++)
        rows = lengths[s] > rows ? lengths[s] : rows;
    return rows > POOL_BANK_ROWS ? POOL_BANK_ROWS : rows;
}

uint32_t pool_layout_owner(const uint64_t *lengths, uint32_t seqs) {
    uint32_t owner = 0;
    for (uint32_t s = 1; s < seqs; s++)
        owner = lengths[s] > lengths[owner] ? s : owner;
    return owner;
}

/* Whole pages of a prefix that sequence `s` takes from the owner. */
static uint64_t shared_pages(const struct pool_request *request, uint32_t s, uint32_t owner,
                             uint64_t window_tokens) {
    if (s == owner || window_tokens > 0)
        return 0;
    const uint64_t shared = request->share_prefix_tokens < request->lengths[s]
                                ? request->share_prefix_tokens
                                : request->lengths[s];
    return shared / request->page_tokens;
}

static enum status too_large(struct status_text *text) {
    return status_set(text, STATUS_OVERFLOW, "the pool's size does not fit 64 bits");
}

/* Pages of one group over all sequences. */
static enum status count_pages(const struct pool_request *request, struct pool_group_layout *group,
                               struct status_text *text) {
    const uint32_t owner = pool_layout_owner(request->lengths, request->seqs);
    uint64_t peak = 0, used = 0, shared = 0, columns = 1;
    for (uint32_t s = 0; s < request->seqs; s++) {
        const uint64_t tokens = request->lengths[s];
        const uint64_t mine = pool_pages_peak(tokens, request->page_tokens, group->window_tokens);
        const uint64_t others = shared_pages(request, s, owner, group->window_tokens);
        columns = mine > columns ? mine : columns;
        shared += others;
        if (!checked_add(peak, mine - others, &peak))
            return too_large(text);
        used += pool_pages_needed(tokens, request->page_tokens, group->window_tokens) - others;
    }
    if (peak > INT32_MAX || columns > INT32_MAX)
        return status_set(text, STATUS_REFUSED,
                          "%llu pages are more than int32 page ids can name: take larger pages",
                          (unsigned long long)peak);
    group->columns = (uint32_t)columns;
    group->page_count = (uint32_t)peak;
    group->used_pages = used;
    group->shared_pages = shared;
    return STATUS_OK;
}

static uint64_t scale_count(const struct pool_group_layout *group, uint32_t layers) {
    const struct page_shape *shape = &group->page.shape;
    uint64_t per_layer = format_get(shape->k_format)->has_tensor_scale;
    if (!shape->v_in_k)
        per_layer += format_get(shape->v_format)->has_tensor_scale;
    return per_layer * layers;
}

static enum status plan_group(const struct pool_request *request, uint32_t g,
                              struct pool_group_layout *group, uint64_t *offset,
                              struct status_text *text) {
    const struct model_group *model = &request->model->groups[g];
    if (model->kind == MODEL_COMPRESSED || model->kind == MODEL_INDEX)
        return status_set(text, STATUS_REFUSED,
                          "%s groups are predicted but not allocated by this version",
                          model_kind_name(model->kind));
    enum status status =
        model_page_shape(model, request->storage.k_format, request->storage.v_format,
                         request->page_tokens, &group->page.shape, text);
    const struct page_shape shape = group->page.shape;
    if (status == STATUS_OK)
        status = page_plan(&shape, &group->page, text);
    if (status != STATUS_OK)
        return status;
    group->window_tokens =
        model->kind == MODEL_WINDOW && !request->storage.window_as_full ? model->window_tokens : 0;
    status = count_pages(request, group, text);
    if (status != STATUS_OK)
        return status;
    uint64_t bytes;
    group->pages_offset_bytes = *offset;
    if (!checked_multiply((uint64_t)group->page_count * model->layers, group->page.stride_bytes,
                          &bytes) ||
        !checked_add(*offset, bytes, offset))
        return too_large(text);
    return STATUS_OK;
}

/* Lengths, tables and scales behind the pages, packed: each part's alignment is no stricter than
 * the one before it. */
static enum status place_tables(const struct pool_request *request, struct pool_layout *layout,
                                uint64_t *offset, struct status_text *text) {
    struct pool_sizes *sizes = &layout->sizes;
    uint64_t bytes;
    layout->lengths_offset_bytes = *offset;
    sizes->page_table_bytes = (uint64_t)request->seqs * sizeof(uint64_t);
    for (uint32_t g = 0; g < layout->group_count; g++) {
        struct pool_group_layout *group = &layout->groups[g];
        group->table_offset_bytes = sizes->page_table_bytes;
        if (!checked_multiply((uint64_t)request->seqs * group->columns, sizeof(int32_t), &bytes) ||
            !checked_add(sizes->page_table_bytes, bytes, &sizes->page_table_bytes))
            return too_large(text);
        if (!checked_add(*offset, group->table_offset_bytes, &group->table_offset_bytes))
            return too_large(text);
    }
    if (!checked_add(*offset, sizes->page_table_bytes, offset))
        return too_large(text);
    for (uint32_t g = 0; g < layout->group_count; g++) {
        struct pool_group_layout *group = &layout->groups[g];
        group->scales_offset_bytes = *offset;
        bytes = scale_count(group, request->model->groups[g].layers) * sizeof(float);
        if (!checked_add(*offset, bytes, offset))
            return too_large(text);
        sizes->tensor_scale_bytes += bytes;
    }
    return STATUS_OK;
}

/* First tokens, counts and first rows of an append, and the fp32 rows of every group. */
static enum status add_harness(const struct pool_request *request, struct pool_layout *layout,
                               struct status_text *text) {
    const uint64_t rows = pool_layout_bank_rows(request->lengths, request->seqs);
    uint64_t total = 3 * (uint64_t)request->seqs * sizeof(uint64_t);
    for (uint32_t g = 0; g < layout->group_count; g++) {
        const struct page_shape *shape = &layout->groups[g].page.shape;
        const uint64_t dims = (uint64_t)shape->k_dim + (shape->v_in_k ? 0 : shape->v_dim);
        uint64_t bytes;
        if (!checked_multiply(rows * sizeof(float) * shape->kv_heads, dims, &bytes) ||
            !checked_add(total, bytes, &total))
            return too_large(text);
    }
    layout->sizes.harness_bytes = total;
    return STATUS_OK;
}

/* Level 1: the formula, sequence by sequence (equal lengths are computed once). */
static enum status add_formula(const struct pool_request *request, uint64_t *total,
                               struct status_text *text) {
    struct formula_result formula = {0};
    for (uint32_t s = 0; s < request->seqs; s++) {
        if (s == 0 || request->lengths[s] != request->lengths[s - 1]) {
            const enum status status = formula_compute(request->model, &request->storage,
                                                       request->lengths[s], 1, &formula, text);
            if (status != STATUS_OK)
                return status;
        }
        if (!checked_add(*total, formula.seq_bytes, total))
            return too_large(text);
    }
    return STATUS_OK;
}

enum status pool_layout_make(const struct pool_request *request, struct pool_layout *out,
                             struct status_text *text) {
    *out = (struct pool_layout){.group_count = request->model->group_count};
    if (request->seqs == 0 || request->page_tokens == 0)
        return status_set(text, STATUS_BAD_INPUT,
                          "a pool needs sequences and page_tokens above zero");
    struct pool_sizes *sizes = &out->sizes;
    uint64_t offset = 0, whole_pages_bytes = 0;
    for (uint32_t g = 0; g < out->group_count; g++) {
        struct pool_group_layout *group = &out->groups[g];
        const enum status status = plan_group(request, g, group, &offset, text);
        if (status != STATUS_OK)
            return status;
        /* No product below can wrap: each is at most the group's bytes, which fit. */
        const uint64_t layers = request->model->groups[g].layers;
        const uint64_t logical_pages = group->used_pages + group->shared_pages;
        whole_pages_bytes += logical_pages * layers * group->page.payload_bytes;
        sizes->alignment_bytes += logical_pages * layers * group->page.padding_bytes;
        sizes->shared_bytes += group->shared_pages * layers * group->page.stride_bytes;
        sizes->spare_bytes +=
            (group->page_count - group->used_pages) * layers * group->page.stride_bytes;
    }
    enum status status = add_formula(request, &sizes->formula_bytes, text);
    if (status == STATUS_OK)
        status = place_tables(request, out, &offset, text);
    if (status == STATUS_OK)
        status = add_harness(request, out, text);
    if (status != STATUS_OK)
        return status;
    sizes->tail_bytes = whole_pages_bytes - sizes->formula_bytes;
    sizes->paged_bytes =
        sizes->formula_bytes + sizes->tail_bytes + sizes->alignment_bytes - sizes->shared_bytes;
    sizes->pool_bytes = offset;
    return STATUS_OK;
}

enum status pool_plan(const struct pool_request *request, struct pool_sizes *out,
                      struct status_text *text) {
    struct pool_layout layout;
    const enum status status = pool_layout_make(request, &layout, text);
    *out = layout.sizes;
    return status;
}
