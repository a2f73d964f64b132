/* A scan over the bytes before cJSON sees them, and checks on the tree after. */
#include "json_text.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum status complain_at(const char *bytes, size_t at, const char *origin, const char *what,
                               struct status_text *text) {
    size_t line = 1, column = 1;
    for (size_t i = 0; i < at; i++) {
        column = bytes[i] == '\n' ? 1 : column + 1;
        line += bytes[i] == '\n';
    }
    return status_set(text, STATUS_BAD_INPUT,
                      "%s: not valid JSON at byte %zu (line %zu, column "
                      "%zu): %s",
                      origin, at, line, column, what);
}

/* Python writes these; JSON does not know them. Each becomes something of the same length (so that
 * positions hold) which every typed read refuses: null would count as a missing key. */
static void replace_word(char *copy, size_t size, size_t at) {
    static const struct {
        const char *word;
        const char *instead;
    } words[] = {{"-Infinity", "-1e999   "}, {"Infinity", "1e999   "}, {"NaN", "[ ]"}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        const size_t length = strlen(words[i].word);
        if (size - at >= length && memcmp(copy + at, words[i].word, length) == 0)
            memcpy(copy + at, words[i].instead, length);
    }
}

/* Depth and the non-numbers, outside strings. cJSON itself recurses once per level. */
static enum status scan(char *copy, size_t size, const char *origin, struct status_text *text) {
    bool in_string = false;
    int depth = 0;
    for (size_t i = 0; i < size; i++) {
        const char c = copy[i];
        if (c == '\0')
            return complain_at(copy, i, origin, "a NUL byte", text);
        if (in_string) {
            if (c == '\\' && i + 1 < size && copy[i + 1] != '\0')
                i++;
            else if (c == '"')
                in_string = false;
            continue;
        }
        if (c == '"')
            in_string = true;
        else if (c == '{' || c == '[') {
            if (++depth > JSON_TEXT_MOST_DEPTH)
                return complain_at(copy, i, origin, "nested more than 64 deep", text);
        } else if (c == '}' || c == ']')
            depth--;
        else if (c == 'I' || c == 'N' || (c == '-' && i + 1 < size && copy[i + 1] == 'I'))
            replace_word(copy, size, i);
    }
    if (in_string)
        return complain_at(copy, size, origin, "the text ends inside a string", text);
    if (depth > 0)
        return complain_at(copy, size, origin, "the text ends before the last bracket", text);
    return STATUS_OK;
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool is_control(char c) {
    return (unsigned char)c < 0x20 || c == 0x7F;
}

void json_text_printable(const char *in, char *out, size_t out_bytes) {
    size_t i = 0;
    for (; in[i] != '\0' && i + 1 < out_bytes; i++)
        out[i] = is_control(in[i]) ? '?' : in[i];
    out[i] = '\0';
}

/* No object may hold a key twice: which one counts would be anybody's guess. */
enum status json_text_check_keys(const cJSON *node, const char *origin, struct status_text *text) {
    size_t count = 0;
    const cJSON *child;
    cJSON_ArrayForEach(child, node) count++;
    if (cJSON_IsObject(node) && count > 1) {
        const char **names = malloc(count * sizeof *names);
        if (names == NULL)
            return status_set(text, STATUS_OUT_OF_MEMORY, "%s: no memory to check keys", origin);
        size_t i = 0;
        cJSON_ArrayForEach(child, node) names[i++] = child->string;
        qsort(names, count, sizeof *names, compare_names);
        enum status status = STATUS_OK;
        for (i = 1; i < count && status == STATUS_OK; i++) {
            char name[60];
            json_text_printable(names[i], name, sizeof name);
            if (strcmp(names[i], names[i - 1]) == 0)
                status =
                    status_set(text, STATUS_BAD_INPUT, "%s: the key %s occurs twice", origin, name);
        }
        free(names);
        if (status != STATUS_OK)
            return status;
    }
    cJSON_ArrayForEach(child, node) {
        const enum status status = json_text_check_keys(child, origin, text);
        if (status != STATUS_OK)
            return status;
    }
    return STATUS_OK;
}

enum status json_text_parse(const char *bytes, size_t size, const char *origin, cJSON **out,
                            struct status_text *text) {
    *out = NULL;
    if (size > JSON_TEXT_MOST_BYTES)
        return status_set(text, STATUS_BAD_INPUT,
                          "%s: %zu bytes are more than a config has (at "
                          "most %d)",
                          origin, size, JSON_TEXT_MOST_BYTES);
    char *copy = malloc(size + 1);
    if (copy == NULL)
        return status_set(text, STATUS_OUT_OF_MEMORY, "%s: no memory for %zu bytes", origin, size);
    memcpy(copy, bytes, size);
    copy[size] = '\0';
    if (size >= 3 && memcmp(bytes, "\xEF\xBB\xBF", 3) == 0)
        memset(copy, ' ', 3); /* positions stay those of the file */
    enum status status = scan(copy, size, origin, text);
    if (status == STATUS_OK) {
        const char *stopped = NULL;
        *out = cJSON_ParseWithOpts(copy, &stopped, 1);
        if (*out == NULL) {
            const size_t at =
                stopped >= copy && stopped <= copy + size ? (size_t)(stopped - copy) : size;
            status =
                complain_at(copy, at, origin,
                            at >= size ? "the text ends too early" : "unexpected characters", text);
        }
    }
    free(copy);
    if (status == STATUS_OK && !cJSON_IsObject(*out))
        status = status_set(text, STATUS_BAD_INPUT, "%s: an object {...} is expected", origin);
    if (status == STATUS_OK)
        status = json_text_check_keys(*out, origin, text);
    if (status != STATUS_OK) {
        cJSON_Delete(*out);
        *out = NULL;
    }
    return status;
}

static const char *type_name(const cJSON *item) {
    if (item == NULL)
        return "nothing";
    if (cJSON_IsString(item))
        return "a string";
    if (cJSON_IsBool(item))
        return "true or false";
    if (cJSON_IsArray(item))
        return item->child == NULL ? "an empty list, or NaN," : "a list";
    if (cJSON_IsObject(item))
        return "an object";
    return cJSON_IsNull(item) ? "null" : "a number";
}

enum status json_text_number(const cJSON *item, const char *origin, const char *key, uint64_t least,
                             uint64_t most, uint64_t *out, struct status_text *text) {
    if (!cJSON_IsNumber(item))
        return status_set(text, STATUS_BAD_INPUT,
                          "%s: %s holds %s where a whole number is "
                          "expected",
                          origin, key, type_name(item));
    const double value = item->valuedouble;
    if (!(value >= (double)least) || !(value <= (double)most) || floor(value) != value)
        return status_set(text, STATUS_BAD_INPUT,
                          "%s: %s is %g; a whole number from %llu to %llu is expected", origin, key,
                          value, (unsigned long long)least, (unsigned long long)most);
    *out = (uint64_t)value;
    return STATUS_OK;
}

enum status json_text_string(const cJSON *item, const char *origin, const char *key, char *out,
                             size_t out_bytes, struct status_text *text) {
    if (!cJSON_IsString(item))
        return status_set(text, STATUS_BAD_INPUT, "%s: %s holds %s where a string is expected",
                          origin, key, type_name(item));
    if (strlen(item->valuestring) >= out_bytes)
        return status_set(text, STATUS_BAD_INPUT, "%s: %s is longer than %zu characters", origin,
                          key, out_bytes - 1);
    for (const char *c = item->valuestring; *c != '\0'; c++)
        if (is_control(*c))
            return status_set(text, STATUS_BAD_INPUT, "%s: %s holds control characters", origin,
                              key);
    (void)strcpy(out, item->valuestring);
    return STATUS_OK;
}
