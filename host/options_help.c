/* The option table and the help that is printed from it. */
#include <string.h>

#include "options_list.h"

enum {
    M = OPTIONS_MODELS,
    P = OPTIONS_PREDICT,
    F = OPTIONS_FILL,
    R = OPTIONS_RUN,
    D = OPTIONS_DEVICE
};

const struct options_row options_list[OPTIONS_LIST_COUNT] = {
#define OPTION(name, letter, argument, commands, parse, help)                                      \
    {name, letter, argument, commands, help},
#include "options.def"
#undef OPTION
};

static const struct {
    enum options_command command;
    const char *name;
    const char *help;
} commands[OPTIONS_COMMAND_COUNT] = {
    {OPTIONS_MODELS, "models", "built-in models: groups, bytes per token, native context, source"},
    {OPTIONS_PREDICT, "predict", "the size formula, no device: bytes, tokens per GB, does it fit"},
    {OPTIONS_FILL, "fill", "build pools on the device, fill them, itemise what they took"},
    {OPTIONS_RUN, "run", "the main job: build, write, verify, measure decode in every format"},
    {OPTIONS_DEVICE, "device", "the device's facts and its measured read ceiling"},
};

const char *options_command_name(enum options_command command) {
    for (size_t i = 0; i < OPTIONS_COMMAND_COUNT; i++)
        if (commands[i].command == command)
            return commands[i].name;
    return "unknown";
}

bool options_command_find(const char *name, enum options_command *out) {
    for (size_t i = 0; i < OPTIONS_COMMAND_COUNT; i++) {
        if (strcmp(commands[i].name, name) == 0) {
            *out = commands[i].command;
            return true;
        }
    }
    return false;
}

size_t options_command_names(const char *names[OPTIONS_COMMAND_COUNT]) {
    for (size_t i = 0; i < OPTIONS_COMMAND_COUNT; i++)
        names[i] = commands[i].name;
    return OPTIONS_COMMAND_COUNT;
}

const char *options_command_help(size_t i) {
    return commands[i].help;
}

static void print_option(const struct options_row *row, FILE *stream) {
    char left[48];
    if (row->letter != 0)
        (void)snprintf(left, sizeof left, "-%c, --%s %s", row->letter, row->name,
                       row->argument != NULL ? row->argument : "");
    else
        (void)snprintf(left, sizeof left, "    --%s %s", row->name,
                       row->argument != NULL ? row->argument : "");
    (void)fprintf(stream, "  %-26s %s\n", left, row->help);
}

void options_print_help(enum options_command command, FILE *stream) {
    if (command == 0) {
        (void)fprintf(stream, "kvgauge: what a KV cache really costs\n\n"
                              "usage: kvgauge COMMAND [options]\n\ncommands:\n");
        for (size_t i = 0; i < OPTIONS_COMMAND_COUNT; i++)
            (void)fprintf(stream, "  %-8s %s\n", commands[i].name, commands[i].help);
        (void)fprintf(stream, "\nkvgauge COMMAND --help lists a command's options; "
                              "--version tells what is built in.\n"
                              "exit: 0 fine, 1 a row is wrong or does not fit, 2 bad input or "
                              "nothing could run,\n      3 no such device or something is not "
                              "installed, 130 interrupted\n");
        return;
    }
    for (size_t i = 0; i < OPTIONS_COMMAND_COUNT; i++)
        if (commands[i].command == command)
            (void)fprintf(stream, "usage: kvgauge %s [options]\n%s\n\n", commands[i].name,
                          commands[i].help);
    for (size_t i = 0; i < OPTIONS_LIST_COUNT; i++)
        if ((options_list[i].commands & (unsigned)command) != 0)
            print_option(&options_list[i], stream);
    (void)fprintf(stream, "\nkv formats:");
    for (int id = 0; id < FORMAT_COUNT; id++)
        (void)fprintf(stream, " %s", format_get((enum format_id)id)->name);
    (void)fprintf(stream, "\nrecords (without the size: the one that fits the model):");
    for (int id = FORMAT_COUNT + 1; id < FORMAT_END; id++)
        if (format_get((enum format_id)id)->key_dim == 0)
            (void)fprintf(stream, " %s", format_get((enum format_id)id)->name);
    (void)fprintf(stream, "\nlists are comma separated; first-last doubles, first-lastx4 "
                          "multiplies, first-last+step adds\n");
}
