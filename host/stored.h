/* The stored pages of one group and layer as the host sees them: in place where the device allows
 * it, else a copy of the pages that some tokens of one sequence lie in. A layer may be larger than
 * the host's memory; a sequence that is to be checked is not. */
#ifndef STORED_H
#define STORED_H

#include <stdbool.h>
#include <stdint.h>

#include "backend.h"
#include "pool_pages.h"
#include "reference.h"

struct stored {
    const uint8_t *pages;  /* page p at pages + p * stride */
    const int32_t *tables; /* sequence s's columns at tables + s * table_step */
    uint64_t table_step;   /* 0 for a copy, which knows one sequence */
    uint8_t *page_copy;
    int32_t *table_copy;
};

/* False where the host cannot read the device in place. Nothing to free. */
bool stored_in_place(const struct backend_ops *ops, struct backend_device *device,
                     const struct backend_cache *cache, const struct pool_pages *tables,
                     struct stored *out);
/* The pages of tokens [first_token, first_token + token_count) of `seq`. */
enum status stored_read(const struct backend_ops *ops, struct backend_device *device,
                        const struct backend_cache *cache, const struct pool_pages *tables,
                        uint32_t seq, uint64_t first_token, uint64_t token_count,
                        struct stored *out, struct status_text *text);
void stored_free(struct stored *stored); /* a zeroed one is fine */

/* Whether the rows of one KV head are stored, bit for bit, as the format makes them of the view's
 * unquantised rows: all of tokens [first_token, first_token + token_count) up to some thousands,
 * every n-th of more. STATUS_WRONG, and which token in *out_token, when one is not. */
enum status stored_check_codes(const struct reference_view *view, uint32_t kv_head,
                               uint64_t first_token, uint64_t token_count, uint64_t *out_token);

#endif
