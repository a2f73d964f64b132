/* Our own model JSON: the built-in files of layouts/models and any other of the same form. */
#include <cjson/cJSON.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "json_text.h"
#include "model_source.h"

/* Keys of a group and where they go; `most` bounds them. */
struct number_key {
    const char *name;
    size_t offset;
    uint64_t most;
};

#define KEY(field, most)                                                                           \
    { #field, offsetof(struct model_group, field), most }
static const struct number_key number_keys[] = {
    KEY(layers, JSON_TEXT_MOST_LAYERS),
    KEY(read_by_layers, JSON_TEXT_MOST_LAYERS),
    KEY(query_heads, JSON_TEXT_MOST_HEADS),
    KEY(kv_heads, JSON_TEXT_MOST_HEADS),
    KEY(k_dim, JSON_TEXT_MOST_DIM),
    KEY(v_dim, JSON_TEXT_MOST_DIM),
    KEY(latent_dim, JSON_TEXT_MOST_DIM),
    KEY(rope_dim, JSON_TEXT_MOST_DIM),
    KEY(entry_dim, JSON_TEXT_MOST_DIM),
    KEY(tokens_per_entry, JSON_TEXT_MOST_DIM),
    KEY(key_dim, JSON_TEXT_MOST_DIM),
    KEY(top_k, 1u << 30),
    KEY(heads, JSON_TEXT_MOST_HEADS),
    KEY(state_rows, JSON_TEXT_MOST_DIM),
    KEY(state_cols, JSON_TEXT_MOST_DIM),
    KEY(conv_channels, 1u << 24),
    KEY(conv_taps, 65536),
};
#undef KEY

static const struct number_key *find_number(const char *name) {
    for (size_t i = 0; i < sizeof number_keys / sizeof number_keys[0]; i++)
        if (strcmp(number_keys[i].name, name) == 0)
            return &number_keys[i];
    return NULL;
}

static enum status read_flag(const cJSON *item, const char *origin, bool *out,
                             struct status_text *text) {
    if (!cJSON_IsBool(item))
        return status_set(text, STATUS_BAD_INPUT, "%s: %s: true or false is expected", origin,
                          item->string);
    *out = cJSON_IsTrue(item) != 0;
    return STATUS_OK;
}

static enum status read_field(const cJSON *item, const char *origin, struct model_group *group,
                              struct status_text *text) {
    const struct number_key *key = find_number(item->string);
    uint64_t value;
    enum status status;
    if (key != NULL) {
        status = json_text_number(item, origin, item->string, 0, key->most, &value, text);
        if (status == STATUS_OK)
            *(uint32_t *)(void *)((char *)group + key->offset) = (uint32_t)value;
        return status;
    }
    if (strcmp(item->string, "window_tokens") == 0)
        return json_text_number(item, origin, item->string, 1, (uint64_t)1 << 53,
                                &group->window_tokens, text);
    if (strcmp(item->string, "kind") == 0) {
        if (cJSON_IsString(item) && model_kind_find(item->valuestring, &group->kind))
            return STATUS_OK;
        return status_set(text, STATUS_BAD_INPUT,
                          "%s: kind: full, window, latent, compressed, index or state is expected",
                          origin);
    }
    if (strcmp(item->string, "family") == 0)
        return json_text_string(item, origin, "family", group->family, sizeof group->family, text);
    if (strcmp(item->string, "sinks") == 0)
        return read_flag(item, origin, &group->sinks, text);
    if (strcmp(item->string, "drafts") == 0)
        return read_flag(item, origin, &group->drafts, text);
    if (strcmp(item->string, "assumed") == 0 || strcmp(item->string, "note") == 0)
        return STATUS_OK;
    char name[40];
    json_text_printable(item->string, name, sizeof name);
    return status_set(text, STATUS_BAD_INPUT, "%s: unknown key %s in a group", origin, name);
}

/* Names in "assumed", of a group or of the model. */
static bool is_assumed(const cJSON *list, const char *name) {
    const cJSON *item;
    cJSON_ArrayForEach(item, list) {
        if (cJSON_IsString(item) && strcmp(item->valuestring, name) == 0)
            return true;
    }
    return false;
}

static enum status read_group(const cJSON *object, const char *origin, const cJSON *assumed,
                              struct model_group *group, struct status_text *text) {
    if (!cJSON_IsObject(object) || cJSON_GetObjectItemCaseSensitive(object, "kind") == NULL)
        return status_set(text, STATUS_BAD_INPUT, "%s: a group is an object with a kind", origin);
    const cJSON *item;
    cJSON_ArrayForEach(item, object) {
        if (cJSON_IsNull(item))
            continue;
        const enum status status = read_field(item, origin, group, text);
        if (status != STATUS_OK)
            return status;
    }
    if (group->kind == MODEL_WINDOW && cJSON_GetObjectItemCaseSensitive(object, "v_dim") == NULL)
        return status_set(text, STATUS_BAD_INPUT,
                          "%s: a window group needs v_dim (0: K serves as V)", origin);
    if (group->read_by_layers == 0)
        group->read_by_layers = group->layers;
    if ((group->kind == MODEL_COMPRESSED || group->kind == MODEL_INDEX) &&
        group->tokens_per_entry == 0)
        group->tokens_per_entry = 1;
    const bool attends = group->kind != MODEL_INDEX && group->kind != MODEL_STATE;
    group->query_heads_assumed =
        is_assumed(assumed, "query_heads") ||
        is_assumed(cJSON_GetObjectItemCaseSensitive(object, "assumed"), "query_heads");
    if (attends && group->query_heads == 0) {
        group->query_heads_assumed = true;
        const bool one_row =
            group->kind == MODEL_LATENT || group->kind == MODEL_COMPRESSED || group->v_dim == 0;
        group->query_heads = one_row ? 64 : 8 * group->kv_heads;
    }
    return STATUS_OK;
}

static enum status read_assumed(const cJSON *list, const char *origin, struct model *out,
                                struct status_text *text) {
    const cJSON *item;
    cJSON_ArrayForEach(item, list) {
        const size_t used = strlen(out->assumed);
        char name[sizeof out->assumed];
        if (json_text_string(item, origin, "assumed", name, sizeof name, NULL) != STATUS_OK ||
            used + strlen(name) + 2 >= sizeof out->assumed)
            return status_set(text, STATUS_BAD_INPUT,
                              "%s: assumed: a short list of field names is expected", origin);
        if (used > 0)
            (void)strcat(out->assumed, ",");
        (void)strcat(out->assumed, name);
    }
    return STATUS_OK;
}

/* What a model need not say of itself. */
static enum status read_sizes(const cJSON *root, const char *origin, struct model *out,
                              struct status_text *text) {
    const struct {
        const char *name;
        uint64_t least, most;
        uint32_t *to;
    } sizes[] = {{"hidden_size", 1, JSON_TEXT_MOST_DIM, &out->hidden_size},
                 {"experts", 0, JSON_TEXT_MOST_HEADS, &out->experts}};
    enum status status = STATUS_OK;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0] && status == STATUS_OK; i++) {
        const cJSON *item = cJSON_GetObjectItemCaseSensitive(root, sizes[i].name);
        uint64_t value = 0;
        if (item == NULL || cJSON_IsNull(item))
            continue;
        status = json_text_number(item, origin, sizes[i].name, sizes[i].least, sizes[i].most,
                                  &value, text);
        *sizes[i].to = (uint32_t)value;
    }
    return status;
}

