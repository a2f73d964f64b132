/* How many sequences, or how long ones, a budget takes: found by planning pools, so that nothing is
 * allocated past it, and set beside what the formula alone would promise. */
#ifndef FILL_UNTIL_H
#define FILL_UNTIL_H

#include "memory.h"
#include "pool.h"
#include "status.h"

struct fill_until {
    uint64_t count;         /* sequences, or tokens of each sequence */
    uint64_t formula_count; /* what the formula has room for in the same budget */
    uint64_t *lengths;      /* [seqs]; owned: fill_until_free */
    uint32_t seqs;
    struct pool_sizes sizes;
    uint64_t left_bytes; /* of the budget, beside the pool and what the harness asks */
    /* What one more would have taken beyond the budget; 0 where something else ends it: `limit`. */
    uint64_t short_bytes;
    char limit[256];
};

/* `request` is one with equal lengths: its sequences' length, or their number, is kept and the
 * other found. STATUS_OUT_OF_MEMORY when not even one fits; STATUS_REFUSED when nothing grows, so
 * that the budget would never end, and whatever a pool is refused for. */
enum status fill_until_find(enum options_until what, const struct pool_request *request,
                            const struct memory_budget *budget, struct fill_until *out,
                            struct status_text *text);
void fill_until_free(struct fill_until *found);

const char *fill_until_name(enum options_until what); /* "seqs", "tokens" */

#endif
