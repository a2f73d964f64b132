/* Looks keys up, checks what they hold, and says in one line what is wrong with them. */
#include "model_reader.h"

#include <stdio.h>
#include <string.h>

#include "words.h"

const cJSON *reader_find(const struct reader *reader, const char *keys, const char **key) {
    while (*keys != '\0') {
        char name[64];
        const size_t length = strcspn(keys, "|");
        (void)snprintf(name, sizeof name, "%.*s", (int)length, keys);
        const cJSON *item = cJSON_GetObjectItemCaseSensitive(reader->config, name);
        if (item != NULL && !cJSON_IsNull(item)) {
            if (key != NULL)
                *key = item->string;
            return item;
        }
        keys += length + (keys[length] == '|');
    }
    return NULL;
}

bool reader_has(const struct reader *reader, const char *keys) {
    return reader_find(reader, keys, NULL) != NULL;
}

enum status reader_fail(struct reader *reader, enum status status, const char *key,
                        const char *what) {
    if (reader->status == STATUS_OK)
        reader->status = status_set(reader->text, status, "%s: %s%s %s", reader->origin,
                                    reader->where, key, what);
    return reader->status;
}

void reader_describe(const cJSON *value, char *out, size_t bytes) {
    char printable[40] = "";
    if (cJSON_IsString(value))
        json_text_printable(value->valuestring, printable, sizeof printable);
    if (value == NULL)
        (void)snprintf(out, bytes, "missing");
    else if (cJSON_IsString(value))
        (void)snprintf(out, bytes, "\"%s\"", printable);
    else if (cJSON_IsNumber(value))
        (void)snprintf(out, bytes, "%g", value->valuedouble);
    else if (cJSON_IsBool(value))
        (void)snprintf(out, bytes, "%s", cJSON_IsTrue(value) ? "true" : "false");
    else
        (void)snprintf(out, bytes, "%s",
                       cJSON_IsNull(value)    ? "null"
                       : cJSON_IsArray(value) ? "a list"
                                              : "an object");
}

enum status reader_strange(struct reader *reader, const char *key, uint32_t index,
                           const cJSON *value) {
    char held[64], at[96], what[96];
    reader_describe(value, held, sizeof held);
    (void)snprintf(at, sizeof at, "%s[%u]", key, index);
    (void)snprintf(what, sizeof what, "is %s, which is not understood", held);
    return reader_fail(reader, STATUS_REFUSED, at, what);
}

void reader_note(const struct reader *reader, const char *field, const char *from) {
    struct model_trace *trace = reader->trace;
    const size_t most = trace == NULL ? 0 : sizeof trace->entries / sizeof trace->entries[0];
    if (field == NULL || trace == NULL || trace->count == most || reader->status != STATUS_OK)
        return;
    struct model_trace_entry *entry = &trace->entries[trace->count++];
    (void)snprintf(entry->field, sizeof entry->field, "%s", field);
    (void)snprintf(entry->key, sizeof entry->key, "%.*s", (int)sizeof entry->key - 1, from);
}

void reader_note_key(const struct reader *reader, const char *field, const char *key) {
    char path[128];
    (void)snprintf(path, sizeof path, "%s%s", reader->where, key);
    reader_note(reader, field, path);
}

void reader_remark(const struct reader *reader, const char *remark) {
    struct model *model = reader->model;
    words_add(model->remark, sizeof model->remark, "; ", "%s", remark);
}

/* "num_hidden_layers (or n_layer, n_layers) is missing" */
static void fail_missing(struct reader *reader, const char *keys) {
    char names[160] = "";
    size_t used = 0;
    for (const char *c = keys; *c != '\0' && used + 8 < sizeof names; c++) {
        if (*c != '|')
            names[used++] = *c;
        else
            used += (size_t)snprintf(names + used, sizeof names - used,
                                     strchr(names, '(') == NULL ? " (or " : ", ");
        names[used] = '\0';
    }
    (void)snprintf(names + used, sizeof names - used, "%s", strchr(names, '(') != NULL ? ")" : "");
    (void)reader_fail(reader, STATUS_BAD_INPUT, names, "is missing");
}

