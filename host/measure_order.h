/* Order statistics of samples: quantiles, and the confidence interval of a median without any
 * assumption about how samples are distributed. Pure functions over arrays; when to stop sampling
 * is measure.c's. */
#ifndef MEASURE_ORDER_H
#define MEASURE_ORDER_H

#include <stdbool.h>
#include <stdint.h>

/* Below this many samples not even their whole range covers the median at 95 %. */
enum { MEASURE_ORDER_LEAST = 6 };

/* Ascending, in place. */
void measure_order_sort(uint64_t *values, uint64_t count);

/* 0 <= at <= 1, linear interpolation; count above 0. */
double measure_order_quantile(const uint64_t *sorted, uint64_t count, double at);

/* k: the 95 % interval of the median reaches from the k-th smallest sample to the k-th largest, the
 * largest k for which P(Binomial(count, 1/2) < k) is at most 2.5 %. 0: too few samples for one. */
uint64_t measure_order_rank(uint64_t count);

struct measure_interval {
    uint64_t low, high; /* both are samples; 0 and 0: there is none */
};
/* `independent`: how many of them tell something of their own, `count` at most; where it is fewer,
 * the same part of the samples is left out at either end as of that many, and below 6 nothing is.
 */
struct measure_interval measure_order_interval(const uint64_t *sorted, uint64_t count,
                                               uint64_t independent);

/* How many independent samples would tell as much of the median, from 1 to `count`, by how often
 * neighbours in the order in which they were taken lie on the same side of it: a machine that
 * changes speed every tenth sample gives a tenth of them. count * (1 - r) / (1 + r), as of a
 * process whose correlation falls by r from sample to sample, r being that of the sides. */
uint64_t measure_order_independent(const uint64_t *in_order, uint64_t count, double median);

/* Half the interval's width in percent of the median; infinite without an interval. */
double measure_order_noise_percent(const uint64_t *sorted, uint64_t count, uint64_t independent);

/* How many samples lie further than one and a half times the quartiles' distance outside them. */
uint64_t measure_order_outliers(const uint64_t *sorted, uint64_t count);

#endif
