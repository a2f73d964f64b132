/* A runner that measures nothing: what a row becomes follows from its format. It stands before the
 * harness' own when the program is linked. */
#include "runner.h"

#include <math.h>
#include <stdio.h>

enum status runner_run_case(struct runner *runner, const struct run_case *one, runner_row row,
                            void *context, struct status_text *text) {
    (void)runner;
    const enum format_id format = one->options->formats[0].k_format;
    if (format == FORMAT_Q4_0)
        return status_set(text, STATUS_OUT_OF_MEMORY, "no host memory for formats");
    struct result result = {.which = one, .format = &one->options->formats[0]};
    if (format == FORMAT_BF16) {
        result.status = RESULT_WRONG;
        (void)snprintf(result.reason, sizeof result.reason, "kernel error \"1\" \x01\xff");
    } else {
        /* Numbers that JSON has no words for, wherever a row has a real one. */
        result.has_speed = result.has_verify = true;
        result.step.median = INFINITY;
        result.verify.kernel_error = NAN;
    }
    return row(context, &result, text);
}
