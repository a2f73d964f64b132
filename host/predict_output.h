/* Where the rows of `predict` go: the columns of predict_fields.def that were asked for. */
#ifndef PREDICT_OUTPUT_H
#define PREDICT_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

#include "session.h"

enum predict_field {
#define PREDICT(ID, name, heading, decimals, when) PREDICT_##ID,
#include "predict_fields.def"
#undef PREDICT
    PREDICT_FIELD_COUNT
};

struct predict_output {
    struct session_output output;
    size_t count; /* of the columns shown */
    enum predict_field which[PREDICT_FIELD_COUNT];
    struct writer_field fields[PREDICT_FIELD_COUNT];
};

/* The columns about an engine and about an expected figure only when asked for. */
enum status predict_output_open(const struct options *options, bool engine, bool expect,
                                const char *title, struct predict_output *out,
                                struct status_text *text);
/* `values` has PREDICT_FIELD_COUNT entries. */
enum status predict_output_row(struct predict_output *output, const struct writer_value *values,
                               struct status_text *text);
enum status predict_output_close(struct predict_output *output, struct status_text *text);

/* Cells. An empty text and a rate that is no number are null. */
struct writer_value predict_text(const char *text);
struct writer_value predict_number(uint64_t number);
struct writer_value predict_signed(int64_t number);
struct writer_value predict_real(double real);

#endif
