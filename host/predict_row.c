/* The formula's answer as cells, refusals included. */
#include "predict_row.h"

#include <stdio.h>
#include <string.h>

#include "checked.h"
#include "number.h"
#include "words.h"

/* A rate is a whole number of bytes where it can be. */
static struct writer_value rate_value(struct formula_rate rate) {
    return rate.tokens == 1 ? predict_number(rate.bytes) : predict_real(formula_rate_value(rate));
}

static bool has_index(const struct model *model) {
    for (uint32_t g = 0; g < model->group_count; g++)
        if (model->groups[g].kind == MODEL_INDEX)
            return true;
    return false;
}

/* Bytes per token of the baseline for the same model; 0 when it cannot hold the model. */
static double baseline_rate(const struct predict_question *question) {
    struct options_format resolved;
    const struct formula_storage storage =
        run_case_storage(&question->which, &question->which.options->baseline, &resolved);
    struct formula_result formula;
    if (formula_compute(&question->which.model, &storage, question->tokens, question->seqs,
                        &formula, NULL) != STATUS_OK)
        return 0;
    return formula_rate_value(formula.rate);
}

static void set_question(const struct predict_question *question,
                         const struct formula_storage *storage, struct writer_value *values) {
    for (size_t i = 0; i < PREDICT_FIELD_COUNT; i++)
        values[i] = (struct writer_value){.kind = WRITER_NULL};
    const struct model *model = &question->which.model;
    values[PREDICT_MODEL] = predict_text(model->name);
    values[PREDICT_K_FORMAT] = predict_text(format_get(storage->k_format)->name);
    values[PREDICT_V_FORMAT] = predict_text(format_get(storage->v_format)->name);
    if (has_index(model))
        values[PREDICT_INDEX_FORMAT] = predict_text(formula_index_name(storage->index));
    if (question->tokens > 0)
        values[PREDICT_TOKENS] = predict_number(question->tokens);
    values[PREDICT_SEQS] = predict_number(question->seqs);
    values[PREDICT_TP] = predict_number(question->which.options->tp);
}

static int64_t left_bytes(const struct options *options, uint64_t total_bytes) {
    /* Both of the command line are at most 2^62. */
    const int64_t available = (int64_t)options->budget_bytes - (int64_t)options->weights_bytes;
    return total_bytes <= INT64_MAX / 2 ? available - (int64_t)total_bytes : INT64_MIN;
}

static enum status set_budget(const struct predict_question *question,
                              const struct formula_storage *storage, struct predict_answer *out) {
    const struct options *options = question->which.options;
    if (!options->budget_given)
        return STATUS_OK;
    const int64_t available = left_bytes(options, 0);
    const uint64_t budget = available > 0 ? (uint64_t)available : 0;
    uint64_t max_tokens, max_seqs;
    enum status status = formula_max_tokens(&question->which.model, storage, question->seqs, budget,
                                            &max_tokens, &out->why);
    if (status == STATUS_OK)
        status = formula_max_seqs(&question->which.model, storage, question->tokens, budget,
                                  &max_seqs, &out->why);
    if (status != STATUS_OK)
        return status;
    const int64_t left = left_bytes(options, out->formula.total_bytes);
    out->fits = left >= 0;
    out->values[PREDICT_FITS] = (struct writer_value){.kind = WRITER_BOOL, .as.truth = out->fits};
    if (left != INT64_MIN)
        out->values[PREDICT_LEFT] =
            (struct writer_value){.kind = WRITER_SIGNED, .as.signed_number = left};
    if (max_tokens != UINT64_MAX)
        out->values[PREDICT_MAX_TOKENS] = predict_number(max_tokens);
    if (max_seqs != UINT64_MAX)
        out->values[PREDICT_MAX_SEQS] = predict_number(max_seqs);
    return STATUS_OK;
}

void predict_row_note(struct predict_answer *out, const char *note) {
    words_add(out->notes, sizeof out->notes, "; ", "%s", note);
    out->values[PREDICT_NOTES] = predict_text(out->notes);
}

