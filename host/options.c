/* Parses the command line by the rows of options.def. */
#include "options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "nearest.h"
#include "number.h"
#include "options_list.h"

static enum status keep(char **to, const char *text, struct status_text *message) {
    char *copy = malloc(strlen(text) + 1);
    if (copy == NULL)
        return status_set(message, STATUS_OUT_OF_MEMORY, "no memory for the command line");
    (void)strcpy(copy, text);
    free(*to);
    *to = copy;
    return STATUS_OK;
}

/* One of a few words; the index goes to `out`. */
static enum status choose(const char *option, const char *text, const char *const *words,
                          size_t count, size_t *out, struct status_text *message) {
    char allowed[160] = "";
    for (size_t i = 0; i < count; i++) {
        if (strcmp(words[i], text) == 0) {
            *out = i;
            return STATUS_OK;
        }
        const size_t used = strlen(allowed);
        (void)snprintf(allowed + used, sizeof allowed - used, "%s%s", i > 0 ? ", " : "", words[i]);
    }
    return status_set(message, STATUS_BAD_INPUT, "%s %s: allowed are %s", option, text, allowed);
}

#define PARSER(name)                                                                               \
    static enum status parse_##name(struct options *options, const char *option, const char *text, \
                                    struct status_text *message)

PARSER(models) {
    char *copy = NULL;
    enum status status = keep(&copy, text, message);
    for (char *item = copy, *next; status == STATUS_OK && item != NULL; item = next) {
        next = strchr(item, ',');
        if (next != NULL)
            *next++ = '\0';
        if (item[0] == '\0')
            status = status_set(message, STATUS_BAD_INPUT, "%s %s: an empty name", option, text);
        else if (strcmp(item, "all") == 0)
            options->all_models = true;
        else if (options->model_count == OPTIONS_MAX_LIST)
            status = status_set(message, STATUS_BAD_INPUT, "%s: more than %d models", option,
                                OPTIONS_MAX_LIST);
        else
            status = keep(&options->models[options->model_count++], item, message);
    }
    free(copy);
    return status;
}

static enum status unknown_format(const char *text, struct status_text *message) {
    const char *names[FORMAT_COUNT + RECORD_COUNT];
    size_t count = 0;
    for (int id = 0; id < FORMAT_COUNT; id++)
        names[count++] = format_get((enum format_id)id)->name;
    for (int id = 0; id < RECORD_COUNT; id++)
        names[count++] = record_get((enum record_id)id)->name;
    char near[128], all[256] = "";
    nearest_names(text, names, count, near, sizeof near);
    for (int id = 0; id < FORMAT_COUNT; id++) {
        const size_t used = strlen(all);
        (void)snprintf(all + used, sizeof all - used, "%s%s", id > 0 ? " " : "", names[id]);
    }
    return status_set(message, STATUS_BAD_INPUT,
                      "--kv-format %s: unknown%s%s; formats are %s (kvgauge run --help)", text,
                      near[0] != '\0' ? ", nearest: " : "", near, all);
}

enum status options_parse_format(const char *text, struct options_format *out,
                                 struct status_text *message) {
    *out = (struct options_format){.record = RECORD_COUNT};
    if (strlen(text) >= sizeof out->name)
        return unknown_format("(long name)", message);
    if (strcmp(text, "auto") == 0) {
        out->is_auto = true;
        (void)strcpy(out->name, "auto");
        return STATUS_OK;
    }
    if (record_find(text, &out->record)) {
        if (record_get(out->record)->key_dim > 0)
            return status_set(message, STATUS_BAD_INPUT,
                              "--kv-format %s: that holds index keys; use --index-format", text);
        (void)snprintf(out->name, sizeof out->name, "%s", record_get(out->record)->name);
        return STATUS_OK;
    }
    out->record = RECORD_COUNT;
    char k[sizeof out->name];
    (void)snprintf(k, sizeof k, "%s", text);
    char *v = strchr(k, '/');
    if (v != NULL)
        *v++ = '\0';
    if (!format_find(k, &out->k_format) || !format_find(v != NULL ? v : k, &out->v_format))
        return unknown_format(text, message);
    const char *k_name = format_get(out->k_format)->name;
    if (out->k_format == out->v_format)
        (void)snprintf(out->name, sizeof out->name, "%s", k_name);
    else
        (void)snprintf(out->name, sizeof out->name, "%s/%s", k_name,
                       format_get(out->v_format)->name);
    return STATUS_OK;
}

