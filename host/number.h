/* Numbers as people write them on the command line, and back. Exact: no value is rounded to fit,
 * none is negative, none wraps. */
#ifndef NUMBER_H
#define NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "status.h"

enum { NUMBER_TEXT_BYTES = 48 };
#define NUMBER_LARGEST ((uint64_t)1 << 62) /* nothing here parses to more */
#define NUMBER_MAX_TOKENS UINT64_MAX       /* what `max` parses to: the model's native context */

/* "8192", "8k" (x1024), "1.5m" (x1048576), "max". `option` names the option in messages. Refuses
 * fractions of a token, zero, negative numbers, and anything past 2^62. */
enum status number_parse_tokens(const char *option, const char *text, uint64_t *out,
                                struct status_text *message);
/* A plain count, minimum to maximum, which is NUMBER_LARGEST at most. */
enum status number_parse_count(const char *option, const char *text, uint64_t minimum,
                               uint64_t maximum, uint64_t *out, struct status_text *message);
/* "123", "10GB" (x1000), "10GiB" (x1024), "1.5MiB", B kB MB GB TB KiB MiB GiB TiB. A decimal
 * fraction of a large unit that is no whole number of bytes is rounded down. */
enum status number_parse_bytes(const char *option, const char *text, uint64_t *out,
                               struct status_text *message);
/* A finite number of seconds >= 0. */
enum status number_parse_seconds(const char *option, const char *text, double *out,
                                 struct status_text *message);

/* A comma separated list whose items are values or ranges: `first-last` doubles,
 * `first-lastx4` multiplies, `first-last+step` adds. `tokens` chooses number_parse_tokens over
 * number_parse_count(minimum 1). Fills at most `capacity` values, refuses more. */
enum status number_parse_list(const char *option, const char *text, bool tokens, uint64_t *out,
                              size_t capacity, size_t *count, struct status_text *message);

/* "8,192": digits grouped for people. */
void number_group_digits(uint64_t value, char out[NUMBER_TEXT_BYTES]);
/* "1.50 GiB", "512 B": the largest unit that keeps at least one digit before the point. */
void number_bytes_words(uint64_t bytes, char out[NUMBER_TEXT_BYTES]);

#endif
