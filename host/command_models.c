/* `kvgauge models`: the built-in models, or any others given, a row each. */
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "formula.h"
#include "model_source.h"
#include "session.h"

enum models_field {
    MODELS_NAME,
    MODELS_GROUPS,
    MODELS_BYTES_TOKEN,
    MODELS_KV_BYTES_TOKEN,
    MODELS_FIXED,
    MODELS_NATIVE,
    MODELS_SOURCE,
    MODELS_ASSUMED,
    MODELS_FIELD_COUNT
};

static const struct writer_field fields[MODELS_FIELD_COUNT] = {
    [MODELS_NAME] = {"name", "name", 0},
    [MODELS_GROUPS] = {"groups", "groups", 0},
    [MODELS_BYTES_TOKEN] = {"bytes_per_token", "B/token", 0},
    [MODELS_KV_BYTES_TOKEN] = {"kv_bytes_per_token", "KV B/token", 0},
    [MODELS_FIXED] = {"fixed_bytes_per_seq", "fixed B/seq", 0},
    [MODELS_NATIVE] = {"native_context", "native context", 0},
    [MODELS_SOURCE] = {"source", NULL, 0},
    [MODELS_ASSUMED] = {"assumed", "assumed", 0},
};

static struct writer_value text_value(const char *text) {
    return text[0] == '\0' ? (struct writer_value){.kind = WRITER_NULL}
                           : (struct writer_value){.kind = WRITER_TEXT, .as.text = text};
}

static struct writer_value rate_value(struct formula_rate rate) {
    if (rate.tokens == 1)
        return (struct writer_value){.kind = WRITER_UNSIGNED, .as.number = rate.bytes};
    return (struct writer_value){.kind = WRITER_REAL, .as.real = formula_rate_value(rate)};
}

static enum status write_model(const char *spec, struct session_output *output,
                               struct status_text *text) {
    struct model model;
    enum status status = model_source_load(spec, &model, NULL, NULL, NULL, text);
    if (status != STATUS_OK)
        return status;
    const struct formula_storage storage = {.k_format = FORMAT_BF16,
                                            .v_format = FORMAT_BF16,
                                            .index = FORMULA_INDEX_BF16,
                                            .state_value_bytes = 4};
    struct formula_result formula;
    /* Long enough that every window is full: fixed bytes are those of a long context. */
    status = formula_compute(&model, &storage, (uint64_t)1 << 24, 1, &formula, text);
    if (status != STATUS_OK)
        return status;
    char groups[512] = "";
    for (uint32_t g = 0; g < model.group_count; g++) {
        const size_t used = strlen(groups);
        if (used > 0)
            (void)snprintf(groups + used, sizeof groups - used, ", ");
        model_group_words(&model.groups[g], groups + strlen(groups),
                          (uint32_t)(sizeof groups - strlen(groups)));
    }
    struct writer_value values[MODELS_FIELD_COUNT];
    values[MODELS_NAME] = text_value(model.name);
    values[MODELS_GROUPS] = text_value(groups);
    values[MODELS_BYTES_TOKEN] = rate_value(formula.rate);
    values[MODELS_KV_BYTES_TOKEN] = rate_value(formula.kv_rate);
    values[MODELS_FIXED] =
        (struct writer_value){.kind = WRITER_UNSIGNED, .as.number = formula.fixed_bytes_per_seq};
    values[MODELS_NATIVE] =
        model.native_context > 0
            ? (struct writer_value){.kind = WRITER_UNSIGNED, .as.number = model.native_context}
            : (struct writer_value){.kind = WRITER_NULL};
    values[MODELS_SOURCE] = text_value(model.source);
    values[MODELS_ASSUMED] = text_value(model.assumed);
    if (model.remark[0] != '\0')
        (void)fprintf(stderr, "kvgauge: %s: %s\n", model.name, model.remark);
    return session_output_row(output, values, text);
}

int command_models(const struct options *options) {
    struct status_text text = {""};
    struct session_output output;
    enum status status = session_output_open(
        options, fields, MODELS_FIELD_COUNT,
        "bytes per token and per sequence at bf16 (state f32); KV without index keys", &output,
        &text);
    if (status == STATUS_OK) {
        const bool all = options->all_models || options->model_count == 0;
        for (size_t i = 0; all && i < model_source_count() && status == STATUS_OK; i++)
            status = write_model(model_source_name(i), &output, &text);
        for (size_t i = 0; i < options->model_count && status == STATUS_OK; i++)
            status = write_model(options->models[i], &output, &text);
        struct status_text why = {""};
        const enum status closed = session_output_close(&output, &why);
        if (status == STATUS_OK && closed != STATUS_OK)
            status = status_set(&text, closed, "%s", why.line);
    }
    if (status != STATUS_OK)
        (void)fprintf(stderr, "kvgauge: %s\n", text.line);
    return session_exit_code(status);
}
