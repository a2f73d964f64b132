/* What holds for every model, whatever file it came from. */
#include "model.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const char *const kind_names[MODEL_KIND_COUNT] = {"full",       "window", "latent",
                                                         "compressed", "index",  "state"};

const char *model_kind_name(enum model_kind kind) {
    return kind < MODEL_KIND_COUNT ? kind_names[kind] : "unknown kind";
}

bool model_kind_find(const char *name, enum model_kind *out) {
    for (int kind = 0; kind < MODEL_KIND_COUNT; kind++) {
        if (strcmp(kind_names[kind], name) == 0) {
            *out = (enum model_kind)kind;
            return true;
        }
    }
    return false;
}

/* Wider rows than any cache has; below it a row's bytes fit 32 bits in every format. */
enum { MOST_DIM = 1 << 17 };

/* A field a kind cannot do without. */
struct needed {
    const char *name;
    uint64_t value;
};

static enum status check_needed(const struct model *model, uint32_t g, const struct needed *fields,
                                size_t count, struct status_text *text) {
    for (size_t i = 0; i < count; i++)
        if (fields[i].value == 0)
            return status_set(text, STATUS_BAD_INPUT, "%s: groups[%u] (%s): %s must be above 0",
                              model->name, g, model_kind_name(model->groups[g].kind),
                              fields[i].name);
    return STATUS_OK;
}

static enum status check_group(const struct model *model, uint32_t g, struct status_text *text) {
    const struct model_group *group = &model->groups[g];
    const struct needed window[] = {{"kv_heads", group->kv_heads},
                                    {"k_dim", group->k_dim},
                                    {"query_heads", group->query_heads},
                                    {"window_tokens", group->window_tokens}};
    const struct needed latent[] = {{"latent_dim", group->latent_dim},
                                    {"query_heads", group->query_heads}};
    const struct needed compressed[] = {{"entry_dim", group->entry_dim},
                                        {"tokens_per_entry", group->tokens_per_entry},
                                        {"query_heads", group->query_heads}};
    const struct needed index[] = {{"key_dim", group->key_dim},
                                   {"tokens_per_entry", group->tokens_per_entry}};
    const struct needed layers[] = {{"layers", group->layers}};
    const struct needed dims[] = {
        {"k_dim", group->k_dim},
        {"v_dim", group->v_dim},
        {"latent_dim + rope_dim", (uint64_t)group->latent_dim + group->rope_dim},
        {"entry_dim", group->entry_dim},
        {"key_dim", group->key_dim}};
    for (size_t i = 0; i < sizeof dims / sizeof dims[0]; i++)
        if (dims[i].value > MOST_DIM)
            return status_set(text, STATUS_BAD_INPUT, "%s: groups[%u]: %s %llu is above %d",
                              model->name, g, dims[i].name, (unsigned long long)dims[i].value,
                              MOST_DIM);
    enum status status = check_needed(model, g, layers, 1, text);
    if (status == STATUS_OK && group->read_by_layers < group->layers)
        return status_set(text, STATUS_BAD_INPUT,
                          "%s: groups[%u]: read_by_layers %u is below layers %u", model->name, g,
                          group->read_by_layers, group->layers);
    if (status != STATUS_OK)
        return status;
    if (group->drafts && group->kind != MODEL_FULL && group->kind != MODEL_WINDOW &&
        group->kind != MODEL_LATENT)
        return status_set(text, STATUS_BAD_INPUT,
                          "%s: groups[%u] (%s): drafts: full, window and latent groups can have "
                          "draft layers",
                          model->name, g, model_kind_name(group->kind));
    switch (group->kind) {
    case MODEL_FULL:
        status = check_needed(model, g, window, 3, text);
        if (status == STATUS_OK && group->v_dim == 0)
            status = status_set(text, STATUS_BAD_INPUT,
                                "%s: groups[%u] (full): v_dim must be above 0", model->name, g);
        break;
    case MODEL_WINDOW:
        status = check_needed(model, g, window, 4, text);
        break;
    case MODEL_LATENT:
        return check_needed(model, g, latent, 2, text);
    case MODEL_COMPRESSED:
        return check_needed(model, g, compressed, 3, text);
    case MODEL_INDEX:
        return check_needed(model, g, index, 2, text);
    case MODEL_STATE:
        if ((group->heads == 0 || group->state_rows == 0 || group->state_cols == 0) &&
            (group->conv_channels == 0 || group->conv_taps == 0))
            return status_set(text, STATUS_BAD_INPUT,
                              "%s: groups[%u] (state): neither heads x state_rows x state_cols nor "
                              "conv_channels x conv_taps is above 0",
                              model->name, g);
        return STATUS_OK;
    case MODEL_KIND_COUNT:
        return status_set(text, STATUS_BAD_INPUT, "%s: groups[%u]: unknown kind", model->name, g);
    }
    if (status == STATUS_OK && group->query_heads % group->kv_heads != 0)
        status = status_set(text, STATUS_BAD_INPUT,
                            "%s: groups[%u]: %u query heads do not divide over %u KV heads",
                            model->name, g, group->query_heads, group->kv_heads);
    return status;
}

