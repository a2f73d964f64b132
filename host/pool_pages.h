/* Which page holds which tokens: a free list in seeded random (or sequential) order, one page
 * table per sequence, reference counts for shared prefixes, and recycling behind a window.
 * Pure bookkeeping in host memory; one instance per group, serving all its layers. */
#ifndef POOL_PAGES_H
#define POOL_PAGES_H

#include <stdbool.h>
#include <stdint.h>

#include "status.h"

struct pool_pages {
    uint32_t page_tokens;
    uint64_t window_tokens; /* 0: everything is kept */
    uint32_t seqs;
    uint32_t columns;    /* page table columns per sequence; a ring when there is a window */
    uint32_t page_count; /* pages in all, used or free */
    uint32_t free_count;
    int32_t *free_ids;    /* a stack of [page_count]; the top free_count are free */
    uint32_t *references; /* [page_count] how many table entries point at a page */
    int32_t *table;       /* [seqs][columns], -1: none */
    uint64_t *lengths;    /* [seqs] tokens appended so far */
};

/* The pages a sequence of `tokens` tokens holds at its end, and the most it holds at any time
 * while growing (a window's ring). */
uint64_t pool_pages_needed(uint64_t tokens, uint32_t page_tokens, uint64_t window_tokens);
uint64_t pool_pages_peak(uint64_t tokens, uint32_t page_tokens, uint64_t window_tokens);

enum status pool_pages_create(uint32_t seqs, uint32_t columns, uint32_t page_count,
                              uint32_t page_tokens, uint64_t window_tokens, bool sequential,
                              uint64_t seed, struct pool_pages *out, struct status_text *text);
void pool_pages_destroy(struct pool_pages *pages);

/* Grows sequence `seq` by `tokens` tokens: takes pages from the free list, gives back those that
 * fell behind the window. STATUS_OUT_OF_MEMORY, with nothing changed, when the list is too short.
 * The pages of the last min(tokens, window) new tokens are in the table afterwards. */
enum status pool_pages_append(struct pool_pages *pages, uint32_t seq, uint64_t tokens,
                              struct status_text *text);
/* Makes the empty sequence `to` start with the first `tokens` tokens of `from`: whole pages are
 * shared (reference counts), a part page is not (it must be written anew). Returns the tokens
 * shared. Full groups only: 0 when there is a window. */
uint64_t pool_pages_share(struct pool_pages *pages, uint32_t from, uint32_t to, uint64_t tokens);
/* Gives all pages of a sequence back; its length becomes 0. */
void pool_pages_release(struct pool_pages *pages, uint32_t seq);

/* The page of token `token` (which must be held). */
int32_t pool_pages_find(const struct pool_pages *pages, uint32_t seq, uint64_t token);

/* Everything adds up: no page in two places beyond its reference count, free ones unreferenced,
 * counts equal. STATUS_WRONG names the first contradiction. */
enum status pool_pages_check(const struct pool_pages *pages, struct status_text *text);

#endif
