/* The header of a GGUF file, up to the last key: version 2 and 3, little-endian. Nothing after it
 * is read: neither what the tensors are called nor what they hold. Every length is checked against
 * the bytes there are before anything is read or kept, whoever wrote the file. */
#ifndef GGUF_HEADER_H
#define GGUF_HEADER_H

#include <cjson/cJSON.h>
#include <stdint.h>
#include <stdio.h>

#include "status.h"

enum {
    GGUF_HEADER_MOST_KEYS = 4096,
    GGUF_HEADER_MOST_KEY_BYTES = 128,
    GGUF_HEADER_MOST_ENTRIES = 10000,   /* of a list that is kept: one number a layer */
    GGUF_HEADER_MOST_STRING_BYTES = 256 /* of a string that is kept */
};

/* Reads `file`, which stands at its start and has `size` bytes, into a tree the caller frees with
 * cJSON_Delete. "llama.block_count" becomes block_count in an object llama. Numbers, true and
 * false and lists of them are kept, so are short strings; longer strings become "", other lists
 * empty ones. STATUS_BAD_INPUT names the byte; a key that occurs twice is one. */
enum status gguf_header_read(FILE *file, uint64_t size, const char *origin, cJSON **out,
                             struct status_text *text);

#endif