static void set_notes(const struct predict_question *question, struct predict_answer *out) {
    char note[256];
    if (question->format->is_auto) {
        (void)snprintf(note, sizeof note, "auto is %s (%s)", out->format.name,
                       question->auto_reason);
        predict_row_note(out, note);
    }
    if (question->format->is_bare && format_is_record(out->format.k_format)) {
        (void)snprintf(note, sizeof note, "%s is %s here", question->format->name,
                       out->format.name);
        predict_row_note(out, note);
    }
    if (question->which.model.remark[0] != '\0')
        predict_row_note(out, question->which.model.remark);
    const uint64_t native = question->which.model.native_context;
    if (native > 0 && question->tokens > native) {
        (void)snprintf(note, sizeof note, "past the native context of %llu",
                       (unsigned long long)native);
        predict_row_note(out, note);
    }
}

/* The sizes of a question that has an answer. */
static enum status compute(const struct predict_question *question,
                           const struct formula_storage *storage, struct predict_answer *out) {
    const struct model *model = &question->which.model;
    const struct options *options = question->which.options;
    if (question->which.refused != STATUS_OK)
        return status_set(&out->why, question->which.refused, "%s", question->which.reason);
    if (question->tokens == 0)
        return status_set(&out->why, STATUS_BAD_INPUT,
                          "--tokens max: no source gives the native context of %s; give a number",
                          model->name);
    enum status status =
        formula_compute(model, storage, question->tokens, question->seqs, &out->formula, &out->why);
    struct formula_paged paged = {0};
    uint64_t paged_bytes = 0;
    if (status == STATUS_OK)
        status = formula_paged_compute(model, storage, question->tokens,
                                       (uint32_t)options->page_tokens[0], &paged, &out->why);
    if (status == STATUS_OK && !checked_multiply(paged.seq_bytes, question->seqs, &paged_bytes))
        status = status_set(&out->why, STATUS_OVERFLOW, "%s: the paged size does not fit 64 bits",
                            model->name);
    if (status == STATUS_OK)
        status = set_budget(question, storage, out);
    if (status != STATUS_OK)
        return status;
    const struct formula_result *formula = &out->formula;
    out->values[PREDICT_KV_RATE] = rate_value(formula->kv_rate);
    out->values[PREDICT_INDEX_RATE] = rate_value(formula->index_rate);
    out->values[PREDICT_RATE] = rate_value(formula->rate);
    out->values[PREDICT_FIXED] = predict_number(formula->fixed_bytes_per_seq);
    out->values[PREDICT_TOTAL] = predict_number(formula->total_bytes);
    out->values[PREDICT_PAGED] = predict_number(paged_bytes);
    out->values[PREDICT_PADDING] = predict_number(paged_bytes - formula->total_bytes);
    const double rate = formula_rate_value(formula->rate);
    if (rate > 0) {
        out->values[PREDICT_TOKENS_GB] = predict_real(1e9 / rate);
        const double baseline = baseline_rate(question);
        if (baseline > 0)
            out->values[PREDICT_TOKENS_VS_BASELINE] = predict_real(baseline / rate);
    }
    return STATUS_OK;
}

void predict_row(const struct predict_question *question, struct predict_answer *out) {
    *out = (struct predict_answer){.fits = true};
    const struct formula_storage storage =
        run_case_storage(&question->which, question->format, &out->format);
    set_question(question, &storage, out->values);
    out->status = compute(question, &storage, out);
    if (out->status == STATUS_OK)
        set_notes(question, out);
    if (out->status == STATUS_OK && question->which.options->engine != NULL)
        out->status = predict_engine(question, &storage, out);
    if (out->status == STATUS_OK) {
        if (question->which.options->expect_given)
            predict_expect(question, &storage, out);
        return;
    }
    char note[sizeof out->why.line + 16];
    (void)snprintf(note, sizeof note, "refused: %s", out->why.line);
    predict_row_note(out, note);
}

void predict_row_behind(const struct predict_answer *answer, struct writer_value *values) {
    for (size_t i = 0; i < PREDICT_FIELD_COUNT; i++)
        values[i] =
            i <= PREDICT_TP ? answer->values[i] : (struct writer_value){.kind = WRITER_NULL};
}

