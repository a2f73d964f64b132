/* Rows of a file as keys, and whether a row is among them. */
#include "resume.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "json_text.h"
#include "options.h"

/* What makes a row the same row, beside what its command line says. The suite is part of it because
 * its own lines do not stand in argv: there the same command line asks for the same. */
static const enum result_field key_fields[] = {
    RESULT_SUITE,
    RESULT_THREADS,
    RESULT_MODEL,
    RESULT_K_FORMAT,
    RESULT_V_FORMAT,
    RESULT_INDEX_FORMAT,
    RESULT_TOKENS,
    RESULT_SEQS,
    RESULT_TP,
    RESULT_PAGE_TOKENS,
    RESULT_PAGE_ORDER,
    RESULT_DATA,
    RESULT_ROTATE,
    RESULT_SEED,
    RESULT_FORMULA_BYTES,
    RESULT_WEIGHTS_READ_BYTES,
    RESULT_WEIGHTS_FORMAT,
    RESULT_RANKS,
};
enum { KEY_FIELDS = sizeof key_fields / sizeof key_fields[0] };

static void put_text(FILE *key, const char *text) {
    (void)fprintf(key, "%s\n", text);
}

/* Of both sides as the double that JSON makes of it. */
static void put_number(FILE *key, double number) {
    (void)fprintf(key, "%.0f\n", number);
}

/* What has no column of its own, and the seed, of which a double may lack digits. Of a command line
 * that this version does not understand nothing, so that the key is no other's equal. */
static void put_options(FILE *key, const char *const *argv, size_t argc) {
    for (size_t i = 0; i < argc; i++)
        if (argv[i] == NULL) /* no memory for what is shown of it */
            return;
    struct options options;
    struct status_text why;
    if (options_parse((int)argc, (char *const *)(uintptr_t)argv, &options, &why) == STATUS_OK) {
        (void)fprintf(key, "%llu %u %d %d %llu %d %u\n", (unsigned long long)options.seed,
                      options.state_value_bytes, options.kv_scale_amax, (int)options.lengths,
                      (unsigned long long)options.share_prefix_tokens, options.window_as_full,
                      options.draft_layers);
        put_text(key, options.lengths_file != NULL ? options.lengths_file : "");
        put_text(key, options.kernel != NULL ? options.kernel : "");
    }
    options_free(&options);
}

struct key {
    FILE *file; /* between key_begin and key_end */
    char *text;
    size_t bytes;
};

static bool key_begin(struct key *key) {
    *key = (struct key){0};
    key->file = open_memstream(&key->text, &key->bytes);
    return key->file != NULL;
}

/* The caller's; NULL: no memory. */
static char *key_end(struct key *key) {
    const bool failed = ferror(key->file) != 0;
    if (fclose(key->file) != 0 || failed) {
        free(key->text);
        return NULL;
    }
    return key->text;
}

static char *key_of_values(const struct writer_value *values) {
    struct key key;
    if (!key_begin(&key))
        return NULL;
    for (size_t i = 0; i < KEY_FIELDS; i++) {
        const struct writer_value *value = &values[key_fields[i]];
        if (value->kind == WRITER_UNSIGNED)
            put_number(key.file, (double)value->as.number);
        else
            put_text(key.file, value->kind == WRITER_TEXT ? value->as.text : "");
    }
    const struct writer_value *argv = &values[RESULT_ARGV];
    put_options(key.file, argv->as.texts.values, argv->as.texts.count);
    return key_end(&key);
}

static char *key_of_row(const cJSON *row) {
    const cJSON *words = cJSON_GetObjectItemCaseSensitive(row, result_fields[RESULT_ARGV].name);
    const size_t most = (size_t)cJSON_GetArraySize(words);
    const char **argv = calloc(most + 1, sizeof *argv);
    struct key key;
    if (argv == NULL || !key_begin(&key)) {
        free(argv);
        return NULL;
    }
    for (size_t i = 0; i < KEY_FIELDS; i++) {
        const cJSON *item =
            cJSON_GetObjectItemCaseSensitive(row, result_fields[key_fields[i]].name);
        if (cJSON_IsNumber(item))
            put_number(key.file, item->valuedouble);
        else
            put_text(key.file, cJSON_IsString(item) ? item->valuestring : "");
    }
    size_t argc = 0;
    const cJSON *word;
    cJSON_ArrayForEach(word, words) if (cJSON_IsString(word)) argv[argc++] = word->valuestring;
    put_options(key.file, argv, argc);
    free(argv);
    return key_end(&key);
}

/* Takes the key over. */
static enum status keep(struct resume *resume, char *key, struct status_text *text) {
    char **wider = realloc(resume->keys, (resume->count + 1) * sizeof *wider);
    if (wider != NULL)
        resume->keys = wider;
    if (wider == NULL || key == NULL) {
        free(key);
        return status_set(text, STATUS_OUT_OF_MEMORY, "no host memory for the rows of --resume");
    }
    resume->keys[resume->count++] = key;
    return STATUS_OK;
}

