/* What sparse attention reads: the scores of one layer's index keys, and the choice of the best. */
#include "step_parts.h"

#include <stdlib.h>

#include "generate.h"
#include "rotate.h"

/* Room for queries, weights, scores and choices in one allocation. */
static enum status allocate(struct step *step, struct step_index *index, uint32_t key_dim,
                            struct status_text *text) {
    const uint64_t seqs = pool_seqs(step->pool);
    const uint64_t query_bytes = seqs * index->heads * key_dim * sizeof(float);
    const uint64_t weight_bytes = seqs * index->heads * sizeof(float);
    const uint64_t score_bytes = seqs * index->score_stride * sizeof(float);
    const uint64_t chosen_bytes = seqs * index->top_k * sizeof(int32_t);
    index->queries = malloc(query_bytes);
    index->weights = malloc(weight_bytes);
    if (index->queries == NULL || index->weights == NULL)
        return status_set(text, STATUS_OUT_OF_MEMORY, "no host memory for %llu bytes of queries",
                          (unsigned long long)(query_bytes + weight_bytes));
    const enum status status =
        step->ops->memory_allocate(step->device,
                                   step_align_up(query_bytes) + step_align_up(weight_bytes) +
                                       step_align_up(score_bytes) + chosen_bytes,
                                   "index queries, scores and choices", &index->memory, text);
    if (status != STATUS_OK)
        return status;
    step->index_bytes += score_bytes + chosen_bytes;
    uint8_t *at = index->memory.dev_address;
    index->dev_queries = (float *)at;
    index->dev_weights = (float *)(at += step_align_up(query_bytes));
    index->dev_scores = (float *)(at += step_align_up(weight_bytes));
    index->dev_selected = (int32_t *)(at + step_align_up(score_bytes));
    return STATUS_OK;
}

enum status step_index_create(struct step *step, uint32_t g, uint64_t seed, enum options_data data,
                              struct status_text *text) {
    struct step_index *index = &step->groups[g].index;
    const struct model_group *model = pool_group(step->pool, g);
    if (step->ops->index_score == NULL || step->ops->index_select == NULL)
        return status_set(text, STATUS_REFUSED,
                          "the %s backend has no index scores: --index-format none reads all rows",
                          step->ops->name);
    const uint32_t seqs = pool_seqs(step->pool);
    index->heads = model_reads_index_heads(model);
    index->top_k = model_reads_top_k(model);
    for (uint32_t s = 0; s < seqs; s++) {
        const uint64_t rows = pool_group_rows(step->pool, g)[s];
        index->longest = rows > index->longest ? rows : index->longest;
    }
    /* more than all cannot be chosen */
    if (index->top_k > index->longest)
        index->top_k = index->longest > 0 ? (uint32_t)index->longest : 1;
    /* whole cache lines, and never nothing */
    index->score_stride = (index->longest + 16) / 16 * 16;
    enum status status = allocate(step, index, model->key_dim, text);
    if (status != STATUS_OK)
        return status;
    generate_queries(seed, g, data, seqs, index->heads, model->key_dim, index->queries);
    rotate_queries(index->queries, (uint64_t)seqs * index->heads * model->key_dim,
                   pool_rotate_points(step->pool, g));
    /* about 1 / heads, some of them negative, as a learned weight may be */
    struct generate_random random;
    generate_random_seed(&random, (seed + g) ^ STEP_INPUTS);
    for (uint64_t i = 0; i < (uint64_t)seqs * index->heads; i++)
        index->weights[i] = (0.75f + 0.5f * generate_random_normal(&random)) / (float)index->heads;
    status = step->ops->memory_write(step->device, index->dev_queries, index->queries,
                                     (uint64_t)seqs * index->heads * model->key_dim * sizeof(float),
                                     text);
    if (status == STATUS_OK)
        status = step->ops->memory_write(step->device, index->dev_weights, index->weights,
                                         (uint64_t)seqs * index->heads * sizeof(float), text);
    return status;
}

