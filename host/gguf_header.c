/* Follows the format's own description (docs/gguf.md of ggml): magic, version, two counts, then
 * key, type and value in turn. */
#include "gguf_header.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "json_text.h"

/* No header is longer than this; one of 256,000 tokens has some 10 MB. */
#define MOST_BYTES ((uint64_t)256 << 20)
#define MOST_TENSORS ((uint64_t)1 << 24)

enum value_type {
    TYPE_UINT8,
    TYPE_INT8,
    TYPE_UINT16,
    TYPE_INT16,
    TYPE_UINT32,
    TYPE_INT32,
    TYPE_FLOAT32,
    TYPE_BOOL,
    TYPE_STRING,
    TYPE_ARRAY,
    TYPE_UINT64,
    TYPE_INT64,
    TYPE_FLOAT64,
    TYPE_COUNT
};

/* Bytes of one value; 0: it says its own length. */
static const uint8_t type_bytes[TYPE_COUNT] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

struct header {
    FILE *file;
    uint64_t at;   /* bytes read */
    uint64_t size; /* bytes there are, or as many as are looked at */
    const char *origin;
    struct status_text *text;
};

static enum status complain(const struct header *header, const char *what) {
    return status_set(header->text, STATUS_BAD_INPUT, "%.300s: not a GGUF header at byte %llu: %s",
                      header->origin, (unsigned long long)header->at, what);
}

static enum status no_memory(const struct header *header) {
    return status_set(header->text, STATUS_OUT_OF_MEMORY, "%.300s: no memory for its header",
                      header->origin);
}

static uint64_t left(const struct header *header) {
    return header->size - header->at;
}

static enum status read_bytes(struct header *header, void *out, size_t bytes) {
    if (bytes > left(header))
        return complain(header, "the file ends too early");
    if (fread(out, 1, bytes, header->file) != bytes)
        return complain(header, "reading failed");
    header->at += bytes;
    return STATUS_OK;
}

static enum status skip_bytes(struct header *header, uint64_t bytes) {
    char scratch[4096];
    if (bytes > left(header))
        return complain(header, "a length points past the end of the file");
    if (bytes <= sizeof scratch)
        return read_bytes(header, scratch, (size_t)bytes);
    if (fseeko(header->file, (off_t)bytes, SEEK_CUR) != 0)
        return complain(header, "reading failed");
    header->at += bytes;
    return STATUS_OK;
}

static uint64_t from_little_endian(const uint8_t *bytes, size_t count) {
    uint64_t value = 0;
    for (size_t i = 0; i < count; i++)
        value |= (uint64_t)bytes[i] << (8 * i);
    return value;
}

static enum status read_unsigned(struct header *header, size_t bytes, uint64_t *out) {
    uint8_t raw[8];
    const enum status status = read_bytes(header, raw, bytes);
    if (status == STATUS_OK)
        *out = from_little_endian(raw, bytes);
    return status;
}

/* Two's complement of `bytes` bytes. */
static double as_signed(uint64_t raw, size_t bytes) {
    const uint64_t sign = (uint64_t)1 << (8 * bytes - 1);
    return raw < sign ? (double)raw : -(double)((~raw & (sign - 1)) + 1);
}

static double as_float(uint64_t raw, size_t bytes) {
    if (bytes == 8) {
        double value;
        memcpy(&value, &raw, sizeof value);
        return value;
    }
    const uint32_t word = (uint32_t)raw;
    float value;
    memcpy(&value, &word, sizeof value);
    return (double)value;
}

/* One number, true or false. NULL in *out: no memory. */
static enum status read_scalar(struct header *header, uint64_t type, cJSON **out) {
    const size_t bytes = type_bytes[type];
    uint64_t raw = 0;
    const enum status status = read_unsigned(header, bytes, &raw);
    if (status != STATUS_OK)
        return status;
    switch ((enum value_type)type) {
    case TYPE_BOOL:
        *out = cJSON_CreateBool(raw != 0);
        break;
    case TYPE_INT8:
    case TYPE_INT16:
    case TYPE_INT32:
    case TYPE_INT64:
        *out = cJSON_CreateNumber(as_signed(raw, bytes));
        break;
    case TYPE_FLOAT32:
    case TYPE_FLOAT64:
        *out = cJSON_CreateNumber(as_float(raw, bytes));
        break;
    default:
        *out = cJSON_CreateNumber((double)raw);
        break;
    }
    return *out != NULL ? STATUS_OK : no_memory(header);
}

/* A string of at most `most` bytes into `out` (most + 1 bytes); a longer one is passed over and
 * leaves "". */
static enum status read_string(struct header *header, char *out, size_t most, uint64_t *length) {
    enum status status = read_unsigned(header, 8, length);
    out[0] = '\0';
    if (status != STATUS_OK)
        return status;
    if (*length > left(header))
        return complain(header, "a string is longer than the file");
    if (*length > most)
        return skip_bytes(header, *length);
    status = read_bytes(header, out, (size_t)*length);
    out[status == STATUS_OK ? *length : 0] = '\0';
    return status;
}

