/* Exact parsing: a number is digits, an optional fraction and a unit; value = digits * unit /
 * 10^fraction digits, refused unless it is a whole number that fits. */
#include "number.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "brief.h"
#include "checked.h"

struct unit {
    const char *name;
    uint64_t factor;
};

static const struct unit token_units[] = {{"", 1}, {"k", 1024}, {"m", 1048576}, {NULL, 0}};
static const struct unit byte_units[] = {{"", 1},
                                         {"B", 1},
                                         {"kB", 1000},
                                         {"KB", 1000},
                                         {"MB", 1000000},
                                         {"GB", 1000000000},
                                         {"TB", 1000000000000},
                                         {"KiB", (uint64_t)1 << 10},
                                         {"MiB", (uint64_t)1 << 20},
                                         {"GiB", (uint64_t)1 << 30},
                                         {"TiB", (uint64_t)1 << 40},
                                         {NULL, 0}};

enum parsed { PARSED_OK, PARSED_NOT_A_NUMBER, PARSED_UNIT, PARSED_FRACTION, PARSED_TOO_LARGE };

static const struct unit *find_unit(const struct unit *units, const char *name, bool fold) {
    for (; units->name != NULL; units++) {
        const char *a = units->name, *b = name;
        while (*a != '\0' && (*a == *b || (fold && tolower((unsigned char)*b) == *a))) {
            a++;
            b++;
        }
        if (*a == '\0' && *b == '\0')
            return units;
    }
    return NULL;
}

/* Reads "digits[.digits]unit" of `text` into an exact whole number. */
static enum parsed parse_exact(const char *text, const struct unit *units, bool fold,
                               uint64_t *out) {
    uint64_t digits = 0, divisor = 1;
    const char *at = text;
    bool any = false, point = false;
    for (; isdigit((unsigned char)*at) || (*at == '.' && !point); at++) {
        if (*at == '.') {
            point = true;
            continue;
        }
        any = true;
        /* A fraction of more digits than 64 bits hold is no whole number of anything. */
        if (!checked_multiply(digits, 10, &digits) ||
            !checked_add(digits, (uint64_t)(*at - '0'), &digits) ||
            (point && !checked_multiply(divisor, 10, &divisor)))
            return point ? PARSED_FRACTION : PARSED_TOO_LARGE;
    }
    if (!any)
        return PARSED_NOT_A_NUMBER;
    const struct unit *unit = find_unit(units, at, fold);
    if (unit == NULL)
        return PARSED_UNIT;
    /* Cancel first, so that 1.5m does not need digits * factor to be small. */
    uint64_t factor = unit->factor;
    while (divisor > 1 && digits % 10 == 0) {
        digits /= 10;
        divisor /= 10;
    }
    uint64_t product;
    if (!checked_multiply(digits, factor, &product))
        return PARSED_TOO_LARGE;
    if (product % divisor != 0)
        return PARSED_FRACTION;
    *out = product / divisor;
    return *out > NUMBER_LARGEST ? PARSED_TOO_LARGE : PARSED_OK;
}

static enum status complain(const char *option, const char *text, const char *allowed,
                            struct status_text *message) {
    char shown[BRIEF_BYTES];
    return status_set(message, STATUS_BAD_INPUT, "%s %s: %s", option, brief_text(text, shown),
                      allowed);
}

enum status number_parse_tokens(const char *option, const char *text, uint64_t *out,
                                struct status_text *message) {
    if (strcmp(text, "max") == 0) {
        *out = NUMBER_MAX_TOKENS;
        return STATUS_OK;
    }
    switch (parse_exact(text, token_units, true, out)) {
    case PARSED_OK:
        if (*out > 0)
            return STATUS_OK;
        return complain(option, text, "at least 1 token is needed", message);
    case PARSED_FRACTION:
        return complain(option, text, "that is not a whole number of tokens", message);
    case PARSED_TOO_LARGE:
        return complain(option, text, "too large; at most 2^62 tokens", message);
    case PARSED_NOT_A_NUMBER:
    case PARSED_UNIT:
        break;
    }
    return complain(option, text,
                    "a number of tokens is expected: 8192, 8k (x1024), 1m (x1048576) or max",
                    message);
}

enum status number_parse_count(const char *option, const char *text, uint64_t minimum,
                               uint64_t maximum, uint64_t *out, struct status_text *message) {
    static const struct unit none[] = {{"", 1}, {NULL, 0}};
    uint64_t value;
    const enum parsed parsed = parse_exact(text, none, false, &value);
    if (parsed == PARSED_OK && value >= minimum && value <= maximum) {
        *out = value;
        return STATUS_OK;
    }
    char allowed[96];
    (void)snprintf(allowed, sizeof allowed, "a whole number from %llu to %llu is expected",
                   (unsigned long long)minimum, (unsigned long long)maximum);
    return complain(option, text, allowed, message);
}

