/* Whether memory that was asked of a device really lies there: all of it is read once, region by
 * region, and a region far slower than the device's own ceiling is somewhere else (a driver that
 * lends host memory). Where the system tells what is in memory (the host itself), that decides, and
 * a slow region that is there only says that the machine is busy. */
#ifndef SPILL_H
#define SPILL_H

#include <stdbool.h>
#include <stdint.h>

#include "backend.h"
#include "status.h"

/* A region is at least this large (or all there is), so that starting a read does not count. */
#define SPILL_REGION_BYTES ((uint64_t)64 << 20)
/* Less than this is read, but says nothing about speed. */
#define SPILL_LEAST_BYTES ((uint64_t)4 << 20)
enum {
    SPILL_FACTOR = 4, /* far slower: less than a quarter of the ceiling ... */
    SPILL_READS = 8,  /* ... in each of so many readings: others may have been busy in one */
};

struct spill_report {
    uint64_t read_bytes;
    uint64_t region_count;
    double ceiling_gb_per_s;       /* 0: nothing to judge by */
    double slowest_gb_per_s;       /* the best reading of the slowest region */
    uint64_t spilled_bytes;        /* of all regions that are somewhere else */
    uint64_t missing_bytes;        /* of these, what was not in memory before it was read */
    uint64_t spilled_offset_bytes; /* where the first of them starts */
    bool busy;                     /* a region was far slower, and yet in memory */
};

/* The ceiling to judge `bytes` by, most_bytes being what may be allocated now: streaming reads of
 * memory taken for this, read in the same regions, and given back. Call it while the memory to
 * judge is not there yet. 0 when there is too little to judge. */
enum status spill_ceiling(const struct backend_ops *ops, struct backend_device *device,
                          uint64_t bytes, uint64_t most_bytes, double *gb_per_s,
                          struct status_text *text);

/* Reads [dev_from, dev_from + bytes); `should_stop` (may be NULL) is asked between regions. */
enum status spill_read(const struct backend_ops *ops, struct backend_device *device,
                       const void *dev_from, uint64_t bytes, double ceiling_gb_per_s,
                       bool (*should_stop)(void), struct spill_report *out,
                       struct status_text *text);

#endif
