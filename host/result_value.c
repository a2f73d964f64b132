/* One function for each kind. */
#include "result_value.h"

struct writer_value result_value_null(void) {
    return (struct writer_value){.kind = WRITER_NULL};
}

struct writer_value result_value_text(const char *text) {
    if (text == NULL || text[0] == '\0')
        return result_value_null();
    return (struct writer_value){.kind = WRITER_TEXT, .as.text = text};
}

struct writer_value result_value_number(uint64_t number) {
    return (struct writer_value){.kind = WRITER_UNSIGNED, .as.number = number};
}

struct writer_value result_value_real(double real) {
    return (struct writer_value){.kind = WRITER_REAL, .as.real = real};
}

struct writer_value result_value_known_number(bool known, uint64_t number) {
    return known ? result_value_number(number) : result_value_null();
}

struct writer_value result_value_known_real(bool known, double real) {
    return known ? result_value_real(real) : result_value_null();
}

struct writer_value result_value_summary(const struct writer_summary *summary) {
    return (struct writer_value){.kind = WRITER_SUMMARY, .as.summary = *summary};
}

struct writer_value result_value_samples(const uint64_t *samples, uint64_t count) {
    return (struct writer_value){.kind = WRITER_SAMPLES,
                                 .as.samples = {.values = samples, .count = count}};
}

struct writer_value result_value_objects(const struct writer_field *fields, size_t field_count,
                                         const struct writer_value *values, size_t count) {
    return (struct writer_value){
        .kind = WRITER_OBJECTS,
        .as.objects = {
            .fields = fields, .values = values, .field_count = field_count, .count = count}};
}
