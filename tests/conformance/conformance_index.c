/* Runs a backend's index functions and judges what they leave. */
#include "conformance_index.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend_check.h"

enum { SEED = 23, POISON = 0xFF, SPARE_SCORES = 5 };

static enum status upload(const struct backend_ops *ops, struct backend_device *device,
                          const void *from, uint64_t bytes, struct backend_memory *out,
                          struct status_text *text) {
    const enum status status = ops->memory_allocate(device, bytes, "index", out, text);
    return status == STATUS_OK ? ops->memory_write(device, out->dev_address, from, bytes, text)
                               : status;
}

/* Memory of `bytes` and a guard, poisoned. */
static enum status allocate_poisoned(const struct backend_ops *ops, struct backend_device *device,
                                     uint64_t bytes, struct backend_memory *out,
                                     struct status_text *text) {
    const uint64_t all = bytes + CONFORMANCE_GUARD_BYTES;
    const enum status status = ops->memory_allocate(device, all, "index results", out, text);
    return status == STATUS_OK ? ops->memory_fill(device, out->dev_address, POISON, all, text)
                               : status;
}

static enum status check_guard(const struct backend_ops *ops, struct backend_device *device,
                               const struct backend_memory *memory, uint64_t at,
                               struct status_text *text) {
    uint8_t guard[CONFORMANCE_GUARD_BYTES];
    enum status status = ops->memory_read(device, guard, (const uint8_t *)memory->dev_address + at,
                                          sizeof guard, text);
    for (size_t i = 0; i < sizeof guard && status == STATUS_OK; i++)
        if (guard[i] != POISON)
            status = status_set(text, STATUS_WRONG, "byte %zu behind the results was written", i);
    return status;
}

static enum status make_inputs(const struct conformance_world *world,
                               struct conformance_scores *out, struct status_text *text) {
    const uint64_t rows = (uint64_t)world->seqs * out->heads;
    const uint32_t dim = world->which->k_dim;
    out->queries = malloc(rows * dim * sizeof *out->queries);
    out->weights = malloc(rows * sizeof *out->weights);
    out->scores = malloc(world->seqs * out->stride * sizeof *out->scores);
    if (out->queries == NULL || out->weights == NULL || out->scores == NULL)
        return status_set(text, STATUS_OUT_OF_MEMORY, "no memory for index scores");
    generate_queries(SEED, dim, world->which->data, world->seqs, out->heads, dim, out->queries);
    struct generate_random random;
    generate_random_seed(&random, SEED);
    for (uint64_t i = 0; i < rows; i++)
        out->weights[i] = generate_random_normal(&random);
    return STATUS_OK;
}

enum status conformance_score(struct conformance_world *world, uint32_t heads,
                              struct conformance_scores *out, struct status_text *text) {
    const struct backend_ops *ops = world->ops;
    struct backend_device *device = world->device;
    uint64_t longest = 0;
    for (uint32_t s = 0; s < world->seqs; s++)
        longest = world->lengths[s] > longest ? world->lengths[s] : longest;
    *out = (struct conformance_scores){.heads = heads, .stride = longest + SPARE_SCORES};
    enum status status = make_inputs(world, out, text);
    const uint64_t rows = (uint64_t)world->seqs * heads;
    const uint64_t score_bytes = world->seqs * out->stride * sizeof *out->scores;
    struct backend_memory queries = {0}, weights = {0}, lengths = {0}, scores = {0};
    if (status == STATUS_OK)
        status = upload(ops, device, out->queries, rows * world->which->k_dim * sizeof(float),
                        &queries, text);
    if (status == STATUS_OK)
        status = upload(ops, device, out->weights, rows * sizeof(float), &weights, text);
    if (status == STATUS_OK)
        status =
            upload(ops, device, world->lengths, world->seqs * sizeof(uint64_t), &lengths, text);
    if (status == STATUS_OK)
        status = allocate_poisoned(ops, device, score_bytes, &scores, text);
    const struct backend_index_score work = {
        .cache = world->cache,
        .heads = heads,
        .dev_queries = queries.dev_address,
        .dev_weights = weights.dev_address,
        .dev_lengths = lengths.dev_address,
        .dev_scores = scores.dev_address,
        .score_stride = out->stride,
        .longest = longest,
    };
    if (status == STATUS_OK)
        status = backend_check_index_score(ops, device, &work, text);
    if (status == STATUS_OK)
        status = ops->index_score(device, &work, text);
    if (status == STATUS_OK)
        status = ops->synchronize(device, text);
    if (status == STATUS_OK)
        status = ops->memory_read(device, out->scores, scores.dev_address, score_bytes, text);
    if (status == STATUS_OK)
        status = check_guard(ops, device, &scores, score_bytes, text);
    ops->memory_free(device, &queries);
    ops->memory_free(device, &weights);
    ops->memory_free(device, &lengths);
    ops->memory_free(device, &scores);
    return status;
}

