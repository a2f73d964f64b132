/* The cells and rows of --engine. */
#include <stdio.h>
#include <string.h>

#include "predict_row.h"

static struct engine_question ask_for(const struct predict_question *question,
                                      const struct formula_storage *storage) {
    const struct options *options = question->which.options;
    struct engine_question out = {
        .model = &question->which.model,
        .storage = *storage,
        .tokens = question->tokens,
        .seqs = question->seqs,
        .has_memory = options->budget_given,
        .memory_bytes = options->budget_bytes,
        .weights_bytes = options->weights_bytes,
    };
    memcpy(out.settings, question->engine_settings, sizeof out.settings);
    return out;
}

/* Tokens against those of the baseline format, in the same memory. */
static void compare_tokens(const struct predict_question *question, struct predict_answer *out) {
    struct options_format resolved;
    const struct formula_storage storage =
        run_case_storage(&question->which, &question->which.options->baseline, &resolved);
    const struct engine_question asked = ask_for(question, &storage);
    struct engine_answer baseline;
    if (engine_ask(question->which.options->engine, &asked, &baseline, NULL) == STATUS_OK &&
        baseline.has_tokens && baseline.tokens > 0)
        out->values[PREDICT_ENGINE_VS_BASELINE] =
            predict_real((double)out->engine.tokens / (double)baseline.tokens);
}

enum status predict_engine(const struct predict_question *question,
                           const struct formula_storage *storage, struct predict_answer *out) {
    const struct engine *engine = question->which.options->engine;
    const struct engine_question asked = ask_for(question, storage);
    struct status_text why = {""};
    char note[sizeof why.line + 32], reports[700];
    out->values[PREDICT_ENGINE] = predict_text(engine->name);
    out->values[PREDICT_ENGINE_VERSION] = predict_text(engine->version);
    engine_reports(engine, question->which.model.name, out->format.name, reports, sizeof reports);
    if (reports[0] != '\0')
        predict_row_note(out, reports);
    const enum status status = engine_ask(engine, &asked, &out->engine, &why);
    if (status == STATUS_WRONG)
        return status_set(&out->why, status, "%s", why.line);
    out->has_engine = status == STATUS_OK;
    if (!out->has_engine) {
        (void)snprintf(note, sizeof note, "engine refused: %s", why.line);
        predict_row_note(out, note);
        return STATUS_OK;
    }
    if (question->which.options->draft_layers > 0)
        predict_row_note(out, "asked of the engine as further layers of the model, which is not "
                              "how it keeps its drafts");
    out->values[PREDICT_ENGINE_BYTES] = predict_number(out->engine.bytes);
    /* Both are below 2^63. */
    out->values[PREDICT_ENGINE_DIFFERENCE] =
        predict_signed((int64_t)out->engine.bytes - (int64_t)out->engine.formula_bytes);
    if (out->engine.has_tokens) {
        out->values[PREDICT_ENGINE_TOKENS] = predict_number(out->engine.tokens);
        compare_tokens(question, out);
    }
    return STATUS_OK;
}

static enum status write_text(const struct predict_answer *answer, const char *item,
                              const char *line, struct predict_output *output,
                              struct status_text *text) {
    struct writer_value values[PREDICT_FIELD_COUNT];
    predict_row_behind(answer, values);
    values[PREDICT_ENGINE] = answer->values[PREDICT_ENGINE];
    values[PREDICT_ENGINE_ITEM] = predict_text(item);
    values[PREDICT_NOTES] = predict_text(line);
    return predict_output_row(output, values, text);
}

/* One row for each of the lines, which " | " parts. */
static enum status write_lines(const struct predict_answer *answer, struct predict_output *output,
                               struct status_text *text) {
    char line[sizeof answer->engine.says];
    enum status status = STATUS_OK;
    for (const char *at = answer->engine.says; *at != '\0' && status == STATUS_OK;) {
        const char *end = strstr(at, " | ");
        const size_t length = end != NULL ? (size_t)(end - at) : strlen(at);
        (void)snprintf(line, sizeof line, "%.*s", (int)length, at);
        status = write_text(answer, "prints", line, output, text);
        at += length + (end != NULL ? 3 : 0);
    }
    return status;
}

enum status predict_engine_items(const struct predict_answer *answer, struct predict_output *output,
                                 struct status_text *text) {
    enum status status = STATUS_OK;
    for (size_t i = 0; i < answer->engine.item_count && status == STATUS_OK; i++) {
        struct writer_value values[PREDICT_FIELD_COUNT];
        predict_row_behind(answer, values);
        values[PREDICT_ENGINE] = answer->values[PREDICT_ENGINE];
        values[PREDICT_ENGINE_ITEM] = predict_text(answer->engine.items[i].name);
        values[PREDICT_ENGINE_DIFFERENCE] = predict_signed(answer->engine.items[i].bytes);
        status = predict_output_row(output, values, text);
    }
    if (status == STATUS_OK && answer->engine.notes[0] != '\0')
        status = write_text(answer, "how", answer->engine.notes, output, text);
    return status == STATUS_OK ? write_lines(answer, output, text) : status;
}
