/* Between writer.c and its forms (writer_json.c, writer_table.c). Private to host/writer*.c. */
#ifndef WRITER_PARTS_H
#define WRITER_PARTS_H

#include "writer.h"

struct writer {
    enum writer_form form;
    FILE *stream;
    const struct writer_field *fields;
    size_t field_count;
    char *title; /* owned, or NULL */
    size_t rows;
    int error;    /* errno of the first write that failed; 0: none has */
    char **cells; /* table and Markdown: [rows][field_count], owned; NULL where not shown */
    size_t cell_capacity;
};

/* STATUS_OUT_OF_MEMORY, in words. */
enum status writer_no_memory(struct status_text *text);

/* One row as a JSON object, without a line break behind it. */
void writer_put_json(struct writer *writer, const struct writer_value *values);
/* One CSV line (RFC 4180), the names before the first. Lists and summaries are JSON in a cell. */
enum status writer_put_csv(struct writer *writer, const struct writer_value *values,
                           struct status_text *text);

/* Copies a row's shown cells into the writer; writes all gathered rows; frees them. */
enum status writer_table_gather(struct writer *writer, const struct writer_value *values,
                                struct status_text *text);
enum status writer_table_put(const struct writer *writer, struct status_text *text);
void writer_table_free(struct writer *writer);

#endif
