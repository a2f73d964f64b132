/* What a device keeps for itself: memory that is gone before anything was asked, and how much of a
 * budget it gives in one piece and in many small ones. Asks and gives back; keeps nothing. */
#ifndef OVERHEAD_H
#define OVERHEAD_H

#include <stdbool.h>
#include <stdint.h>

#include "backend.h"
#include "status.h"

struct overhead {
    uint64_t in_use_bytes;  /* total less free, before the probe */
    uint64_t largest_bytes; /* the largest single allocation, budget_bytes at most; when smaller,
                               within a 256th of the budget */
    uint64_t piece_bytes;   /* the size of the small ones */
    uint64_t pieces_bytes;  /* what they gave together, budget_bytes at most */
    bool has_rounding;
    uint64_t rounding_bytes; /* what the driver took beyond pieces_bytes, in its own steps */
};

/* Never asks for more than budget_bytes at once. Nothing is touched. `should_stop` may be NULL. */
enum status overhead_probe(const struct backend_ops *ops, struct backend_device *device,
                           uint64_t budget_bytes, bool (*should_stop)(void), struct overhead *out,
                           struct status_text *text);

#endif
