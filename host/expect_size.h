/* The size formula with a mistake in it, in floating point: what a calculator finds that, say,
 * counts only K. Private to host/expect*.c. */
#ifndef EXPECT_SIZE_H
#define EXPECT_SIZE_H

#include "expect.h"

/* One way of counting; all zero: the right one. */
struct expect_view {
    bool no_v, no_k;
    bool every_query_head; /* MHA instead of GQA */
    bool windows_in_full, no_windows;
    bool state_in_full, no_state, no_index;
    bool latents_twice;  /* as K and as V */
    bool group_as_value; /* a group's bytes for each of its values */
    double value_bytes;  /* flat, scales left out; 0: the format's */
    uint32_t head_dim;   /* instead of K's and V's; 0: theirs */
};

struct expect_size {
    double rate;  /* what one more token adds, index keys counted */
    double fixed; /* what does not grow, at that length */
    double bytes; /* one sequence */
};

struct expect_size expect_size(const struct model *model, const struct formula_storage *storage,
                               uint64_t tokens, const struct expect_view *view);

#endif
