/* One decode step over a pool: append one token to every sequence, then attend, in every layer.
 * Holds what that needs on the device beside the pool: plans, queries, sinks, outputs, workspace.
 * The append rewrites the last slot of each sequence, so that every step does the same work. */
#ifndef STEP_H
#define STEP_H

#include <stdbool.h>
#include <stdint.h>

#include "backend.h"
#include "options.h"
#include "plan.h"
#include "pool.h"
#include "status.h"

struct step; /* opaque */

/* kernel NULL: the backend's default. STATUS_REFUSED when the kernel cannot do a group. The filled
 * pool must outlive the step: its tables are checked here once, and where the backend records, a
 * step runs once here and is replayed from then on. */
enum status step_create(const struct backend_ops *ops, struct backend_device *device,
                        struct pool *pool, const char *kernel, uint64_t seed,
                        enum options_data data, struct step **out, struct status_text *text);
void step_destroy(struct step *step); /* NULL is fine */

/* All layers; runs in order on the device, no wait. */
enum status step_append(struct step *step, struct status_text *text);
enum status step_attend(struct step *step, struct status_text *text);

/* One layer, outputs poisoned before and copied to `outputs` after
 * ([seqs][query_heads][v_dim] of the group). */
enum status step_attend_layer(struct step *step, uint32_t group, uint32_t layer, float *outputs,
                              struct status_text *text);

/* A whole step as step_append and step_attend give it, on poisoned outputs: outputs[g] receives
 * what the last layer to read group g left. */
enum status step_run(struct step *step, float *const *outputs, struct status_text *text);
uint32_t step_last_layer(const struct step *step, uint32_t group);

const char *step_kernel(const struct step *step);
const float *step_queries(const struct step *step, uint32_t group); /* host copy */
const float *step_sinks(const struct step *step, uint32_t group);   /* host copy, NULL: none */
float step_softmax_scale(const struct step *step, uint32_t group);

/* Partial results and plans; does not grow with the pool. */
uint64_t step_workspace_bytes(const struct step *step);
/* Unique K, V and scale bytes that attention needs in one step, once per reading layer; a shared
 * prefix counts once. */
uint64_t step_read_bytes(const struct step *step);
/* K, V and scale bytes the appends of one step write. */
uint64_t step_written_bytes(const struct step *step);

#endif
