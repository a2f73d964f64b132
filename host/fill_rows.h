/* The rows of `kvgauge fill`: levels with their bytes, and below each the items that make the
 * difference to the one before. */
#ifndef FILL_ROWS_H
#define FILL_ROWS_H

#include "fill_until.h"
#include "overhead.h"
#include "pool.h"
#include "run_case.h"
#include "session.h"
#include "spill.h"

/* What all rows of one pool have in common; `one` and `format` are NULL in rows about the device.
 */
struct fill_rows {
    struct session_output *output;
    const struct run_case *one; /* with the tokens and sequences that are really in */
    const struct options_format *format;
};

enum status fill_rows_open(const struct options *options, const char *title,
                           struct session_output *out, struct status_text *text);

/* The device's own overheads. */
enum status fill_rows_overhead(const struct fill_rows *rows, const struct overhead *overhead,
                               const struct memory_budget *budget, struct status_text *text);
/* Levels 1 to 5. */
enum status fill_rows_levels(const struct fill_rows *rows, const struct pool *pool,
                             struct status_text *text);
enum status fill_rows_read(const struct fill_rows *rows, const struct spill_report *report,
                           struct status_text *text);
/* Where the budget went, and the count beside the formula's. `budget` is what the pool could use;
 * weights_bytes are beside it. */
enum status fill_rows_until(const struct fill_rows *rows, enum options_until what,
                            const struct fill_until *found, const struct memory_budget *budget,
                            uint64_t weights_bytes, struct status_text *text);
enum status fill_rows_failed(const struct fill_rows *rows, enum status status, const char *reason,
                             struct status_text *text);

#endif
