/* Rows of one run gathered for their fits: those of a setting that differ in length alone, format
 * by format. What a fit is says fit.h. */
#ifndef FIT_ROWS_H
#define FIT_ROWS_H

#include <stdbool.h>
#include <stdio.h>

#include "fit.h"

enum { FIT_ROWS_SETTING_BYTES = 192, FIT_ROWS_FORMAT_BYTES = 64 };

struct fit_rows_set {
    char setting[FIT_ROWS_SETTING_BYTES];
    char format[FIT_ROWS_FORMAT_BYTES];
    bool is_baseline;
    struct fit_point *points; /* owned */
    size_t count;
};

struct fit_rows {
    struct fit_rows_set *sets; /* owned; in the order they came */
    size_t count;
};

/* One more row; a length that is there already is replaced. false: no memory, nothing was added. */
bool fit_rows_add(struct fit_rows *rows, const char *setting, const char *format, bool is_baseline,
                  const struct fit_point *point);
/* A line for each fit there is, and one for each format beside its setting's baseline. */
void fit_rows_say(const struct fit_rows *rows, FILE *stream);
void fit_rows_free(struct fit_rows *rows);

#endif