static enum status add_format(struct options *options, const struct options_format *format,
                              struct status_text *message) {
    for (size_t i = 0; i < options->format_count; i++)
        if (strcmp(options->formats[i].name, format->name) == 0)
            return STATUS_OK;
    if (options->format_count == OPTIONS_MAX_LIST)
        return status_set(message, STATUS_BAD_INPUT, "--kv-format: more than %d formats",
                          OPTIONS_MAX_LIST);
    options->formats[options->format_count++] = *format;
    return STATUS_OK;
}

static enum status add_formats(struct options *options, const char *text,
                               struct status_text *message) {
    char *copy = NULL;
    enum status status = keep(&copy, text, message);
    for (char *item = copy, *next; status == STATUS_OK && item != NULL; item = next) {
        next = strchr(item, ',');
        if (next != NULL)
            *next++ = '\0';
        struct options_format format;
        if (strcmp(item, "all") == 0) {
            for (int id = 0; id < FORMAT_COUNT && status == STATUS_OK; id++) {
                status =
                    options_parse_format(format_get((enum format_id)id)->name, &format, message);
                if (status == STATUS_OK)
                    status = add_format(options, &format, message);
            }
            continue;
        }
        status = options_parse_format(item, &format, message);
        if (status == STATUS_OK)
            status = add_format(options, &format, message);
    }
    free(copy);
    return status;
}

PARSER(formats) {
    (void)option;
    options->formats_given = true;
    return add_formats(options, text, message);
}

PARSER(baseline) {
    (void)option;
    options->baseline_given = true;
    return options_parse_format(text, &options->baseline, message);
}

PARSER(index) {
    if (formula_index_find(text, &options->index)) {
        options->index_given = true;
        return STATUS_OK;
    }
    return status_set(message, STATUS_BAD_INPUT,
                      "%s %s: allowed are bf16, fp8_e4m3, index_fp8_132, mxfp4, none", option,
                      text);
}

#define CHOOSE(...)                                                                                \
    static const char *const words[] = {__VA_ARGS__};                                              \
    size_t chosen = 0;                                                                             \
    const enum status status =                                                                     \
        choose(option, text, words, sizeof words / sizeof words[0], &chosen, message);

PARSER(state) {
    CHOOSE("f32", "bf16")
    options->state_value_bytes = chosen == 0 ? 4 : 2;
    return status;
}

PARSER(kv_scale) {
    CHOOSE("one", "amax")
    options->kv_scale_amax = chosen == 1;
    return status;
}

PARSER(window_as) {
    CHOOSE("window", "full")
    options->window_as_full = chosen == 1;
    return status;
}

PARSER(page_order) {
    CHOOSE("shuffled", "sequential")
    options->page_order_sequential = chosen == 1;
    return status;
}

static const char *const data_words[] = {"normal", "bias", "outlier", "sink"};

const char *options_data_name(enum options_data data) {
    return data_words[data];
}

PARSER(data) {
    CHOOSE("normal", "bias", "outlier", "sink")
    options->data = (enum options_data)chosen;
    return status;
}

PARSER(rotate) {
    (void)options;
    if (strcmp(text, "hadamard") == 0)
        return status_set(message, STATUS_BAD_INPUT,
                          "%s hadamard: not in this version; none is allowed", option);
    CHOOSE("none")
    return status;
}

PARSER(output) {
    if (writer_form_find(text, &options->output))
        return STATUS_OK;
    return status_set(message, STATUS_BAD_INPUT, "%s %s: allowed are table, md, csv, json, jsonl",
                      option, text);
}

PARSER(lengths) {
    if (strcmp(text, "equal") == 0)
        options->lengths = OPTIONS_LENGTHS_EQUAL;
    else if (strcmp(text, "mixed") == 0)
        options->lengths = OPTIONS_LENGTHS_MIXED;
    else {
        (void)option;
        options->lengths = OPTIONS_LENGTHS_FILE;
        return keep(&options->lengths_file, text, message);
    }
    return STATUS_OK;
}

PARSER(tokens) {
    return number_parse_list(option, text, true, options->tokens, OPTIONS_MAX_LIST,
                             &options->tokens_count, message);
}

