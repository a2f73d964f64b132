/* A result file that a run goes on with: what it holds already is not done again, what is missing
 * is appended. A row is there when one with status ok, refused or out_of_memory has the same model,
 * formats, sizes, data, seed and ranks; wrong and interrupted ones are done again. */
#ifndef RESUME_H
#define RESUME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "result.h"

struct resume {
    FILE *file; /* at its end, behind a whole line; the writer's from then on */
    char **keys;
    size_t count;
};

/* Opens `path`, which is made where it is not there, and reads its rows. A last line that was cut
 * off is cut away, and stderr says so. STATUS_BAD_INPUT: not a file of rows (file and line are
 * named), or one with rows of another device than `device`; the file is left as it was. */
enum status resume_open(const char *path, const char *device, struct resume *out,
                        struct status_text *text);
/* The file stays open. */
void resume_free(struct resume *resume);

/* Whether the file had this row; `values` are a result's, measured or not. */
bool resume_has(const struct resume *resume, const struct writer_value *values);

#endif
