/* Reads a file of expected figures into options. */
#include "expect_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "line_words.h"

enum { MAX_WORDS = 64, MAX_LINE = 1024 };

static enum status parse_line(struct expect_lines *lines, char *line, struct status_text *text) {
    static char program[] = "kvgauge", command[] = "predict";
    char *words[MAX_WORDS] = {program, command};
    const int count = line_words(line, words + 2, MAX_WORDS - 2);
    if (count == 0)
        return STATUS_OK;
    struct options *wider = realloc(lines->options, (lines->count + 1) * sizeof *wider);
    if (wider == NULL)
        return status_set(text, STATUS_OUT_OF_MEMORY, "no host memory for %zu lines",
                          lines->count + 1);
    lines->options = wider;
    struct options *options = &lines->options[lines->count++];
    const enum status status = options_parse(count + 2, words, options, text);
    if (status != STATUS_OK)
        return status;
    if (!options->expect_given)
        return status_set(text, STATUS_BAD_INPUT, "no --expect");
    if (options->save_path != NULL || options->output != WRITER_TABLE ||
        options->expect_file != NULL)
        return status_set(
            text, STATUS_BAD_INPUT,
            "--output, --save and --expect-file belong to the command, not to a line");
    return STATUS_OK;
}

enum status expect_file_read(const char *path, struct expect_lines *out, struct status_text *text) {
    *out = (struct expect_lines){0};
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return status_set(text, STATUS_BAD_INPUT, "--expect-file %s: cannot be read", path);
    char line[MAX_LINE];
    enum status status = STATUS_OK;
    for (unsigned number = 1; status == STATUS_OK && fgets(line, sizeof line, file); number++) {
        struct status_text why = {""};
        status = strchr(line, '\n') == NULL && strlen(line) == sizeof line - 1
                     ? status_set(&why, STATUS_BAD_INPUT, "longer than %d characters", MAX_LINE - 2)
                     : parse_line(out, line, &why);
        if (status != STATUS_OK)
            status = status_set(text, status, "--expect-file %s, line %u: %.380s", path, number,
                                why.line);
    }
    const bool broken = ferror(file) != 0;
    (void)fclose(file);
    if (status == STATUS_OK && broken)
        status = status_set(text, STATUS_BAD_INPUT, "--expect-file %s: cannot be read", path);
    if (status == STATUS_OK && out->count == 0)
        status = status_set(text, STATUS_BAD_INPUT,
                            "--expect-file %s: holds no figure (a line is: -m NAME --tokens N "
                            "--expect FIGURE)",
                            path);
    if (status != STATUS_OK)
        expect_file_free(out);
    return status;
}

void expect_file_free(struct expect_lines *lines) {
    for (size_t i = 0; i < lines->count; i++)
        options_free(&lines->options[i]);
    free(lines->options);
    *lines = (struct expect_lines){0};
}
