/* Trend by thirds and ranks; two heaps by the split of least absolute deviation. */
#include "measure_stability.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure_order.h"

const char *measure_stability_name(enum measure_stability stability) {
    static const char *const names[] = {NULL, "steady", "drifts", "two speeds", "throttled"};
    return names[stability];
}

static double median_of(const uint64_t *values, uint64_t count, uint64_t *scratch) {
    memcpy(scratch, values, count * sizeof *scratch);
    measure_order_sort(scratch, count);
    return measure_order_quantile(scratch, count, 0.5);
}

/* The middle of the ranks (from 0) that equal values share. */
static double rank_of(uint64_t value, const uint64_t *sorted, uint64_t count) {
    uint64_t bounds[2]; /* values below, values not above */
    for (int side = 0; side < 2; side++) {
        uint64_t from = 0, to = count;
        while (from < to) {
            const uint64_t middle = from + (to - from) / 2;
            if (sorted[middle] < value || (side == 1 && sorted[middle] == value))
                from = middle + 1;
            else
                to = middle;
        }
        bounds[side] = from;
    }
    return (double)(bounds[0] + bounds[1] - 1) / 2;
}

static double order_strength(const uint64_t *values, uint64_t count, const uint64_t *sorted) {
    const double middle = (double)(count - 1) / 2;
    double both = 0, of_ranks = 0, of_order = 0;
    for (uint64_t i = 0; i < count; i++) {
        const double rank = rank_of(values[i], sorted, count) - middle;
        const double order = (double)i - middle;
        both += rank * order;
        of_ranks += rank * rank;
        of_order += order * order;
    }
    if (!(of_ranks > 0))
        return 0; /* all values are equal */
    return both / sqrt(of_ranks * of_order) * sqrt((double)(count - 1));
}

void measure_trend_find(const uint64_t *values, uint64_t count, uint64_t *scratch,
                        struct measure_trend *out) {
    *out = (struct measure_trend){.known = count >= MEASURE_TREND_LEAST};
    if (!out->known)
        return;
    const uint64_t third = count / 3;
    const double first = median_of(values, third, scratch);
    const double last = median_of(values + count - third, third, scratch);
    if (first > 0)
        out->percent = (last / first - 1) * 100;
    memcpy(scratch, values, count * sizeof *scratch);
    measure_order_sort(scratch, count);
    out->strength = order_strength(values, count, scratch);
}

bool measure_trend_is_drift(const struct measure_trend *trend) {
    return trend->known && fabs(trend->percent) > MEASURE_DRIFT_PERCENT &&
           fabs(trend->strength) > MEASURE_DRIFT_STRENGTH && trend->percent * trend->strength > 0;
}

/* Sum of the distances of sorted[from, to) to their median; sums[i] is that of the first i. */
static double deviation(const uint64_t *sorted, const double *sums, uint64_t from, uint64_t to) {
    const uint64_t middle = from + (to - from) / 2;
    const double median = (double)sorted[middle];
    return median * (double)(middle - from) - (sums[middle] - sums[from]) +
           (sums[to] - sums[middle]) - median * (double)(to - middle);
}

/* How wide the heaps may be, both quartile distances together, beside the distance of their
 * centres. Of few samples chance makes narrow heaps easily. By simulation (normal, uniform,
 * exponential, lognormal, Pareto and gamma noise, 2,000 draws each of 20, 30 and 60 samples) these
 * call at most 1.1 in a hundred of one heap two; of two normal heaps eight deviations apart they
 * see 32, 76 and 100 in a hundred. */
static double widest(uint64_t count) {
    return count < 30 ? 0.25 : count < 60 ? 0.35 : 0.5;
}

static double quartile_distance(const uint64_t *sorted, uint64_t count) {
    return measure_order_quantile(sorted, count, 0.75) -
           measure_order_quantile(sorted, count, 0.25);
}

