/* A result file that a run goes on with: what it holds already is not done again, what is missing
 * is appended. A row is there when one with status ok, refused or out_of_memory has the same suite,
 * threads, model, formats, sizes, data, seed and ranks, and was asked for with the same options
 * that have no column (scripts/result_rows.py lists them), which its argv tells; wrong and
 * interrupted ones are done again. Each row of the file stands for one of the run. */
#ifndef RESUME_H
#define RESUME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "result.h"

struct resume {
    FILE *file;  /* at its end, behind a whole line; the writer's from then on */
    char **keys; /* [count], NULL: taken */
    size_t count;
};

/* Opens `path`, which is made where it is not there, and reads its rows. A last line that was cut
 * off is cut away, and stderr says so. STATUS_BAD_INPUT: not a file of rows (file and line are
 * named), or one with rows of another device than `device`; STATUS_IO: it cannot be read to its
 * end. The file is left as it was then. */
enum status resume_open(const char *path, const char *device, struct resume *out,
                        struct status_text *text);
/* The file stays open. */
void resume_free(struct resume *resume);

/* Whether the file has this row, which is then taken: another one like it is not there any more.
 * `values` are a result's, measured or not. Where memory is out it is not there. */
bool resume_take(struct resume *resume, const struct writer_value *values);

#endif
