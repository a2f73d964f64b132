/* Expands options and suites into cases. A suite file is a list of lines, each the options of one
 * or more cases as they would stand on the command line; # starts a comment. */
#include "run_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "embed.h"
#include "generate.h"
#include "line_words.h"
#include "model_source.h"
#include "number.h"
#include "words.h"

/* Lengths are kept and planned one by one; more would take minutes before anything is refused. */
enum { RUN_CASE_MOST_SEQS = 1 << 24 };

enum { SUITE_MAX_WORDS = 64, SUITE_MAX_LINE = 1024 };

/* One sequence's length. mixed: a seeded mixture from half to one and a half times around the
 * asked length, as a server with requests of many ages has it. */
static uint64_t mixed_length(struct generate_random *random, uint64_t tokens) {
    const uint64_t half = tokens / 2;
    return half + generate_random_below(random, tokens + 1);
}

static enum status read_lengths(const char *path, uint64_t **out, uint64_t *count,
                                struct status_text *text) {
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return status_set(text, STATUS_BAD_INPUT, "--lengths %s: cannot be read", path);
    uint64_t *lengths = NULL;
    uint64_t used = 0, capacity = 0;
    char line[128];
    enum status status = STATUS_OK;
    for (unsigned number = 1; status == STATUS_OK && fgets(line, sizeof line, file); number++) {
        line[strcspn(line, "\r\n")] = '\0';
        if (line[0] == '\0')
            continue;
        if (used == capacity) {
            capacity = capacity == 0 ? 64 : capacity * 2;
            uint64_t *wider = realloc(lengths, capacity * sizeof *lengths);
            if (wider == NULL) {
                status = status_set(text, STATUS_OUT_OF_MEMORY, "no host memory for lengths");
                break;
            }
            lengths = wider;
        }
        struct status_text why;
        status = number_parse_tokens("--lengths", line, &lengths[used], &why);
        if (status == STATUS_OK && lengths[used] == NUMBER_MAX_TOKENS)
            status = status_set(&why, STATUS_BAD_INPUT, "max has no meaning in a lengths file");
        if (status != STATUS_OK)
            status = status_set(text, STATUS_BAD_INPUT, "--lengths %s, line %u: %s", path, number,
                                why.line);
        used++;
    }
    (void)fclose(file);
    if (status == STATUS_OK && used == 0)
        status = status_set(text, STATUS_BAD_INPUT,
                            "--lengths %s: holds no lengths (one per line is expected)", path);
    if (status != STATUS_OK) {
        free(lengths);
        return status;
    }
    *out = lengths;
    *count = used;
    return STATUS_OK;
}

static enum status make_lengths(struct run_case *one, struct status_text *text) {
    const struct options *options = one->options;
    if (options->lengths == OPTIONS_LENGTHS_FILE)
        return read_lengths(options->lengths_file, &one->lengths, &one->seqs, text);
    if (one->seqs > RUN_CASE_MOST_SEQS)
        return status_set(text, STATUS_BAD_INPUT, "--seqs %llu: at most %u sequences",
                          (unsigned long long)one->seqs, (unsigned)RUN_CASE_MOST_SEQS);
    one->lengths = malloc(one->seqs * sizeof *one->lengths);
    if (one->lengths == NULL)
        return status_set(text, STATUS_OUT_OF_MEMORY, "no host memory for %llu lengths",
                          (unsigned long long)one->seqs);
    struct generate_random random;
    generate_random_seed(&random, options->seed);
    for (uint64_t i = 0; i < one->seqs; i++)
        one->lengths[i] = options->lengths == OPTIONS_LENGTHS_MIXED
                              ? mixed_length(&random, one->tokens)
                              : one->tokens;
    return STATUS_OK;
}

static enum status add_case(struct run_case_list *list, const struct run_case *one,
                            struct status_text *text) {
    struct run_case *wider = realloc(list->cases, (list->count + 1) * sizeof *list->cases);
    if (wider == NULL)
        return status_set(text, STATUS_OUT_OF_MEMORY, "no host memory for the list of cases");
    list->cases = wider;
    list->cases[list->count] = *one;
    return make_lengths(&list->cases[list->count++], text);
}

void run_case_set_model(struct run_case *one, struct model *whole) {
    struct status_text why = {""};
    struct model drafted;
    one->refused = model_add_drafts(whole, one->options->draft_layers, &drafted, &why);
    if (one->refused == STATUS_OK) {
        *whole = drafted;
        one->refused = model_shard(whole, one->options->tp, &one->model, &why);
    }
    (void)snprintf(one->reason, sizeof one->reason, "%s", why.line);
    if (one->refused != STATUS_OK)
        one->model = *whole;
    one->whole = *whole;
}