static void split(const uint64_t *sorted, const double *sums, uint64_t count,
                  struct measure_speeds *out) {
    const uint64_t least = (uint64_t)ceil((double)count * MEASURE_SPEEDS_SHARE);
    uint64_t at = least;
    double fewest = INFINITY;
    for (uint64_t i = least; i <= count - least; i++) {
        const double sum = deviation(sorted, sums, 0, i) + deviation(sorted, sums, i, count);
        if (sum < fewest) {
            fewest = sum;
            at = i;
        }
    }
    out->low = measure_order_quantile(sorted, at, 0.5);
    out->high = measure_order_quantile(sorted + at, count - at, 0.5);
    out->low_share = (double)at / (double)count;
    const double apart = out->high - out->low;
    const double wide = quartile_distance(sorted, at) + quartile_distance(sorted + at, count - at);
    out->two = apart * 100 > out->low * MEASURE_SPEEDS_PERCENT && wide <= apart * widest(count);
}

void measure_speeds_find(const uint64_t *sorted, uint64_t count, double *scratch,
                         struct measure_speeds *out) {
    *out = (struct measure_speeds){0};
    if (count < MEASURE_TWO_SPEEDS_LEAST)
        return;
    scratch[0] = 0;
    for (uint64_t i = 0; i < count; i++)
        scratch[i + 1] = scratch[i] + (double)sorted[i];
    split(sorted, scratch, count, out);
}

static void say_speeds(const struct measure_speeds *speeds, struct measure_verdict *out) {
    out->stability = MEASURE_TWO_SPEEDS;
    (void)snprintf(out->words, sizeof out->words,
                   "two speeds: %.0f %% of the steps took about %.4g ms, the others %.4g ms",
                   100 * speeds->low_share, speeds->low * 1e-6, speeds->high * 1e-6);
}

static void say_drift(const struct measure_trend *step, const struct measure_trend *canary,
                      struct measure_verdict *out) {
    char steps[80] = "", ceiling[80] = "";
    if (measure_trend_is_drift(step))
        (void)snprintf(steps, sizeof steps, "steps of the last third took %.0f %% %s",
                       fabs(step->percent), step->percent > 0 ? "longer" : "less");
    if (measure_trend_is_drift(canary))
        (void)snprintf(ceiling, sizeof ceiling, "the read ceiling moved by %+.0f %%",
                       canary->percent);
    if (steps[0] == '\0' && ceiling[0] == '\0')
        return;
    out->stability = MEASURE_DRIFTS;
    (void)snprintf(out->words, sizeof out->words, "drifts: %s%s%s", steps,
                   steps[0] != '\0' && ceiling[0] != '\0' ? ", " : "", ceiling);
}

enum status measure_stability_judge(const uint64_t *step_ns, uint64_t count,
                                    const uint64_t *canary_kb_per_s, uint64_t canary_count,
                                    struct measure_verdict *out, struct status_text *text) {
    *out = (struct measure_verdict){0};
    const uint64_t most = count > canary_count ? count : canary_count;
    uint64_t *scratch = malloc((most + 1) * sizeof *scratch);
    double *sums = malloc((count + 1) * sizeof *sums);
    if (scratch == NULL || sums == NULL) {
        free(scratch);
        free(sums);
        return status_set(text, STATUS_OUT_OF_MEMORY, "no host memory for %llu samples",
                          (unsigned long long)most);
    }
    struct measure_trend step, canary;
    measure_trend_find(step_ns, count, scratch, &step);
    measure_trend_find(canary_kb_per_s, canary_count, scratch, &canary);
    struct measure_speeds speeds;
    memcpy(scratch, step_ns, count * sizeof *scratch);
    measure_order_sort(scratch, count);
    measure_speeds_find(scratch, count, sums, &speeds);
    free(scratch);
    free(sums);
    if (step.known)
        out->stability = MEASURE_STEADY;
    say_drift(&step, &canary, out);
    if (speeds.two)
        say_speeds(&speeds, out);
    return STATUS_OK;
}