/* One whole line. */
static enum status read_row(const char *line, size_t size, const char *origin, const char *device,
                            struct resume *resume, struct status_text *text) {
    cJSON *row = NULL;
    enum status status = json_text_parse(line, size, origin, &row, text);
    if (status != STATUS_OK)
        return status;
    const cJSON *found = cJSON_GetObjectItemCaseSensitive(row, "device");
    const cJSON *outcome = cJSON_GetObjectItemCaseSensitive(row, "status");
    char shown[96];
    if (!cJSON_IsString(found) || !cJSON_IsString(outcome)) {
        status = status_set(text, STATUS_BAD_INPUT, "%s: not a row of kvgauge run", origin);
    } else if (strcmp(found->valuestring, device) != 0) {
        json_text_printable(found->valuestring, shown, sizeof shown);
        status = status_set(text, STATUS_BAD_INPUT,
                            "%s: a row of another device, %s; this is %s. Results of two devices "
                            "belong in two files",
                            origin, shown, device);
    } else if (strcmp(outcome->valuestring, "wrong") != 0 &&
               strcmp(outcome->valuestring, "interrupted") != 0) {
        status = keep(resume, key_of_row(row), text);
    }
    cJSON_Delete(row);
    return status;
}

/* Leaves the file behind its last whole line, which may lack its line break. */
static enum status cut_off(FILE *file, const char *path, off_t end, bool no_break,
                           struct status_text *text) {
    if (fflush(file) != 0 || ftruncate(fileno(file), end) != 0 ||
        fseeko(file, end, SEEK_SET) != 0 ||
        (no_break && (fputc('\n', file) == EOF || fflush(file) != 0)))
        return status_set(text, STATUS_IO, "--resume %s: %s", path, strerror(errno));
    return STATUS_OK;
}

/* The last line, where no line break ends it: a whole row that is kept, or what a kill or a full
 * disk left of one, which begins as rows do. Anything else is somebody's file and stays as it is.
 */
static enum status read_tail(const char *line, size_t size, const char *origin, const char *device,
                             struct resume *resume, bool *whole, struct status_text *text) {
    char start[64];
    cJSON *row = NULL;
    *whole = json_text_parse(line, size, origin, &row, NULL) == STATUS_OK;
    cJSON_Delete(row);
    if (*whole)
        return read_row(line, size, origin, device, resume, text);
    const size_t length = (size_t)snprintf(start, sizeof start, "{\"%s\":", result_fields[0].name);
    if (memcmp(line, start, size < length ? size : length) != 0)
        return status_set(text, STATUS_BAD_INPUT, "%s: not a row of kvgauge run", origin);
    (void)fprintf(stderr,
                  "kvgauge: %s was cut off after %zu bytes; they are dropped, and the row is done "
                  "again where this run has it\n",
                  origin, size);
    return STATUS_OK;
}

static enum status read_rows(const char *path, const char *device, struct resume *resume,
                             struct status_text *text) {
    char *line = NULL;
    size_t room = 0;
    off_t end = 0;
    ssize_t size;
    enum status status = STATUS_OK;
    bool no_break = false;
    for (unsigned number = 1;
         status == STATUS_OK && (size = getline(&line, &room, resume->file)) > 0; number++) {
        char origin[300];
        (void)snprintf(origin, sizeof origin, "--resume %.200s, line %u", path, number);
        if (line[size - 1] != '\n') {
            if (feof(resume->file) == 0)
                break;
            status = read_tail(line, (size_t)size, origin, device, resume, &no_break, text);
            end += no_break ? size : 0;
            break;
        }
        if (size > 1)
            status = read_row(line, (size_t)size, origin, device, resume, text);
        end += size;
    }
    /* What could not be read may be there: nothing is cut off then. */
    if (status == STATUS_OK && feof(resume->file) == 0)
        status = status_set(text, STATUS_IO, "--resume %s: %s", path, strerror(errno));
    free(line);
    return status == STATUS_OK ? cut_off(resume->file, path, end, no_break, text) : status;
}

enum status resume_open(const char *path, const char *device, struct resume *out,
                        struct status_text *text) {
    *out = (struct resume){.file = fopen(path, "r+")};
    if (out->file == NULL && errno == ENOENT)
        out->file = fopen(path, "w+x");
    if (out->file == NULL)
        return status_set(text, STATUS_BAD_INPUT, "--resume %s: %s", path, strerror(errno));
    const enum status status = read_rows(path, device, out, text);
    if (status != STATUS_OK) {
        (void)fclose(out->file);
        resume_free(out);
    }
    return status;
}

void resume_free(struct resume *resume) {
    for (size_t i = 0; i < resume->count; i++)
        free(resume->keys[i]);
    free(resume->keys);
    *resume = (struct resume){0};
}

bool resume_take(struct resume *resume, const struct writer_value *values) {
    char *key = key_of_values(values);
    bool found = false;
    for (size_t i = 0; i < resume->count && key != NULL && !found; i++) {
        found = resume->keys[i] != NULL && strcmp(resume->keys[i], key) == 0;
        if (found) {
            free(resume->keys[i]);
            resume->keys[i] = NULL;
        }
    }
    free(key);
    return found;
}
