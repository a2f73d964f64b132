/* The canary: what the device can do at one moment, asked for between steps. Plain reading, which
 * is the ceiling, and where the device tells it the pace of its cores (backend_ops.pace). When it
 * is due, and which reading belongs to which sample, is measure.c's. */
#ifndef CANARY_H
#define CANARY_H

#include <stdint.h>

#include "backend.h"
#include "status.h"

struct canary {
    const struct backend_ops *ops;
    struct backend_device *device;
    const void *dev_from; /* bytes of a pool, whatever they are */
    uint64_t bytes;

    /* Everything below starts as zeros. Speeds are kept in thousands per second so that the
     * statistics of times serve. */
    uint64_t *read_kb_per_s; /* [count] */
    uint64_t *pace_kops;     /* [count] operations; zeros where the device has no pace */
    uint64_t count, capacity;
    double took_ns; /* the last reading */
    double go_ns;   /* how long one go at pace took last */
};

/* One more reading. `since_ns`: of steps since the last one. Pace is kept up for a fifth of that,
 * so that long steps are not judged by a short moment. */
enum status canary_sing(struct canary *canary, double since_ns, struct status_text *text);

/* Mean of readings i and j, in millions per second. */
uint64_t canary_mean(const uint64_t *thousands, uint64_t i, uint64_t j);

void canary_free(struct canary *canary);

#endif
