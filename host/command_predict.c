/* `kvgauge predict`: the size formula for every model x format x length x batch; no device. */
#include <stdio.h>
#include <string.h>

#include "checked.h"
#include "commands.h"
#include "formula.h"
#include "model_source.h"
#include "number.h"
#include "run_case.h"
#include "session.h"

enum predict_field {
    PREDICT_MODEL,
    PREDICT_K_FORMAT,
    PREDICT_V_FORMAT,
    PREDICT_INDEX_FORMAT,
    PREDICT_TOKENS,
    PREDICT_SEQS,
    PREDICT_TP,
    PREDICT_KV_RATE,
    PREDICT_INDEX_RATE,
    PREDICT_RATE,
    PREDICT_FIXED,
    PREDICT_TOTAL,
    PREDICT_PAGED,
    PREDICT_PADDING,
    PREDICT_TOKENS_GB,
    PREDICT_TOKENS_VS_BASELINE,
    PREDICT_FITS,
    PREDICT_LEFT,
    PREDICT_MAX_TOKENS,
    PREDICT_MAX_SEQS,
    PREDICT_NOTES,
    PREDICT_FIELD_COUNT
};

static const struct writer_field fields[PREDICT_FIELD_COUNT] = {
    [PREDICT_MODEL] = {"model", "model", 0},
    [PREDICT_K_FORMAT] = {"k_format", "K format", 0},
    [PREDICT_V_FORMAT] = {"v_format", "V format", 0},
    [PREDICT_INDEX_FORMAT] = {"index_format", "index", 0},
    [PREDICT_TOKENS] = {"tokens", "tokens", 0},
    [PREDICT_SEQS] = {"seqs", "seqs", 0},
    [PREDICT_TP] = {"tp", NULL, 0},
    [PREDICT_KV_RATE] = {"kv_bytes_per_token", NULL, 1},
    [PREDICT_INDEX_RATE] = {"index_bytes_per_token", NULL, 1},
    [PREDICT_RATE] = {"bytes_per_token", "B/token", 1},
    [PREDICT_FIXED] = {"fixed_bytes_per_seq", "fixed B/seq", 0},
    [PREDICT_TOTAL] = {"total_bytes", "total B", 0},
    [PREDICT_PAGED] = {"paged_bytes", "paged B", 0},
    [PREDICT_PADDING] = {"padding_bytes", NULL, 0},
    [PREDICT_TOKENS_GB] = {"tokens_per_gb", "tokens/GB", 0},
    [PREDICT_TOKENS_VS_BASELINE] = {"tokens_vs_baseline", "tokens x", 2},
    [PREDICT_FITS] = {"fits", "fits", 0},
    [PREDICT_LEFT] = {"left_bytes", "left B", 0},
    [PREDICT_MAX_TOKENS] = {"max_tokens", "max tokens", 0},
    [PREDICT_MAX_SEQS] = {"max_seqs", "max seqs", 0},
    [PREDICT_NOTES] = {"notes", "notes", 0},
};

/* One command's state. */
struct predict {
    const struct options *options;
    struct session_output output;
    uint64_t rows;
    uint64_t refused;
    uint64_t misfits;
};

/* One row's question. */
struct question {
    struct run_case which; /* model, options and auto format; lengths unused */
    const struct model_trace *trace;
    const struct options_format *format;
    uint64_t tokens;
    uint64_t seqs;
};

static struct writer_value text_value(const char *text) {
    return text == NULL || text[0] == '\0'
               ? (struct writer_value){.kind = WRITER_NULL}
               : (struct writer_value){.kind = WRITER_TEXT, .as.text = text};
}

static struct writer_value number_value(uint64_t number) {
    return (struct writer_value){.kind = WRITER_UNSIGNED, .as.number = number};
}

static struct writer_value real_value(double real) {
    return (struct writer_value){.kind = WRITER_REAL, .as.real = real};
}

/* A rate is a whole number of bytes where it can be. */
static struct writer_value rate_value(struct formula_rate rate) {
    return rate.tokens == 1 ? number_value(rate.bytes) : real_value(formula_rate_value(rate));
}

static bool has_index(const struct model *model) {
    for (uint32_t g = 0; g < model->group_count; g++)
        if (model->groups[g].kind == MODEL_INDEX)
            return true;
    return false;
}

