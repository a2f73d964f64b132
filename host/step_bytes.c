/* What a step takes, reads and writes. */
#include "step_parts.h"

uint64_t step_workspace_bytes(const struct step *step) {
    return step->workspace.bytes + step->plan_bytes + step->index_bytes;
}

/* Bytes of one row of a group in one layer, all KV heads. */
static uint64_t row_bytes(const struct page_layout *page) {
    uint64_t row = page->k.row_payload_bytes + page->k.row_scale_bytes;
    if (!page->shape.v_in_k)
        row += page->v.row_payload_bytes + page->v.row_scale_bytes;
    return row * page->shape.kv_heads;
}

/* The last `most` rows (0: all) of each sequence. */
static uint64_t all_rows(const struct step *step, uint32_t g, uint64_t most) {
    uint64_t rows = 0;
    for (uint32_t s = 0; s < pool_seqs(step->pool); s++) {
        const uint64_t length = pool_group_rows(step->pool, g)[s];
        rows += most > 0 && length > most ? most : length;
    }
    return rows;
}

/* A page with n references is needed once, not n times. */
static uint64_t unique_rows(const struct step *step, uint32_t g) {
    const struct pool_pages *pages = pool_group_pages(step->pool, g);
    uint64_t rows = all_rows(step, g, pages->window_tokens);
    for (uint32_t p = 0; p < pages->page_count; p++)
        if (pages->references[p] > 1)
            rows -= (uint64_t)(pages->references[p] - 1) * pages->page_tokens;
    return rows;
}

/* Rows that attention or scores read, over all layers. */
static uint64_t rows_read(const struct step *step, uint32_t g) {
    const struct model_group *model = pool_group(step->pool, g);
    if (!step_attends(step, g)) {
        uint64_t layers = 0;
        for (uint32_t layer = 0; layer < model->layers; layer++)
            layers += step_index_is_asked(step, g, layer);
        return unique_rows(step, g) * layers;
    }
    const uint32_t index = step->groups[g].attention.index;
    if (index == MODEL_READS_NONE)
        return unique_rows(step, g) * model->read_by_layers;
    const uint64_t sparse = model_reads_sparse_readers(pool_model(step->pool), g);
    /* sequences that share pages may choose the same rows of them: never more than there are */
    const uint64_t all = all_rows(step, g, step->groups[index].index.top_k);
    const uint64_t unique = unique_rows(step, g), chosen = all < unique ? all : unique;
    return chosen * sparse + unique * (model->read_by_layers - sparse);
}

/* State and convolution columns of all layers and sequences. */
static uint64_t slots_bytes(const struct step *step, uint32_t g) {
    const struct pool_slots *slots = pool_group_slots(step->pool, g);
    return slots == NULL ? 0
                         : (slots->slot_bytes + slots->conv_slot_bytes) * slots->shape.seqs *
                               pool_group(step->pool, g)->layers;
}

static uint64_t group_rows_bytes(const struct step *step, uint32_t g) {
    return pool_group_has_rows(step->pool, g)
               ? rows_read(step, g) * row_bytes(pool_group_page(step->pool, g))
               : 0;
}

uint64_t step_group_read_bytes(const struct step *step, uint32_t g) {
    return group_rows_bytes(step, g) + slots_bytes(step, g);
}

uint64_t step_group_written_bytes(const struct step *step, uint32_t g) {
    uint64_t bytes = slots_bytes(step, g), seqs = 0;
    if (!pool_group_has_rows(step->pool, g))
        return bytes;
    for (uint32_t s = 0; s < pool_seqs(step->pool); s++)
        seqs += pool_group_rows(step->pool, g)[s] > 0;
    return bytes +
           seqs * row_bytes(pool_group_page(step->pool, g)) * pool_group(step->pool, g)->layers;
}

uint64_t step_read_bytes(const struct step *step) {
    uint64_t bytes = 0;
    for (uint32_t g = 0; g < step->group_count; g++)
        bytes += group_rows_bytes(step, g);
    return bytes;
}

uint64_t step_written_bytes(const struct step *step) {
    uint64_t bytes = 0;
    for (uint32_t g = 0; g < step->group_count; g++)
        bytes += step_group_written_bytes(step, g);
    return bytes;
}