static enum status add_model(struct run_case_list *list, const struct options *options,
                             const char *spec, struct status_text *text) {
    struct run_case one = {.options = options, .page_tokens = 16, .auto_format = FORMAT_BF16};
    struct model whole;
    char reason[128] = "";
    enum status status = model_source_load(spec, &whole, NULL, &one.auto_format, reason, text);
    if (status == STATUS_REFUSED)
        /* A model this version does not read is the user's input, not a row. */
        return STATUS_BAD_INPUT;
    if (status != STATUS_OK)
        return status;
    run_case_set_model(&one, &whole);
    static const uint64_t default_tokens[] = {8192};
    const uint64_t *tokens = options->tokens_count > 0 ? options->tokens : default_tokens;
    const size_t tokens_count = options->tokens_count > 0 ? options->tokens_count : 1;
    for (size_t t = 0; t < tokens_count; t++) {
        one.tokens = tokens[t];
        if (one.tokens == NUMBER_MAX_TOKENS) {
            if (whole.native_context == 0)
                return status_set(text, STATUS_BAD_INPUT,
                                  "--tokens max: no source gives the native context of %s; give "
                                  "a number",
                                  whole.name);
            one.tokens = whole.native_context;
        }
        for (size_t s = 0; s < options->seqs_count; s++) {
            one.seqs = options->seqs[s];
            for (size_t p = 0; p < options->page_tokens_count; p++) {
                one.page_tokens = (uint32_t)options->page_tokens[p];
                status = add_case(list, &one, text);
                if (status != STATUS_OK)
                    return status;
            }
        }
    }
    return STATUS_OK;
}

static enum status add_options(struct run_case_list *list, const struct options *options,
                               struct status_text *text) {
    enum status status = STATUS_OK;
    if (options->all_models)
        for (size_t i = 0; i < model_source_count() && status == STATUS_OK; i++)
            status = add_model(list, options, model_source_name(i), text);
    for (size_t i = 0; i < options->model_count && status == STATUS_OK; i++)
        status = add_model(list, options, options->models[i], text);
    return status;
}

/* What the command line says besides the case itself holds for every line of a suite. */
static enum status inherit(struct options *line, const struct options *from,
                           struct status_text *text) {
    if (from->formats_given) {
        memcpy(line->formats, from->formats, sizeof line->formats);
        line->format_count = from->format_count;
        line->formats_given = true;
    }
    line->baseline_given = from->baseline_given || line->baseline_given;
    if (from->baseline_given)
        line->baseline = from->baseline;
    else if (!line->baseline_given)
        line->baseline = line->formats[0];
    if (from->index_given) {
        line->index_given = true;
        line->index = from->index;
    }
#define INHERIT(name, field)                                                                       \
    if (options_given(from, name))                                                                 \
    line->field = from->field
    INHERIT("state-format", state_value_bytes);
    INHERIT("kv-scale", kv_scale_amax);
    INHERIT("window-as", window_as_full);
    INHERIT("draft-layers", draft_layers);
    INHERIT("tp", tp);
    INHERIT("lengths", lengths);
    INHERIT("share-prefix", share_prefix_tokens);
    INHERIT("page-order", page_order_sequential);
    INHERIT("data", data);
    INHERIT("rotate", rotate);
    INHERIT("seed", seed);
    INHERIT("samples", samples);
    INHERIT("max-noise", max_noise_percent);
    INHERIT("min-time", min_time_s);
    INHERIT("max-time", max_time_s);
    INHERIT("weights-read", weights_read_bytes);
    INHERIT("weights-format", weights_format);
#undef INHERIT
    if (options_given(from, "page-tokens")) {
        memcpy(line->page_tokens, from->page_tokens, sizeof line->page_tokens);
        line->page_tokens_count = from->page_tokens_count;
    }
    if (from->lengths_file == NULL)
        return STATUS_OK;
    free(line->lengths_file);
    line->lengths_file = strdup(from->lengths_file);
    return line->lengths_file != NULL
               ? STATUS_OK
               : status_set(text, STATUS_OUT_OF_MEMORY, "no host memory for --lengths");
}

static enum status parse_suite_line(struct run_case_list *list, const struct options *from,
                                    char *line, struct status_text *text) {
    static char program[] = "kvgauge", command[] = "run";
    char *words[SUITE_MAX_WORDS] = {program, command};
    const int count = line_words(line, words + 2, SUITE_MAX_WORDS - 2);
    if (count == 0)
        return STATUS_OK;
    struct options *line_options = &list->suite_options[list->suite_options_count++];
    const enum status status = options_parse(count + 2, words, line_options, text);
    return status == STATUS_OK ? inherit(line_options, from, text) : status;
}