enum status model_check(const struct model *model, struct status_text *text) {
    if (model->group_count == 0 || model->group_count > MODEL_MAX_GROUPS)
        return status_set(text, STATUS_BAD_INPUT, "%s: %u groups (1 to %d are possible)",
                          model->name, model->group_count, MODEL_MAX_GROUPS);
    for (uint32_t g = 0; g < model->group_count; g++) {
        const enum status status = check_group(model, g, text);
        if (status != STATUS_OK)
            return status;
    }
    return STATUS_OK;
}

static enum status cannot_split(const struct model *model, uint32_t ranks, const char *what,
                                uint32_t count, struct status_text *text) {
    return status_set(text, STATUS_REFUSED, "%s: %u %s do not divide over %u ranks", model->name,
                      count, what, ranks);
}

enum status model_shard(const struct model *model, uint32_t ranks, struct model *out,
                        struct status_text *text) {
    *out = *model;
    if (ranks == 0)
        return status_set(text, STATUS_BAD_INPUT, "the number of ranks must be above 0");
    for (uint32_t g = 0; g < out->group_count; g++) {
        struct model_group *group = &out->groups[g];
        if (group->kind == MODEL_INDEX) /* every rank scores with all heads */
            continue;
        if (group->query_heads % ranks != 0)
            return cannot_split(model, ranks, "query heads", group->query_heads, text);
        group->query_heads /= ranks;
        if (group->kv_heads >= ranks) {
            if (group->kv_heads % ranks != 0)
                return cannot_split(model, ranks, "KV heads", group->kv_heads, text);
            group->kv_heads /= ranks;
        } else if (group->kv_heads > 0) {
            if (ranks % group->kv_heads != 0)
                return cannot_split(model, ranks, "KV heads", group->kv_heads, text);
            group->kv_heads = 1;
        }
        if (group->kind == MODEL_STATE) {
            if (group->heads % ranks != 0)
                return cannot_split(model, ranks, "state heads", group->heads, text);
            if (group->conv_channels % ranks != 0)
                return cannot_split(model, ranks, "convolution channels", group->conv_channels,
                                    text);
            group->heads /= ranks;
            group->conv_channels /= ranks;
        }
    }
    return STATUS_OK;
}

/* The first group of one of two kinds; NULL without one. */
static struct model_group *first_of(struct model *model, enum model_kind kind,
                                    enum model_kind other) {
    for (uint32_t g = 0; g < model->group_count; g++)
        if (model->groups[g].kind == kind || model->groups[g].kind == other)
            return &model->groups[g];
    return NULL;
}

/* The group that its source says draft layers belong to; NULL without one. */
static struct model_group *named_for_drafts(struct model *model) {
    for (uint32_t g = 0; g < model->group_count; g++)
        if (model->groups[g].drafts)
            return &model->groups[g];
    return NULL;
}

/* Index keys of single tokens, as full and latent layers choose by. */
static struct model_group *keys_of_tokens(struct model *model) {
    for (uint32_t g = 0; g < model->group_count; g++)
        if (model->groups[g].kind == MODEL_INDEX && model->groups[g].tokens_per_entry == 1)
            return &model->groups[g];
    return NULL;
}

static enum status add_layers(const struct model *model, struct model_group *group, uint32_t layers,
                              struct status_text *text) {
    if (layers > UINT32_MAX - group->read_by_layers) /* at least as many as own a cache */
        return status_set(text, STATUS_OVERFLOW, "%s: %u layers more do not fit", model->name,
                          layers);
    group->layers += layers;
    group->read_by_layers += layers;
    return STATUS_OK;
}

