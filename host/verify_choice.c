/* An index against double precision and against its own scores. */
#include "verify_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reference.h"
#include "stored.h"

enum { CHOICE_MOST_KEYS = 4096 };

/* Keys are exact in the kernels' arithmetic and queries too, so what is left is fp32 summing: this
 * part of the sum of magnitudes. */
#define CHOICE_TOLERANCE 1e-4

/* score = sum over heads of weight * max(0, query . key); the sum of magnitudes beside it. */
static double score_of(const struct step_choice *choice, uint32_t key_dim, const double *key,
                       double *magnitude) {
    double score = 0;
    *magnitude = 0;
    for (uint32_t head = 0; head < choice->heads; head++) {
        const float *query = choice->queries + (uint64_t)head * key_dim;
        double dot = 0, size = 0;
        for (uint32_t i = 0; i < key_dim; i++) {
            dot += (double)query[i] * key[i];
            size += fabs((double)query[i] * key[i]);
        }
        score += (double)choice->weights[head] * (dot > 0 ? dot : 0);
        *magnitude += fabs((double)choice->weights[head]) * size;
    }
    return score;
}

static enum status check_scores(const struct verifier *v, uint32_t g, uint32_t layer, uint32_t seq,
                                const struct step_choice *choice, const float *scores,
                                struct status_text *text) {
    const uint64_t rows = pool_group_rows(v->pool, g)[seq];
    const uint32_t key_dim = pool_group_page(v->pool, g)->shape.k_dim;
    struct backend_cache cache;
    pool_cache(v->pool, g, layer, &cache);
    struct stored stored;
    const struct pool_pages *tables = pool_group_pages(v->pool, g);
    enum status status = STATUS_OK;
    if (!stored_in_place(v->ops, v->device, &cache, tables, &stored))
        status = stored_read(v->ops, v->device, &cache, tables, seq, 0, rows, &stored, text);
    double *key = malloc(key_dim * sizeof *key);
    if (status == STATUS_OK && key == NULL)
        status = status_set(text, STATUS_OUT_OF_MEMORY, "no host memory to verify");
    const struct reference_view view = {.page = &cache.page,
                                        .pages = stored.pages,
                                        .page_table = stored.tables + seq * stored.table_step,
                                        .page_table_columns = tables->columns,
                                        .k_tensor_scale = cache.k_tensor_scale,
                                        .v_tensor_scale = cache.v_tensor_scale,
                                        .exact_k = pool_bank(v->pool, g)->k,
                                        .exact_rows = pool_bank(v->pool, g)->rows,
                                        .exact_first_row = pool_first_row(v->pool, g, layer, seq)};
    uint64_t wrong = 0;
    if (status == STATUS_OK)
        status = stored_check_codes(&view, 0, 0, rows, &wrong);
    if (status == STATUS_WRONG)
        (void)status_set(text, STATUS_WRONG,
                         "index group %u layer %u sequence %u: key %llu is not stored as its "
                         "format makes it",
                         g, layer, seq, (unsigned long long)wrong);
    const uint64_t every = rows / CHOICE_MOST_KEYS + 1;
    for (uint64_t t = 0; t < rows && status == STATUS_OK; t += every) {
        double magnitude;
        reference_row(&view, 0, t, key);
        const double exact = score_of(choice, key_dim, key, &magnitude);
        if (!(fabs((double)scores[t] - exact) <= CHOICE_TOLERANCE * magnitude))
            status = status_set(text, STATUS_WRONG,
                                "index group %u layer %u sequence %u: key %llu scores %.6g and "
                                "should %.6g",
                                g, layer, seq, (unsigned long long)t, (double)scores[t], exact);
    }
    free(key);
    stored_free(&stored);
    return status;
}

struct scored {
    float score;
    int32_t place;
};

static bool is_better(const struct scored *a, const struct scored *b) {
    const float x = isnan(a->score) ? -INFINITY : a->score;
    const float y = isnan(b->score) ? -INFINITY : b->score;
    if (isnan(a->score) != isnan(b->score) && x == y)
        return isnan(b->score);
    return x > y || (x == y && a->place < b->place);
}

static int by_score(const void *a, const void *b) {
    return is_better(a, b) ? -1 : is_better(b, a) ? 1 : 0;
}

static int by_place(const void *a, const void *b) {
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* The rule of backend.h, by sorting everything. */
static enum status check_selected(uint32_t g, uint32_t layer, uint32_t seq, const float *scores,
                                  uint64_t rows, uint32_t top_k, const int32_t *selected,
                                  struct status_text *text) {
    const uint64_t count = rows < top_k ? rows : top_k;
    struct scored *all = malloc((rows + 1) * sizeof *all);
    int32_t *best = malloc((count + 1) * sizeof *best);
    enum status status = STATUS_OK;
    if (all == NULL || best == NULL) {
        status = status_set(text, STATUS_OUT_OF_MEMORY, "no host memory to verify");
    } else {
        for (uint64_t i = 0; i < rows; i++)
            all[i] = (struct scored){scores[i], (int32_t)i};
        qsort(all, rows, sizeof *all, by_score);
        for (uint64_t i = 0; i < count; i++)
            best[i] = all[i].place;
        qsort(best, count, sizeof *best, by_place);
        for (uint64_t i = 0; i < top_k && status == STATUS_OK; i++) {
            const int32_t right = i < count ? best[i] : -1;
            if (selected[i] != right)
                status = status_set(text, STATUS_WRONG,
                                    "index group %u layer %u sequence %u: choice %llu is %d and "
                                    "should be %d",
                                    g, layer, seq, (unsigned long long)i, selected[i], right);
        }
    }
    free(all);
    free(best);
    return status;
}

enum status verify_choice(const struct verifier *v, uint32_t g, uint32_t layer, uint32_t seq,
                          int32_t **selected, struct status_text *text) {
    struct step_choice choice;
    step_choice_get(v->step, g, seq, &choice);
    const uint64_t rows = pool_group_rows(v->pool, g)[seq];
    float *scores = malloc((rows + 1) * sizeof *scores);
    *selected = malloc(((uint64_t)choice.top_k + 1) * sizeof **selected);
    enum status status = STATUS_OK;
    if (scores == NULL || *selected == NULL)
        status = status_set(text, STATUS_OUT_OF_MEMORY, "no host memory to verify");
    if (status == STATUS_OK)
        status = step_choice_read(v->step, g, seq, scores, *selected, text);
    if (status == STATUS_OK)
        status = check_scores(v, g, layer, seq, &choice, scores, text);
    if (status == STATUS_OK)
        status = check_selected(g, layer, seq, scores, rows, choice.top_k, *selected, text);
    free(scores);
    return status;
}