enum status number_parse_bytes(const char *option, const char *text, uint64_t *out,
                               struct status_text *message) {
    switch (parse_exact(text, byte_units, false, out)) {
    case PARSED_OK:
        return STATUS_OK;
    case PARSED_FRACTION: {
        /* Half a byte of a decimal fraction of a large unit is noise: round down. */
        char *end;
        const double value = strtod(text, &end);
        const struct unit *unit = find_unit(byte_units, end, false);
        if (unit != NULL && unit->factor > 1) {
            const double bytes = value * (double)unit->factor;
            if (!(bytes <= (double)NUMBER_LARGEST))
                return complain(option, text, "too large; at most 2^62 bytes", message);
            *out = (uint64_t)bytes;
            return STATUS_OK;
        }
        return complain(option, text, "that is not a whole number of bytes", message);
    }
    case PARSED_TOO_LARGE:
        return complain(option, text, "too large; at most 2^62 bytes", message);
    case PARSED_NOT_A_NUMBER:
    case PARSED_UNIT:
        break;
    }
    return complain(option, text,
                    "bytes are expected: 123, B, kB MB GB TB (x1000) or KiB MiB GiB TiB (x1024)",
                    message);
}

enum status number_parse_seconds(const char *option, const char *text, double *out,
                                 struct status_text *message) {
    char *end;
    errno = 0;
    const double value = strtod(text, &end);
    if (end == text || *end != '\0' || errno != 0 || !isfinite(value) || value < 0 || value > 1e7)
        return complain(option, text, "a number of seconds from 0 to 1e7 is expected", message);
    *out = value;
    return STATUS_OK;
}

static enum status parse_one(const char *option, const char *text, bool tokens, uint64_t *out,
                             struct status_text *message) {
    return tokens ? number_parse_tokens(option, text, out, message)
                  : number_parse_count(option, text, 1, UINT32_MAX, out, message);
}

/* A range's three parts, cut out of `item`; false when it is a plain value. */
static bool split_range(char *item, char **last, char **step, char *operation) {
    char *dash = strchr(item, '-');
    if (dash == NULL || dash == item)
        return false;
    *dash = '\0';
    *last = dash + 1;
    *operation = 'x';
    *step = NULL;
    /* The x of max is no operation. */
    char *by = strpbrk(*last + (strncmp(*last, "max", 3) == 0 ? 3 : 0), "x*+");
    if (by != NULL) {
        *operation = *by == '*' ? 'x' : *by;
        *by = '\0';
        *step = by + 1;
    }
    return true;
}

enum status number_parse_list(const char *option, const char *text, bool tokens, uint64_t *out,
                              size_t capacity, size_t *count, struct status_text *message) {
    *count = 0;
    char copy[1024];
    if (strlen(text) >= sizeof copy)
        return complain(option, "(long list)", "at most 1023 characters", message);
    (void)strcpy(copy, text);
    for (char *item = copy, *next; item != NULL; item = next) {
        next = strchr(item, ',');
        if (next != NULL)
            *next++ = '\0';
        char *last_text = NULL, *step_text = NULL, operation = 'x';
        const bool range = split_range(item, &last_text, &step_text, &operation);
        uint64_t value = 0, last, step = 2;
        enum status status = parse_one(option, item, tokens, &value, message);
        last = value;
        if (status == STATUS_OK && range)
            status = parse_one(option, last_text, tokens, &last, message);
        if (status == STATUS_OK && step_text != NULL)
            status = operation == '+'
                         ? parse_one(option, step_text, tokens, &step, message)
                         : number_parse_count(option, step_text, 2, 1000000, &step, message);
        if (status != STATUS_OK)
            return status;
        if (range && (value == NUMBER_MAX_TOKENS || last == NUMBER_MAX_TOKENS ||
                      step == NUMBER_MAX_TOKENS || last < value))
            return complain(option, text, "a range goes from a smaller to a larger number",
                            message);
        for (;;) {
            if (*count == capacity)
                return complain(option, text, "too many values in all; use fewer", message);
            out[(*count)++] = value;
            const bool fits = operation == '+' ? checked_add(value, step, &value)
                                               : checked_multiply(value, step, &value);
            if (!range || !fits || value > last)
                break;
        }
    }
    return STATUS_OK;
}

void number_group_digits(uint64_t value, char out[NUMBER_TEXT_BYTES]) {
    char digits[32];
    const int length = snprintf(digits, sizeof digits, "%llu", (unsigned long long)value);
    char *to = out;
    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0)
            *to++ = ',';
        *to++ = digits[i];
    }
    *to = '\0';
}

void number_bytes_words(uint64_t bytes, char out[NUMBER_TEXT_BYTES]) {
    static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    size_t unit = 0;
    double value = (double)bytes;
    while (value >= 1024 && unit + 1 < sizeof names / sizeof names[0]) {
        value /= 1024;
        unit++;
    }
    (void)snprintf(out, NUMBER_TEXT_BYTES, unit == 0 ? "%.0f %s" : "%.2f %s", value, names[unit]);
}