void reader_assume(const struct reader *reader, const char *field) {
    char *assumed = reader->model->assumed;
    words_add(assumed, sizeof reader->model->assumed, ",", "%s", field);
}

uint32_t reader_need(struct reader *reader, const char *field, const char *keys, uint64_t least,
                     uint64_t most) {
    const char *key = NULL;
    const cJSON *item = reader_find(reader, keys, &key);
    uint64_t value;
    if (reader->status != STATUS_OK)
        return 1;
    if (item == NULL) {
        fail_missing(reader, keys);
        return 1;
    }
    char path[128];
    (void)snprintf(path, sizeof path, "%s%s", reader->where, key);
    reader->status =
        json_text_number(item, reader->origin, path, least, most, &value, reader->text);
    if (reader->status != STATUS_OK)
        return 1;
    reader_note_key(reader, field, key);
    return (uint32_t)value;
}

uint32_t reader_want(struct reader *reader, const char *field, const char *keys, uint64_t least,
                     uint64_t most, uint32_t otherwise, const char *why) {
    if (reader_has(reader, keys))
        return reader_need(reader, field, keys, least, most);
    if (why[0] != '\0')
        reader_note(reader, field, why);
    return reader->status == STATUS_OK ? otherwise : 1;
}

uint32_t reader_hint(const struct reader *reader, const char *keys) {
    const cJSON *item = reader_find(reader, keys, NULL);
    return cJSON_IsNumber(item) && item->valuedouble >= 1 && item->valuedouble <= 1u << 24
               ? (uint32_t)item->valuedouble
               : 0;
}

double reader_factor(struct reader *reader, const char *field, const char *key) {
    const cJSON *item = reader_find(reader, key, NULL);
    if (!cJSON_IsNumber(item) || !(item->valuedouble > 0) || !(item->valuedouble <= 1024)) {
        (void)reader_fail(reader, STATUS_BAD_INPUT, key,
                          item == NULL ? "is missing" : "is not a number above 0 and up to 1024");
        return 1;
    }
    reader_note_key(reader, field, key);
    return item->valuedouble;
}

bool reader_flag(struct reader *reader, const char *key, bool otherwise) {
    const cJSON *item = reader_find(reader, key, NULL);
    if (item == NULL)
        return otherwise;
    if (!cJSON_IsBool(item))
        (void)reader_fail(reader, STATUS_BAD_INPUT, key, "holds something else than true or false");
    return cJSON_IsTrue(item) != 0;
}

const cJSON *reader_list(struct reader *reader, const char *key, uint32_t least) {
    const cJSON *list = reader_find(reader, key, NULL);
    const uint32_t entries = cJSON_IsArray(list) ? (uint32_t)cJSON_GetArraySize(list) : 0;
    char what[96];
    if (list == NULL)
        (void)reader_fail(reader, STATUS_BAD_INPUT, key, "is missing");
    else if (!cJSON_IsArray(list))
        (void)reader_fail(reader, STATUS_BAD_INPUT, key, "holds something else than a list");
    else if (entries < least) {
        (void)snprintf(what, sizeof what, "has %u entries for %u layers", entries, least);
        (void)reader_fail(reader, STATUS_BAD_INPUT, key, what);
    }
    return reader->status == STATUS_OK ? list : NULL;
}

struct reader_place reader_enter(struct reader *reader, const char *key) {
    const struct reader_place place = {reader->config, strlen(reader->where)};
    const cJSON *inside = reader_find(reader, key, NULL);
    if (!cJSON_IsObject(inside)) {
        (void)reader_fail(reader, STATUS_BAD_INPUT, key,
                          inside == NULL ? "is missing" : "is not an object");
        return place;
    }
    reader->config = inside;
    (void)snprintf(reader->where + place.where_length, sizeof reader->where - place.where_length,
                   "%s.", key);
    return place;
}

