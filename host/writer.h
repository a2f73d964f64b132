/* Writes rows of named fields as a table, Markdown, CSV, one JSON array or JSON lines. Knows
 * nothing about what the fields mean; a list of fields (for example result_fields.def) does.
 * JSON lines are written one row at a time and flushed, so an interrupted run leaves whole rows. */
#ifndef WRITER_H
#define WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "status.h"

enum writer_form {
    WRITER_TABLE,
    WRITER_MARKDOWN,
    WRITER_CSV,
    WRITER_JSON,
    WRITER_JSONL,
    WRITER_FORM_COUNT
};
const char *writer_form_name(enum writer_form form); /* table md csv json jsonl */
bool writer_form_find(const char *name, enum writer_form *out);

enum writer_kind {
    WRITER_NULL, /* not known: null in JSON, empty in CSV, "-" in tables */
    WRITER_TEXT,
    WRITER_UNSIGNED,
    WRITER_SIGNED,
    WRITER_REAL, /* shortest digits that read back the same; not finite: null */
    WRITER_BOOL,
    WRITER_SAMPLES, /* array of unsigned numbers */
    WRITER_SUMMARY, /* {median,q1,q3,min,max,n}: reals and n, from summary */
    WRITER_TEXTS,   /* array of strings (argv) */
    WRITER_OBJECTS, /* array of objects, each with the same fields */
};

struct writer_field;

struct writer_summary {
    double median, q1, q3, min, max;
    uint64_t n;
};

struct writer_value {
    enum writer_kind kind;
    union {
        const char *text;
        uint64_t number;
        int64_t signed_number;
        double real;
        bool truth;
        struct {
            const uint64_t *values;
            size_t count;
        } samples;
        struct writer_summary summary;
        struct {
            const char *const *values;
            size_t count;
        } texts;
        struct {
            const struct writer_field *fields; /* names alone are looked at */
            const struct writer_value *values; /* [count][field_count] */
            size_t field_count;
            size_t count;
        } objects;
    } as;
};

struct writer_field {
    const char *name;    /* the JSON and CSV name; units are its last word */
    const char *heading; /* the table's column heading; NULL: not in tables */
    int decimals;        /* digits after the point in tables (reals); -1: three significant */
};

struct writer;

/* `stream` stays the caller's. Headings and CSV names are written with the first row. `title` is
 * a line above a table or Markdown (may be NULL). */
enum status writer_open(enum writer_form form, FILE *stream, const struct writer_field *fields,
                        size_t field_count, const char *title, struct writer **out,
                        struct status_text *text);
/* `values` has field_count entries; all are copied or written before returning. Tables gather
 * rows until close so that columns line up. */
enum status writer_row(struct writer *writer, const struct writer_value *values,
                       struct status_text *text);
/* Ends the output (the JSON array's bracket, the table) and frees. STATUS_IO when the stream
 * failed at any time (full disk). NULL is fine. */
enum status writer_close(struct writer *writer, struct status_text *text);

/* Opens `path` for writing; an existing file is never overwritten: path.1, path.2 ... are tried.
 * The name used goes to `used`. */
enum status writer_create_file(const char *path, char *used, size_t used_bytes, FILE **out,
                               struct status_text *text);

#endif
