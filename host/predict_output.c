/* The columns of `predict` and which of them are written. */
#include "predict_output.h"

enum when { ALWAYS, ENGINE, EXPECT };

static const struct {
    struct writer_field field;
    enum when when;
} columns[PREDICT_FIELD_COUNT] = {
#define PREDICT(ID, name, heading, decimals, when) {{#name, heading, decimals}, when},
#include "predict_fields.def"
#undef PREDICT
};

enum status predict_output_open(const struct options *options, bool engine, bool expect,
                                const char *title, struct predict_output *out,
                                struct status_text *text) {
    *out = (struct predict_output){.count = 0};
    for (size_t i = 0; i < PREDICT_FIELD_COUNT; i++) {
        if ((columns[i].when == ENGINE && !engine) || (columns[i].when == EXPECT && !expect))
            continue;
        out->which[out->count] = (enum predict_field)i;
        out->fields[out->count++] = columns[i].field;
    }
    return session_output_open(options, out->fields, out->count, title, &out->output, text);
}

enum status predict_output_row(struct predict_output *output, const struct writer_value *values,
                               struct status_text *text) {
    struct writer_value shown[PREDICT_FIELD_COUNT];
    for (size_t i = 0; i < output->count; i++)
        shown[i] = values[output->which[i]];
    return session_output_row(&output->output, shown, text);
}

enum status predict_output_close(struct predict_output *output, struct status_text *text) {
    return session_output_close(&output->output, text);
}

struct writer_value predict_text(const char *text) {
    return text == NULL || text[0] == '\0'
               ? (struct writer_value){.kind = WRITER_NULL}
               : (struct writer_value){.kind = WRITER_TEXT, .as.text = text};
}

struct writer_value predict_number(uint64_t number) {
    return (struct writer_value){.kind = WRITER_UNSIGNED, .as.number = number};
}

struct writer_value predict_signed(int64_t number) {
    return (struct writer_value){.kind = WRITER_SIGNED, .as.signed_number = number};
}

struct writer_value predict_real(double real) {
    return (struct writer_value){.kind = WRITER_REAL, .as.real = real};
}
