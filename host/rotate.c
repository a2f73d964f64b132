/* Fast Walsh-Hadamard transforms of test data. */
#include "rotate.h"

#include <math.h>

#include "model_reads.h"

enum { ROTATE_LEAST_POINTS = 64 };

static bool is_quantised(enum format_id format) {
    return format < FORMAT_COUNT && format_get(format)->value_bits < 16;
}

static uint32_t most_points(uint32_t values) {
    uint32_t points = ROTATE_LEAST_POINTS;
    while (values % (2 * points) == 0)
        points *= 2;
    return points;
}

static bool fits(uint32_t values) {
    return values > 0 && values % ROTATE_LEAST_POINTS == 0;
}

struct rotate_points rotate_points_of(enum model_kind kind, const struct page_shape *shape) {
    struct rotate_points points = {0, 0};
    if (!model_reads_has_rows(kind))
        return points;
    if (is_quantised(shape->k_format) && fits(shape->k_dim))
        points.k = most_points(shape->k_dim);
    if (!shape->v_in_k && is_quantised(shape->v_format) && fits(shape->v_dim))
        points.v = ROTATE_LEAST_POINTS;
    return points;
}

bool rotate_any(const struct model *model, const struct formula_storage *storage) {
    for (uint32_t g = 0; g < model->group_count; g++) {
        struct page_shape shape;
        enum format_id k_format = storage->k_format, v_format = storage->v_format;
        if (model->groups[g].kind == MODEL_INDEX) {
            if (!formula_index_storage(storage->index, &k_format))
                continue;
            v_format = k_format;
        }
        if (model_page_shape(&model->groups[g], k_format, v_format, 1, &shape, NULL) != STATUS_OK)
            continue;
        const struct rotate_points points = rotate_points_of(model->groups[g].kind, &shape);
        if (points.k > 0 || points.v > 0)
            return true;
    }
    return false;
}

bool rotate_unfit(const struct model_group *group) {
    struct page_shape shape;
    if (!model_reads_has_rows(group->kind) ||
        model_page_shape(group, FORMAT_Q8_0, FORMAT_Q8_0, 1, &shape, NULL) != STATUS_OK)
        return false;
    return !fits(shape.k_dim) || (!shape.v_in_k && !fits(shape.v_dim));
}

void rotate_values(float *values, uint64_t count, uint32_t points) {
    const float scale = 1.0f / sqrtf((float)points);
    for (uint64_t first = 0; first < count; first += points) {
        float *x = values + first;
        for (uint32_t half = 1; half < points; half *= 2) {
            for (uint32_t at = 0; at < points; at += 2 * half) {
                for (uint32_t i = at; i < at + half; i++) {
                    const float a = x[i], b = x[i + half];
                    x[i] = a + b;
                    x[i + half] = a - b;
                }
            }
        }
        for (uint32_t i = 0; i < points; i++)
            x[i] *= scale;
    }
}

void rotate_bank(struct generate_bank *bank, struct rotate_points points) {
    const uint64_t rows = bank->rows * bank->kv_heads;
    if (points.k > 0) {
        rotate_values(bank->k, rows * bank->k_dim, points.k);
        bank->k_amax = generate_largest(bank->k, rows * bank->k_dim);
    }
    if (points.v > 0) {
        rotate_values(bank->v, rows * bank->v_dim, points.v);
        bank->v_amax = generate_largest(bank->v, rows * bank->v_dim);
    }
}

void rotate_queries(float *queries, uint64_t count, uint32_t points) {
    if (points == 0)
        return;
    rotate_values(queries, count, points);
    for (uint64_t i = 0; i < count; i++)
        queries[i] = generate_exact(queries[i]);
}