void step_index_destroy(struct step *step, uint32_t g) {
    struct step_index *index = &step->groups[g].index;
    step->ops->memory_free(step->device, &index->memory);
    free(index->queries);
    free(index->weights);
}

void step_index_describe(const struct step *step, uint32_t g, uint32_t layer,
                         struct backend_index_score *out) {
    const struct step_index *index = &step->groups[g].index;
    *out = (struct backend_index_score){.heads = index->heads,
                                        .dev_queries = index->dev_queries,
                                        .dev_weights = index->dev_weights,
                                        .dev_lengths = pool_group_dev_rows(step->pool, g),
                                        .dev_scores = index->dev_scores,
                                        .score_stride = index->score_stride,
                                        .longest = index->longest};
    pool_cache(step->pool, g, layer, &out->cache);
}

bool step_index_is_asked(const struct step *step, uint32_t index, uint32_t layer) {
    bool serves = false;
    for (uint32_t g = 0; g < step->group_count; g++) {
        if (!step_attends(step, g) || step->groups[g].attention.index != index)
            continue;
        serves = true;
        for (uint32_t reader = 0; reader < pool_group(step->pool, g)->read_by_layers; reader++)
            if (model_reads_index_layer(pool_model(step->pool), g, reader) == layer)
                return true;
    }
    return !serves;
}

enum status step_index_give(const struct step *step, uint32_t g, uint32_t layer,
                            struct status_text *text) {
    const struct step_index *index = &step->groups[g].index;
    struct backend_index_score score;
    step_index_describe(step, g, layer, &score);
    const enum status status = step->ops->index_score(step->device, &score, text);
    if (status != STATUS_OK)
        return status;
    const struct backend_index_select select = {.seqs = pool_seqs(step->pool),
                                                .top_k = index->top_k,
                                                .dev_scores = index->dev_scores,
                                                .score_stride = index->score_stride,
                                                .dev_lengths = score.dev_lengths,
                                                .longest = index->longest,
                                                .dev_selected = index->dev_selected};
    return step->ops->index_select(step->device, &select, text);
}

enum status step_choose(struct step *step, uint32_t g, uint32_t layer, struct status_text *text) {
    const struct step_index *index = &step->groups[g].index;
    const uint64_t seqs = pool_seqs(step->pool);
    enum status status = step->ops->memory_fill(step->device, index->dev_scores, 0xFF,
                                                seqs * index->score_stride * sizeof(float), text);
    if (status == STATUS_OK)
        status = step->ops->memory_fill(step->device, index->dev_selected, 0x7F,
                                        seqs * index->top_k * sizeof(int32_t), text);
    if (status == STATUS_OK)
        status = step_index_give(step, g, layer, text);
    return status == STATUS_OK ? step->ops->synchronize(step->device, text) : status;
}

void step_choice_get(const struct step *step, uint32_t g, uint32_t seq, struct step_choice *out) {
    const struct step_index *index = &step->groups[g].index;
    const uint64_t first = (uint64_t)seq * index->heads;
    *out =
        (struct step_choice){.heads = index->heads,
                             .top_k = index->top_k,
                             .queries = index->queries + first * pool_group(step->pool, g)->key_dim,
                             .weights = index->weights + first};
}

enum status step_choice_read(const struct step *step, uint32_t g, uint32_t seq, float *scores,
                             int32_t *selected, struct status_text *text) {
    const struct step_index *index = &step->groups[g].index;
    const uint64_t rows = pool_group_rows(step->pool, g)[seq];
    enum status status = STATUS_OK;
    if (rows > 0)
        status = step->ops->memory_read(step->device, scores,
                                        index->dev_scores + seq * index->score_stride,
                                        rows * sizeof *scores, text);
    if (status == STATUS_OK)
        status = step->ops->memory_read(step->device, selected,
                                        index->dev_selected + (uint64_t)seq * index->top_k,
                                        index->top_k * sizeof *selected, text);
    return status;
}
