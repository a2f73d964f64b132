/* Times decode steps of several pools against each other and against plain streaming.
 *
 * One round visits the contenders in order, the next in reverse (A B B A), and the canary - the
 * ceiling kernel over the first contender's pool - runs before, between and after them, so that a
 * machine that changes speed changes it for all. Inside the timed window of a step: its parts, in
 * the order of enum measure_part. Outside: plans, queries, verification. */
#ifndef MEASURE_H
#define MEASURE_H

#include <stdbool.h>
#include <stdint.h>

#include "backend.h"
#include "pool.h"
#include "status.h"
#include "step.h"
#include "writer.h"

/* What a step consists of, in order, each between two time marks. */
enum measure_part {
    MEASURE_APPEND,  /* one token per sequence in every layer; recurrent states' step */
    MEASURE_ATTEND,  /* attention in every layer, combine pass included; scores and choices */
    MEASURE_REDUCE,  /* the ranks of a tensor-parallel run add their outputs up */
    MEASURE_WEIGHTS, /* --weights-read */
    MEASURE_PARTS,
};

/* One part of a step that is not the step's own: given to the device in order, no wait. */
struct measure_work {
    enum status (*run)(void *context, struct status_text *text); /* NULL: there is no such part */
    void *context;
};

/* Samples of one contender. */
struct measure_series {
    uint64_t *step_ns;                /* [count] all parts */
    uint64_t *part_ns[MEASURE_PARTS]; /* [count] each; zeros for a part there is not */
    uint64_t count;
    uint64_t capacity;
};

struct measure_contender {
    struct pool *pool;
    struct step *step;
    struct measure_work work[MEASURE_PARTS]; /* of append and attend: unused, they are `step`'s */
    struct measure_series series;            /* owned; measure_series_free */
};

/* Others who measure the same at the same time: the ranks of a tensor-parallel run. Every one of
 * them makes these calls in the same order. */
struct measure_team {
    void (*start)(void *context); /* before a sample: returns when all are there */
    /* All leave with the worst status of any, and with `more` when any wants more. */
    enum status (*agree)(void *context, enum status mine, bool *more, struct status_text *text);
    void *context;
};

struct measure_limits {
    uint64_t samples;                /* exactly this many each; 0: until min_time_s */
    double min_time_s;               /* of timed steps, each contender */
    double max_time_s;               /* of wall time, each contender */
    const struct measure_team *team; /* NULL: alone */
};

struct measure_canary {
    double gb_per_s;      /* median over the run */
    double drift_percent; /* last third's median against the first third's, signed */
};

/* Runs until the limits or an interrupt (STATUS_INTERRUPTED; the samples so far stay). */
enum status measure_run(const struct backend_ops *ops, struct backend_device *device,
                        struct measure_contender *contenders, uint32_t count,
                        const struct measure_limits *limits, struct measure_canary *canary,
                        struct status_text *text);
void measure_series_free(struct measure_series *series);

/* Median, quartiles (linear interpolation), minimum, maximum. `values` is not changed.
 * STATUS_OUT_OF_MEMORY is the only failure; count must be above 0. */
enum status measure_summarise(const uint64_t *values, uint64_t count, struct writer_summary *out,
                              struct status_text *text);

/* One timed read of [dev_from, dev_from + bytes) by plain streaming, in GB/s. */
enum status measure_stream(const struct backend_ops *ops, struct backend_device *device,
                           const void *dev_from, uint64_t bytes, double *gb_per_s,
                           struct status_text *text);

/* The size at which streaming reads reach their plateau: from there on caches no longer help.
 * Sweeps buffers from 1 MiB up; `points` (may be NULL) receives each size's GB/s. */
enum { MEASURE_SWEEP_POINTS = 10 };
struct measure_sweep {
    uint64_t bytes[MEASURE_SWEEP_POINTS];
    double gb_per_s[MEASURE_SWEEP_POINTS];
    uint32_t count;
    uint64_t plateau_bytes; /* the first size within a quarter of the last one's speed */
};
enum status measure_sweep_run(const struct backend_ops *ops, struct backend_device *device,
                              struct measure_sweep *out, struct status_text *text);

#endif
