/* Between the files of the runner: a case's formats while they are worked on. */
#ifndef RUNNER_PARTS_H
#define RUNNER_PARTS_H

#include "memory.h"
#include "ranks.h"
#include "runner.h"
#include "weights_read.h"

struct runner_entry {
    struct result result;
    struct pool *pool;
    struct step *step;
    bool in_batch;
    bool done; /* its row was given */
};

struct runner_work {
    struct runner *runner;
    const struct run_case *one;
    struct runner_entry *entries;
    size_t count;
    size_t baseline; /* index of the baseline's entry; == count when it is not asked for */
    struct memory_budget budget;
    struct weights_read *weights; /* NULL: none are read */
    const struct ranks *ranks;    /* never NULL */
};

void runner_fail(struct runner_entry *entry, enum status status, const struct status_text *why);
/* The progress line; entry NULL: about all of them. */
void runner_say(const struct runner_work *work, const struct runner_entry *entry, const char *what);

/* Measures the entries in the batch against each other; what fails ends up in their results. */
void runner_measure(struct runner_work *work);
void runner_compare(const struct result *baseline, struct result *result);

#endif
