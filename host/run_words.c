/* Sentences, and the fits over rows. */
#include "run_words.h"

#include <stdlib.h>
#include <string.h>

#include "number.h"
#include "words.h"

enum { SHARE_BYTES = 160 };

/* A step of fewer launches than this owes a twentieth of its time and more to one of them alone. */
#define FEW_LAUNCHES 20.0

/* What a whole step gains, beside what KV alone does. */
static void add_step_words(const struct result *result, char *out) {
    const struct options *options = result->which->options;
    const uint64_t weights_bytes = result->weights.shape.read_bytes;
    if (weights_bytes == 0)
        return;
    struct step_share share;
    char words[256], bytes[NUMBER_TEXT_BYTES], faster[128] = "", tokens[NUMBER_TEXT_BYTES];
    result_share(result, &share);
    step_share_words(&share, words, sizeof words);
    number_bytes_words(weights_bytes, bytes);
    if (result->has_baseline && strcmp(result->format->name, options->baseline.name) != 0)
        (void)snprintf(faster, sizeof faster, "%.2fx as fast as %s (KV alone %.2fx), ",
                       result->step_speed_vs_baseline, options->baseline.name,
                       result->kv_speed_vs_baseline);
    number_group_digits(result->overtakes_tokens, tokens);
    words_add(out, RUN_WORDS_BYTES, "\n  ",
              "with %s of weights a step is %s%.3g tokens/s: %s; the cache is read more "
              "than they are %s%s%s",
              bytes, faster, (double)result->which->seqs * 1e9 / result->step.median, words,
              result->has_overtakes ? "from " : "at no length", result->has_overtakes ? tokens : "",
              result->has_overtakes ? " tokens on" : "");
}

/* NULL: no memory. */
static char *next_sentence(struct run_words *words) {
    if (words->count == words->capacity) {
        const size_t wider = words->capacity == 0 ? 32 : words->capacity * 2;
        char(*moved)[RUN_WORDS_BYTES] = realloc(words->sentences, wider * sizeof *moved);
        if (moved == NULL)
            return NULL;
        words->sentences = moved;
        words->capacity = wider;
    }
    return words->sentences[words->count++];
}

static void share_words(const struct result_run *run, const struct result *result,
                        char share[SHARE_BYTES]) {
    if (result_is_cold(run, result))
        (void)snprintf(share, SHARE_BYTES, "%.0f %% of the read ceiling",
                       100 * result_ceiling_share(result));
    else
        (void)snprintf(share, SHARE_BYTES, "hot in the cache: no share of the ceiling");
    const double launches = result->step.median / result->seen.launch_ns;
    if (launches < FEW_LAUNCHES)
        words_add(share, SHARE_BYTES, "; ", "the step is only %.1f launches long: overhead counts",
                  launches);
}

static void add_sentence(struct run_words *words, const struct result_run *run,
                         const struct result *result) {
    char share[SHARE_BYTES], *out = next_sentence(words);
    if (out == NULL)
        return;
    share_words(run, result, share);
    const struct options *options = result->which->options;
    if (result->has_baseline && strcmp(result->format->name, options->baseline.name) != 0)
        (void)snprintf(out, RUN_WORDS_BYTES,
                       "%s %s: %.2fx the tokens, KV read %.2fx as fast as %s, %s",
                       result->which->model.name, result->format->name, result->tokens_vs_baseline,
                       result->kv_speed_vs_baseline, options->baseline.name, share);
    else
        (void)snprintf(out, RUN_WORDS_BYTES, "%s %s: KV read at %.1f GB/s, %s",
                       result->which->model.name, result->format->name,
                       result_read_gb_per_s(result), share);
    add_step_words(result, out);
    char more[RUN_WORDS_BYTES];
    result_groups_words(&result->groups, more, sizeof more);
    if (more[0] != '\0')
        words_add(out, RUN_WORDS_BYTES, "\n  ", "of a step: %s", more);
    result_ranks_words(&result->ranks, more, sizeof more);
    if (more[0] != '\0')
        words_add(out, RUN_WORDS_BYTES, "\n  ", "%s", more);
}

/* The columns by which rows of one setting are told from others; scripts/report_rows.py has the
 * same ones. */
static void setting_words(const struct writer_value *values, char out[FIT_ROWS_SETTING_BYTES]) {
    static const struct {
        enum result_field field;
        const char *words;
        uint64_t usual;
        const char *usual_text;
    } columns[] = {{RESULT_SEQS, "seqs", 1, NULL},
                   {RESULT_TP, "tp", 1, NULL},
                   {RESULT_PAGE_TOKENS, "page tokens", 16, NULL},
                   {RESULT_PAGE_ORDER, "page order", 0, "shuffled"},
                   {RESULT_DATA, "data", 0, "normal"}};
    (void)snprintf(out, FIT_ROWS_SETTING_BYTES, "%.100s", values[RESULT_MODEL].as.text);
    for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++) {
        const struct writer_value *value = &values[columns[i].field];
        if (columns[i].usual_text != NULL && strcmp(value->as.text, columns[i].usual_text) != 0)
            words_add(out, FIT_ROWS_SETTING_BYTES, ", ", "%s %s", columns[i].words, value->as.text);
        if (columns[i].usual_text == NULL && value->as.number != columns[i].usual)
            words_add(out, FIT_ROWS_SETTING_BYTES, ", ", "%s %llu", columns[i].words,
                      (unsigned long long)value->as.number);
    }
}

static void add_fit(struct fit_rows *fits, const struct result *result,
                    const struct writer_value *values) {
    const struct fit_point point = {.tokens = (double)result->which->tokens,
                                    .ns = result->step.median,
                                    .low_ns = (double)result->seen.interval.low,
                                    .high_ns = (double)result->seen.interval.high};
    char setting[FIT_ROWS_SETTING_BYTES], format[FIT_ROWS_FORMAT_BYTES];
    const char *k = values[RESULT_K_FORMAT].as.text, *v = values[RESULT_V_FORMAT].as.text;
    const bool alike = strcmp(k, v) == 0;
    setting_words(values, setting);
    (void)snprintf(format, sizeof format, "%s%s%s%s", k, alike ? "" : "/", alike ? "" : v,
                   strcmp(values[RESULT_ROTATE].as.text, "none") == 0 ? "" : " rotated");
    (void)fit_rows_add(fits, setting, format,
                       strcmp(result->format->name, result->which->options->baseline.name) == 0,
                       &point);
}

void run_words_add(struct run_words *words, const struct result_run *run,
                   const struct result *result, const struct writer_value *values) {
    if (!result->has_speed)
        return;
    add_sentence(words, run, result);
    if (result_is_cold(run, result))
        add_fit(&words->fits, result, values);
    if (words->launch_ns <= 0 || result->seen.launch_ns < words->launch_ns)
        words->launch_ns = result->seen.launch_ns;
}

void run_words_print(const struct run_words *words, FILE *stream) {
    for (size_t i = 0; i < words->count; i++)
        (void)fprintf(stream, "%s\n", words->sentences[i]);
    fit_rows_say(&words->fits, stream);
    if (words->launch_ns > 0)
        (void)fprintf(stream, "kvgauge: giving the device next to nothing to do takes %.1f us\n",
                      words->launch_ns * 1e-3);
}

void run_words_free(struct run_words *words) {
    free(words->sentences);
    fit_rows_free(&words->fits);
    *words = (struct run_words){0};
}
