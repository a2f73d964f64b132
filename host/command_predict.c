/* `kvgauge predict`: the size formula for every model x format x length x batch; no device. */
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "expect_file.h"
#include "model_source.h"
#include "number.h"
#include "predict_row.h"

enum { VERDICTS_SHOWN = 8 };

/* One command's state. */
struct predict {
    const struct options *options; /* the command's, or those of a line of --expect-file */
    struct predict_output output;
    struct engine_setting engine_settings[ENGINE_MAX_SETTINGS];
    uint64_t rows;
    uint64_t refused;
    uint64_t misfits;
    uint64_t judged;    /* figures of --expect */
    uint64_t disagreed; /* of them */
    struct status_text first_refusal;
    uint64_t verdicts;
    char verdict[VERDICTS_SHOWN][256];
};

static enum status answer(struct predict *predict, const struct predict_question *question,
                          struct status_text *text) {
    struct predict_answer row;
    predict_row(question, &row);
    predict->rows++;
    if (row.status != STATUS_OK) {
        if (predict->refused++ == 0)
            predict->first_refusal = row.why;
    } else if (predict->options->budget_given) {
        predict->misfits += !row.fits;
        if (predict->verdicts < VERDICTS_SHOWN)
            predict_row_verdict(question, &row, predict->verdict[predict->verdicts],
                                sizeof predict->verdict[0]);
        predict->verdicts++;
    }
    predict->judged += row.judged;
    predict->disagreed += row.judged && !row.agrees;
    enum status status = predict_output_row(&predict->output, row.values, text);
    if (status == STATUS_OK && row.status == STATUS_OK && predict->options->itemise)
        status = predict_row_items(question, &row, &predict->output, text);
    /* A figure is judged in a line; what the line is made of, on request. */
    const bool whole = !predict->options->expect_given || predict->options->itemise;
    if (status == STATUS_OK && row.status == STATUS_OK && row.has_engine && whole)
        status = predict_engine_items(&row, &predict->output, text);
    if (status == STATUS_OK && row.status == STATUS_WRONG)
        status = status_set(text, STATUS_WRONG, "%s", row.why.line);
    return status;
}

/* The lengths asked for; without any 8k, 32k, 128k and the native context. 0 stands for a native
 * context that no source gives. */
static size_t list_tokens(const struct options *options, uint64_t native,
                          uint64_t out[OPTIONS_MAX_LIST]) {
    static const uint64_t usual[] = {8192, 32768, 131072};
    size_t count = 0;
    for (size_t i = 0; i < options->tokens_count; i++)
        out[count++] = options->tokens[i] == NUMBER_MAX_TOKENS ? native : options->tokens[i];
    if (count > 0)
        return count;
    bool is_usual = native == 0;
    for (; count < sizeof usual / sizeof usual[0]; count++) {
        out[count] = usual[count];
        is_usual = is_usual || usual[count] == native;
    }
    if (!is_usual)
        out[count++] = native;
    return count;
}

/* Once per model, however many rows say so too. */
static void remark_native(const struct model *model, const uint64_t *tokens, size_t count) {
    uint64_t longest = 0;
    for (size_t i = 0; i < count; i++)
        longest = tokens[i] > longest ? tokens[i] : longest;
    if (model->native_context == 0 || longest <= model->native_context)
        return;
    char asked[NUMBER_TEXT_BYTES], native[NUMBER_TEXT_BYTES];
    number_group_digits(longest, asked);
    number_group_digits(model->native_context, native);
    (void)fprintf(stderr, "kvgauge: %s: %s tokens are past its native context of %s\n", model->name,
                  asked, native);
}

