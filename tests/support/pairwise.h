/* Pairwise covering: few rows in which every two values of every two axes meet at least once,
 * where the rules allow them to. Greedy, seeded, the same rows on every machine. */
#ifndef PAIRWISE_H
#define PAIRWISE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PAIRWISE_MAX_AXES = 16 };
#define PAIRWISE_ANY UINT32_MAX /* an axis not decided yet */

struct pairwise {
    uint32_t axis_count;
    uint32_t axis_sizes[PAIRWISE_MAX_AXES];
    /* May these values stand in one row? Called with undecided axes too: false only when no
     * choice for those can help. NULL: everything may. */
    bool (*allowed)(const uint32_t *values);
};

/* Fills rows[count][axis_count], at most `capacity` rows. Returns how many; 0 when `capacity` is
 * too small, memory is out, or a pair the rules allow found no row (the rules contradict what
 * they say of undecided axes). */
size_t pairwise_generate(const struct pairwise *plan, uint64_t seed, uint32_t *rows,
                         size_t capacity);

/* Pairs of values that the rules allow and no row holds. */
size_t pairwise_missing(const struct pairwise *plan, const uint32_t *rows, size_t count);

#endif
