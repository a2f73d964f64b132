/* The rules of model_reads.h. */
#include "model_reads.h"

bool model_reads_attends(enum model_kind kind) {
    return kind == MODEL_FULL || kind == MODEL_WINDOW || kind == MODEL_LATENT ||
           kind == MODEL_COMPRESSED;
}

bool model_reads_has_rows(enum model_kind kind) {
    return model_reads_attends(kind) || kind == MODEL_INDEX;
}

uint32_t model_reads_tokens_per_row(const struct model_group *group) {
    const bool pooled = group->kind == MODEL_COMPRESSED || group->kind == MODEL_INDEX;
    return pooled && group->tokens_per_entry > 0 ? group->tokens_per_entry : 1;
}

static uint32_t apart(uint32_t a, uint32_t b) {
    return a > b ? a - b : b - a;
}

/* The group that an index chooses for. */
static uint32_t served_by(const struct model *model, uint32_t index) {
    const struct model_group *keys = &model->groups[index];
    uint32_t best = MODEL_READS_NONE;
    for (uint32_t g = 0; g < model->group_count; g++) {
        const struct model_group *group = &model->groups[g];
        if (!model_reads_attends(group->kind) || group->kind == MODEL_WINDOW ||
            model_reads_tokens_per_row(group) != model_reads_tokens_per_row(keys))
            continue;
        if (best == MODEL_READS_NONE ||
            apart(group->layers, keys->layers) < apart(model->groups[best].layers, keys->layers))
            best = g;
    }
    return best;
}

uint32_t model_reads_index_of(const struct model *model, uint32_t group) {
    for (uint32_t g = 0; g < model->group_count; g++)
        if (model->groups[g].kind == MODEL_INDEX && served_by(model, g) == group)
            return g;
    return MODEL_READS_NONE;
}

uint32_t model_reads_layer(const struct model_group *group, uint32_t reader) {
    return (uint32_t)((uint64_t)reader * group->layers / group->read_by_layers);
}

uint32_t model_reads_sparse_readers(const struct model *model, uint32_t group) {
    const uint32_t index = model_reads_index_of(model, group);
    if (index == MODEL_READS_NONE)
        return 0;
    const struct model_group *keys = &model->groups[index], *rows = &model->groups[group];
    if (keys->layers == rows->layers || keys->read_by_layers >= rows->read_by_layers)
        return rows->read_by_layers;
    return keys->read_by_layers;
}

uint32_t model_reads_index_layer(const struct model *model, uint32_t group, uint32_t reader) {
    const uint32_t sparse = model_reads_sparse_readers(model, group);
    const uint32_t dense = model->groups[group].read_by_layers - sparse;
    if (reader < dense)
        return MODEL_READS_NONE;
    const struct model_group *keys = &model->groups[model_reads_index_of(model, group)];
    return (uint32_t)((uint64_t)(reader - dense) * keys->layers / sparse);
}

uint32_t model_reads_top_k(const struct model_group *index) {
    return index->top_k > 0 ? index->top_k : MODEL_READS_TOP_K;
}

uint32_t model_reads_index_heads(const struct model_group *index) {
    return index->query_heads > 0 ? index->query_heads : MODEL_READS_INDEX_HEADS;
}
