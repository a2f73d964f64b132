/* Hugging Face config.json: finds the language model's dictionary in it and the function that
 * reads its family (model_families.c); what holds for all families is read here. Key names,
 * defaults and traps: README, "Models". */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

#include "json_text.h"
#include "model_families.h"
#include "model_reader.h"
#include "model_source.h"

/* What --kv-format auto means: an fp8 cache where the checkpoint was calibrated for one, else the
 * type the weights are kept in. */
enum { REASON_BYTES = 96 };
static bool resolve_in(const cJSON *config, enum format_id *format, char *reason) {
    const cJSON *quantization = cJSON_GetObjectItemCaseSensitive(config, "quantization_config");
    const cJSON *scheme = cJSON_GetObjectItemCaseSensitive(quantization, "kv_cache_scheme");
    const cJSON *bits = cJSON_GetObjectItemCaseSensitive(scheme, "num_bits");
    const cJSON *kind = cJSON_GetObjectItemCaseSensitive(scheme, "type");
    const bool calibrated = cJSON_IsString(kind) && strcmp(kind->valuestring, "float") == 0;
    if (calibrated && cJSON_IsNumber(bits) && bits->valuedouble == 8) {
        *format = FORMAT_FP8_E4M3;
        (void)strcpy(reason, "quantization_config.kv_cache_scheme: float of 8 bits");
        return true;
    }
    const char *key = "torch_dtype";
    const cJSON *type = cJSON_GetObjectItemCaseSensitive(config, key);
    if (!cJSON_IsString(type))
        type = cJSON_GetObjectItemCaseSensitive(config, key = "dtype");
    if (!cJSON_IsString(type))
        return false;
    *format = strcmp(type->valuestring, "float16") == 0 ? FORMAT_F16 : FORMAT_BF16;
    char named[40];
    json_text_printable(type->valuestring, named, sizeof named);
    (void)snprintf(reason, REASON_BYTES, "%s: %s", key, named);
    return true;
}

/* The whole config first: a quantised one says so there. */
static void resolve_format(const struct reader *reader, enum format_id *format, char *reason) {
    char found[REASON_BYTES];
    enum format_id id = FORMAT_BF16;
    if (!resolve_in(reader->root, &id, found) && !resolve_in(reader->config, &id, found))
        (void)strcpy(found, "the config names no type: bf16");
    if (format != NULL)
        *format = id;
    if (reason != NULL)
        (void)strcpy(reason, found);
}

static bool counts_layers(const cJSON *dictionary) {
    static const char *const keys[] = {
        "num_hidden_layers",       "n_layer",          "n_layers", "num_layers",
        "hybrid_override_pattern", "layers_block_type"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const cJSON *item = cJSON_GetObjectItemCaseSensitive(dictionary, keys[i]);
        if (item != NULL && !cJSON_IsNull(item))
            return true;
    }
    return false;
}

/* Moves the reader to the language model's dictionary. Layout keys are taken from there alone:
 * those outside and those of a vision model have the same names. */
static void enter_language_model(struct reader *reader) {
    static const char *const keys[] = {"text_config", "llm_config", "language_config"};
    if (cJSON_IsObject(cJSON_GetObjectItemCaseSensitive(reader->root, "thinker_config")))
        (void)reader_enter(reader, "thinker_config");
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const cJSON *inside = cJSON_GetObjectItemCaseSensitive(reader->config, keys[i]);
        if (cJSON_IsObject(inside) && (counts_layers(inside) || !counts_layers(reader->config))) {
            (void)reader_enter(reader, keys[i]);
            return;
        }
    }
}

/* Looks up every name one dictionary gives itself; *named becomes its first. */
static model_family_read *find_by(const cJSON *dictionary, bool architectures, const char **named) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(dictionary, architectures ? "architectures"
                                                                                   : "model_type");
    if (cJSON_IsArray(item))
        item = item->child;
    for (; item != NULL; item = architectures ? item->next : NULL) {
        if (!cJSON_IsString(item))
            continue;
        if (*named == NULL)
            *named = item->valuestring;
        model_family_read *read = model_families_find(item->valuestring);
        if (read != NULL)
            return read;
    }
    return NULL;
}

/* architectures before model_type, which lies more often: a MiniMax-M3 holds a text model that
 * calls itself minimax_m2. */
static model_family_read *find_family(const struct reader *reader, char *named, size_t bytes) {
    const char *name = NULL;
    model_family_read *read = find_by(reader->config, true, &name);
    if (read == NULL)
        read = find_by(reader->root, true, &name);
    if (read == NULL)
        read = find_by(reader->root, false, &name);
    if (read == NULL)
        read = find_by(reader->config, false, &name);
    json_text_printable(name != NULL ? name : "a config that names no architecture", named, bytes);
    return read;
}

static void read_native_context(struct reader *reader) {
    const char *keys = "max_position_embeddings|n_positions|max_seq_len|seq_length|"
                       "max_sequence_length|model_max_length";
    const char *key = NULL;
    const cJSON *native = reader_find(reader, keys, &key);
    if (native == NULL || reader->status != STATUS_OK)
        return;
    reader->status = json_text_number(native, reader->origin, key, 1, (uint64_t)1 << 53,
                                      &reader->model->native_context, reader->text);
    reader_note_key(reader, "native_context", key);
}

static enum status read_model(struct reader *reader) {
    char named[64];
    enter_language_model(reader);
    model_family_read *read = find_family(reader, named, sizeof named);
    if (read != NULL)
        (void)read(reader);
    else
        (void)model_guess(reader, named);
    read_native_context(reader);
    reader->model->hidden_size = reader_hint(reader, "hidden_size|n_embd|d_model");
    reader->model->experts =
        reader_hint(reader, "num_experts|num_local_experts|n_routed_experts|moe_num_experts");
    return reader->status == STATUS_OK ? model_check(reader->model, reader->text) : reader->status;
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
    if (status != STATUS_OK)
        return status;
    struct reader reader = {
        .root = root, .config = root, .origin = origin, .model = out, .trace = trace, .text = text};
    status = read_model(&reader);
    if (status == STATUS_OK)
        resolve_format(&reader, config_format, config_format_reason);
    cJSON_Delete(root);
    return status;
}
