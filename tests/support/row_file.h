/* A row in a file as `kvgauge run` writes it, for tests of what reads such files. */
#ifndef ROW_FILE_H
#define ROW_FILE_H

#include <stdio.h>

#include "result.h"

/* values: [RESULT_FIELD_COUNT]. The file stays open; fails the test where it cannot be written. */
static inline void row_file_append(FILE *file, const struct writer_value *values) {
    struct writer *writer;
    assert_int_equal(
        writer_open(WRITER_JSONL, file, result_fields, RESULT_FIELD_COUNT, NULL, &writer, NULL),
        STATUS_OK);
    assert_int_equal(writer_row(writer, values, NULL), STATUS_OK);
    assert_int_equal(writer_close(writer, NULL), STATUS_OK);
}

#endif
