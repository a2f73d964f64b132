/* `kvgauge run`: the main job. Expands the cases, runs them, writes rows as they come, and ends
 * with what came out in words. */
#include "commands.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "interrupt.h"
#include "number.h"
#include "progress.h"
#include "result.h"
#include "run_case.h"
#include "run_weights.h"
#include "run_words.h"
#include "runner.h"
#include "session.h"

struct run {
    const struct ranks *ranks;
    struct result_run shared;
    struct session_output output;
    struct run_words words; /* printed last */
    uint64_t rows;
    uint64_t ok_rows;
    uint64_t wrong_rows;
    uint64_t refused_rows;
};

static enum status on_row(void *context, const struct result *result, struct status_text *text) {
    struct run *run = context;
    struct result_row row;
    run->rows++;
    run->ok_rows += result->status == RESULT_OK;
    run->wrong_rows += result->status == RESULT_WRONG;
    run->refused_rows += result->status == RESULT_REFUSED || result->status == RESULT_OUT_OF_MEMORY;
    if (run->ranks->rank > 0)
        return STATUS_OK;
    result_values(&run->shared, result, &row);
    if (result->replaced.nan_values + result->replaced.infinite_values > 0)
        (void)fprintf(stderr, "kvgauge: %s %s: %llu NaN and %llu infinite values were replaced\n",
                      result->which->model.name, result->format->name,
                      (unsigned long long)result->replaced.nan_values,
                      (unsigned long long)result->replaced.infinite_values);
    if (result->status == RESULT_OK && result->reason[0] != '\0')
        (void)fprintf(stderr, "kvgauge: %s %s: %s\n", result->which->model.name,
                      result->format->name, result->reason);
    run_words_add(&run->words, &run->shared, result, row.values);
    return session_output_row(&run->output, row.values, text);
}

/* Of /mnt/home/me nothing is under /home/me. */
static bool may_begin_path(const char *word, const char *at) {
    return at == word || (isalnum((unsigned char)at[-1]) == 0 && strchr("-_.~/", at[-1]) == NULL);
}

/* Paths under the user's home are nobody's business: each of a word's becomes ~. NULL: no memory.
 */
static char *public_word(const char *word, const char *home) {
    size_t length = home != NULL ? strlen(home) : 0;
    while (length > 0 && home[length - 1] == '/')
        length--;
    const char *from = word;
    char *const out = malloc(strlen(word) + 1);
    char *to = out;
    while (out != NULL && *from != '\0') {
        const bool is_home = length > 0 && strncmp(from, home, length) == 0 &&
                             may_begin_path(word, from) &&
                             (from[length] == '\0' || strchr("/,", from[length]) != NULL);
        *to++ = is_home ? '~' : *from;
        from += is_home ? length : 1;
    }
    if (out != NULL)
        *to = '\0';
    return out;
}

static char **public_argv(int argc, char *const *argv) {
    char **out = calloc((size_t)argc + 1, sizeof *out);
    for (int i = 0; out != NULL && i < argc; i++)
        out[i] = public_word(i == 0 ? "kvgauge" : argv[i], getenv("HOME"));
    return out;
}

static void free_argv(char **argv, int argc) {
    for (int i = 0; argv != NULL && i < argc; i++)
        free(argv[i]);
    free(argv);
}

static int list_cases(const struct run_case_list *cases) {
    for (size_t i = 0; i < cases->count; i++) {
        const struct run_case *one = &cases->cases[i];
        struct status_text why = {""};
        uint64_t bytes;
        const enum status status = runner_case_bytes(one, &bytes, &why);
        char words[NUMBER_TEXT_BYTES];
        number_bytes_words(bytes, words);
        /* How long filling and verifying take is not known before; this much is asked for. */
        char timed[80];
        const double formats = (double)one->options->format_count;
        if (one->options->samples > 0)
            (void)snprintf(timed, sizeof timed, "%llu timed steps each",
                           (unsigned long long)one->options->samples);
        else
            (void)snprintf(timed, sizeof timed, "%.3g to %.3g s of measuring",
                           one->options->min_time_s * formats, one->options->max_time_s * formats);
        const struct options *options = one->options;
        (void)printf("%s  tokens %llu  seqs %llu  page_tokens %u %s  data %s%s", one->model.name,
                     (unsigned long long)one->tokens, (unsigned long long)one->seqs,
                     one->page_tokens, options->page_order_sequential ? "sequential" : "shuffled",
                     options_data_name(options->data), options->rotate ? " rotated" : "");
        (void)printf("  %zu formats, pools of %s, %s%s%s\n", options->format_count, words, timed,
                     status == STATUS_OK ? "" : "; refused: ", status == STATUS_OK ? "" : why.line);
    }
    return 0;
}