static enum status predict_model(struct predict *predict, const char *spec,
                                 struct status_text *text) {
    const struct options *options = predict->options;
    struct model whole;
    struct predict_question question = {.which = {.options = options},
                                        .whole = &whole,
                                        .engine_settings = predict->engine_settings};
    enum status status = model_source_load(spec, &whole, &question.trace,
                                           &question.which.auto_format, question.auto_reason, text);
    if (status != STATUS_OK)
        return status;
    run_case_set_model(&question.which, &whole);
    uint64_t tokens[OPTIONS_MAX_LIST];
    const size_t tokens_count = list_tokens(options, whole.native_context, tokens);
    /* The defaults are ours: only what was asked for is remarked on. */
    if (options->tokens_count > 0)
        remark_native(&whole, tokens, tokens_count);
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

/* An expected figure needs what it is about. */
static enum status check_expect(const struct options *options, struct status_text *text) {
    if (options->tolerance_percent > 0 && !options->expect_given && options->expect_file == NULL)
        return status_set(text, STATUS_BAD_INPUT, "--tolerance: needs --expect or --expect-file");
    if (!options->expect_given)
        return STATUS_OK;
    const char *figure = options->expect.text;
    /* An engine may be told its memory by a setting of its own. */
    if (options->expect.unit == EXPECT_TOKENS && !options->budget_given && options->engine == NULL)
        return status_set(text, STATUS_BAD_INPUT, "--expect %s: tokens need a --budget", figure);
    if (options->expect.unit == EXPECT_RATIO && options->format_count == 1 &&
        strcmp(options->formats[0].name, options->baseline.name) == 0)
        return status_set(text, STATUS_BAD_INPUT,
                          "--expect %s: a ratio needs two formats: --kv-format fp8_e4m3,nvfp4, or "
                          "--baseline",
                          figure);
    return STATUS_OK;
}

/* What no row could be made of, found before anything is written or created. */
static enum status check_options(const struct options *options, struct engine_setting *settings,
                                 struct status_text *text) {
    if (options->model_count == 0 && !options->all_models)
        return status_set(text, STATUS_BAD_INPUT,
                          "--model: a name, a path, geometry or all is expected (kvgauge models "
                          "lists the names)");
    if (options->page_tokens_count > 1)
        return status_set(text, STATUS_BAD_INPUT,
                          "--page-tokens: predict takes one page size, %zu were given",
                          options->page_tokens_count);
    if (options->weights_bytes > 0 && !options->budget_given)
        return status_set(text, STATUS_BAD_INPUT,
                          "--weights: predict opens no device, so it needs --budget too");
    if (options->engine == NULL && options->engine_setting_count > 0)
        return status_set(text, STATUS_BAD_INPUT, "--engine-opt %s: needs --engine",
                          options->engine_settings[0]);
    enum status status = check_expect(options, text);
    if (status == STATUS_OK && options->engine != NULL)
        status = engine_read_settings(options->engine, options->engine_settings,
                                      options->engine_setting_count, settings, text);
    if (status != STATUS_OK)
        return status;
    for (size_t i = 0; i < options->model_count; i++) {
        struct model model;
        status = model_source_load(options->models[i], &model, NULL, NULL, NULL, text);
        /* A model this version does not read is the user's input, not a row. */
        if (status != STATUS_OK)
            return status == STATUS_REFUSED ? STATUS_BAD_INPUT : status;
    }
    return STATUS_OK;
}

/* The title echoes the lengths as they were understood. */
static void write_title(const struct options *options, char *out, size_t bytes) {
    char grouped[NUMBER_TEXT_BYTES];
    if (options->expect_file != NULL) {
        (void)snprintf(out, bytes, "figures of %s", options->expect_file);
        return;
    }
    (void)snprintf(out, bytes, "size formula; tokens");
    for (size_t i = 0; i < options->tokens_count; i++) {
        const size_t used = strlen(out);
        if (options->tokens[i] == NUMBER_MAX_TOKENS)
            (void)snprintf(grouped, sizeof grouped, "native context");
        else
            number_group_digits(options->tokens[i], grouped);
        (void)snprintf(out + used, bytes - used, "%s %s", i > 0 ? " |" : "", grouped);
    }
    const size_t used = strlen(out);
    (void)snprintf(out + used, bytes - used, "%s; pages of %llu tokens; tokens/GB at 10^9 bytes",
                   options->tokens_count == 0 ? " 8,192 | 32,768 | 131,072 | native context" : "",
                   (unsigned long long)options->page_tokens[0]);
}

static void print_verdicts(const struct predict *predict) {
    if (!predict->options->budget_given)
        return;
    const bool all_shown = predict->verdicts <= VERDICTS_SHOWN;
    for (uint64_t i = 0; all_shown && i < predict->verdicts; i++)
        (void)fprintf(stderr, "kvgauge: %s\n", predict->verdict[i]);
}

/* What came of --expect: STATUS_WRONG when a figure differs. */
static enum status summarise_figures(const struct predict *predict, struct status_text *text) {
    const struct options *options = predict->options;
    if (!options->expect_given && options->expect_file == NULL)
        return STATUS_OK;
    const unsigned long long judged = predict->judged, agreed = judged - predict->disagreed;
    if (judged == 0)
        return status_set(text, STATUS_REFUSED, "no row has such a figure to judge");
    if (predict->disagreed > 0)
        return status_set(text, STATUS_WRONG, "%llu of %llu figures agree", agreed, judged);
    (void)fprintf(stderr, "kvgauge: %llu of %llu figures agree\n", agreed, judged);
    return STATUS_OK;
}

/* What came out of all rows; STATUS_WRONG when one does not fit. */
static enum status summarise(const struct predict *predict, struct status_text *text) {
    if (predict->rows == predict->refused)
        return status_set(text, STATUS_REFUSED, "no row could be computed: %.400s",
                          predict->first_refusal.line);
    const enum status judged = summarise_figures(predict, text);
    if (judged != STATUS_OK || !predict->options->budget_given)
        return judged;
    char budget[NUMBER_TEXT_BYTES], weights[NUMBER_TEXT_BYTES];
    number_bytes_words(predict->options->budget_bytes, budget);
    number_bytes_words(predict->options->weights_bytes, weights);
    const unsigned long long rows = predict->rows, misfits = predict->misfits,
                             fits = rows - misfits - predict->refused;
    if (misfits > 0)
        return status_set(text, STATUS_WRONG, "%llu of %llu rows do not fit %s with %s of weights",
                          misfits, rows, budget, weights);
    (void)fprintf(stderr, "kvgauge: %llu of %llu rows fit %s with %s of weights\n", fits, rows,
                  budget, weights);
    return STATUS_OK;
}

/* The rows of one set of options: the command's, or one line's. */
static enum status predict_options(struct predict *predict, const struct options *options,
                                   struct status_text *text) {
    enum status status = STATUS_OK;
    predict->options = options;
    if (options->engine != NULL)
        status =
            engine_read_settings(options->engine, options->engine_settings,
                                 options->engine_setting_count, predict->engine_settings, text);
    for (size_t i = 0; options->all_models && i < model_source_count() && status == STATUS_OK; i++)
        status = predict_model(predict, model_source_name(i), text);
    for (size_t i = 0; i < options->model_count && status == STATUS_OK; i++)
        status = predict_model(predict, options->models[i], text);
    return status;
}

/* Everything between the first and the last row: `sets` are checked before anything is written. */
static enum status predict_sets(struct predict *predict, const struct options *sets, size_t count,
                                struct status_text *text) {
    char title[2048];
    bool engine = false, expect = false;
    const struct options *options = predict->options;
    enum status status = STATUS_OK;
    for (size_t i = 0; i < count && status == STATUS_OK; i++) {
        status = check_options(&sets[i], predict->engine_settings, text);
        engine = engine || sets[i].engine != NULL;
        expect = expect || sets[i].expect_given;
    }
    if (status != STATUS_OK)
        return status;
    write_title(options, title, sizeof title);
    status = predict_output_open(options, engine, expect, title, &predict->output, text);
    if (status != STATUS_OK)
        return status;
    for (size_t i = 0; i < count && status == STATUS_OK; i++)
        status = predict_options(predict, &sets[i], text);
    predict->options = options;
    struct status_text why = {""};
    const enum status closed = predict_output_close(&predict->output, &why);
    if (status == STATUS_OK && closed != STATUS_OK)
        status = status_set(text, closed, "%s", why.line);
    return status;
}

static enum status predict_all(struct predict *predict, struct status_text *text) {
    const struct options *options = predict->options;
    struct expect_lines lines = {0};
    enum status status;
    if (options->expect_file == NULL) {
        status = predict_sets(predict, options, 1, text);
    } else if (options->model_count > 0 || options->all_models || options->expect_given) {
        status = status_set(text, STATUS_BAD_INPUT,
                            "--expect-file %s: its lines name the models and figures; --model and "
                            "--expect are not taken beside it",
                            options->expect_file);
    } else {
        status = expect_file_read(options->expect_file, &lines, text);
        for (size_t i = 0; i < lines.count && options->tolerance_percent > 0; i++)
            if (!(lines.options[i].tolerance_percent > 0))
                lines.options[i].tolerance_percent = options->tolerance_percent;
        if (status == STATUS_OK)
            status = predict_sets(predict, lines.options, lines.count, text);
    }
    if (status == STATUS_OK) {
        print_verdicts(predict);
        status = summarise(predict, text);
    }
    expect_file_free(&lines);
    return status;
}

int command_predict(const struct options *options) {
    struct status_text text = {""};
    struct predict predict = {.options = options};
    const enum status status = predict_all(&predict, &text);
    if (status != STATUS_OK)
        (void)fprintf(stderr, "kvgauge: %s\n", text.line);
    return session_exit_code(status);
}
