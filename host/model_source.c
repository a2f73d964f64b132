/* Decides what a --model word is, and reads it. */
#include "model_source.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "embed.h"
#include "json_text.h"
#include "nearest.h"

size_t model_source_count(void) {
    return embed_models_count;
}

const char *model_source_name(size_t index) {
    return embed_models[index].name;
}

const char *model_source_json(size_t index) {
    return embed_models[index].bytes;
}

static enum status read_file(const char *path, char **bytes, size_t *size,
                             struct status_text *text) {
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return status_set(text, STATUS_BAD_INPUT, "--model %.300s: %s", path, strerror(errno));
    enum status status = STATUS_OK;
    char *buffer = malloc(JSON_TEXT_MOST_BYTES + 1);
    size_t used = 0;
    if (buffer == NULL)
        status =
            status_set(text, STATUS_OUT_OF_MEMORY, "--model %.300s: no memory to read it", path);
    else
        used = fread(buffer, 1, JSON_TEXT_MOST_BYTES + 1, file);
    if (status == STATUS_OK && ferror(file))
        status = status_set(text, STATUS_BAD_INPUT, "--model %.300s: reading failed", path);
    (void)fclose(file);
    if (status != STATUS_OK) {
        free(buffer);
        return status;
    }
    char *fitted = realloc(buffer, used + 1);
    *bytes = fitted != NULL ? fitted : buffer;
    *size = used;
    return STATUS_OK;
}

/* Our own JSON has a list "groups" at its top; a config.json has architectures or model_type. */
static bool looks_like_ours(const char *bytes, size_t size, const char *origin) {
    cJSON *root = NULL;
    if (json_text_parse(bytes, size, origin, &root, NULL) != STATUS_OK)
        return false;
    const bool ours = cJSON_IsArray(cJSON_GetObjectItemCaseSensitive(root, "groups"));
    cJSON_Delete(root);
    return ours;
}

/* "…/llama-3.1-8b/config.json" is best called by its folder, other files by their own name. */
static void name_after(const char *path, char *out, size_t bytes) {
    char copy[512];
    (void)snprintf(copy, sizeof copy, "%.500s", path);
    char *slash = strrchr(copy, '/');
    if (slash != NULL && strcmp(slash + 1, "config.json") == 0) {
        while (slash > copy && *slash == '/')
            *slash-- = '\0'; /* folder/ and folder//config.json too */
        slash = strrchr(copy, '/');
    }
    (void)snprintf(out, bytes, "%.90s", slash != NULL ? slash + 1 : copy);
}

/* Regular files only: what is read from a pipe is gone. */
static bool starts_with_gguf(const char *path) {
    struct stat info;
    char magic[4];
    FILE *file = stat(path, &info) == 0 && S_ISREG(info.st_mode) ? fopen(path, "rb") : NULL;
    if (file == NULL)
        return false;
    const bool whole = fread(magic, 1, sizeof magic, file) == sizeof magic;
    (void)fclose(file);
    return whole && memcmp(magic, "GGUF", 4) == 0;
}

static enum status load_path(const char *path, struct model *out, struct model_trace *trace,
                             enum format_id *config_format, char *config_format_reason,
                             struct status_text *text) {
    if (starts_with_gguf(path)) {
        const enum status status = model_gguf_load(path, out, trace, text);
        if (status == STATUS_OK)
            name_after(path, out->name, sizeof out->name);
        if (config_format != NULL)
            *config_format = FORMAT_F16;
        if (config_format_reason != NULL)
            (void)strcpy(config_format_reason, "GGUF: f16, as llama.cpp does by default");
        return status;
    }
    const size_t length = strlen(path);
    if (length > 5 && strcasecmp(path + length - 5, ".gguf") == 0)
        return status_set(text, STATUS_BAD_INPUT,
                          "--model %.300s: it does not start with GGUF, or cannot be read", path);
    char *bytes = NULL;
    size_t size = 0;
    enum status status = read_file(path, &bytes, &size, text);
    if (status != STATUS_OK)
        return status;
    if (looks_like_ours(bytes, size, path)) {
        status = model_json_parse(bytes, size, path, out, text);
    } else {
        status = model_config_parse(bytes, size, path, out, trace, config_format,
                                    config_format_reason, text);
        if (status == STATUS_OK)
            name_after(path, out->name, sizeof out->name);
    }
    free(bytes);
    return status;
}

/* The built-in model of that name, or NULL. */
static const struct embed_entry *find_builtin(const char *name) {
    for (size_t i = 0; i < embed_models_count; i++)
        if (strcasecmp(embed_models[i].name, name) == 0)
            return &embed_models[i];
    return NULL;
}

/* `name` may carry an organisation before a slash. */
static enum status load_builtin(const char *name, struct model *out, struct status_text *text) {
    const char *slash = strrchr(name, '/');
    const char *bare = slash != NULL ? slash + 1 : name;
    const struct embed_entry *entry = find_builtin(bare);
    if (entry != NULL)
        return model_json_parse(entry->bytes, entry->size, entry->name, out, text);
    const char *names[256];
    size_t count = 0;
    for (; count < embed_models_count && count < 256; count++)
        names[count] = embed_models[count].name;
    char near[200];
    nearest_names(bare, names, count, near, sizeof near);
    return status_set(text, STATUS_BAD_INPUT,
                      "--model %.200s: no built-in model and no file of that name%s%s (kvgauge "
                      "models lists them; 8x128/g4 is plain geometry)",
                      name, near[0] != '\0' ? "; nearest: " : "", near);
}

enum status model_source_load(const char *spec, struct model *out, struct model_trace *trace,
                              enum format_id *config_format, char *config_format_reason,
                              struct status_text *text) {
    if (trace != NULL)
        trace->count = 0;
    if (config_format != NULL)
        *config_format = FORMAT_BF16;
    if (config_format_reason != NULL)
        (void)strcpy(config_format_reason, "the source names no type: bf16");
    if (find_builtin(spec) != NULL)
        return load_builtin(spec, out, text);
    struct stat info;
    if (stat(spec, &info) == 0) {
        char path[1024];
        const bool folder = S_ISDIR(info.st_mode);
        const int length = snprintf(path, sizeof path, folder ? "%s/config.json" : "%s", spec);
        if (length < 0 || (size_t)length >= sizeof path)
            return status_set(text, STATUS_BAD_INPUT, "--model: the path is too long");
        return load_path(path, out, trace, config_format, config_format_reason, text);
    }
    const bool geometry =
        strncmp(spec, "latent", 6) == 0 ||
        (isdigit((unsigned char)spec[0]) && spec[strspn(spec, "0123456789")] == 'x');
    if (geometry)
        return model_geometry_parse(spec, out, text);
    const char *point = strrchr(spec, '.');
    if (point != NULL && (strcmp(point, ".json") == 0 || strcmp(point, ".gguf") == 0))
        return status_set(text, STATUS_BAD_INPUT, "--model %.300s: %s", spec, strerror(ENOENT));
    return load_builtin(spec, out, text);
}
