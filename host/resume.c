/* Rows of a file as keys, and whether a row is among them. */
#include "resume.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "json_text.h"

/* What makes a row the same row. */
static const enum result_field key_fields[] = {
    RESULT_MODEL,  RESULT_K_FORMAT, RESULT_V_FORMAT,           RESULT_INDEX_FORMAT,   RESULT_TOKENS,
    RESULT_SEQS,   RESULT_TP,       RESULT_PAGE_TOKENS,        RESULT_PAGE_ORDER,     RESULT_DATA,
    RESULT_ROTATE, RESULT_SEED,     RESULT_WEIGHTS_READ_BYTES, RESULT_WEIGHTS_FORMAT, RESULT_RANKS,
};
enum { KEY_FIELDS = sizeof key_fields / sizeof key_fields[0], KEY_BYTES = 512 };

static void add(char *key, const char *text) {
    const size_t used = strlen(key);
    (void)snprintf(key + used, KEY_BYTES - used, "%.100s\n", text);
}

static void key_of_values(const struct writer_value *values, char *key) {
    key[0] = '\0';
    for (size_t i = 0; i < KEY_FIELDS; i++) {
        const struct writer_value *value = &values[key_fields[i]];
        char number[32];
        /* through a double, as JSON's numbers are read below: a seed may have more digits */
        (void)snprintf(number, sizeof number, "%.0f", (double)value->as.number);
        add(key, value->kind == WRITER_TEXT       ? value->as.text
                 : value->kind == WRITER_UNSIGNED ? number
                                                  : "");
    }
}

static void key_of_row(const cJSON *row, char *key) {
    key[0] = '\0';
    for (size_t i = 0; i < KEY_FIELDS; i++) {
        const cJSON *item =
            cJSON_GetObjectItemCaseSensitive(row, result_fields[key_fields[i]].name);
        char number[32] = "";
        if (cJSON_IsNumber(item))
            (void)snprintf(number, sizeof number, "%.0f", item->valuedouble);
        add(key, cJSON_IsString(item) ? item->valuestring : number);
    }
}

static enum status keep(struct resume *resume, const char *key, struct status_text *text) {
    char **wider = realloc(resume->keys, (resume->count + 1) * sizeof *wider);
    char *copy = malloc(strlen(key) + 1);
    if (wider != NULL)
        resume->keys = wider;
    if (wider == NULL || copy == NULL) {
        free(copy);
        return status_set(text, STATUS_OUT_OF_MEMORY, "no host memory for the rows of --resume");
    }
    resume->keys[resume->count++] = strcpy(copy, key);
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
    char key[KEY_BYTES], shown[96];
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
        key_of_row(row, key);
        status = keep(resume, key, text);
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
            status = read_tail(line, (size_t)size, origin, device, resume, &no_break, text);
            end += no_break ? size : 0;
            break;
        }
        if (size > 1)
            status = read_row(line, (size_t)size, origin, device, resume, text);
        end += size;
    }
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

bool resume_has(const struct resume *resume, const struct writer_value *values) {
    char key[KEY_BYTES];
    key_of_values(values, key);
    for (size_t i = 0; i < resume->count; i++)
        if (strcmp(resume->keys[i], key) == 0)
            return true;
    return false;
}
