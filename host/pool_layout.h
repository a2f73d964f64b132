/* Private to the pool: where each group's pages, tables and scales lie in the one allocation, and
 * the sizes that follow. Computed once from a request, used to predict and to build. */
#ifndef POOL_LAYOUT_H
#define POOL_LAYOUT_H

#include "pool.h"

struct pool_group_layout {
    bool has_rows;           /* false: what follows, up to the slots, is 0 */
    uint32_t tokens_per_row; /* entries pool several */
    struct page_layout page;
    uint64_t window_tokens; /* 0: none, or --window-as full */
    uint32_t columns;
    uint32_t page_count;   /* per layer */
    uint64_t used_pages;   /* in use at the end, per layer, shared ones counted once */
    uint64_t shared_pages; /* further table entries that point at pages counted already */
    uint64_t pages_offset_bytes;
    uint64_t table_offset_bytes;
    uint64_t scales_offset_bytes;
    uint64_t rows_offset_bytes; /* uint64_t [seqs]: rows of each sequence */
    struct pool_slots slots;
    uint64_t formula_bytes; /* level 1 of this group */
    uint64_t bytes;         /* level 3: pages and slots */
};

struct pool_layout {
    uint64_t lengths_offset_bytes; /* uint64_t [seqs]: tokens of each sequence */
    struct pool_sizes sizes;
    uint32_t group_count;
    struct pool_group_layout groups[MODEL_MAX_GROUPS];
};

enum status pool_layout_make(const struct pool_request *request, struct pool_layout *out,
                             struct status_text *text);

/* The rows that `tokens` tokens make in a group. */
static inline uint64_t pool_layout_rows(const struct pool_group_layout *group, uint64_t tokens) {
    return tokens / group->tokens_per_row;
}

/* Distinct rows of test data in a group's bank. */
uint64_t pool_layout_bank_rows(const uint64_t *lengths, uint32_t seqs);

/* The sequence whose pages a shared prefix uses: the first of the longest. */
uint32_t pool_layout_owner(const uint64_t *lengths, uint32_t seqs);

#endif
