/* Writes GGUF headers, byte by byte, for tests and for the seeds of the fuzz target: what a model
 * says of itself and, as everywhere in them, a tokenizer that nobody is to read. */
#ifndef GGUF_BYTES_H
#define GGUF_BYTES_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Numbers of the value types, as in a file. */
enum {
    GGUF_UINT8,
    GGUF_INT8,
    GGUF_UINT16,
    GGUF_INT16,
    GGUF_UINT32,
    GGUF_INT32,
    GGUF_FLOAT32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_UINT64,
    GGUF_INT64,
    GGUF_FLOAT64
};

struct gguf_bytes {
    uint8_t bytes[1 << 16];
    size_t size;
    uint64_t keys;
};

/* `count` little-endian bytes. */
static inline void gguf_raw(struct gguf_bytes *out, uint64_t value, size_t count) {
    assert(out->size + count <= sizeof out->bytes);
    for (size_t i = 0; i < count; i++)
        out->bytes[out->size++] = (uint8_t)(value >> (8 * i));
}

static inline void gguf_text(struct gguf_bytes *out, const char *text) {
    const size_t length = strlen(text);
    gguf_raw(out, length, 8);
    for (size_t i = 0; i < length; i++)
        gguf_raw(out, (uint8_t)text[i], 1);
}

/* The count of keys, which stands at byte 16. */
static inline void gguf_count(struct gguf_bytes *out, uint64_t keys) {
    for (size_t i = 0; i < 8; i++)
        out->bytes[16 + i] = (uint8_t)(keys >> (8 * i));
}

static inline void gguf_start(struct gguf_bytes *out, uint32_t version) {
    out->size = 0;
    out->keys = 0;
    for (size_t i = 0; i < 4; i++)
        gguf_raw(out, (uint8_t) "GGUF"[i], 1);
    gguf_raw(out, version, 4);
    gguf_raw(out, 0, 8);
    gguf_raw(out, 0, 8);
}

static inline void gguf_key(struct gguf_bytes *out, const char *key, uint32_t type) {
    gguf_text(out, key);
    gguf_raw(out, type, 4);
    gguf_count(out, ++out->keys);
}

static inline void gguf_u32(struct gguf_bytes *out, const char *key, uint32_t value) {
    gguf_key(out, key, GGUF_UINT32);
    gguf_raw(out, value, 4);
}

static inline void gguf_string(struct gguf_bytes *out, const char *key, const char *value) {
    gguf_key(out, key, GGUF_STRING);
    gguf_text(out, value);
}

/* A list of `count` values of `bytes` bytes each. */
static inline void gguf_list(struct gguf_bytes *out, const char *key, uint32_t type, size_t bytes,
                             const uint32_t *values, size_t count) {
    gguf_key(out, key, GGUF_ARRAY);
    gguf_raw(out, type, 4);
    gguf_raw(out, count, 8);
    for (size_t i = 0; i < count; i++)
        gguf_raw(out, values[i], bytes);
}

static inline void gguf_tokens(struct gguf_bytes *out, size_t count) {
    gguf_key(out, "tokenizer.ggml.tokens", GGUF_ARRAY);
    gguf_raw(out, GGUF_STRING, 4);
    gguf_raw(out, count, 8);
    for (size_t i = 0; i < count; i++)
        gguf_text(out, i % 2 == 0 ? "the" : "");
}

/* A model of `arch` by its plain keys: 32 query heads over a width of 4096. */
static inline void gguf_model(struct gguf_bytes *out, const char *arch, uint32_t blocks,
                              uint32_t kv_heads) {
    char key[128];
    gguf_start(out, 3);
    gguf_string(out, "general.architecture", arch);
    const struct {
        const char *name;
        uint32_t value;
    } numbers[] = {{".block_count", blocks},
                   {".context_length", 131072},
                   {".embedding_length", 4096},
                   {".attention.head_count", 32},
                   {".attention.head_count_kv", kv_heads}};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (i == 4 && kv_heads == 0)
            continue;
        (void)strcpy(key, arch);
        (void)strcat(key, numbers[i].name);
        gguf_u32(out, key, numbers[i].value);
    }
    gguf_tokens(out, 3);
}

#endif