enum status model_add_drafts(const struct model *model, uint32_t drafts, struct model *out,
                             struct status_text *text) {
    *out = *model;
    if (drafts == 0)
        return STATUS_OK;
    const bool compressed = first_of(out, MODEL_COMPRESSED, MODEL_COMPRESSED) != NULL;
    struct model_group *main = named_for_drafts(out);
    if (main == NULL && !compressed)
        main = first_of(out, MODEL_FULL, MODEL_LATENT);
    struct model_group *keys =
        main != NULL && main->kind != MODEL_WINDOW ? keys_of_tokens(out) : NULL;
    if (main == NULL)
        main = first_of(out, MODEL_WINDOW, MODEL_WINDOW);
    if (main == NULL)
        return status_set(text, STATUS_REFUSED,
                          "%s: no group that a draft layer could be one more layer of: neither "
                          "full, latent nor window",
                          model->name);
    enum status status = add_layers(model, main, drafts, text);
    if (status == STATUS_OK && keys != NULL)
        status = add_layers(model, keys, drafts, text);
    if (status != STATUS_OK)
        return status;
    char words[96];
    const char *many = drafts == 1 ? "layer" : "layers";
    (void)snprintf(words, sizeof words, "%u draft %s counted in, as %s %s%s", drafts, many,
                   model_kind_name(main->kind), many, keys != NULL ? " with index keys" : "");
    /* In front: of a remark that is too long now, the end is lost. */
    (void)snprintf(out->remark, sizeof out->remark, "%s%s%.150s", words,
                   model->remark[0] != '\0' ? "; " : "", model->remark);
    return STATUS_OK;
}

enum status model_page_shape(const struct model_group *group, enum format_id k_format,
                             enum format_id v_format, uint32_t page_tokens, struct page_shape *out,
                             struct status_text *text) {
    const bool two_rows =
        group->kind == MODEL_FULL || (group->kind == MODEL_WINDOW && group->v_dim != 0);
    const bool one_row = !two_rows;
    if (group->kind == MODEL_STATE || group->kind >= MODEL_KIND_COUNT)
        return status_set(text, STATUS_REFUSED, "%s groups have no pages",
                          model_kind_name(group->kind));
    if (one_row && k_format != v_format)
        return status_set(text, STATUS_REFUSED,
                          "%s/%s: a %s group keeps K and V in one row, which takes one format",
                          format_get(k_format)->name, format_get(v_format)->name,
                          model_kind_name(group->kind));
    *out = (struct page_shape){
        .page_tokens = page_tokens, .v_in_k = one_row, .k_format = k_format, .v_format = v_format};
    if (group->kind == MODEL_LATENT) {
        out->kv_heads = 1;
        out->k_dim = group->latent_dim + group->rope_dim;
        out->v_dim = group->latent_dim;
    } else if (group->kind == MODEL_COMPRESSED || group->kind == MODEL_INDEX) {
        out->kv_heads = 1;
        out->k_dim = group->kind == MODEL_INDEX ? group->key_dim : group->entry_dim;
        out->v_dim = out->k_dim;
    } else {
        out->kv_heads = group->kv_heads;
        out->k_dim = group->k_dim;
        out->v_dim = one_row ? group->k_dim : group->v_dim;
    }
    return STATUS_OK;
}

void model_group_words(const struct model_group *group, char *out, uint32_t out_bytes) {
    const char *kind = model_kind_name(group->kind);
    switch (group->kind) {
    case MODEL_FULL:
    case MODEL_WINDOW: {
        char dims[32], window[32] = "";
        if (group->v_dim == 0)
            (void)snprintf(dims, sizeof dims, "%u K=V", group->k_dim);
        else if (group->k_dim == group->v_dim)
            (void)snprintf(dims, sizeof dims, "%u", group->k_dim);
        else
            (void)snprintf(dims, sizeof dims, "%u/%u", group->k_dim, group->v_dim);
        if (group->kind == MODEL_WINDOW)
            (void)snprintf(window, sizeof window, " of %llu",
                           (unsigned long long)group->window_tokens);
        (void)snprintf(out, out_bytes, "%u %s %ux%s%s", group->layers, kind, group->kv_heads, dims,
                       window);
        return;
    }
    case MODEL_LATENT:
        (void)snprintf(out, out_bytes, "%u %s %u+%u", group->layers, kind, group->latent_dim,
                       group->rope_dim);
        return;
    case MODEL_COMPRESSED:
        (void)snprintf(out, out_bytes, "%u %s %u per %u", group->layers, kind, group->entry_dim,
                       group->tokens_per_entry);
        return;
    case MODEL_INDEX:
        (void)snprintf(out, out_bytes, "%u %s %u per %u", group->layers, kind, group->key_dim,
                       group->tokens_per_entry);
        return;
    case MODEL_STATE:
        if (group->heads == 0) {
            (void)snprintf(out, out_bytes, "%u %s %s %u channels", group->layers, kind,
                           group->family, group->conv_channels);
            return;
        }
        (void)snprintf(out, out_bytes, "%u %s %s %ux%ux%u", group->layers, kind, group->family,
                       group->heads, group->state_rows, group->state_cols);
        return;
    case MODEL_KIND_COUNT:
        break;
    }
    (void)snprintf(out, out_bytes, "unknown");
}
