/* The command line as bytes: words divided by newlines, through options_parse. Whatever is typed,
 * the answer is options that hold what they promise, or one printable line. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "number.h"
#include "options.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_WORDS = 24, MOST_BYTES = 2048 };

static void check_line(const struct status_text *text) {
    const size_t length = strlen(text->line);
    if (length == 0 || length >= sizeof text->line || strchr(text->line, '\n') != NULL)
        abort();
}

static void check_options(const struct options *options) {
    if (options->format_count == 0 || options->format_count > OPTIONS_MAX_LIST ||
        options->seqs_count == 0 || options->page_tokens_count == 0 || options->tp == 0)
        abort();
    for (size_t i = 0; i < options->tokens_count; i++)
        if (options->tokens[i] == 0)
            abort();
    for (size_t i = 0; i < options->page_tokens_count; i++)
        if (options->page_tokens[i] == 0)
            abort();
    for (size_t i = 0; i < options->format_count; i++)
        if (options->formats[i].k_format >= FORMAT_END ||
            options->formats[i].k_format == FORMAT_COUNT ||
            options->formats[i].v_format >= FORMAT_END ||
            options->formats[i].v_format == FORMAT_COUNT)
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static char program[] = "kvgauge";
    char bytes[MOST_BYTES + 1];
    char *words[MOST_WORDS + 1] = {program};
    int count = 1;
    if (size > MOST_BYTES)
        return 0;
    for (size_t i = 0; i < size; i++)
        bytes[i] = (char)data[i];
    bytes[size] = '\0';
    for (char *at = bytes; at != NULL && count < MOST_WORDS;) {
        words[count++] = at;
        at = strchr(at, '\n');
        if (at != NULL)
            *at++ = '\0';
    }
    struct options options;
    struct status_text text = {""};
    if (options_parse(count, words, &options, &text) == STATUS_OK)
        check_options(&options);
    else
        check_line(&text);
    options_free(&options);

    double seconds;
    uint64_t number;
    text.line[0] = '\0';
    if (number_parse_bytes("--budget", words[count - 1], &number, &text) != STATUS_OK)
        check_line(&text);
    if (number_parse_seconds("--min-time", words[count - 1], &seconds, &text) == STATUS_OK &&
        !(seconds >= 0))
        abort();
    return 0;
}
