/* Whether samples, in the order they were taken, are of one steady machine: they may drift, or flip
 * between two speeds. Pure and deterministic functions over arrays; throttling is told by other
 * means (clocks, the driver's reasons) and only has its name here. */
#ifndef MEASURE_STABILITY_H
#define MEASURE_STABILITY_H

#include <stdbool.h>
#include <stdint.h>

#include "status.h"

enum measure_stability {
    MEASURE_STABILITY_UNKNOWN, /* too few samples to tell */
    MEASURE_STEADY,
    MEASURE_DRIFTS,
    MEASURE_TWO_SPEEDS,
    MEASURE_THROTTLED, /* never found here */
};
/* "steady", "drifts", "two speeds", "throttled"; NULL for unknown. */
const char *measure_stability_name(enum measure_stability stability);

enum {
    MEASURE_TREND_LEAST = 9,       /* three samples in each third */
    MEASURE_TWO_SPEEDS_LEAST = 20, /* below, chance alone looks like two speeds too often */
};
/* A drift: the last third's median this far from the first third's ... */
#define MEASURE_DRIFT_PERCENT 5.0
/* ... and values in an order that chance gives once in a hundred times. */
#define MEASURE_DRIFT_STRENGTH 2.576
/* Two speeds: centres this far apart, in percent of the lower ... */
#define MEASURE_SPEEDS_PERCENT 10.0
/* ... each with this part of the samples at least. */
#define MEASURE_SPEEDS_SHARE 0.2

/* How values move with the order they were taken in. */
struct measure_trend {
    bool known;     /* MEASURE_TREND_LEAST values at least */
    double percent; /* the last third's median against the first third's, signed */
    /* Spearman's rank correlation with the order, times the root of count - 1: of values in no
     * order, normal with deviation 1; signed. */
    double strength;
};

/* `scratch` holds count; nothing else is changed. */
void measure_trend_find(const uint64_t *values, uint64_t count, uint64_t *scratch,
                        struct measure_trend *out);
bool measure_trend_is_drift(const struct measure_trend *trend);

/* Samples in two heaps: each narrow beside what is between them. */
struct measure_speeds {
    bool two;
    double low, high; /* medians of the heaps */
    double low_share; /* of the samples, 0..1 */
};
/* The heaps are those with the least sum of distances to their own medians; a few far outliers do
 * not make one. `scratch` holds count + 1. */
void measure_speeds_find(const uint64_t *sorted, uint64_t count, double *scratch,
                         struct measure_speeds *out);

enum { MEASURE_STABILITY_WORDS_BYTES = 200 };
struct measure_verdict {
    enum measure_stability stability;
    char words[MEASURE_STABILITY_WORDS_BYTES]; /* "" when there is nothing to say */
};
/* Of one contender: its samples in order, and the canary's readings while they were taken.
 * STATUS_OUT_OF_MEMORY is the only failure. */
enum status measure_stability_judge(const uint64_t *step_ns, uint64_t count,
                                    const uint64_t *canary_kb_per_s, uint64_t canary_count,
                                    struct measure_verdict *out, struct status_text *text);

#endif
