/* Times decode steps of several pools against each other and against plain streaming.
 *
 * One round visits the contenders in order, the next in reverse (A B B A). The canary (canary.h),
 * over the first contender's pool, sings before the first step, after the last, and between steps
 * whenever they took as long as it did, so that it has half of the time at most. Every sample keeps
 * what the canary said around it. Inside the timed window of a step: its parts, in the order of
 * enum measure_part. Outside: plans, queries, verification. */
#ifndef MEASURE_H
#define MEASURE_H

#include <stdbool.h>
#include <stdint.h>

#include "backend.h"
#include "measure_order.h"
#include "measure_stability.h"
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

/* Samples of one contender, in the order they were taken; none is thrown away. */
struct measure_series {
    uint64_t *step_ns;                /* [count] all parts; never 0 */
    uint64_t *part_ns[MEASURE_PARTS]; /* [count] each; zeros for a part there is not */
    uint64_t *canary_mb_per_s;        /* [count] mean of its readings before and after */
    uint64_t *pace_mops;              /* [count] the same of its pace, millions of operations per
                                         second; zeros where it has none */
    uint64_t count;
    uint64_t capacity;
    double timed_ns;    /* sum of step_ns */
    uint64_t clockless; /* steps whose time the clock did not tell; they are no samples */
};

/* Why there are no more samples. */
enum measure_stop {
    MEASURE_STOP_NOT,
    MEASURE_STOP_INTERVAL, /* narrow enough, and min_time_s reached */
    MEASURE_STOP_TIME,     /* max_time_s */
    MEASURE_STOP_SAMPLES,  /* as many as were asked for */
    MEASURE_STOP_MOST,     /* MEASURE_MOST_SAMPLES */
};
const char *measure_stop_name(enum measure_stop stop); /* NULL for NOT */

struct measure_canary {
    double gb_per_s;      /* median of the readings around a contender's samples */
    double drift_percent; /* last third's median against the first third's, signed */
};

/* What came out beside the samples; with one sample at least. */
struct measure_seen {
    enum measure_stop stop;
    struct measure_interval interval; /* of the median of step_ns; zeros: too few samples */
    uint64_t outliers;                /* of step_ns, by measure_order_outliers */
    double launch_ns;                 /* measure_launch */
    struct measure_verdict verdict;
};

struct measure_contender {
    struct pool *pool;
    struct step *step;
    struct measure_work work[MEASURE_PARTS]; /* of append and attend: unused, they are `step`'s */
    struct measure_series series;            /* owned; measure_series_free */
    struct measure_canary canary;
    struct measure_seen seen;
};

enum { MEASURE_LEAST_SAMPLES = MEASURE_ORDER_LEAST, MEASURE_MOST_SAMPLES = 10000 };

/* Others who measure the same at the same time: the ranks of a tensor-parallel run. Every one of
 * them makes these calls in the same order. */
struct measure_team {
    void (*start)(void *context); /* before a sample: returns when all are there */
    /* All leave with the worst status of any, and with `more` when any wants more. */
    enum status (*agree)(void *context, enum status mine, bool *more, struct status_text *text);
    void *context;
};

struct measure_limits {
    uint64_t samples;         /* exactly this many each; 0: by the other three */
    double max_noise_percent; /* half the width of the median's 95 % interval, of the median */
    double min_time_s;        /* of timed steps, each contender */
    double max_time_s;        /* of wall time, each contender */
    const struct measure_team *team; /* NULL: alone */
    /* Called behind each reading of the canary, where nothing is timed; NULL: by nobody. */
    void (*look)(void *context);
    void *look_context;
};

/* Runs until the limits or an interrupt (STATUS_INTERRUPTED; the samples so far stay, and what was
 * seen of them). */
enum status measure_run(const struct backend_ops *ops, struct backend_device *device,
                        struct measure_contender *contenders, uint32_t count,
                        const struct measure_limits *limits, struct status_text *text);
void measure_series_free(struct measure_series *series);

/* Median, quartiles (linear interpolation), minimum, maximum. `values` is not changed.
 * STATUS_OUT_OF_MEMORY is the only failure; count must be above 0. */
enum status measure_summarise(const uint64_t *values, uint64_t count, struct writer_summary *out,
                              struct status_text *text);

/* The same of append and attention together, sample by sample: a step without what else it has. */
enum status measure_summarise_kv(const struct measure_series *series, struct writer_summary *out,
                                 struct status_text *text);

/* The canary reads at most this much: enough to be cold and steady, little enough to cost nothing.
 */
#define MEASURE_STREAM_BYTES ((uint64_t)512 << 20)

/* A clock that gives 0 or goes backwards is asked again this often, then there is no speed. */
enum { MEASURE_BAD_READINGS = 100 };
bool measure_is_time(uint64_t ns);
enum status measure_clock_refuses(struct status_text *text); /* STATUS_REFUSED */

/* One timed read of [dev_from, dev_from + bytes) by plain streaming, in GB/s. */
enum status measure_stream(const struct backend_ops *ops, struct backend_device *device,
                           const void *dev_from, uint64_t bytes, double *gb_per_s,
                           struct status_text *text);

/* One timed go at backend_ops.pace, in operations per nanosecond. */
enum status measure_pace(const struct backend_ops *ops, struct backend_device *device,
                         uint64_t rounds, double *per_ns, struct status_text *text);

/* What giving the device next to nothing costs in a timed window: a read of the 64 bytes at
 * dev_from, median of many. On a GPU a launch, on the cpu the start of its threads. */
enum status measure_launch(const struct backend_ops *ops, struct backend_device *device,
                           const void *dev_from, double *ns, struct status_text *text);

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
