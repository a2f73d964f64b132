/* The cpu backend with an eye on its allocations: what was asked, what is held, and the most that
 * was held at once, counted where memory is handed out and by nothing else. One test program at a
 * time, one device. */
#ifndef COUNTING_OPS_H
#define COUNTING_OPS_H

#include <stdint.h>

#include "backend.h"

struct counting_ops {
    struct backend_ops ops; /* use these */
    uint64_t asked_bytes;   /* of all that succeeded */
    uint64_t held_bytes;
    uint64_t peak_bytes;
    uint64_t largest_bytes; /* of one request */
    uint64_t requests;
    uint64_t limit_bytes; /* refuses what would hold more than this; 0: nothing is refused */
};

extern struct counting_ops counting;

/* Forgets what was counted; what is held must be nothing. */
void counting_reset(uint64_t limit_bytes);

#endif