/* Bytes per token of the baseline for the same model; 0 when it cannot hold the model. */
static double baseline_rate(const struct question *question) {
    struct options_format resolved;
    const struct formula_storage storage =
        run_case_storage(&question->which, &question->which.options->baseline, &resolved);
    struct formula_result formula;
    if (formula_compute(&question->which.model, &storage, question->tokens, question->seqs,
                        &formula, NULL) != STATUS_OK)
        return 0;
    return formula_rate_value(formula.rate);
}

static enum status set_budget(struct predict *predict, const struct question *question,
                              const struct formula_storage *storage, uint64_t total_bytes,
                              struct writer_value *values, struct status_text *text) {
    const struct options *options = predict->options;
    if (!options->budget_given)
        return STATUS_OK;
    const uint64_t budget = options->budget_bytes > options->weights_bytes
                                ? options->budget_bytes - options->weights_bytes
                                : 0;
    const bool fits = options->budget_bytes >= options->weights_bytes && total_bytes <= budget;
    const int64_t left = (int64_t)(options->budget_bytes - options->weights_bytes - total_bytes);
    uint64_t max_tokens, max_seqs;
    enum status status = formula_max_tokens(&question->which.model, storage, question->seqs, budget,
                                            &max_tokens, text);
    if (status == STATUS_OK)
        status = formula_max_seqs(&question->which.model, storage, question->tokens, budget,
                                  &max_seqs, text);
    if (status != STATUS_OK)
        return status;
    predict->misfits += !fits;
    values[PREDICT_FITS] = (struct writer_value){.kind = WRITER_BOOL, .as.truth = fits};
    values[PREDICT_LEFT] = (struct writer_value){.kind = WRITER_SIGNED, .as.signed_number = left};
    if (max_tokens != UINT64_MAX)
        values[PREDICT_MAX_TOKENS] = number_value(max_tokens);
    if (max_seqs != UINT64_MAX)
        values[PREDICT_MAX_SEQS] = number_value(max_seqs);
    return STATUS_OK;
}

static void set_question(const struct question *question, const struct formula_storage *storage,
                         const struct options_format *resolved, struct writer_value *values) {
    for (size_t i = 0; i < PREDICT_FIELD_COUNT; i++)
        values[i] = (struct writer_value){.kind = WRITER_NULL};
    const bool record = resolved->record != RECORD_COUNT;
    const struct model *model = &question->which.model;
    values[PREDICT_MODEL] = text_value(model->name);
    values[PREDICT_K_FORMAT] =
        text_value(record ? resolved->name : format_get(storage->k_format)->name);
    values[PREDICT_V_FORMAT] =
        text_value(record ? resolved->name : format_get(storage->v_format)->name);
    if (has_index(model))
        values[PREDICT_INDEX_FORMAT] = text_value(formula_index_name(storage->index));
    values[PREDICT_TOKENS] = number_value(question->tokens);
    values[PREDICT_SEQS] = number_value(question->seqs);
    values[PREDICT_TP] = number_value(question->which.options->tp);
}

/* A row per group, in bytes of one sequence times seqs, and where a config's numbers come from. */
static enum status write_items(struct predict *predict, const struct question *question,
                               const struct formula_result *formula, const struct writer_value *row,
                               struct status_text *text) {
    enum status status = STATUS_OK;
    for (uint32_t g = 0; g < formula->group_count && status == STATUS_OK; g++) {
        const struct formula_group *group = &formula->groups[g];
        const uint64_t fixed = group->window_bytes + group->state_bytes + group->conv_bytes;
        char words[96], notes[256];
        model_group_words(&question->which.model.groups[g], words, sizeof words);
        (void)snprintf(notes, sizeof notes, "group %u: %s", g, words);
        if (group->conv_bytes > 0) {
            const size_t used = strlen(notes);
            (void)snprintf(notes + used, sizeof notes - used, "; state %llu B, convolution %llu B",
                           (unsigned long long)group->state_bytes,
                           (unsigned long long)group->conv_bytes);
        }
        struct writer_value values[PREDICT_FIELD_COUNT];
        for (size_t i = 0; i < PREDICT_FIELD_COUNT; i++)
            values[i] = i <= PREDICT_TP ? row[i] : (struct writer_value){.kind = WRITER_NULL};
        values[PREDICT_KV_RATE] = rate_value(group->kv_rate);
        values[PREDICT_INDEX_RATE] = rate_value(group->index_rate);
        values[PREDICT_RATE] =
            group->kv_rate.bytes > 0 ? values[PREDICT_KV_RATE] : values[PREDICT_INDEX_RATE];
        values[PREDICT_FIXED] = number_value(fixed);
        values[PREDICT_TOTAL] =
            number_value((group->kv_bytes + group->index_bytes + fixed) * question->seqs);
        values[PREDICT_NOTES] = text_value(notes);
        status = session_output_row(&predict->output, values, text);
    }
    if (status != STATUS_OK || question->trace == NULL || question->trace->count == 0)
        return status;
    char notes[2048] = "from the config:";
    for (size_t i = 0; i < question->trace->count; i++) {
        const size_t used = strlen(notes);
        (void)snprintf(notes + used, sizeof notes - used, "%s %s <- %s", i > 0 ? "," : "",
                       question->trace->entries[i].field, question->trace->entries[i].key);
    }
    struct writer_value values[PREDICT_FIELD_COUNT];
    for (size_t i = 0; i < PREDICT_FIELD_COUNT; i++)
        values[i] = i <= PREDICT_TP ? row[i] : (struct writer_value){.kind = WRITER_NULL};
    values[PREDICT_NOTES] = text_value(notes);
    return session_output_row(&predict->output, values, text);
}

