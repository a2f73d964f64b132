/* The time of a step as a fixed part and a part for each token of context, and where one format
 * passes another. Pure functions over medians and their intervals; whose they are is fit_rows.c's.
 *
 * Least squares of relative errors (weights 1 / time^2): samples scatter in proportion to their
 * time, and lengths usually double, so that unweighted the longest length alone would decide and
 * its noise would be the fixed part. scripts/fit_lines.py does the same from rows. */
#ifndef FIT_H
#define FIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FIT_LEAST_LENGTHS = 3, FIT_WORDS_BYTES = 512 };

struct fit_point {
    double tokens;          /* of context, one sequence */
    double ns;              /* median, above 0 */
    double low_ns, high_ns; /* its interval; 0 and 0: not known */
};

struct fit_line {
    double fixed_ns, per_token_ns;
};

struct fit {
    struct fit_line line;
    bool has_interval;         /* of every point */
    struct fit_line low, high; /* of the intervals' ends, all low and all high */
    double worst_percent;      /* the largest distance of a point from the line, of its time */
    uint32_t lengths;          /* distinct ones */
    double first_tokens, last_tokens;
};

/* false: fewer than FIT_LEAST_LENGTHS distinct lengths, and no fit. */
bool fit_make(const struct fit_point *points, size_t count, struct fit *out);

/* "1234.5 us + 12.345 ns per token (4 lengths, 4k to 32k; off by 1.2 % at most)" */
void fit_words(const struct fit *fit, char out[FIT_WORDS_BYTES]);

enum fit_order {
    FIT_NO_ORDER,   /* no lengths in common */
    FIT_SAME,       /* within each other's intervals at both ends of the common lengths */
    FIT_PASSES,     /* slower, then faster */
    FIT_FALLS_BACK, /* faster, then slower */
    FIT_ALWAYS,     /* faster at all common lengths */
    FIT_NEVER,
};

/* Lines that cross do so at `at`, which lies outside the common lengths with ALWAYS and NEVER: it
 * is an extrapolation, and 0 where it would be further out than FIT_FURTHEST times. */
#define FIT_FURTHEST 16.0
struct fit_crossing {
    enum fit_order order;
    double from_tokens, to_tokens; /* the common lengths */
    double at;
    bool passes_there; /* at `at` slower becomes faster; else faster becomes slower */
    bool has_interval;
    double early, late; /* of `at`, by the ends of the medians' intervals; 0, infinity: no end */
};
void fit_cross(const struct fit *mine, const struct fit *baseline, struct fit_crossing *out);

/* "q8_0 passes bf16 at 6.1k tokens (5.4k to 7.0k)"; "" without an order. */
void fit_crossing_words(const struct fit_crossing *crossing, const char *mine, const char *baseline,
                        char out[FIT_WORDS_BYTES]);

#endif
