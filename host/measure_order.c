/* Sorting, quantiles and the binomial behind the interval. */
#include "measure_order.h"

#include <math.h>
#include <stdlib.h>

static int compare_u64(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

void measure_order_sort(uint64_t *values, uint64_t count) {
    qsort(values, count, sizeof *values, compare_u64);
}

double measure_order_quantile(const uint64_t *sorted, uint64_t count, double at) {
    const double position = at * (double)(count - 1);
    const uint64_t below = (uint64_t)position;
    const uint64_t above = below + 1 < count ? below + 1 : below;
    const double part = position - (double)below;
    return (double)sorted[below] * (1 - part) + (double)sorted[above] * part;
}

uint64_t measure_order_rank(uint64_t count) {
    if (count < MEASURE_ORDER_LEAST)
        return 0;
    /* In logarithms: 2^-count itself is no double from 1,075 samples on. */
    double log_term = -(double)count * log(2.0), below = 0;
    uint64_t k = 0;
    for (;; k++) {
        below += exp(log_term);
        if (below > 0.025)
            return k;
        log_term += log((double)(count - k)) - log((double)(k + 1));
    }
}

uint64_t measure_order_independent(const uint64_t *in_order, uint64_t count, double median) {
    int64_t alike = 0, aside = 0;
    int before = 0;
    for (uint64_t i = 0; i < count; i++) {
        const double value = (double)in_order[i];
        const int side = (value > median) - (value < median);
        alike += side * before;
        aside += side != 0;
        before = side;
    }
    if (alike <= 0)
        return count;
    const double r = (double)alike / (double)aside;
    const uint64_t independent = (uint64_t)((double)count * (1 - r) / (1 + r));
    return independent > 0 ? independent : 1;
}

struct measure_interval measure_order_interval(const uint64_t *sorted, uint64_t count,
                                               uint64_t independent) {
    if (count < MEASURE_ORDER_LEAST)
        return (struct measure_interval){0};
    uint64_t k = measure_order_rank(independent) * count / independent;
    k = k > 0 ? k : 1;
    return (struct measure_interval){.low = sorted[k - 1], .high = sorted[count - k]};
}

double measure_order_noise_percent(const uint64_t *sorted, uint64_t count, uint64_t independent) {
    const struct measure_interval interval = measure_order_interval(sorted, count, independent);
    const double median = count > 0 ? measure_order_quantile(sorted, count, 0.5) : 0;
    if (interval.high == 0 || !(median > 0))
        return INFINITY;
    return 50 * (double)(interval.high - interval.low) / median;
}

uint64_t measure_order_outliers(const uint64_t *sorted, uint64_t count) {
    if (count == 0)
        return 0;
    const double q1 = measure_order_quantile(sorted, count, 0.25);
    const double q3 = measure_order_quantile(sorted, count, 0.75);
    const double reach = 1.5 * (q3 - q1);
    uint64_t outliers = 0;
    for (uint64_t i = 0; i < count; i++)
        outliers += (double)sorted[i] < q1 - reach || (double)sorted[i] > q3 + reach;
    return outliers;
}
