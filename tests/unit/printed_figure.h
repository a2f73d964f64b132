/* Figures as a source printed them: the number, and half a unit of its last printed digit, which
 * is how far an exact result may lie from it. Read from raw text, because a parsed 10.0 no longer
 * says that it had a decimal. */
#ifndef PRINTED_FIGURE_H
#define PRINTED_FIGURE_H

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct printed_figure {
    double value;
    double half_unit;
};

/* A piece of a JSON text: [begin, end). */
struct printed_section {
    const char *begin;
    const char *end;
};

static inline const char *printed_find(struct printed_section in, const char *word) {
    const size_t length = strlen(word);
    for (const char *at = in.begin; at + length <= in.end; at++)
        if (memcmp(at, word, length) == 0)
            return at;
    return NULL;
}

/* What follows `"key": "value"` up to the next `"key":`; begin is NULL when it is not there. */
static inline struct printed_section printed_section_of(struct printed_section in, const char *key,
                                                        const char *value) {
    char word[160], next[80];
    (void)snprintf(word, sizeof word, "\"%s\": \"%s\"", key, value);
    (void)snprintf(next, sizeof next, "\"%s\":", key);
    struct printed_section out = {printed_find(in, word), in.end};
    if (out.begin == NULL)
        return out;
    out.begin += strlen(word);
    const char *end = printed_find(out, next);
    if (end != NULL)
        out.end = end;
    return out;
}

/* The number after `"key":`. Whole numbers of five digits and more that end in zeros are taken as
 * rounded to those zeros when `round_zeros`. False when the key is missing or holds no number. */
static inline bool printed_read(struct printed_section in, const char *key, bool round_zeros,
                                struct printed_figure *out) {
    char word[80];
    (void)snprintf(word, sizeof word, "\"%s\":", key);
    const char *at = printed_find(in, word);
    if (at == NULL)
        return false;
    at += strlen(word);
    while (at < in.end && isspace((unsigned char)*at))
        at++;
    char digits[40];
    size_t length = 0;
    while (at < in.end && length + 1 < sizeof digits &&
           (isdigit((unsigned char)*at) || *at == '.' || *at == '-'))
        digits[length++] = *at++;
    digits[length] = '\0';
    if (length == 0)
        return false;
    out->value = strtod(digits, NULL);
    double unit = 1;
    const char *point = strchr(digits, '.');
    if (point != NULL) {
        for (const char *c = point + 1; *c != '\0'; c++)
            unit /= 10;
    } else if (round_zeros && length >= 5) {
        for (size_t i = length; i > 1 && digits[i - 1] == '0'; i--)
            unit *= 10;
    }
    out->half_unit = unit / 2;
    return true;
}

/* An exact result agrees with what was printed (ties either way). */
static inline bool printed_agrees(struct printed_figure figure, double exact) {
    const double off = exact > figure.value ? exact - figure.value : figure.value - exact;
    return off <= figure.half_unit * (1 + 1e-9);
}

/* The whole file, NUL-terminated, or NULL when it cannot be read. The caller frees it. */
static inline char *printed_load(const char *path) {
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return NULL;
    const size_t most = 1u << 20;
    char *text = malloc(most + 1);
    if (text != NULL)
        text[fread(text, 1, most, file)] = '\0';
    (void)fclose(file);
    return text;
}

#endif