void conformance_scores_destroy(struct conformance_scores *scores) {
    free(scores->queries);
    free(scores->weights);
    free(scores->scores);
    *scores = (struct conformance_scores){0};
}

/* Key `token` of a sequence in double precision. */
static void read_key(const struct conformance_world *world, uint32_t seq, uint64_t token,
                     double *row) {
    const struct page_layout *page = &world->cache.page;
    const struct page_shape *shape = &page->shape;
    const uint8_t *base =
        world->expected + (uint64_t)pool_pages_find(&world->pages, seq, token) * page->stride_bytes;
    const struct page_place at =
        page_locate(&page->k, shape->page_tokens, 0, (uint32_t)(token % shape->page_tokens));
    format_decode_row_double(shape->k_format, base + at.payload_bytes, base + at.scale_bytes,
                             shape->k_dim, world->cache.k_tensor_scale, row);
}

/* Keys and queries are exact in every backend's arithmetic, and products are summed in fp32. Of n
 * terms added in any order, each addition being off by at most an ulp (tensor cores cut off rather
 * than round), the sum is off by no more than n ulps of the terms' magnitudes added up, and max()
 * makes nothing larger. Terms are products and then heads; a few ulps more are for scales and
 * weights. */
static enum status check_score(const struct conformance_world *world,
                               const struct conformance_scores *scores, uint32_t seq,
                               uint64_t token, const double *key, struct status_text *text) {
    const uint32_t dim = world->which->k_dim;
    double exact = 0, magnitudes = 0;
    for (uint32_t h = 0; h < scores->heads; h++) {
        const uint64_t head = (uint64_t)seq * scores->heads + h;
        const float *query = scores->queries + head * dim;
        const double weight = (double)scores->weights[head];
        double product = 0, magnitude = 0;
        for (uint32_t i = 0; i < dim; i++) {
            product += (double)query[i] * key[i];
            magnitude += fabs((double)query[i] * key[i]);
        }
        exact += weight * fmax(0, product);
        magnitudes += fabs(weight) * magnitude;
    }
    const double terms = (double)dim + scores->heads + 8;
    const double bound = terms * (double)FLT_EPSILON * magnitudes;
    const double score = (double)scores->scores[seq * scores->stride + token];
    if (fabs(score - exact) <= bound) /* false of NaN */
        return STATUS_OK;
    return status_set(text, STATUS_WRONG,
                      "sequence %u key %llu: score %.9g, not %.9g; off by at most %.3g is allowed",
                      seq, (unsigned long long)token, score, exact, bound);
}

static bool is_poison(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits == UINT32_MAX;
}

enum status conformance_check_scores(const struct conformance_world *world,
                                     const struct conformance_scores *scores,
                                     struct status_text *text) {
    double *key = malloc(world->which->k_dim * sizeof *key);
    if (key == NULL)
        return status_set(text, STATUS_OUT_OF_MEMORY, "no memory for a key");
    enum status status = STATUS_OK;
    for (uint32_t s = 0; s < world->seqs; s++) {
        for (uint64_t t = 0; t < world->lengths[s] && status == STATUS_OK; t++) {
            read_key(world, s, t, key);
            status = check_score(world, scores, s, t, key, text);
        }
        for (uint64_t t = world->lengths[s]; t < scores->stride && status == STATUS_OK; t++)
            if (!is_poison(scores->scores[s * scores->stride + t]))
                status = status_set(text, STATUS_WRONG,
                                    "sequence %u of %llu keys: a score is written at place %llu", s,
                                    (unsigned long long)world->lengths[s], (unsigned long long)t);
    }
    free(key);
    return status;
}

