/* The rows of options.def as tables, and the commands they belong to. Private to host/options*.c.
 */
#ifndef OPTIONS_LIST_H
#define OPTIONS_LIST_H

#include <stdbool.h>
#include <stddef.h>

#include "options.h"

struct options_row {
    const char *name;
    char letter;          /* 0: none */
    const char *argument; /* NULL: a switch */
    unsigned commands;    /* of enum options_command */
    const char *help;
};

enum options_list_index {
#define OPTION(name, letter, argument, commands, parse, help) OPTIONS_LIST_##parse,
#include "options.def"
#undef OPTION
    OPTIONS_LIST_COUNT
};
enum { OPTIONS_COMMAND_COUNT = 5 };

/* Reads `text`, the value of `option` ("--name"), into `options`. Switches get NULL. */
typedef enum status options_parser(struct options *options, const char *option, const char *text,
                                   struct status_text *message);
extern options_parser *const options_parsers[OPTIONS_LIST_COUNT];

/* Adds a comma separated list of formats; what is listed already is not added again. */
enum status options_add_formats(struct options *options, const char *option, const char *text,
                                struct status_text *message);

extern const struct options_row options_list[OPTIONS_LIST_COUNT];

const char *options_command_name(enum options_command command);
bool options_command_find(const char *name, enum options_command *out);
size_t options_command_names(const char *names[OPTIONS_COMMAND_COUNT]);
/* What the i-th of those does, one line. */
const char *options_command_help(size_t i);

#endif
