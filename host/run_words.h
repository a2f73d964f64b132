/* What a run says in words when its rows are out: a sentence per measured row, and what follows
 * from several of them together - times against context lengths, where formats pass each other. */
#ifndef RUN_WORDS_H
#define RUN_WORDS_H

#include <stdio.h>

#include "fit_rows.h"
#include "result.h"

enum { RUN_WORDS_BYTES = 2048 };

/* Start from zeros. */
struct run_words {
    char (*sentences)[RUN_WORDS_BYTES];
    size_t count;
    size_t capacity;
    struct fit_rows fits;
    double launch_ns; /* the least of all rows; 0: not measured */
};

/* `values` are the result's columns. Where memory is out the words lack a row. */
void run_words_add(struct run_words *words, const struct result_run *run,
                   const struct result *result, const struct writer_value *values);
void run_words_print(const struct run_words *words, FILE *stream);
void run_words_free(struct run_words *words);

#endif
