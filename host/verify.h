/* Is what the kernels compute right, and how exact is the format? Runs every layer once on
 * poisoned outputs, requires every output to be written and finite, and holds a seeded sample of
 * (layer, sequence, query head) - all of them on small cases - against double precision. Then a
 * whole step, as it is measured, must leave what its layers leave by themselves. */
#ifndef VERIFY_H
#define VERIFY_H

#include <stdbool.h>
#include <stdint.h>

#include "pool.h"
#include "status.h"
#include "step.h"

struct verify_result {
    double kernel_error;      /* largest relative L2 over heads, against the stored bytes */
    double kernel_bound;      /* what it may be: reference_bound */
    double k_error;           /* against unquantised rows, K stored and V exact; all heads pooled */
    double v_error;           /* V stored and K exact */
    double format_error;      /* both stored */
    double verified_fraction; /* of all (layer, sequence, query head) outputs */
};

/* `effort_values`: about how many cached values the references may read; all outputs are checked
 * when that is enough. STATUS_WRONG, with what and where, when a check fails; the result then
 * holds what was found. */
enum status verify_pool(const struct backend_ops *ops, struct backend_device *device,
                        struct pool *pool, struct step *step, uint64_t seed, uint64_t effort_values,
                        struct verify_result *out, struct status_text *text);

#endif