void reader_leave(struct reader *reader, struct reader_place place) {
    reader->config = place.config;
    reader->where[place.where_length] = '\0';
}

static bool same_geometry(const struct model_group *a, const struct model_group *b) {
    return a->kind == b->kind && a->query_heads == b->query_heads && a->sinks == b->sinks &&
           a->drafts == b->drafts && a->kv_heads == b->kv_heads && a->k_dim == b->k_dim &&
           a->v_dim == b->v_dim && a->window_tokens == b->window_tokens &&
           a->latent_dim == b->latent_dim && a->rope_dim == b->rope_dim &&
           a->entry_dim == b->entry_dim && a->tokens_per_entry == b->tokens_per_entry &&
           a->key_dim == b->key_dim && a->top_k == b->top_k && strcmp(a->family, b->family) == 0 &&
           a->heads == b->heads && a->state_rows == b->state_rows &&
           a->state_cols == b->state_cols && a->conv_channels == b->conv_channels &&
           a->conv_taps == b->conv_taps;
}

static struct model_group *group_like(const struct reader *reader,
                                      const struct model_group *group) {
    struct model *model = reader->model;
    for (uint32_t g = 0; g < model->group_count; g++)
        if (same_geometry(&model->groups[g], group))
            return &model->groups[g];
    return NULL;
}

void reader_add(struct reader *reader, const struct model_group *group) {
    struct model *model = reader->model;
    struct model_group *place = group_like(reader, group);
    if (reader->status != STATUS_OK)
        return;
    if (place == NULL && model->group_count == MODEL_MAX_GROUPS) {
        reader->status =
            status_set(reader->text, STATUS_REFUSED, "%s: more than %d kinds of layers",
                       reader->origin, MODEL_MAX_GROUPS);
        return;
    }
    if (place == NULL) {
        place = &model->groups[model->group_count++];
        *place = *group;
        place->layers = place->read_by_layers = 0;
    }
    place->layers++;
    place->read_by_layers++;
}

void reader_share(struct reader *reader, const struct model_group *group) {
    struct model_group *place = group_like(reader, group);
    if (reader->status == STATUS_OK && place == NULL)
        reader->status =
            status_set(reader->text, STATUS_REFUSED,
                       "%s: a layer reads a cache that no layer before it owns", reader->origin);
    if (reader->status == STATUS_OK)
        place->read_by_layers++;
}

/* Rows are as wide as a head, which is the width shared among the heads where no key says it. */
static uint32_t read_head_dim(struct reader *reader, uint32_t heads, uint32_t otherwise,
                              const char *why) {
    const char *keys = "head_dim|attention_head_dim|kv_channels";
    if (otherwise > 0 || reader_has(reader, keys))
        return reader_want(reader, "k_dim, v_dim", keys, 1, JSON_TEXT_MOST_DIM, otherwise, why);
    const char *width_keys = "hidden_size|n_embd|n_embed|d_model", *key = NULL;
    const uint32_t width = reader_need(reader, NULL, width_keys, 1, 1u << 24);
    if (reader->status != STATUS_OK)
        return 1;
    (void)reader_find(reader, width_keys, &key);
    if (width % heads != 0 || width / heads > JSON_TEXT_MOST_DIM) {
        char what[96];
        (void)snprintf(what, sizeof what,
                       "%u does not divide over %u heads and there is no head_dim", width, heads);
        (void)reader_fail(reader, STATUS_BAD_INPUT, key, what);
    }
    char from[96];
    (void)snprintf(from, sizeof from, "%s%s / heads", reader->where, key);
    reader_note(reader, "k_dim, v_dim", from);
    return width / heads;
}

/* Query heads, of which the cache knows nothing: where a config leaves them out and everything else
 * is there, they are assumed and marked so. */
