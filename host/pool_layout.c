/* Every byte of a pool, before anything is allocated. */
#include "pool_layout.h"

#include "checked.h"
#include "model_reads.h"

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
static uint64_t shared_pages(const struct pool_request *request,
                             const struct pool_group_layout *group, uint32_t s, uint32_t owner) {
    if (s == owner || group->window_tokens > 0)
        return 0;
    const uint64_t shared = request->share_prefix_tokens < request->lengths[s]
                                ? request->share_prefix_tokens
                                : request->lengths[s];
    return pool_layout_rows(group, shared) / request->page_tokens;
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
        const uint64_t rows = pool_layout_rows(group, request->lengths[s]);
        const uint64_t mine = pool_pages_peak(rows, request->page_tokens, group->window_tokens);
        const uint64_t others = shared_pages(request, group, s, owner);
        columns = mine > columns ? mine : columns;
        shared += others;
        if (!checked_add(peak, mine - others, &peak))
            return too_large(text);
        used += pool_pages_needed(rows, request->page_tokens, group->window_tokens) - others;
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
    if (!group->has_rows)
        return 0;
    const struct page_shape *shape = &group->page.shape;
    uint64_t per_layer = format_get(shape->k_format)->has_tensor_scale;
    if (!shape->v_in_k)
        per_layer += format_get(shape->v_format)->has_tensor_scale;
    return per_layer * layers;
}

/* The page of a group with rows; false and STATUS_OK where index keys are not kept. */
static enum status plan_page(const struct pool_request *request, const struct model_group *model,
                             struct pool_group_layout *group, struct status_text *text) {
    enum format_id k_format = request->storage.k_format, v_format = request->storage.v_format;
    group->has_rows = model_reads_has_rows(model->kind);
    if (model->kind == MODEL_INDEX) {
        group->has_rows = formula_index_storage(request->storage.index, &k_format);
        v_format = k_format;
    }
    if (!group->has_rows)
        return STATUS_OK;
    struct page_shape shape;
    const enum status status =
        model_page_shape(model, k_format, v_format, request->page_tokens, &shape, text);
    return status == STATUS_OK ? page_plan(&shape, &group->page, text) : status;
}

/* Places `bytes` at *offset. */
static enum status place(uint64_t bytes, uint64_t *offset, uint64_t *out,
                         struct status_text *text) {
    *out = *offset;
    return checked_add(*offset, bytes, offset) ? STATUS_OK : too_large(text);
}

static enum status plan_group(const struct pool_request *request, uint32_t g,
                              struct pool_group_layout *group, uint64_t *offset,
                              struct status_text *text) {
    const struct model_group *model = &request->model->groups[g];
    group->tokens_per_row = model_reads_tokens_per_row(model);
    group->window_tokens =
        model->kind == MODEL_WINDOW && !request->storage.window_as_full ? model->window_tokens : 0;
    enum status status = plan_page(request, model, group, text);
    if (status == STATUS_OK)
        status = pool_slots_plan(model, request->seqs, request->storage.state_value_bytes,
                                 &group->slots, text);
    if (status != STATUS_OK)
        return status;
    uint64_t bytes = 0;
    if (group->has_rows) {
        status = count_pages(request, group, text);
        if (status == STATUS_OK && !checked_multiply((uint64_t)group->page_count * model->layers,
                                                     group->page.stride_bytes, &bytes))
            status = too_large(text);
    }
    if (status == STATUS_OK)
        status = place(bytes, offset, &group->pages_offset_bytes, text);
    struct pool_slots *slots = &group->slots;
    if (status == STATUS_OK)
        status = place(model->layers * slots->layer_bytes, offset, &slots->offset_bytes, text);
    if (status == STATUS_OK)
        status =
            place(model->layers * slots->conv_layer_bytes, offset, &slots->conv_offset_bytes, text);
    group->bytes = *offset - group->pages_offset_bytes;
    return status;
}

/* Lengths, rows, tables and scales behind the pages and slots, packed: each part's alignment is no
 * stricter than the one before it. */
static enum status place_tables(const struct pool_request *request, struct pool_layout *layout,
                                uint64_t *offset, struct status_text *text) {
    const uint64_t start = *offset, lengths_bytes = (uint64_t)request->seqs * sizeof(uint64_t);
    enum status status = place(lengths_bytes, offset, &layout->lengths_offset_bytes, text);
    for (uint32_t g = 0; g < layout->group_count && status == STATUS_OK; g++) {
        struct pool_group_layout *group = &layout->groups[g];
        group->rows_offset_bytes = layout->lengths_offset_bytes;
        if (group->has_rows && group->tokens_per_row > 1)
            status = place(lengths_bytes, offset, &group->rows_offset_bytes, text);
    }
    for (uint32_t g = 0; g < layout->group_count && status == STATUS_OK; g++) {
        struct pool_group_layout *group = &layout->groups[g];
        uint64_t bytes;
        if (!checked_multiply((uint64_t)request->seqs * group->columns, sizeof(int32_t), &bytes))
            return too_large(text);
        status = place(bytes, offset, &group->table_offset_bytes, text);
    }
    layout->sizes.page_table_bytes = *offset - start;
    for (uint32_t g = 0; g < layout->group_count && status == STATUS_OK; g++) {
        struct pool_group_layout *group = &layout->groups[g];
        const uint64_t bytes = scale_count(group, request->model->groups[g].layers) * sizeof(float);
        status = place(bytes, offset, &group->scales_offset_bytes, text);
        layout->sizes.tensor_scale_bytes += bytes;
    }
    return status;
}

