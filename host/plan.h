/* How the attention of one group and one step is cut into segments for the workers of a device:
 * contiguous, equal ranges of token tiles over all (sequence, KV head) rows, planned from the
 * live lengths. Windows are cut away here, so a kernel only sees tokens it must read. */
#ifndef PLAN_H
#define PLAN_H

#include <stdint.h>

#include "backend.h"
#include "status.h"

struct plan {
    struct backend_segment *segments;
    uint32_t *row_first;    /* [row_count + 1] */
    uint32_t *worker_first; /* [worker_count + 1] */
    uint32_t segment_count; /* <= row_count + worker_count */
    uint32_t row_count;     /* seqs * kv_heads */
    uint32_t worker_count;
};

/* lengths: [seqs], tokens in the cache of each. window_tokens 0: no window. tile_tokens: segments
 * start on multiples of it, counted from the row's first token. */
enum status plan_create(const uint64_t *lengths, uint32_t seqs, uint32_t kv_heads,
                        uint64_t window_tokens, uint32_t tile_tokens, uint32_t workers,
                        struct plan *out, struct status_text *text);
void plan_destroy(struct plan *plan);

#endif