static enum status write_group(const struct predict_question *question,
                               const struct predict_answer *answer, uint32_t index,
                               struct predict_output *output, struct status_text *text) {
    const struct formula_group *group = &answer->formula.groups[index];
    const uint64_t fixed = group->window_bytes + group->state_bytes + group->conv_bytes;
    char words[96], notes[256];
    model_group_words(&question->which.model.groups[index], words, sizeof words);
    (void)snprintf(notes, sizeof notes, "group %u: %s", index, words);
    if (group->conv_bytes > 0) {
        const size_t used = strlen(notes);
        (void)snprintf(notes + used, sizeof notes - used, "; state %llu B, convolution %llu B",
                       (unsigned long long)group->state_bytes,
                       (unsigned long long)group->conv_bytes);
    }
    struct writer_value values[PREDICT_FIELD_COUNT];
    predict_row_behind(answer, values);
    values[PREDICT_KV_RATE] = rate_value(group->kv_rate);
    values[PREDICT_INDEX_RATE] = rate_value(group->index_rate);
    /* A group has values or index keys, never both. */
    values[PREDICT_RATE] =
        group->kv_rate.bytes > 0 ? values[PREDICT_KV_RATE] : values[PREDICT_INDEX_RATE];
    values[PREDICT_FIXED] = predict_number(fixed);
    values[PREDICT_TOTAL] =
        predict_number((group->kv_bytes + group->index_bytes + fixed) * question->seqs);
    values[PREDICT_NOTES] = predict_text(notes);
    return predict_output_row(output, values, text);
}

enum status predict_row_items(const struct predict_question *question,
                              const struct predict_answer *answer, struct predict_output *output,
                              struct status_text *text) {
    for (uint32_t g = 0; g < answer->formula.group_count; g++) {
        const enum status status = write_group(question, answer, g, output, text);
        if (status != STATUS_OK)
            return status;
    }
    if (question->trace.count == 0)
        return STATUS_OK;
    char notes[64 + sizeof question->trace.entries + sizeof question->trace.entries / 16] =
        "from the file:";
    for (size_t i = 0; i < question->trace.count; i++) {
        const size_t used = strlen(notes);
        (void)snprintf(notes + used, sizeof notes - used, "%s %s <- %s", i > 0 ? ";" : "",
                       question->trace.entries[i].field, question->trace.entries[i].key);
    }
    struct writer_value values[PREDICT_FIELD_COUNT];
    predict_row_behind(answer, values);
    values[PREDICT_NOTES] = predict_text(notes);
    return predict_output_row(output, values, text);
}

/* "at most 116,508 tokens each": what limits, in one direction. */
static void add_limit(const struct writer_value *limit, const char *before, const char *after,
                      char *out, size_t bytes) {
    if (limit->kind == WRITER_NULL)
        return;
    char grouped[NUMBER_TEXT_BYTES];
    number_group_digits(limit->as.number, grouped);
    const size_t used = strlen(out);
    (void)snprintf(out + used, bytes - used, "%s%s%s", before, grouped, after);
}

void predict_row_verdict(const struct predict_question *question,
                         const struct predict_answer *answer, char *out, size_t bytes) {
    char tokens[NUMBER_TEXT_BYTES], size[NUMBER_TEXT_BYTES];
    number_group_digits(question->tokens, tokens);
    const int64_t left = answer->values[PREDICT_LEFT].kind == WRITER_SIGNED
                             ? answer->values[PREDICT_LEFT].as.signed_number
                             : INT64_MIN + 1;
    number_bytes_words((uint64_t)(left < 0 ? -left : left), size);
    (void)snprintf(out, bytes, "%s %s, %llu x %s tokens: %s, %s %s", question->which.model.name,
                   answer->format.name, (unsigned long long)question->seqs, tokens,
                   answer->fits ? "fits" : "does not fit", size,
                   answer->fits ? "left" : "too much");
    add_limit(&answer->values[PREDICT_MAX_TOKENS], "; at most ", " tokens each", out, bytes);
    const bool limited = answer->values[PREDICT_MAX_TOKENS].kind != WRITER_NULL;
    add_limit(&answer->values[PREDICT_MAX_SEQS], limited ? ", or " : "; at most ",
              " sequences of that length", out, bytes);
}
