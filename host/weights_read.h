/* --weights-read: matrices that every step multiplies with one row per sequence, as a model's
 * layers do, so that a step reads that many bytes of weights. Every matrix has memory of its own:
 * none is hot because another step, or another matrix, left it in a cache. */
#ifndef WEIGHTS_READ_H
#define WEIGHTS_READ_H

#include <stdbool.h>
#include <stdint.h>

#include "backend.h"
#include "memory.h"
#include "model.h"
#include "status.h"

/* Matrices [rows][hidden], the last one [last_rows][hidden]. */
struct weights_read_shape {
    enum backend_weights format;
    uint32_t hidden;
    bool hidden_taken; /* no source gave it: query heads x head dim */
    uint32_t batch;    /* sequences */
    uint32_t rows, last_rows;
    uint32_t matrices;
    uint64_t read_bytes;  /* of weights, every step: what was asked for, less than 16 rows */
    uint64_t total_bytes; /* what is taken: weights, inputs, outputs, the library's workspace */
};

struct weights_read; /* opaque */

/* "bf16", "fp8_e4m3", "f32"; "none". */
const char *weights_read_format_name(enum backend_weights format);

/* `asked` or, NONE, the backend's default. STATUS_REFUSED when the backend does not multiply it. */
enum status weights_read_format(const struct backend_ops *ops, enum backend_weights asked,
                                enum backend_weights *out, struct status_text *text);

/* How asked_bytes are cut into matrices, and what they take. `model` is one of `tp` ranks'; what it
 * does not say of its hidden size follows from its heads. STATUS_BAD_INPUT for less than 16 rows.
 */
enum status weights_read_plan(const struct model *model, uint32_t tp, uint64_t asked_bytes,
                              enum backend_weights format, uint32_t seqs, uint64_t workspace_bytes,
                              struct weights_read_shape *out, struct status_text *text);

/* STATUS_OUT_OF_MEMORY naming the option and what there is. The budget is the whole one, --weights
 * not taken off: what is read is part of what is resident. */
enum status weights_read_fits(const struct weights_read_shape *shape,
                              const struct memory_budget *budget, struct status_text *text);

/* Takes, fills and checks them: some rows of every matrix's product against double precision,
 * *error being the largest error relative to how large outputs are (STATUS_WRONG above the format's
 * bound, named). Fails as weights_read_fits does. Where the backend records, the products are
 * recorded. `should_stop` (may be NULL) is asked between pieces. */
enum status weights_read_create(const struct backend_ops *ops, struct backend_device *device,
                                const struct weights_read_shape *shape, uint64_t seed,
                                const struct memory_budget *budget, bool (*should_stop)(void),
                                struct weights_read **out, double *error, struct status_text *text);
void weights_read_destroy(struct weights_read *weights); /* NULL is fine */

/* A step's products, given to the device in order. `weights` is a struct weights_read: the form is
 * that of measure_work. */
enum status weights_read_run(void *weights, struct status_text *text);

#endif
