/* The man page and the shell completion: the text of --help in two more forms. */
#include <string.h>

#include "options_list.h"

/* In roff a backslash and a line's first dot or quote are commands, a minus is a hyphen. */
static void roff(const char *text, FILE *stream) {
    for (const char *at = text; *at != '\0'; at++) {
        if (*at == '\\')
            (void)fputs("\\e", stream);
        else if (*at == '-')
            (void)fputs("\\-", stream);
        else if ((*at == '.' || *at == '\'') && at == text)
            (void)fprintf(stream, "\\&%c", *at);
        else
            (void)fputc(*at, stream);
    }
}

static void man_option(const struct options_row *row, FILE *stream) {
    (void)fputs(".TP\n\\fB", stream);
    if (row->letter != 0)
        (void)fprintf(stream, "\\-%c\\fR, \\fB", row->letter);
    (void)fputs("\\-\\-", stream);
    roff(row->name, stream);
    (void)fputs("\\fR", stream);
    if (row->argument != NULL)
        (void)fprintf(stream, " \\fI%s\\fR", row->argument);
    (void)fputs("\n", stream);
    roff(row->help, stream);
    const char *names[OPTIONS_COMMAND_COUNT];
    const char *between = "\n(";
    for (size_t i = 0; i < options_command_names(names); i++) {
        enum options_command command;
        if (options_command_find(names[i], &command) && (row->commands & (unsigned)command) != 0) {
            (void)fprintf(stream, "%s%s", between, names[i]);
            between = ", ";
        }
    }
    (void)fputs(")\n", stream);
}

void options_print_man(const char *version, FILE *stream) {
    (void)fprintf(stream, ".TH KVGAUGE 1 \"\" \"kvgauge %s\"\n", version);
    (void)fputs(".SH NAME\nkvgauge \\- what a KV cache really costs\n"
                ".SH SYNOPSIS\n.B kvgauge\n.I COMMAND\n[\\fIoptions\\fR]\n"
                ".SH DESCRIPTION\n"
                "Builds real paged KV caches on a device in every storage format, writes and reads "
                "them through decode attention, checks the answers against double precision, and "
                "sets what it measured beside what the size formula predicts.\n"
                ".SH COMMANDS\n",
                stream);
    const char *names[OPTIONS_COMMAND_COUNT];
    for (size_t i = 0; i < options_command_names(names); i++) {
        (void)fprintf(stream, ".TP\n.B %s\n", names[i]);
        roff(options_command_help(i), stream);
        (void)fputs("\n", stream);
    }
    (void)fputs(".SH OPTIONS\nBehind each, in brackets, the commands that take it.\n", stream);
    for (size_t i = 0; i < OPTIONS_LIST_COUNT; i++)
        man_option(&options_list[i], stream);
    (void)fputs(".SH FORMATS\n", stream);
    for (int id = 0; id < FORMAT_COUNT; id++)
        (void)fprintf(stream, "%s%s", id > 0 ? ", " : "", format_get((enum format_id)id)->name);
    (void)fputs("; records: ", stream);
    const char *between = "";
    for (int id = FORMAT_COUNT + 1; id < FORMAT_END; id++)
        if (format_get((enum format_id)id)->key_dim == 0) {
            (void)fprintf(stream, "%s%s", between, format_get((enum format_id)id)->name);
            between = ", ";
        }
    (void)fputs("\n.SH EXIT STATUS\n0 fine; 1 a row is wrong or does not fit; 2 bad input or "
                "nothing could run; 3 no such device, or something is not installed; 130 "
                "interrupted.\n",
                stream);
}

/* Commands first, then the options of the command that stands there; files behind an option. */
void options_print_completion(FILE *stream) {
    const char *names[OPTIONS_COMMAND_COUNT];
    (void)fputs("# bash completion of kvgauge, made by kvgauge --completion\n"
                "_kvgauge() {\n"
                "    local word=${COMP_WORDS[COMP_CWORD]} options=''\n"
                "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
                "        mapfile -t COMPREPLY < <(compgen -W '",
                stream);
    for (size_t i = 0; i < options_command_names(names); i++)
        (void)fprintf(stream, "%s ", names[i]);
    (void)fputs("--help --version' -- \"$word\")\n"
                "        return\n"
                "    fi\n"
                "    case ${COMP_WORDS[1]} in\n",
                stream);
    for (size_t i = 0; i < options_command_names(names); i++) {
        enum options_command command;
        if (!options_command_find(names[i], &command))
            continue;
        (void)fprintf(stream, "    %s) options='", names[i]);
        const char *between = "";
        for (size_t o = 0; o < OPTIONS_LIST_COUNT; o++)
            if ((options_list[o].commands & (unsigned)command) != 0) {
                (void)fprintf(stream, "%s--%s", between, options_list[o].name);
                between = " ";
            }
        (void)fputs("' ;;\n", stream);
    }
    (void)fputs("    esac\n"
                "    case $word in\n"
                "    -*) mapfile -t COMPREPLY < <(compgen -W \"$options\" -- \"$word\") ;;\n"
                "    *) mapfile -t COMPREPLY < <(compgen -f -- \"$word\") ;;\n"
                "    esac\n"
                "}\n"
                "complete -o filenames -F _kvgauge kvgauge\n",
                stream);
}
