/* Runs one case: builds the pools of its formats, fills, verifies, measures them against each
 * other, and gives back one result per format. Writes nothing. */
#ifndef RUNNER_H
#define RUNNER_H

#include <stddef.h>
#include <stdint.h>

#include "ranks.h"
#include "result.h"
#include "resume.h"
#include "telemetry.h"

struct runner {
    const struct backend_ops *ops;
    struct backend_device *device;
    const struct options *options; /* the command line: kernel, budget, weights */
    const struct result_run *run;
    struct telemetry *telemetry; /* NULL: nothing is known of the device's circumstances */
    struct resume *resume;       /* rows that are not to be given again; NULL: none */
    uint64_t rows_there;         /* of those, so far */
    const struct ranks *ranks;   /* NULL: alone. All of them run the same cases, and rank 0 alone
                                    needs `resume` and a `row` that writes */
    uint64_t quarters_done; /* of rows, for the progress line: filled, verified, measured, given */
};

/* Called once per finished row, in the order of the case's formats within each batch. */
typedef enum status (*runner_row)(void *context, const struct result *result,
                                  struct status_text *text);

/* Formats of the case that fit the budget together are alive together and interleaved; otherwise
 * each batch holds the baseline and as many others as fit. One that does not fit beside the
 * baseline is measured by itself and compared with nothing. Rows that cannot run are rows. Fails
 * only when `row` fails or memory for bookkeeping is out; an interrupt gives STATUS_INTERRUPTED
 * after the rows in hand were given as interrupted. */
enum status runner_run_case(struct runner *runner, const struct run_case *one, runner_row row,
                            void *context, struct status_text *text);

/* The pools of all formats of a case together, for --list; of those that can be, where the status
 * is not STATUS_OK. */
enum status runner_case_bytes(const struct run_case *one, uint64_t *sum_bytes,
                              struct status_text *text);

#endif