enum status conformance_choose(const struct backend_ops *ops, struct backend_device *device,
                               const struct conformance_choice *choice, int32_t *selected,
                               struct status_text *text) {
    struct backend_memory scores = {0}, lengths = {0}, out = {0};
    const uint64_t bytes = (uint64_t)choice->seqs * choice->top_k * sizeof *selected;
    uint64_t longest = 0;
    for (uint32_t s = 0; s < choice->seqs; s++)
        longest = choice->lengths[s] > longest ? choice->lengths[s] : longest;
    enum status status = upload(ops, device, choice->scores,
                                choice->seqs * choice->stride * sizeof(float), &scores, text);
    if (status == STATUS_OK)
        status =
            upload(ops, device, choice->lengths, choice->seqs * sizeof(uint64_t), &lengths, text);
    if (status == STATUS_OK)
        status = allocate_poisoned(ops, device, bytes, &out, text);
    const struct backend_index_select work = {
        .seqs = choice->seqs,
        .top_k = choice->top_k,
        .dev_scores = scores.dev_address,
        .score_stride = choice->stride,
        .dev_lengths = lengths.dev_address,
        .longest = longest,
        .dev_selected = out.dev_address,
    };
    if (status == STATUS_OK)
        status = ops->index_select(device, &work, text);
    if (status == STATUS_OK)
        status = ops->synchronize(device, text);
    if (status == STATUS_OK)
        status = ops->memory_read(device, selected, out.dev_address, bytes, text);
    if (status == STATUS_OK)
        status = check_guard(ops, device, &out, bytes, text);
    ops->memory_free(device, &scores);
    ops->memory_free(device, &lengths);
    ops->memory_free(device, &out);
    return status;
}

struct ranked {
    float score;
    int32_t place;
};

/* Larger scores first, NaN last; of equal ones the lower place first. */
static int by_rank(const void *left, const void *right) {
    const struct ranked *a = left, *b = right;
    if (isnan(a->score) != isnan(b->score))
        return isnan(a->score) ? 1 : -1;
    if (!isnan(a->score) && a->score != b->score)
        return a->score > b->score ? -1 : 1;
    return a->place < b->place ? -1 : 1;
}

static int by_place(const void *left, const void *right) {
    const struct ranked *a = left, *b = right;
    return a->place < b->place ? -1 : 1;
}

enum status conformance_check_choice(const struct conformance_choice *choice,
                                     const int32_t *selected, struct status_text *text) {
    struct ranked *ranks = malloc(choice->stride * sizeof *ranks);
    if (ranks == NULL)
        return status_set(text, STATUS_OUT_OF_MEMORY, "no memory to sort scores");
    enum status status = STATUS_OK;
    for (uint32_t s = 0; s < choice->seqs && status == STATUS_OK; s++) {
        const uint64_t length = choice->lengths[s];
        const uint64_t count = length < choice->top_k ? length : choice->top_k;
        for (uint64_t i = 0; i < length; i++)
            ranks[i] = (struct ranked){choice->scores[s * choice->stride + i], (int32_t)i};
        qsort(ranks, length, sizeof *ranks, by_rank);
        qsort(ranks, count, sizeof *ranks, by_place);
        for (uint64_t i = 0; i < choice->top_k && status == STATUS_OK; i++) {
            const int32_t expected = i < count ? ranks[i].place : -1;
            const int32_t is = selected[(uint64_t)s * choice->top_k + i];
            if (is != expected)
                status = status_set(text, STATUS_WRONG,
                                    "sequence %u of %llu scores, %u wanted: place %llu of the "
                                    "list is %d, not %d",
                                    s, (unsigned long long)length, choice->top_k,
                                    (unsigned long long)i, is, expected);
        }
    }
    free(ranks);
    return status;
}
