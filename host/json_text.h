/* JSON from files nobody vouches for: bounded in size and depth, without duplicate keys, with
 * Infinity and NaN (which some configs hold) let through but never taken for a number; and typed
 * reads that say which key holds what instead of what. */
#ifndef JSON_TEXT_H
#define JSON_TEXT_H

#include <cjson/cJSON.h>
#include <stddef.h>
#include <stdint.h>

#include "status.h"

enum {
    JSON_TEXT_MOST_BYTES = 16 << 20,
    JSON_TEXT_MOST_DEPTH = 64,
    JSON_TEXT_MOST_LAYERS = 10000,
    JSON_TEXT_MOST_HEADS = 65536,
    JSON_TEXT_MOST_DIM = 65536,
};

/* Parses `size` bytes (no NUL needed; a byte order mark is skipped) into a tree the caller frees
 * with cJSON_Delete. The root must be an object. Errors name origin, byte, line and column. */
enum status json_text_parse(const char *bytes, size_t size, const char *origin, cJSON **out,
                            struct status_text *text);

/* STATUS_BAD_INPUT when an object anywhere in the tree holds a key twice. */
enum status json_text_check_keys(const cJSON *node, const char *origin, struct status_text *text);

/* A whole number from `least` to `most`; STATUS_BAD_INPUT names the key and what it holds. */
enum status json_text_number(const cJSON *item, const char *origin, const char *key, uint64_t least,
                             uint64_t most, uint64_t *out, struct status_text *text);

/* `in` on one line: control characters become '?'; cut to `out_bytes`. */
void json_text_printable(const char *in, char *out, size_t out_bytes);

/* A string of printable characters that fits `out_bytes`. */
enum status json_text_string(const cJSON *item, const char *origin, const char *key, char *out,
                             size_t out_bytes, struct status_text *text);

#endif
