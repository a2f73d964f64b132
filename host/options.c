/* Parses the command line by the rows of options.def. */
#include "options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "brief.h"
#include "nearest.h"
#include "options_list.h"

/* No time that --max-time takes. */
#define NOT_GIVEN_S (-1.0)

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

/* A word that cannot be the value of the option before it. */
static bool is_option(const char *word) {
    return strncmp(word, "--", 2) == 0 && find_option(word, strlen(word)) != OPTIONS_LIST_COUNT;
}

static enum status unknown_option(const char *word, enum options_command command,
                                  struct status_text *message) {
    char dashed[OPTIONS_LIST_COUNT][24], shown[BRIEF_BYTES], near[128];
    const char *names[OPTIONS_LIST_COUNT];
    size_t count = 0;
    if (word[0] != '-')
        return status_set(message, STATUS_BAD_INPUT, "%s: an option is expected, --model for one",
                          brief_text(word, shown));
    for (size_t i = 0; i < OPTIONS_LIST_COUNT; i++) {
        if ((options_list[i].commands & (unsigned)command) == 0)
            continue;
        (void)snprintf(dashed[count], sizeof dashed[count], "--%s", options_list[i].name);
        names[count] = dashed[count];
        count++;
    }
    nearest_names(word, names, count, near, sizeof near);
    return status_set(message, STATUS_BAD_INPUT, "%s: unknown option%s%s (kvgauge %s --help)",
                      brief_text(word, shown), near[0] != '\0' ? ", nearest: " : "", near,
                      options_command_name(command));
}

static enum status parse_word(int argc, char *const *argv, int *at, struct options *options,
                              struct status_text *message) {
    const char *word = argv[*at];
    const char *equals = strncmp(word, "--", 2) == 0 ? strchr(word, '=') : NULL;
    const size_t length = equals != NULL ? (size_t)(equals - word) : strlen(word);
    const size_t index = find_option(word, length);
    if (index == OPTIONS_LIST_COUNT)
        return unknown_option(word, options->command, message);
    const struct options_row *row = &options_list[index];
    if ((row->commands & (unsigned)options->command) == 0)
        return status_set(message, STATUS_BAD_INPUT, "--%s: kvgauge %s does not take it", row->name,
                          options_command_name(options->command));
    const char *argument = NULL;
    char shown[BRIEF_BYTES];
    if (row->argument == NULL) {
        if (equals != NULL)
            return status_set(message, STATUS_BAD_INPUT, "--%s takes no value (%s)", row->name,
                              brief_text(equals + 1, shown));
    } else if (equals != NULL) {
        argument = equals + 1;
    } else if (*at + 1 < argc && !is_option(argv[*at + 1])) {
        argument = argv[++*at];
    } else {
        return status_set(message, STATUS_BAD_INPUT, "--%s: a value is expected (%s)", row->name,
                          row->argument);
    }
    options->given |= (uint64_t)1 << index;
    char name[40];
    (void)snprintf(name, sizeof name, "--%s", row->name);
    if (argument != NULL && argument[0] == '\0')
        return status_set(message, STATUS_BAD_INPUT, "%s: the value is empty; %s is expected", name,
                          row->argument);
    return options_parsers[index](options, name, argument, message);
}

/* --until-full finds one of the two sizes: it cannot be given as well. */
static enum status check_until_full(const struct options *options, struct status_text *message) {
    if (options->until_full == OPTIONS_UNTIL_NOT)
        return STATUS_OK;
    const bool seqs = options->until_full == OPTIONS_UNTIL_SEQS;
    const char *what = seqs ? "seqs" : "tokens";
    if (seqs ? options->seqs_given : options->tokens_count > 0)
        return status_set(message, STATUS_BAD_INPUT,
                          "--until-full %s finds the number that --%s gives: leave one out", what,
                          what);
    if (options->lengths != OPTIONS_LENGTHS_EQUAL)
        return status_set(
            message, STATUS_BAD_INPUT,
            "--until-full %s: only with --lengths equal, so that the formula can count "
            "the same",
            what);
    if (options->model_count == 0 && !options->all_models)
        return status_set(message, STATUS_BAD_INPUT, "--until-full %s needs a --model", what);
    return STATUS_OK;
}

static enum status set_defaults(struct options *options, struct status_text *message) {
    if (options->format_count == 0) {
        const enum status status = options_add_formats(
            options, "--kv-format", "bf16,fp8_e4m3,fp8_e5m2,nvfp4,q8_0,q4_0", message);
        if (status != STATUS_OK)
            return status;
    }
    if (!options->baseline_given)
        options->baseline = options->formats[0];
    if (options->seqs_count == 0)
        options->seqs[options->seqs_count++] = 1;
    if (options->page_tokens_count == 0)
        options->page_tokens[options->page_tokens_count++] = 16;
    if (options->max_time_s == NOT_GIVEN_S)
        options->max_time_s = options->min_time_s > 10.0 ? options->min_time_s : 10.0;
    if (options->max_time_s < options->min_time_s)
        return status_set(message, STATUS_BAD_INPUT, "--max-time %g is below --min-time %g",
                          options->max_time_s, options->min_time_s);
    if (options->save_path != NULL && options->resume_path != NULL)
        return status_set(message, STATUS_BAD_INPUT,
                          "--save and --resume exclude each other: --resume appends to its file");
    if (options->weights_format != BACKEND_WEIGHTS_NONE && options->weights_read_bytes == 0)
        return status_set(message, STATUS_BAD_INPUT,
                          "--weights-format says how --weights-read is stored: give both");
    return check_until_full(options, message);
}

enum status options_parse(int argc, char *const *argv, struct options *options,
                          struct status_text *message) {
    *options = (struct options){.state_value_bytes = 4,
                                .tp = 1,
                                .seed = 1,
                                .max_noise_percent = 2.0,
                                .min_time_s = 1.0,
                                .max_time_s = NOT_GIVEN_S};
    if (argc < 2)
        return status_set(message, STATUS_BAD_INPUT, "a command is expected");
    if (!options_command_find(argv[1], &options->command)) {
        const char *names[OPTIONS_COMMAND_COUNT];
        const size_t count = options_command_names(names);
        char near[96], shown[BRIEF_BYTES];
        nearest_names(argv[1], names, count, near, sizeof near);
        return status_set(message, STATUS_BAD_INPUT,
                          "%s: unknown command%s%s (kvgauge --help lists them)",
                          brief_text(argv[1], shown), near[0] != '\0' ? ", nearest: " : "", near);
    }
    for (int at = 2; at < argc; at++) {
        const enum status status = parse_word(argc, argv, &at, options, message);
        if (status != STATUS_OK)
            return status;
    }
    return set_defaults(options, message);
}

_Static_assert(OPTIONS_LIST_COUNT <= 64, "one bit of `given` for each option");

bool options_given(const struct options *options, const char *name) {
    for (size_t i = 0; i < OPTIONS_LIST_COUNT; i++)
        if (strcmp(options_list[i].name, name) == 0)
            return (options->given >> i & 1u) != 0;
    return false;
}

void options_free(struct options *options) {
    for (size_t i = 0; i < options->model_count; i++)
        free(options->models[i]);
    for (size_t i = 0; i < options->engine_setting_count; i++)
        free(options->engine_settings[i]);
    free(options->expect_file);
    free(options->lengths_file);
    free(options->save_path);
    free(options->resume_path);
    free(options->device);
    free(options->kernel);
    free(options->suite);
    free(options->label);
    *options = (struct options){0};
}
