/* Hugging Face config.json of the families in the table below: one row and one small function per
 * family. Key names, defaults and traps: README, "Which configs are read". */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

#include "json_text.h"
#include "model_source.h"

struct reader {
    const cJSON *config; /* the language model's dictionary */
    const char *origin;
    struct model *model;
    struct model_trace *trace; /* may be NULL */
    struct status_text *text;
};

/* A key that is there and not null: null counts as missing. */
static const cJSON *find(const struct reader *reader, const char *key) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(reader->config, key);
    return item == NULL || cJSON_IsNull(item) ? NULL : item;
}

/* Writes down where a number came from; `field` NULL: it went into no field. */
static void note(const struct reader *reader, const char *field, const char *key) {
    struct model_trace *trace = reader->trace;
    const size_t most = trace == NULL ? 0 : sizeof trace->entries / sizeof trace->entries[0];
    if (field == NULL || trace == NULL || trace->count == most)
        return;
    struct model_trace_entry *entry = &trace->entries[trace->count++];
    (void)snprintf(entry->field, sizeof entry->field, "%s", field);
    (void)snprintf(entry->key, sizeof entry->key, "%s", key);
}

/* A number the family cannot do without. */
static enum status need(const struct reader *reader, const char *field, const char *key,
                        uint64_t least, uint64_t most, uint32_t *out) {
    const cJSON *item = find(reader, key);
    uint64_t value;
    if (item == NULL)
        return status_set(reader->text, STATUS_BAD_INPUT, "%s: %s is missing", reader->origin, key);
    const enum status status =
        json_text_number(item, reader->origin, key, least, most, &value, reader->text);
    if (status == STATUS_OK) {
        *out = (uint32_t)value;
        note(reader, field, key);
    }
    return status;
}

/* A number with a default, which `why` explains. */
static enum status want(const struct reader *reader, const char *field, const char *key,
                        uint64_t least, uint64_t most, uint32_t otherwise, const char *why,
                        uint32_t *out) {
    if (find(reader, key) != NULL)
        return need(reader, field, key, least, most, out);
    *out = otherwise;
    note(reader, field, why);
    return STATUS_OK;
}

static enum status read_layers(const struct reader *reader, uint32_t *layers, uint32_t *heads) {
    const enum status status =
        need(reader, "groups[0].layers", "num_hidden_layers", 1, JSON_TEXT_MOST_LAYERS, layers);
    if (status != STATUS_OK)
        return status;
    return need(reader, "groups[0].query_heads", "num_attention_heads", 1, JSON_TEXT_MOST_HEADS,
                heads);
}

/* One full group: KV heads default to the query heads (MHA), head_dim to hidden / heads. */
static enum status read_full(const struct reader *reader) {
    struct model_group *group = &reader->model->groups[0];
    group->kind = MODEL_FULL;
    uint32_t hidden = 0;
    enum status status = read_layers(reader, &group->layers, &group->query_heads);
    group->read_by_layers = group->layers;
    if (status == STATUS_OK)
        status = want(reader, "groups[0].kv_heads", "num_key_value_heads", 1, JSON_TEXT_MOST_HEADS,
                      group->query_heads, "num_attention_heads (no num_key_value_heads: MHA)",
                      &group->kv_heads);
    if (status == STATUS_OK && find(reader, "head_dim") == NULL) {
        status = need(reader, NULL, "hidden_size", 1, 1u << 24, &hidden);
        if (status == STATUS_OK &&
            (hidden % group->query_heads != 0 || hidden / group->query_heads > JSON_TEXT_MOST_DIM))
            status = status_set(reader->text, STATUS_BAD_INPUT,
                                "%s: hidden_size %u does not divide over %u heads and there is no "
                                "head_dim",
                                reader->origin, hidden, group->query_heads);
    }
    if (status == STATUS_OK)
        status =
            want(reader, "groups[0].k_dim", "head_dim", 1, JSON_TEXT_MOST_DIM,
                 hidden / group->query_heads, "hidden_size / num_attention_heads", &group->k_dim);
    group->v_dim = group->k_dim;
    reader->model->group_count = 1;
    return status;
}