static enum status write_refused(struct predict *predict, struct writer_value *values,
                                 const struct status_text *why, struct status_text *text) {
    char notes[560];
    (void)snprintf(notes, sizeof notes, "refused: %s", why->line);
    predict->refused++;
    values[PREDICT_NOTES] = text_value(notes);
    return session_output_row(&predict->output, values, text);
}

static enum status answer(struct predict *predict, const struct question *question,
                          struct status_text *text) {
    struct options_format resolved;
    const struct formula_storage storage =
        run_case_storage(&question->which, question->format, &resolved);
    const struct model *model = &question->which.model;
    struct writer_value values[PREDICT_FIELD_COUNT];
    set_question(question, &storage, &resolved, values);
    struct status_text why = {""};
    struct formula_result formula;
    struct formula_paged paged;
    uint64_t paged_bytes = 0;
    enum status status = question->which.refused;
    if (status != STATUS_OK)
        (void)status_set(&why, status, "%s", question->which.reason);
    else
        status = formula_compute(model, &storage, question->tokens, question->seqs, &formula, &why);
    if (status == STATUS_OK)
        status = formula_paged_compute(model, &storage, question->tokens,
                                       (uint32_t)predict->options->page_tokens[0], &paged, &why);
    if (status == STATUS_OK && !checked_multiply(paged.seq_bytes, question->seqs, &paged_bytes))
        status = status_set(&why, STATUS_OVERFLOW, "the paged size does not fit 64 bits");
    if (status == STATUS_OK)
        status = set_budget(predict, question, &storage, formula.total_bytes, values, &why);
    predict->rows++;
    if (status != STATUS_OK)
        return write_refused(predict, values, &why, text);
    values[PREDICT_KV_RATE] = rate_value(formula.kv_rate);
    values[PREDICT_INDEX_RATE] = rate_value(formula.index_rate);
    values[PREDICT_RATE] = rate_value(formula.rate);
    values[PREDICT_FIXED] = number_value(formula.fixed_bytes_per_seq);
    values[PREDICT_TOTAL] = number_value(formula.total_bytes);
    values[PREDICT_PAGED] = number_value(paged_bytes);
    values[PREDICT_PADDING] = number_value(paged_bytes - formula.total_bytes);
    const double rate = formula_rate_value(formula.rate);
    if (rate > 0) {
        values[PREDICT_TOKENS_GB] = real_value(1e9 / rate);
        const double baseline = baseline_rate(question);
        if (baseline > 0)
            values[PREDICT_TOKENS_VS_BASELINE] = real_value(baseline / rate);
    }
    char notes[256] = "";
    if (question->format->is_auto)
        (void)snprintf(notes, sizeof notes, "auto is %s", format_get(storage.k_format)->name);
    if (model->native_context > 0 && question->tokens > model->native_context)
        (void)snprintf(notes + strlen(notes), sizeof notes - strlen(notes),
                       "%spast the native context of %llu", notes[0] != '\0' ? "; " : "",
                       (unsigned long long)model->native_context);
    values[PREDICT_NOTES] = text_value(notes);
    status = session_output_row(&predict->output, values, text);
    if (status == STATUS_OK && predict->options->itemise)
        status = write_items(predict, question, &formula, values, text);
    return status;
}