static enum status read_model(const cJSON *root, const char *origin, struct model *out,
                              struct status_text *text) {
    const cJSON *groups = cJSON_GetObjectItemCaseSensitive(root, "groups");
    if (!cJSON_IsArray(groups))
        return status_set(text, STATUS_BAD_INPUT, "%s: groups: a list is expected", origin);
    enum status status = json_text_string(cJSON_GetObjectItemCaseSensitive(root, "name"), origin,
                                          "name", out->name, sizeof out->name, text);
    const cJSON *source = cJSON_GetObjectItemCaseSensitive(root, "source");
    if (status == STATUS_OK && source != NULL)
        status = json_text_string(source, origin, "source", out->source, sizeof out->source, text);
    const cJSON *native = cJSON_GetObjectItemCaseSensitive(root, "native_context");
    if (status == STATUS_OK && native != NULL && !cJSON_IsNull(native))
        status = json_text_number(native, origin, "native_context", 1, (uint64_t)1 << 53,
                                  &out->native_context, text);
    if (status == STATUS_OK)
        status = read_sizes(root, origin, out, text);
    const cJSON *assumed = cJSON_GetObjectItemCaseSensitive(root, "assumed");
    if (status == STATUS_OK && assumed != NULL && !cJSON_IsArray(assumed))
        status = status_set(text, STATUS_BAD_INPUT, "%s: assumed: a list is expected", origin);
    if (status == STATUS_OK)
        status = read_assumed(assumed, origin, out, text);
    const cJSON *object;
    cJSON_ArrayForEach(object, groups) {
        if (status != STATUS_OK)
            break;
        if (out->group_count == MODEL_MAX_GROUPS)
            status = status_set(text, STATUS_BAD_INPUT, "%s: more than %d groups", origin,
                                MODEL_MAX_GROUPS);
        else
            status = read_group(object, origin, assumed, &out->groups[out->group_count++], text);
    }
    if (status == STATUS_OK && out->source[0] == '\0')
        (void)snprintf(out->source, sizeof out->source, "%.200s", origin);
    return status == STATUS_OK ? model_check(out, text) : status;
}

enum status model_json_parse(const char *bytes, size_t size, const char *origin, struct model *out,
                             struct status_text *text) {
    *out = (struct model){0};
    cJSON *root = NULL;
    enum status status = json_text_parse(bytes, size, origin, &root, text);
    if (status == STATUS_OK)
        status = read_model(root, origin, out, text);
    cJSON_Delete(root);
    return status;
}