/* First rows, counts and bank rows of an append, and the fp32 rows, of every group. */
static enum status add_harness(const struct pool_request *request, struct pool_layout *layout,
                               struct status_text *text) {
    const uint64_t rows = pool_layout_bank_rows(request->lengths, request->seqs);
    uint64_t total = 0;
    for (uint32_t g = 0; g < layout->group_count; g++) {
        const struct page_shape *shape = &layout->groups[g].page.shape;
        const uint64_t dims = (uint64_t)shape->k_dim + (shape->v_in_k ? 0 : shape->v_dim);
        uint64_t bytes;
        if (!layout->groups[g].has_rows)
            continue;
        if (!checked_multiply(rows * sizeof(float) * shape->kv_heads, dims, &bytes) ||
            !checked_add(bytes, 3 * (uint64_t)request->seqs * sizeof(uint64_t), &bytes) ||
            !checked_add(total, bytes, &total))
            return too_large(text);
    }
    layout->sizes.harness_bytes = total;
    return STATUS_OK;
}

static uint64_t group_seq_bytes(const struct formula_group *group) {
    return group->kv_bytes + group->index_bytes + group->window_bytes + group->state_bytes +
           group->conv_bytes;
}

/* Level 1: the formula, sequence by sequence (equal lengths are computed once). */
static enum status add_formula(const struct pool_request *request, struct pool_layout *layout,
                               struct status_text *text) {
    struct formula_result formula = {0};
    for (uint32_t s = 0; s < request->seqs; s++) {
        if (s == 0 || request->lengths[s] != request->lengths[s - 1]) {
            const enum status status = formula_compute(request->model, &request->storage,
                                                       request->lengths[s], 1, &formula, text);
            if (status != STATUS_OK)
                return status;
        }
        if (!checked_add(layout->sizes.formula_bytes, formula.seq_bytes,
                         &layout->sizes.formula_bytes))
            return too_large(text);
        for (uint32_t g = 0; g < layout->group_count; g++)
            layout->groups[g].formula_bytes += group_seq_bytes(&formula.groups[g]);
    }
    return STATUS_OK;
}

/* What a group's pages and slots hold beyond the formula. No product can wrap: each is at most the
 * group's bytes, which fit. */
static void itemise_group(const struct model_group *model, struct pool_group_layout *group,
                          struct pool_sizes *sizes) {
    const uint64_t layers = model->layers;
    if (group->has_rows) {
        const uint64_t logical_pages = group->used_pages + group->shared_pages;
        sizes->tail_bytes +=
            logical_pages * layers * group->page.payload_bytes - group->formula_bytes;
        sizes->alignment_bytes += logical_pages * layers * group->page.padding_bytes;
        sizes->shared_bytes += group->shared_pages * layers * group->page.stride_bytes;
        sizes->spare_bytes +=
            (group->page_count - group->used_pages) * layers * group->page.stride_bytes;
    }
    const uint64_t padding = pool_slots_padding_bytes(&group->slots, model->layers);
    sizes->alignment_bytes += padding;
    if (group->slots.partial)
        sizes->partial_bytes += pool_slots_bytes(&group->slots, model->layers) - padding;
}

enum status pool_layout_make(const struct pool_request *request, struct pool_layout *out,
                             struct status_text *text) {
    *out = (struct pool_layout){.group_count = request->model->group_count};
    if (request->seqs == 0 || request->page_tokens == 0)
        return status_set(text, STATUS_BAD_INPUT,
                          "a pool needs sequences and page_tokens above zero");
    uint64_t offset = 0;
    enum status status = STATUS_OK;
    for (uint32_t g = 0; g < out->group_count && status == STATUS_OK; g++)
        status = plan_group(request, g, &out->groups[g], &offset, text);
    if (status == STATUS_OK)
        status = add_formula(request, out, text);
    if (status == STATUS_OK)
        status = place_tables(request, out, &offset, text);
    if (status == STATUS_OK)
        status = add_harness(request, out, text);
    if (status != STATUS_OK)
        return status;
    struct pool_sizes *sizes = &out->sizes;
    for (uint32_t g = 0; g < out->group_count; g++)
        itemise_group(&request->model->groups[g], &out->groups[g], sizes);
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