/* The lengths asked for; without any 8k, 32k, 128k and the native context. */
static enum status list_tokens(const struct options *options, const struct model *model,
                               uint64_t out[OPTIONS_MAX_LIST], size_t *count,
                               struct status_text *text) {
    *count = 0;
    if (options->tokens_count == 0) {
        out[(*count)++] = 8192;
        out[(*count)++] = 32768;
        out[(*count)++] = 131072;
        const uint64_t native = model->native_context;
        if (native > 0 && native != 8192 && native != 32768 && native != 131072)
            out[(*count)++] = native;
        return STATUS_OK;
    }
    for (size_t i = 0; i < options->tokens_count; i++) {
        out[*count] = options->tokens[i];
        if (out[*count] == NUMBER_MAX_TOKENS) {
            if (model->native_context == 0)
                return status_set(text, STATUS_BAD_INPUT,
                                  "--tokens max: no source gives the native context of %s; give a "
                                  "number",
                                  model->name);
            out[*count] = model->native_context;
        }
        ++*count;
    }
    return STATUS_OK;
}

static enum status predict_model(struct predict *predict, const char *spec,
                                 struct status_text *text) {
    const struct options *options = predict->options;
    struct model whole;
    struct model_trace trace = {0};
    struct question question = {.which = {.options = options}, .trace = &trace};
    char reason[128];
    enum status status =
        model_source_load(spec, &whole, &trace, &question.which.auto_format, reason, text);
    if (status == STATUS_REFUSED)
        return STATUS_BAD_INPUT;
    if (status != STATUS_OK)
        return status;
    struct status_text why = {""};
    question.which.refused = model_shard(&whole, options->tp, &question.which.model, &why);
    (void)snprintf(question.which.reason, sizeof question.which.reason, "%s", why.line);
    uint64_t tokens[OPTIONS_MAX_LIST];
    size_t tokens_count;
    status = list_tokens(options, &whole, tokens, &tokens_count, text);
    for (size_t f = 0; f < options->format_count && status == STATUS_OK; f++) {
        question.format = &options->formats[f];
        for (size_t t = 0; t < tokens_count && status == STATUS_OK; t++) {
            question.tokens = tokens[t];
            for (size_t s = 0; s < options->seqs_count && status == STATUS_OK; s++) {
                question.seqs = options->seqs[s];
                status = answer(predict, &question, text);
            }
        }
    }
    return status;
}

static void print_verdict(const struct predict *predict) {
    if (!predict->options->budget_given)
        return;
    char budget[NUMBER_TEXT_BYTES], weights[NUMBER_TEXT_BYTES];
    number_bytes_words(predict->options->budget_bytes, budget);
    number_bytes_words(predict->options->weights_bytes, weights);
    (void)fprintf(stderr, "kvgauge: %llu of %llu rows fit %s with %s of weights\n",
                  (unsigned long long)(predict->rows - predict->refused - predict->misfits),
                  (unsigned long long)predict->rows, budget, weights);
}

static enum status predict_all(struct predict *predict, struct status_text *text) {
    const struct options *options = predict->options;
    if (options->model_count == 0 && !options->all_models)
        return status_set(text, STATUS_BAD_INPUT,
                          "--model: a name, a path, geometry or all is expected (kvgauge models "
                          "lists the names)");
    char title[160];
    (void)snprintf(title, sizeof title,
                   "size formula; pages of %llu tokens; tokens/GB at 10^9 bytes",
                   (unsigned long long)options->page_tokens[0]);
    enum status status =
        session_output_open(options, fields, PREDICT_FIELD_COUNT, title, &predict->output, text);
    if (status != STATUS_OK)
        return status;
    for (size_t i = 0; options->all_models && i < model_source_count() && status == STATUS_OK; i++)
        status = predict_model(predict, model_source_name(i), text);
    for (size_t i = 0; i < options->model_count && status == STATUS_OK; i++)
        status = predict_model(predict, options->models[i], text);
    struct status_text why = {""};
    const enum status closed = session_output_close(&predict->output, &why);
    if (status == STATUS_OK && closed != STATUS_OK)
        status = status_set(text, closed, "%s", why.line);
    if (status != STATUS_OK)
        return status;
    print_verdict(predict);
    if (predict->rows == predict->refused)
        return status_set(text, STATUS_REFUSED, "no row could be computed");
    if (predict->misfits > 0)
        return status_set(text, STATUS_WRONG, "%llu rows do not fit the budget",
                          (unsigned long long)predict->misfits);
    return STATUS_OK;
}

int command_predict(const struct options *options) {
    struct status_text text = {""};
    struct predict predict = {.options = options};
    const enum status status = predict_all(&predict, &text);
    if (status != STATUS_OK)
        (void)fprintf(stderr, "kvgauge: %s\n", text.line);
    return session_exit_code(status);
}
