/* Rows as text. Tables gather cells until close, so that columns line up; every other form is
 * written and flushed row by row. */
#include "writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "writer_parts.h"

static const char *const form_names[WRITER_FORM_COUNT] = {"table", "md", "csv", "json", "jsonl"};

const char *writer_form_name(enum writer_form form) {
    return form < WRITER_FORM_COUNT ? form_names[form] : "unknown";
}

bool writer_form_find(const char *name, enum writer_form *out) {
    for (int form = 0; form < WRITER_FORM_COUNT; form++) {
        if (strcmp(form_names[form], name) == 0) {
            *out = (enum writer_form)form;
            return true;
        }
    }
    return false;
}

enum status writer_no_memory(struct status_text *text) {
    return status_set(text, STATUS_OUT_OF_MEMORY, "no host memory for a row of output");
}

enum status writer_open(enum writer_form form, FILE *stream, const struct writer_field *fields,
                        size_t field_count, const char *title, struct writer **out,
                        struct status_text *text) {
    *out = NULL;
    struct writer *writer = calloc(1, sizeof *writer);
    if (writer == NULL)
        return writer_no_memory(text);
    writer->form = form;
    writer->stream = stream;
    writer->fields = fields;
    writer->field_count = field_count;
    if (title != NULL) {
        writer->title = malloc(strlen(title) + 1);
        if (writer->title == NULL) {
            free(writer);
            return writer_no_memory(text);
        }
        (void)strcpy(writer->title, title);
    }
    *out = writer;
    return STATUS_OK;
}

/* Where the stream's file ends, if it is one that can be cut back there; -1 otherwise. With
 * O_APPEND the position before a write says nothing. */
static off_t file_end(FILE *stream) {
    struct stat about;
    const int descriptor = fileno(stream);
    if (descriptor < 0 || fstat(descriptor, &about) != 0 || !S_ISREG(about.st_mode) ||
        (fcntl(descriptor, F_GETFL) & O_APPEND) != 0)
        return -1;
    const off_t at = lseek(descriptor, 0, SEEK_CUR);
    return at == about.st_size ? at : -1;
}

/* A disk that fills up in the middle of a row: the file ends with the row before. */
static void drop_half_row(FILE *stream, off_t end) {
    if (end < 0 || file_end(stream) < end)
        return;
    __fpurge(stream);
    if (ftruncate(fileno(stream), end) == 0)
        (void)lseek(fileno(stream), end, SEEK_SET);
}

static enum status write_failed(const struct writer *writer, struct status_text *text) {
    return status_set(text, STATUS_IO, "writing the results failed: %s", strerror(writer->error));
}

static bool flushed(struct writer *writer) {
    if (writer->error == 0 && (fflush(writer->stream) != 0 || ferror(writer->stream)))
        writer->error = errno != 0 ? errno : EIO;
    return writer->error == 0;
}

enum status writer_row(struct writer *writer, const struct writer_value *values,
                       struct status_text *text) {
    if (writer->error != 0)
        return write_failed(writer, text);
    enum status status = STATUS_OK;
    const off_t end = writer->form == WRITER_JSONL ? file_end(writer->stream) : -1;
    switch (writer->form) {
    case WRITER_TABLE:
    case WRITER_MARKDOWN:
        status = writer_table_gather(writer, values, text);
        if (status == STATUS_OK)
            writer->rows++;
        return status;
    case WRITER_CSV:
        status = writer_put_csv(writer, values, text);
        break;
    case WRITER_JSON:
        (void)fputs(writer->rows == 0 ? "[\n" : ",\n", writer->stream);
        writer_put_json(writer, values);
        break;
    case WRITER_JSONL:
        writer_put_json(writer, values);
        (void)fputc('\n', writer->stream);
        break;
    case WRITER_FORM_COUNT:
        break;
    }
    if (status != STATUS_OK)
        return status;
    writer->rows++;
    if (flushed(writer))
        return STATUS_OK;
    drop_half_row(writer->stream, end);
    return write_failed(writer, text);
}

enum status writer_close(struct writer *writer, struct status_text *text) {
    if (writer == NULL)
        return STATUS_OK;
    enum status status = STATUS_OK;
    if (writer->form == WRITER_TABLE || writer->form == WRITER_MARKDOWN)
        status = writer_table_put(writer, text);
    if (writer->form == WRITER_JSON)
        (void)fputs(writer->rows == 0 ? "[]\n" : "\n]\n", writer->stream);
    if (!flushed(writer))
        status = write_failed(writer, text);
    writer_table_free(writer);
    free(writer->title);
    free(writer);
    return status;
}

enum status writer_create_file(const char *path, char *used, size_t used_bytes, FILE **out,
                               struct status_text *text) {
    *out = NULL;
    for (int number = 0; number < 10000; number++) {
        const int length = number == 0 ? snprintf(used, used_bytes, "%s", path)
                                       : snprintf(used, used_bytes, "%s.%d", path, number);
        if (length < 0 || (size_t)length >= used_bytes)
            return status_set(text, STATUS_BAD_INPUT, "--save: the path is too long");
        const int descriptor = open(used, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (descriptor < 0 && errno == EEXIST) {
            /* Devices and pipes are there to be written to, not overwritten. */
            FILE *special =
                access(used, W_OK) == 0 && strncmp(used, "/dev/", 5) == 0 ? fopen(used, "w") : NULL;
            if (special == NULL)
                continue;
            *out = special;
            return STATUS_OK;
        }
        if (descriptor < 0)
            return status_set(text, STATUS_BAD_INPUT, "--save %s: cannot be written: %s", used,
                              strerror(errno));
        *out = fdopen(descriptor, "w");
        if (*out == NULL) {
            (void)close(descriptor);
            return status_set(text, STATUS_IO, "--save %s: %s", used, strerror(errno));
        }
        return STATUS_OK;
    }
    return status_set(text, STATUS_BAD_INPUT, "--save %s: ten thousand files of that name exist",
                      path);
}