static uint32_t read_query_heads(struct reader *reader, uint32_t otherwise, bool stands_alone,
                                 uint32_t assumed, bool *is_assumed) {
    const char *keys = "num_attention_heads|n_head|n_heads";
    *is_assumed = otherwise == 0 && stands_alone && !reader_has(reader, keys);
    if (*is_assumed)
        reader_assume(reader, "query_heads");
    return otherwise > 0 || *is_assumed
               ? reader_want(reader, "query_heads", keys, 1, JSON_TEXT_MOST_HEADS,
                             *is_assumed ? assumed : otherwise,
                             *is_assumed ? "assumed" : "the family's default")
               : reader_need(reader, "query_heads", keys, 1, JSON_TEXT_MOST_HEADS);
}

struct model_group reader_attention(struct reader *reader, const struct attention_rule *rule) {
    static const struct attention_rule usual = {0};
    rule = rule != NULL ? rule : &usual;
    const char *why = rule->why != NULL ? rule->why : "the family's default";
    const char *keys = rule->kv_keys != NULL ? rule->kv_keys
                                             : "num_key_value_heads|num_kv_heads|n_head_kv|"
                                               "n_kv_heads|num_attention_groups";
    struct model_group group = {.kind = MODEL_FULL};
    const bool stands_alone =
        reader_has(reader, keys) &&
        (rule->head_dim > 0 || reader_has(reader, "head_dim|attention_head_dim|kv_channels"));
    const uint32_t given =
        stands_alone ? reader_need(reader, NULL, keys, 1, JSON_TEXT_MOST_HEADS / 8) : 1;
    group.query_heads = read_query_heads(reader, rule->query_heads, stands_alone, 8 * given,
                                         &group.query_heads_assumed);
    const bool mha = rule->kv_heads == 0;
    group.kv_heads =
        reader_want(reader, "kv_heads", keys, 1, JSON_TEXT_MOST_HEADS,
                    mha ? group.query_heads : rule->kv_heads, mha ? "as many as query heads" : why);
    group.k_dim = read_head_dim(reader, group.query_heads, rule->head_dim, why);
    group.v_dim = group.k_dim;
    return group;
}

struct model_group reader_slide(const struct model_group *full, uint32_t tokens) {
    struct model_group window = *full;
    window.kind = MODEL_WINDOW;
    window.window_tokens = tokens;
    return window;
}

struct model_group reader_latent(struct reader *reader) {
    struct model_group group = {.kind = MODEL_LATENT};
    group.query_heads = read_query_heads(reader, 0, reader_has(reader, "kv_lora_rank"), 64,
                                         &group.query_heads_assumed);
    group.latent_dim = reader_need(reader, "latent_dim", "kv_lora_rank", 1, JSON_TEXT_MOST_DIM);
    group.rope_dim = reader_need(reader, "rope_dim", "qk_rope_head_dim", 0, JSON_TEXT_MOST_DIM);
    return group;
}

struct model_group reader_fla_attention(struct reader *reader, struct layer_list *layers) {
    struct model_group group = {.kind = MODEL_FULL};
    const uint32_t width = reader_need(reader, NULL, "hidden_size", 1, 1u << 24);
    const struct reader_place place = reader_enter(reader, "attn");
    reader_layer_numbers(reader, "layers", 0, LAYER_FULL, layers);
    group.query_heads = reader_need(reader, "query_heads", "num_heads", 1, JSON_TEXT_MOST_HEADS);
    group.kv_heads = reader_want(reader, "kv_heads", "num_kv_heads", 1, JSON_TEXT_MOST_HEADS,
                                 group.query_heads, "as many as query heads");
    if (width % group.query_heads != 0)
        (void)reader_fail(reader, STATUS_BAD_INPUT, "num_heads", "does not divide hidden_size");
    group.k_dim = group.v_dim = width / group.query_heads;
    reader_note(reader, "k_dim, v_dim", "hidden_size / attn.num_heads");
    if (reader_has(reader, "window_size"))
        group = reader_slide(&group,
                             reader_need(reader, "window_tokens", "window_size", 1, UINT32_MAX));
    reader_leave(reader, place);
    return group;
}