PARSER(seqs) {
    options->seqs_given = true;
    return number_parse_list(option, text, false, options->seqs, OPTIONS_MAX_LIST,
                             &options->seqs_count, message);
}

PARSER(page_tokens) {
    const enum status status =
        number_parse_list(option, text, false, options->page_tokens, OPTIONS_MAX_LIST,
                          &options->page_tokens_count, message);
    for (size_t i = 0; status == STATUS_OK && i < options->page_tokens_count; i++)
        if (options->page_tokens[i] > (1u << 24))
            return status_set(message, STATUS_BAD_INPUT, "%s %s: at most %u tokens per page",
                              option, text, 1u << 24);
    return status;
}

static enum status parse_u32(const char *option, const char *text, uint64_t least, uint64_t most,
                             uint32_t *out, struct status_text *message) {
    uint64_t value;
    const enum status status = number_parse_count(option, text, least, most, &value, message);
    if (status == STATUS_OK)
        *out = (uint32_t)value;
    return status;
}

PARSER(draft) {
    const enum status status = parse_u32(option, text, 0, 1024, &options->draft_layers, message);
    if (status == STATUS_OK && options->draft_layers > 0)
        return status_set(message, STATUS_BAD_INPUT,
                          "%s %s: no model source of this version gives draft layers; 0 is allowed",
                          option, text);
    return status;
}

PARSER(tp) {
    return parse_u32(option, text, 1, 65536, &options->tp, message);
}

PARSER(threads) {
    return parse_u32(option, text, 1, 4096, &options->threads, message);
}

PARSER(share_prefix) {
    if (strcmp(text, "0") == 0)
        return STATUS_OK;
    const enum status status =
        number_parse_tokens(option, text, &options->share_prefix_tokens, message);
    if (status == STATUS_OK && options->share_prefix_tokens == NUMBER_MAX_TOKENS)
        return status_set(message, STATUS_BAD_INPUT, "%s max: a number of tokens is expected",
                          option);
    return status;
}

PARSER(budget) {
    options->budget_given = true;
    return number_parse_bytes(option, text, &options->budget_bytes, message);
}

PARSER(weights) {
    return number_parse_bytes(option, text, &options->weights_bytes, message);
}

PARSER(llc) {
    return number_parse_bytes(option, text, &options->llc_bytes, message);
}

PARSER(save) {
    (void)option;
    return keep(&options->save_path, text, message);
}

PARSER(device) {
    (void)option;
    return keep(&options->device, text, message);
}

PARSER(kernel) {
    (void)option;
    return keep(&options->kernel, text, message);
}

PARSER(suite) {
    (void)option;
    return keep(&options->suite, text, message);
}

PARSER(label) {
    (void)option;
    return keep(&options->label, text, message);
}

PARSER(seed) {
    return number_parse_count(option, text, 0, INT64_MAX, &options->seed, message);
}

PARSER(samples) {
    return number_parse_count(option, text, 1, 1000000, &options->samples, message);
}

PARSER(min_time) {
    return number_parse_seconds(option, text, &options->min_time_s, message);
}

PARSER(max_time) {
    return number_parse_seconds(option, text, &options->max_time_s, message);
}

PARSER(itemise) {
    (void)option, (void)text, (void)message;
    options->itemise = true;
    return STATUS_OK;
}

PARSER(list) {
    (void)option, (void)text, (void)message;
    options->list = true;
    return STATUS_OK;
}

PARSER(help) {
    (void)option, (void)text, (void)message;
    options->help = true;
    return STATUS_OK;
}

typedef enum status (*parser)(struct options *, const char *, const char *, struct status_text *);

static const parser parsers[] = {
#define OPTION(name, letter, argument, commands, parse, help) parse_##parse,
#include "options.def"
#undef OPTION
};

/* "--name" or "-n" (with `length` characters of it) among the rows; OPTIONS_LIST_COUNT if none. */
static size_t find_option(const char *word, size_t length) {
    for (size_t i = 0; i < OPTIONS_LIST_COUNT; i++) {
        const struct options_row *row = &options_list[i];
        const bool is_long = length > 2 && strncmp(word, "--", 2) == 0 &&
                             strlen(row->name) == length - 2 &&
                             strncmp(word + 2, row->name, length - 2) == 0;
        const bool is_short =
            row->letter != 0 && length == 2 && word[0] == '-' && word[1] == row->letter;
        if (is_long || is_short)
            return i;
    }
    return OPTIONS_LIST_COUNT;
}