/* The window of a family, if it binds: 0 when missing, null or past the longest context. */
static enum status read_window(const struct reader *reader, uint32_t *window) {
    uint32_t longest;
    enum status status = want(reader, NULL, "sliding_window", 1, UINT32_MAX, 0, "", window);
    if (status == STATUS_OK)
        status =
            want(reader, NULL, "max_position_embeddings", 1, UINT32_MAX, UINT32_MAX, "", &longest);
    if (status != STATUS_OK)
        return status;
    if (*window >= longest)
        *window = 0;
    note(reader, "window_tokens",
         *window > 0 ? "sliding_window" : "sliding_window missing or never reached: full");
    return STATUS_OK;
}

/* mistral, mixtral: a sliding_window that is set makes every layer slide. */
static enum status read_mistral(const struct reader *reader) {
    enum status status = read_full(reader);
    uint32_t window = 0;
    if (status == STATUS_OK)
        status = read_window(reader, &window);
    if (status == STATUS_OK && window > 0) {
        reader->model->groups[0].kind = MODEL_WINDOW;
        reader->model->groups[0].window_tokens = window;
    }
    return status;
}

/* qwen2, qwen3 and their mixtures: the window counts only with use_sliding_window, and only in
 * layers from max_window_layers (28) on. */
static enum status read_qwen(const struct reader *reader) {
    enum status status = read_full(reader);
    const cJSON *use = find(reader, "use_sliding_window");
    if (status == STATUS_OK && use != NULL && !cJSON_IsBool(use))
        return status_set(reader->text, STATUS_BAD_INPUT,
                          "%s: use_sliding_window: true or false is expected", reader->origin);
    if (status != STATUS_OK || use == NULL || !cJSON_IsTrue(use))
        return status;
    uint32_t window = 0, full_layers = 0;
    status = read_window(reader, &window);
    if (status == STATUS_OK)
        status = want(reader, "layers without window", "max_window_layers", 0,
                      JSON_TEXT_MOST_LAYERS, 28, "28 (no max_window_layers)", &full_layers);
    struct model *model = reader->model;
    const uint32_t layers = model->groups[0].layers;
    if (status != STATUS_OK || window == 0 || full_layers >= layers)
        return status;
    struct model_group sliding = model->groups[0];
    sliding.kind = MODEL_WINDOW;
    sliding.window_tokens = window;
    sliding.layers = sliding.read_by_layers = layers - full_layers;
    model->groups[0].layers = model->groups[0].read_by_layers = full_layers;
    if (full_layers == 0)
        model->groups[0] = sliding;
    else
        model->groups[model->group_count++] = sliding;
    return STATUS_OK;
}

/* deepseek_v2, deepseek_v3, kimi_k2: one latent of kv_lora_rank + qk_rope_head_dim per token;
 * num_key_value_heads and head_dim say nothing about the cache. */
static enum status read_deepseek(const struct reader *reader) {
    struct model_group *group = &reader->model->groups[0];
    group->kind = MODEL_LATENT;
    enum status status = read_layers(reader, &group->layers, &group->query_heads);
    group->read_by_layers = group->layers;
    if (status == STATUS_OK)
        status = need(reader, "groups[0].latent_dim", "kv_lora_rank", 1, JSON_TEXT_MOST_DIM,
                      &group->latent_dim);
    if (status == STATUS_OK)
        status = need(reader, "groups[0].rope_dim", "qk_rope_head_dim", 0, JSON_TEXT_MOST_DIM,
                      &group->rope_dim);
    reader->model->group_count = 1;
    return status;
}

static const struct family {
    const char *architecture;
    const char *model_type; /* asked only where a config names no architecture */
    enum status (*read)(const struct reader *);
} families[] = {
    {"LlamaForCausalLM", "llama", read_full},
    {"MistralForCausalLM", "mistral", read_mistral},
    {"MixtralForCausalLM", "mixtral", read_mistral},
    {"Qwen2ForCausalLM", "qwen2", read_qwen},
    {"Qwen2MoeForCausalLM", "qwen2_moe", read_qwen},
    {"Qwen3ForCausalLM", "qwen3", read_qwen},
    {"Qwen3MoeForCausalLM", "qwen3_moe", read_qwen},
    {"DeepseekV2ForCausalLM", "deepseek_v2", read_deepseek},
    {"DeepseekV3ForCausalLM", "deepseek_v3", read_deepseek},
};