static void say_contexts(const struct run_case_list *cases) {
    for (size_t i = 0; i < cases->count; i++) {
        const struct run_case *one = &cases->cases[i];
        if (one->model.native_context > 0 && one->tokens > one->model.native_context)
            (void)fprintf(stderr, "kvgauge: %llu tokens are past the native context of %s (%llu)\n",
                          (unsigned long long)one->tokens, one->model.name,
                          (unsigned long long)one->model.native_context);
    }
}

/* Why there is no step_tokens_per_s; once for all cases of a model that follow each other. */
static void say_experts(const struct run_case_list *cases) {
    const char *said = "";
    for (size_t i = 0; i < cases->count; i++) {
        const struct model *model = &cases->cases[i].model;
        if (cases->cases[i].options->weights_read_bytes > 0 || model->experts == 0 ||
            strcmp(said, model->name) == 0)
            continue;
        said = model->name;
        (void)fprintf(
            stderr,
            "kvgauge: %s: whole steps are not given: a mixture of experts (%u in a layer) "
            "reads fewer weights in a step than it holds; --weights-read says how many\n",
            model->name, model->experts);
    }
}

static void print_summary(const struct run *run) {
    run_words_print(&run->words, stderr);
    (void)fprintf(stderr, "kvgauge: %llu rows: %llu ok, %llu wrong, %llu refused or too large%s\n",
                  (unsigned long long)run->rows, (unsigned long long)run->ok_rows,
                  (unsigned long long)run->wrong_rows, (unsigned long long)run->refused_rows,
                  interrupt_asked() ? "; interrupted" : "");
}

/* Rank 0's files; `resume` holds what it is to go on with. */
static enum status open_output(const struct options *options, const struct session *session,
                               struct run *run, struct resume *resume, struct status_text *text) {
    const struct backend_facts *facts = &session->facts;
    if (run->ranks->rank > 0)
        return STATUS_OK;
    char title[512], ranks[64] = "";
    if (run->ranks->count > 1)
        (void)snprintf(ranks, sizeof ranks,
                       "one of %u ranks, times of the slowest: ", run->ranks->count);
    const char *weights = "KV work alone: append and attention of every layer, no weights";
    if (options->weights_read_bytes > 0)
        weights = "KV work: append and attention of every layer, weights read apart from it";
    (void)snprintf(title, sizeof title, "%s%s, %u %s, %s; %s. GB = 10^9 bytes", ranks,
                   facts->device, facts->threads > 0 ? facts->threads : facts->compute_units,
                   facts->threads == 1  ? "thread"
                   : facts->threads > 0 ? "threads"
                                        : "multiprocessors",
                   facts->instruction_set, weights);
    enum status status =
        session_output_open(options, result_fields, RESULT_FIELD_COUNT, title, &run->output, text);
    if (status == STATUS_OK && options->resume_path != NULL)
        status = resume_open(options->resume_path, facts->device, resume, text);
    if (resume->file != NULL)
        status = session_output_append(&run->output, resume->file, options->resume_path,
                                       result_fields, RESULT_FIELD_COUNT, text);
    return status;
}

/* Everything between an open session and a closed one. */
static enum status run_all(const struct options *options, struct session *session,
                           const struct run_case_list *cases, struct run *run,
                           struct status_text *text) {
    struct resume resume = {0};
    enum status status =
        ranks_agree(run->ranks, open_output(options, session, run, &resume, text), text);
    const bool opened = status == STATUS_OK;
    uint64_t rows = 0;
    for (size_t i = 0; i < cases->count; i++)
        rows += cases->cases[i].options->format_count;
    progress_start(4 * rows);
    struct telemetry *telemetry = telemetry_open(&session->facts);
    struct runner runner = {.ops = session->ops,
                            .device = session->device,
                            .telemetry = telemetry,
                            .options = options,
                            .run = &run->shared,
                            .resume = options->resume_path != NULL ? &resume : NULL,
                            .ranks = run->ranks};
    for (size_t i = 0; i < cases->count && status == STATUS_OK; i++)
        status = runner_run_case(&runner, &cases->cases[i], on_row, run, text);
    progress_clear();
    telemetry_close(telemetry);
    struct status_text why = {""};
    const enum status closed = session_output_close(&run->output, &why);
    if (closed != STATUS_OK && (status == STATUS_OK || status == STATUS_INTERRUPTED))
        status = status_set(text, closed, "%s", why.line);
    status = ranks_agree(run->ranks, status, text);
    resume_free(&resume);
    if (runner.rows_there > 0 && run->ranks->rank == 0)
        (void)fprintf(stderr, "kvgauge: %llu rows were there already\n",
                      (unsigned long long)runner.rows_there);
    if (run->ranks->rank == 0 && opened)
        print_summary(run);
    if (status == STATUS_OK && run->wrong_rows > 0)
        return status_set(text, STATUS_WRONG, "%llu rows are wrong",
                          (unsigned long long)run->wrong_rows);
    if (status == STATUS_OK && run->ok_rows == 0 && runner.rows_there == 0)
        return status_set(text, STATUS_REFUSED, "no row could run");
    return status;
}