static enum status read_list(struct header *header, cJSON **out) {
    uint64_t type, count, length;
    char scratch[1];
    enum status status = read_unsigned(header, 4, &type);
    if (status == STATUS_OK)
        status = read_unsigned(header, 8, &count);
    if (status != STATUS_OK)
        return status;
    if (type >= TYPE_COUNT)
        return complain(header, "a list of an unknown type");
    if (type == TYPE_ARRAY)
        return complain(header, "a list of lists");
    const uint64_t least = type == TYPE_STRING ? 8 : type_bytes[type];
    if (count > left(header) / least)
        return complain(header, "a list is longer than the file");
    *out = cJSON_CreateArray();
    if (*out == NULL)
        return no_memory(header);
    if (type != TYPE_STRING && count > GGUF_HEADER_MOST_ENTRIES)
        return skip_bytes(header, count * least);
    for (uint64_t i = 0; i < count && status == STATUS_OK; i++) {
        cJSON *item = NULL;
        if (type == TYPE_STRING)
            status = read_string(header, scratch, 0, &length);
        else
            status = read_scalar(header, type, &item);
        if (item != NULL)
            (void)cJSON_AddItemToArray(*out, item);
    }
    return status;
}

static enum status read_value(struct header *header, cJSON **out) {
    uint64_t type, length;
    char string[GGUF_HEADER_MOST_STRING_BYTES + 1];
    enum status status = read_unsigned(header, 4, &type);
    if (status != STATUS_OK)
        return status;
    if (type >= TYPE_COUNT)
        return complain(header, "a value of an unknown type");
    if (type == TYPE_ARRAY)
        return read_list(header, out);
    if (type != TYPE_STRING)
        return read_scalar(header, type, out);
    status = read_string(header, string, sizeof string - 1, &length);
    if (status != STATUS_OK)
        return status;
    *out = cJSON_CreateString(string);
    return *out != NULL ? STATUS_OK : no_memory(header);
}

/* Keys are words of printable characters. */
static enum status read_key(struct header *header, char key[GGUF_HEADER_MOST_KEY_BYTES + 1]) {
    uint64_t length;
    const enum status status = read_string(header, key, GGUF_HEADER_MOST_KEY_BYTES, &length);
    if (status != STATUS_OK)
        return status;
    if (length == 0 || length > GGUF_HEADER_MOST_KEY_BYTES)
        return complain(header, "a key that is not from 1 to 128 bytes long");
    for (uint64_t i = 0; i < length; i++)
        if ((unsigned char)key[i] <= 0x20 || (unsigned char)key[i] >= 0x7F)
            return complain(header, "a key with characters that no key has");
    return STATUS_OK;
}

/* Puts `value` under its key, in the object its first word names. Takes it over in any case. */
static bool keep(cJSON *root, char *key, cJSON *value) {
    cJSON *into = root;
    char *point = strchr(key, '.');
    if (point != NULL) {
        *point = '\0';
        into = cJSON_GetObjectItemCaseSensitive(root, key);
        if (!cJSON_IsObject(into))
            into = cJSON_AddObjectToObject(root, key);
        key = point + 1;
    }
    if (into != NULL && cJSON_AddItemToObject(into, key, value))
        return true;
    cJSON_Delete(value);
    return false;
}

static enum status read_keys(struct header *header, uint64_t count, cJSON *root) {
    enum status status = STATUS_OK;
    for (uint64_t i = 0; i < count && status == STATUS_OK; i++) {
        char key[GGUF_HEADER_MOST_KEY_BYTES + 1];
        cJSON *value = NULL;
        status = read_key(header, key);
        if (status == STATUS_OK)
            status = read_value(header, &value);
        if (status != STATUS_OK)
            cJSON_Delete(value);
        else if (!keep(root, key, value))
            status = no_memory(header);
    }
    return status;
}

static enum status read_counts(struct header *header, uint64_t *keys) {
    char magic[4];
    uint64_t version, tensors;
    enum status status = read_bytes(header, magic, sizeof magic);
    if (status == STATUS_OK && memcmp(magic, "GGUF", 4) != 0)
        return complain(header, "it does not start with GGUF");
    if (status == STATUS_OK)
        status = read_unsigned(header, 4, &version);
    if (status != STATUS_OK)
        return status;
    if ((version & 0xFFFF) == 0)
        return complain(header, "big-endian files are not read");
    if (version < 2 || version > 3)
        return complain(header, "its version is neither 2 nor 3");
    status = read_unsigned(header, 8, &tensors);
    if (status == STATUS_OK)
        status = read_unsigned(header, 8, keys);
    if (status != STATUS_OK)
        return status;
    if (tensors > MOST_TENSORS)
        return complain(header, "it claims more than 2^24 tensors");
    if (*keys > GGUF_HEADER_MOST_KEYS)
        return complain(header, "it claims more than 4096 keys");
    return STATUS_OK;
}

enum status gguf_header_read(FILE *file, uint64_t size, const char *origin, cJSON **out,
                             struct status_text *text) {
    struct header header = {.file = file,
                            .size = size < MOST_BYTES ? size : MOST_BYTES,
                            .origin = origin,
                            .text = text};
    uint64_t keys = 0;
    *out = NULL;
    enum status status = read_counts(&header, &keys);
    if (status != STATUS_OK)
        return status;
    *out = cJSON_CreateObject();
    if (*out == NULL)
        return no_memory(&header);
    status = read_keys(&header, keys, *out);
    if (status == STATUS_OK)
        status = json_text_check_keys(*out, origin, text);
    if (status != STATUS_OK) {
        cJSON_Delete(*out);
        *out = NULL;
    }
    return status;
}