static const struct family *find_family(const cJSON *root, char *named, size_t named_bytes) {
    const cJSON *architectures = cJSON_GetObjectItemCaseSensitive(root, "architectures");
    const cJSON *first = cJSON_GetArrayItem(architectures, 0);
    const cJSON *type = cJSON_GetObjectItemCaseSensitive(root, "model_type");
    const bool by_architecture = cJSON_IsString(first);
    const cJSON *name = by_architecture ? first : type;
    json_text_printable(cJSON_IsString(name) ? name->valuestring : "no architecture", named,
                        named_bytes);
    for (size_t i = 0; cJSON_IsString(name) && i < sizeof families / sizeof families[0]; i++) {
        const char *known = by_architecture ? families[i].architecture : families[i].model_type;
        if (strcmp(known, name->valuestring) == 0)
            return &families[i];
    }
    return NULL;
}

/* What --kv-format auto means: an fp8 cache where the checkpoint was calibrated for one, else the
 * type the weights are kept in. */
enum { REASON_BYTES = 96 };
static void resolve_format(const cJSON *config, enum format_id *format, char *reason) {
    const cJSON *quantization = cJSON_GetObjectItemCaseSensitive(config, "quantization_config");
    const cJSON *scheme = cJSON_GetObjectItemCaseSensitive(quantization, "kv_cache_scheme");
    const cJSON *bits = cJSON_GetObjectItemCaseSensitive(scheme, "num_bits");
    const cJSON *kind = cJSON_GetObjectItemCaseSensitive(scheme, "type");
    const bool calibrated = cJSON_IsString(kind) && strcmp(kind->valuestring, "float") == 0;
    if (calibrated && cJSON_IsNumber(bits) && bits->valuedouble == 8) {
        *format = FORMAT_FP8_E4M3;
        (void)strcpy(reason, "quantization_config.kv_cache_scheme: float of 8 bits");
        return;
    }
    const char *key = "torch_dtype";
    const cJSON *type = cJSON_GetObjectItemCaseSensitive(config, key);
    if (!cJSON_IsString(type))
        type = cJSON_GetObjectItemCaseSensitive(config, key = "dtype");
    if (!cJSON_IsString(type)) {
        *format = FORMAT_BF16;
        (void)strcpy(reason, "the config names no type: bf16");
        return;
    }
    *format = strcmp(type->valuestring, "float16") == 0 ? FORMAT_F16 : FORMAT_BF16;
    char named[40];
    json_text_printable(type->valuestring, named, sizeof named);
    (void)snprintf(reason, REASON_BYTES, "%s: %s", key, named);
}

static enum status read_root(const cJSON *root, const char *origin, struct model *out,
                             struct model_trace *trace, struct status_text *text) {
    char named[64];
    const struct family *family = find_family(root, named, sizeof named);
    if (family == NULL)
        return status_set(text, STATUS_REFUSED,
                          "%s: %s is not read by this version; llama, mistral, mixtral, qwen2, "
                          "qwen3 (and their mixtures of experts), deepseek_v2 and v3 are",
                          origin, named);
    const struct reader reader = {
        .config = root, .origin = origin, .model = out, .trace = trace, .text = text};
    enum status status = family->read(&reader);
    const cJSON *native = find(&reader, "max_position_embeddings");
    if (status == STATUS_OK && native != NULL) {
        status = json_text_number(native, origin, "max_position_embeddings", 1, (uint64_t)1 << 53,
                                  &out->native_context, text);
        note(&reader, "native_context", "max_position_embeddings");
    }
    return status == STATUS_OK ? model_check(out, text) : status;
}

enum status model_config_parse(const char *bytes, size_t size, const char *origin,
                               struct model *out, struct model_trace *trace,
                               enum format_id *config_format, char *config_format_reason,
                               struct status_text *text) {
    *out = (struct model){0};
    if (trace != NULL)
        trace->count = 0;
    (void)snprintf(out->name, sizeof out->name, "%.90s", origin);
    (void)snprintf(out->source, sizeof out->source, "%.250s", origin);
    cJSON *root = NULL;
    enum status status = json_text_parse(bytes, size, origin, &root, text);
    if (status == STATUS_OK)
        status = read_root(root, origin, out, trace, text);
    if (status == STATUS_OK && config_format != NULL) {
        char reason[REASON_BYTES];
        resolve_format(root, config_format, reason);
        if (config_format_reason != NULL)
            (void)strcpy(config_format_reason, reason);
    }
    cJSON_Delete(root);
    return status;
}
