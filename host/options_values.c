/* The parse functions of options.def: one value of one option into struct options. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "brief.h"
#include "engine.h"
#include "nearest.h"
#include "number.h"
#include "options_list.h"
#include "words.h"

static enum status keep(char **to, const char *text, struct status_text *message) {
    char *copy = malloc(strlen(text) + 1);
    if (copy == NULL)
        return status_set(message, STATUS_OUT_OF_MEMORY, "no memory for the command line");
    (void)strcpy(copy, text);
    free(*to);
    *to = copy;
    return STATUS_OK;
}

static enum status refuse(const char *option, const char *text, const char *allowed,
                          struct status_text *message) {
    char shown[BRIEF_BYTES];
    return status_set(message, STATUS_BAD_INPUT, "%s %s: allowed are %s", option,
                      brief_text(text, shown), allowed);
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
        words_add(allowed, sizeof allowed, ", ", "%s", words[i]);
    }
    return refuse(option, text, allowed, message);
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
            status = status_set(message, STATUS_BAD_INPUT, "%s: an empty name in the list", option);
        else if (strcasecmp(item, "all") == 0)
            options->all_models = true;
        else if (options->model_count == OPTIONS_MAX_LIST)
            status = status_set(message, STATUS_BAD_INPUT, "%s: at most %d models", option,
                                OPTIONS_MAX_LIST);
        else
            status = keep(&options->models[options->model_count++], item, message);
    }
    free(copy);
    return status;
}

PARSER(formats) {
    options->formats_given = true;
    return options_add_formats(options, option, text, message);
}

PARSER(baseline) {
    options->baseline_given = true;
    return options_parse_format(option, text, &options->baseline, message);
}

PARSER(index) {
    if (formula_index_find(text, &options->index)) {
        options->index_given = true;
        return STATUS_OK;
    }
    char allowed[96] = "";
    for (int index = 0; index < FORMULA_INDEX_COUNT; index++)
        words_add(allowed, sizeof allowed, ", ", "%s",
                  formula_index_name((enum formula_index_format)index));
    return refuse(option, text, allowed, message);
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
    CHOOSE("none", "hadamard")
    options->rotate = chosen == 1;
    return status;
}

PARSER(output) {
    if (writer_form_find(text, &options->output))
        return STATUS_OK;
    return refuse(option, text, "table, md, csv, json, jsonl", message);
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

/* Lists given twice add up, as models and formats do. */
static enum status add_numbers(const char *option, const char *text, bool tokens,
                               uint64_t values[OPTIONS_MAX_LIST], size_t *count,
                               struct status_text *message) {
    size_t added;
    const enum status status = number_parse_list(option, text, tokens, values + *count,
                                                 OPTIONS_MAX_LIST - *count, &added, message);
    *count += status == STATUS_OK ? added : 0;
    return status;
}

PARSER(tokens) {
    return add_numbers(option, text, true, options->tokens, &options->tokens_count, message);
}

PARSER(seqs) {
    options->seqs_given = true;
    return add_numbers(option, text, false, options->seqs, &options->seqs_count, message);
}

PARSER(page_tokens) {
    const enum status status = add_numbers(option, text, false, options->page_tokens,
                                           &options->page_tokens_count, message);
    for (size_t i = 0; status == STATUS_OK && i < options->page_tokens_count; i++)
        if (options->page_tokens[i] > (1u << 24))
            return status_set(message, STATUS_BAD_INPUT, "%s %llu: at most %u tokens per page",
                              option, (unsigned long long)options->page_tokens[i], 1u << 24);
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
    return parse_u32(option, text, 0, 1024, &options->draft_layers, message);
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

PARSER(weights_read) {
    const enum status status =
        number_parse_bytes(option, text, &options->weights_read_bytes, message);
    if (status == STATUS_OK && options->weights_read_bytes == 0)
        return refuse(option, text, "bytes above 0: 512MiB, 3.2GB (without the option none are)",
                      message);
    return status;
}

PARSER(weights_format) {
    CHOOSE("f32", "bf16", "fp8_e4m3")
    options->weights_format = (enum backend_weights)(BACKEND_WEIGHTS_F32 + chosen);
    return status;
}

PARSER(until_full) {
    CHOOSE("seqs", "tokens")
    options->until_full = chosen == 0 ? OPTIONS_UNTIL_SEQS : OPTIONS_UNTIL_TOKENS;
    return status;
}

PARSER(llc) {
    return number_parse_bytes(option, text, &options->llc_bytes, message);
}

PARSER(save) {
    (void)option;
    return keep(&options->save_path, text, message);
}

PARSER(resume) {
    (void)option;
    return keep(&options->resume_path, text, message);
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
    return number_parse_count(option, text, 0, NUMBER_LARGEST, &options->seed, message);
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

PARSER(engine) {
    const char *names[8];
    char near[96], all[96] = "", shown[BRIEF_BYTES];
    size_t count = 0;
    options->engine = engine_find(text);
    if (options->engine != NULL)
        return STATUS_OK;
    for (; count < engine_count() && count < sizeof names / sizeof names[0]; count++) {
        names[count] = engine_get(count)->name;
        words_add(all, sizeof all, ", ", "%s", names[count]);
    }
    nearest_names(text, names, count, near, sizeof near);
    return status_set(message, STATUS_BAD_INPUT, "%s %s: unknown%s%s; there are %s", option,
                      brief_text(text, shown), near[0] != '\0' ? ", nearest: " : "", near, all);
}

PARSER(engine_opt) {
    if (options->engine_setting_count == OPTIONS_MAX_LIST)
        return status_set(message, STATUS_BAD_INPUT, "%s: at most %d settings", option,
                          OPTIONS_MAX_LIST);
    return keep(&options->engine_settings[options->engine_setting_count++], text, message);
}

PARSER(expect) {
    options->expect_given = true;
    return expect_parse(option, text, &options->expect, message);
}

PARSER(expect_file) {
    (void)option;
    return keep(&options->expect_file, text, message);
}

/* "1%" or "0.5". */
static enum status parse_percent(const char *option, const char *text, double *out,
                                 struct status_text *message) {
    char number[32];
    (void)snprintf(number, sizeof number, "%s", text);
    if (strlen(text) < sizeof number && number[0] != '\0' && text[strlen(text) - 1] == '%')
        number[strlen(text) - 1] = '\0';
    double percent;
    if (strlen(text) >= sizeof number ||
        number_parse_seconds(option, number, &percent, NULL) != STATUS_OK ||
        !(percent > 0 && percent <= 100))
        return refuse(option, text, "percent above 0, at most 100: 1%, 0.5", message);
    *out = percent;
    return STATUS_OK;
}

PARSER(tolerance) {
    return parse_percent(option, text, &options->tolerance_percent, message);
}

PARSER(max_noise) {
    return parse_percent(option, text, &options->max_noise_percent, message);
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

options_parser *const options_parsers[OPTIONS_LIST_COUNT] = {
#define OPTION(name, letter, argument, commands, parse, help) parse_##parse,
#include "options.def"
#undef OPTION
};
