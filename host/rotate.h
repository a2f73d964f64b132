/* What llama.cpp does to K and V before it quantises them (src/llama-kv-cache.cpp, master of
 * 2026-07-24): rows of quantised formats whose length is a multiple of 64 are multiplied by an
 * orthonormal Walsh-Hadamard matrix, which spreads outliers over many values. K: by the largest of
 * 64, 128, 256 ... points that divides the row, and the queries with it, so that all scores stay as
 * they are; V: by 64 points. A row that is K and V (latents) is K's.
 *
 * Nothing is turned back: an output is the sum of V's rotated rows, so it is the output rotated,
 * and a relative L2 error does not change under an orthonormal rotation. */
#ifndef ROTATE_H
#define ROTATE_H

#include <stdbool.h>
#include <stdint.h>

#include "formula.h"
#include "generate.h"
#include "model.h"
#include "page.h"

/* How many neighbouring values are turned together; 0: the rows stay as they are. */
struct rotate_points {
    uint32_t k;
    uint32_t v;
};

/* Of one group's rows in quantised formats; states stay as they are. (llama.cpp rotates index keys
 * in every type; here they follow the rule of the others.) */
struct rotate_points rotate_points_of(enum model_kind kind, const struct page_shape *shape);
/* Whether anything of a model in these formats is rotated. */
bool rotate_any(const struct model *model, const struct formula_storage *storage);
/* Whether the length of a group's rows keeps them from it, whatever their format. */
bool rotate_unfit(const struct model_group *group);

/* The transform, its own inverse: each `points` (a power of two) of the `count` values; count is a
 * multiple of points. Sums and one product, the same bits on every machine. */
void rotate_values(float *values, uint64_t count, uint32_t points);

/* All rows of a bank, and its largest magnitudes. */
void rotate_bank(struct generate_bank *bank, struct rotate_points points);
/* Queries, rounded again so that they stay exact in bf16 and f16. points may be 0. */
void rotate_queries(float *queries, uint64_t count, uint32_t points);

#endif