static enum status unknown_option(const char *word, struct status_text *message) {
    const char *names[OPTIONS_LIST_COUNT];
    for (size_t i = 0; i < OPTIONS_LIST_COUNT; i++)
        names[i] = options_list[i].name;
    char near[128];
    nearest_names(word + strspn(word, "-"), names, OPTIONS_LIST_COUNT, near, sizeof near);
    if (word[0] != '-')
        return status_set(message, STATUS_BAD_INPUT, "%s: an option is expected, --model for one",
                          word);
    return status_set(message, STATUS_BAD_INPUT, "%s: unknown option%s%s (--help lists them)", word,
                      near[0] != '\0' ? ", nearest: --" : "", near);
}

static enum status parse_word(int argc, char *const *argv, int *at, struct options *options,
                              struct status_text *message) {
    const char *word = argv[*at];
    const char *equals = strncmp(word, "--", 2) == 0 ? strchr(word, '=') : NULL;
    const size_t length = equals != NULL ? (size_t)(equals - word) : strlen(word);
    const size_t index = find_option(word, length);
    if (index == OPTIONS_LIST_COUNT)
        return unknown_option(word, message);
    const struct options_row *row = &options_list[index];
    if ((row->commands & (unsigned)options->command) == 0)
        return status_set(message, STATUS_BAD_INPUT, "--%s: kvgauge %s does not take it", row->name,
                          options_command_name(options->command));
    const char *argument = NULL;
    if (row->argument == NULL) {
        if (equals != NULL)
            return status_set(message, STATUS_BAD_INPUT, "--%s takes no value (%s)", row->name,
                              equals + 1);
    } else if (equals != NULL) {
        argument = equals + 1;
    } else if (*at + 1 < argc) {
        argument = argv[++*at];
    } else {
        return status_set(message, STATUS_BAD_INPUT, "--%s: a value is expected (%s)", row->name,
                          row->argument);
    }
    char name[40];
    (void)snprintf(name, sizeof name, "--%s", row->name);
    if (argument != NULL && argument[0] == '\0')
        return status_set(message, STATUS_BAD_INPUT, "%s: the value is empty; %s is expected", name,
                          row->argument);
    return parsers[index](options, name, argument, message);
}

static enum status set_defaults(struct options *options, struct status_text *message) {
    if (options->format_count == 0) {
        const enum status status =
            add_formats(options, "bf16,fp8_e4m3,fp8_e5m2,nvfp4,q8_0,q4_0", message);
        if (status != STATUS_OK)
            return status;
    }
    if (!options->baseline_given)
        options->baseline = options->formats[0];
    if (options->seqs_count == 0)
        options->seqs[options->seqs_count++] = 1;
    if (options->page_tokens_count == 0)
        options->page_tokens[options->page_tokens_count++] = 16;
    if (options->max_time_s < options->min_time_s)
        return status_set(message, STATUS_BAD_INPUT, "--max-time %g is below --min-time %g",
                          options->max_time_s, options->min_time_s);
    return STATUS_OK;
}

enum status options_parse(int argc, char *const *argv, struct options *options,
                          struct status_text *message) {
    *options = (struct options){
        .state_value_bytes = 4, .tp = 1, .seed = 1, .min_time_s = 1.0, .max_time_s = 10.0};
    if (argc < 2)
        return status_set(message, STATUS_BAD_INPUT, "a command is expected");
    if (!options_command_find(argv[1], &options->command)) {
        const char *names[OPTIONS_COMMAND_COUNT];
        const size_t count = options_command_names(names);
        char near[96];
        nearest_names(argv[1], names, count, near, sizeof near);
        return status_set(message, STATUS_BAD_INPUT,
                          "%s: unknown command%s%s (kvgauge --help lists them)", argv[1],
                          near[0] != '\0' ? ", nearest: " : "", near);
    }
    for (int at = 2; at < argc; at++) {
        const enum status status = parse_word(argc, argv, &at, options, message);
        if (status != STATUS_OK)
            return status;
    }
    return set_defaults(options, message);
}

void options_free(struct options *options) {
    for (size_t i = 0; i < options->model_count; i++)
        free(options->models[i]);
    free(options->lengths_file);
    free(options->save_path);
    free(options->device);
    free(options->kernel);
    free(options->suite);
    free(options->label);
    *options = (struct options){0};
}
