/* Values of a row's columns and of what is in them, as the writer takes them. */
#ifndef RESULT_VALUE_H
#define RESULT_VALUE_H

#include <stdbool.h>
#include <stdint.h>

#include "writer.h"

struct writer_value result_value_null(void);
struct writer_value result_value_text(const char *text); /* NULL and "" are null; not copied */
struct writer_value result_value_number(uint64_t number);
struct writer_value result_value_real(double real);
/* Null unless `known`. */
struct writer_value result_value_known_number(bool known, uint64_t number);
struct writer_value result_value_known_real(bool known, double real);
struct writer_value result_value_summary(const struct writer_summary *summary);
/* [count]; not copied */
struct writer_value result_value_samples(const uint64_t *samples, uint64_t count);
/* values: [count][field_count]; not copied */
struct writer_value result_value_objects(const struct writer_field *fields, size_t field_count,
                                         const struct writer_value *values, size_t count);

#endif