/* Every rank has to have the same cases, in as many shares as there are ranks. */
static enum status check_cases(const struct ranks *ranks, const struct run_case_list *cases,
                               struct status_text *text) {
    if (ranks->count > 1 && !ranks_same(ranks, run_case_list_signature(cases)))
        return status_set(text, STATUS_BAD_INPUT,
                          "the ranks were given different cases: models, sizes, formats, data, "
                          "samples and --weights-read must be the same");
    for (size_t i = 0; i < cases->count && ranks->count > 1; i++)
        if (cases->cases[i].options->tp != ranks->count)
            return status_set(text, STATUS_BAD_INPUT, "a case of %s has --tp %u, and %u ranks run",
                              cases->cases[i].model.name, cases->cases[i].options->tp,
                              ranks->count);
    return STATUS_OK;
}

static enum status open_session(const struct options *options, const struct run_case_list *cases,
                                struct run *run, struct session *session,
                                struct status_text *text) {
    enum status status = session_open_rank(options, run->ranks, session, text);
    if (status == STATUS_OK)
        status = ranks_agree(
            run->ranks,
            run_weights_open(session->ops, session->device, options->kernel, cases, text), text);
    interrupt_install();
    if (status == STATUS_OK)
        status = ranks_agree(run->ranks, session_cold_bytes(session, &run->shared.cold_bytes, text),
                             text);
    return status;
}

static void set_shared(struct run *run, const struct session *session,
                       const struct run_case_list *cases, char **shown_argv, int argc) {
    struct result_run *shared = &run->shared;
    shared->argv = (const char *const *)shown_argv;
    shared->argc = shown_argv != NULL ? (size_t)argc : 0;
    shared->suite = cases->suite;
    shared->facts = session->facts;
    const time_t now = time(NULL);
    struct tm utc;
    if (gmtime_r(&now, &utc) != NULL)
        (void)strftime(shared->time_utc, sizeof shared->time_utc, "%Y-%m-%dT%H:%M:%SZ", &utc);
}

int command_run(const struct options *options, const struct ranks *ranks, int argc,
                char *const *argv) {
    struct status_text text = {""};
    struct run_case_list cases = {0};
    struct session session = {0};
    char **shown_argv = NULL;
    const bool speaks = ranks->rank == 0;
    struct run run = {.ranks = ranks, .shared = {.label = options->label, .options = options}};
    enum status status = ranks_agree(ranks, run_case_list_create(options, &cases, &text), &text);
    if (status == STATUS_OK)
        status = check_cases(ranks, &cases, &text);
    if (status == STATUS_OK && speaks)
        run_case_list_remarks(&cases);
    if (status == STATUS_OK && options->list) {
        const int code = speaks ? list_cases(&cases) : 0;
        run_case_list_destroy(&cases);
        return code;
    }
    if (status == STATUS_OK)
        status = open_session(options, &cases, &run, &session, &text);
    if (status == STATUS_OK) {
        if (speaks) {
            session_say_fallback(&session);
            say_contexts(&cases);
            say_experts(&cases);
        }
        shown_argv = public_argv(argc, argv);
        set_shared(&run, &session, &cases, shown_argv, argc);
        status = run_all(options, &session, &cases, &run, &text);
    }
    if (status != STATUS_OK && speaks)
        (void)fprintf(stderr, "kvgauge: %s\n", text.line);
    if (speaks)
        session_say_fallback(&session);
    run_words_free(&run.words);
    free_argv(shown_argv, argc);
    session_close(&session);
    run_case_list_destroy(&cases);
    return session_exit_code(status);
}
