/* What a step takes, reads and writes. */
#include "step_state.h"

uint64_t step_workspace_bytes(const struct step *step) {
    return step->workspace.bytes + step->plan_bytes;
}

/* Bytes of one token of a group in one layer, all KV heads. */
static uint64_t token_bytes(const struct page_layout *page) {
    uint64_t row = page->k.row_payload_bytes + page->k.row_scale_bytes;
    if (!page->shape.v_in_k)
        row += page->v.row_payload_bytes + page->v.row_scale_bytes;
    return row * page->shape.kv_heads;
}

uint64_t step_read_bytes(const struct step *step) {
    uint64_t bytes = 0;
    for (uint32_t g = 0; g < step->group_count; g++) {
        const struct pool_pages *pages = pool_group_pages(step->pool, g);
        uint64_t tokens = 0;
        for (uint32_t s = 0; s < pages->seqs; s++) {
            const uint64_t length = pool_lengths(step->pool)[s];
            tokens += pages->window_tokens > 0 && length > pages->window_tokens
                          ? pages->window_tokens
                          : length;
        }
        /* A page with n references is needed once, not n times. */
        for (uint32_t p = 0; p < pages->page_count; p++)
            if (pages->references[p] > 1)
                tokens -= (uint64_t)(pages->references[p] - 1) * pages->page_tokens;
        bytes += tokens * token_bytes(pool_group_page(step->pool, g)) *
                 pool_group(step->pool, g)->read_by_layers;
    }
    return bytes;
}

uint64_t step_written_bytes(const struct step *step) {
    uint64_t bytes = 0;
    for (uint32_t g = 0; g < step->group_count; g++) {
        const struct pool_pages *pages = pool_group_pages(step->pool, g);
        uint64_t seqs = 0;
        for (uint32_t s = 0; s < pages->seqs; s++)
            seqs += pool_lengths(step->pool)[s] > 0;
        bytes +=
            seqs * token_bytes(pool_group_page(step->pool, g)) * pool_group(step->pool, g)->layers;
    }
    return bytes;
}