static const struct embed_entry *find_suite(const char *name) {
    for (size_t i = 0; i < embed_suites_count; i++)
        if (strcmp(embed_suites[i].name, name) == 0)
            return &embed_suites[i];
    return NULL;
}

static enum status add_suite(struct run_case_list *list, const struct options *options,
                             struct status_text *text) {
    const char *name = options->suite != NULL ? options->suite : "standard";
    const struct embed_entry *suite = find_suite(name);
    if (suite == NULL) {
        char known[256] = "";
        for (size_t i = 0; i < embed_suites_count; i++)
            words_add(known, sizeof known, ", ", "%s", embed_suites[i].name);
        return status_set(text, STATUS_BAD_INPUT, "--suite %s: no such suite; there are %s", name,
                          known);
    }
    list->suite = suite->name;
    size_t lines = 1;
    for (size_t i = 0; i < suite->size; i++)
        lines += suite->bytes[i] == '\n';
    list->suite_options = calloc(lines, sizeof *list->suite_options);
    if (list->suite_options == NULL)
        return status_set(text, STATUS_OUT_OF_MEMORY, "no host memory for suite %s", name);
    enum status status = STATUS_OK;
    const char *at = suite->bytes, *const end = suite->bytes + suite->size;
    while (at < end && status == STATUS_OK) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const size_t length = (size_t)((newline != NULL ? newline : end) - at);
        char line[SUITE_MAX_LINE];
        (void)snprintf(line, sizeof line, "%.*s", (int)length, at);
        status = parse_suite_line(list, options, line, text);
        at += length + 1;
    }
    for (size_t i = 0; i < list->suite_options_count && status == STATUS_OK; i++)
        status = add_options(list, &list->suite_options[i], text);
    return status;
}

enum status run_case_list_create(const struct options *options, struct run_case_list *out,
                                 struct status_text *text) {
    *out = (struct run_case_list){0};
    const bool names_models = options->model_count > 0 || options->all_models;
    enum status status;
    if (options->suite != NULL && names_models)
        status = status_set(text, STATUS_BAD_INPUT,
                            "--suite %s and --model exclude each other: a suite names its models",
                            options->suite);
    else if (names_models)
        status = add_options(out, options, text);
    else if (options->tokens_count > 0 || options->seqs_given)
        status = status_set(text, STATUS_BAD_INPUT,
                            "--tokens and --seqs need a --model (kvgauge models lists them; "
                            "8x128/g4 is plain geometry)");
    else
        status = add_suite(out, options, text);
    if (status != STATUS_OK)
        run_case_list_destroy(out);
    return status;
}

void run_case_list_destroy(struct run_case_list *list) {
    for (size_t i = 0; i < list->count; i++)
        free(list->cases[i].lengths);
    free(list->cases);
    for (size_t i = 0; i < list->suite_options_count; i++)
        options_free(&list->suite_options[i]);
    free(list->suite_options);
    *list = (struct run_case_list){0};
}

struct formula_storage run_case_storage(const struct run_case *one,
                                        const struct options_format *format,
                                        struct options_format *resolved) {
    options_format_resolve(format, &one->model, one->auto_format, resolved);
    return (struct formula_storage){
        .k_format = resolved->k_format,
        .v_format = resolved->v_format,
        .index = one->options->index_given ? one->options->index
                                           : formula_index_default(resolved->k_format),
        .state_value_bytes = one->options->state_value_bytes,
        .window_as_full = one->options->window_as_full,
    };
}

enum status run_case_request(const struct run_case *one, const struct options_format *format,
                             struct pool_request *out, struct status_text *text) {
    if (one->refused != STATUS_OK)
        return status_set(text, one->refused, "%s", one->reason);
    struct options_format resolved;
    *out = (struct pool_request){
        .model = &one->model,
        .storage = run_case_storage(one, format, &resolved),
        .kv_scale_amax = one->options->kv_scale_amax,
        .lengths = one->lengths,
        .seqs = (uint32_t)one->seqs,
        .page_tokens = one->page_tokens,
        .share_prefix_tokens = one->options->share_prefix_tokens,
        .sequential_pages = one->options->page_order_sequential,
        .seed = one->options->seed,
        .data = one->options->data,
        .rotate = one->options->rotate,
    };
    return STATUS_OK;
}
