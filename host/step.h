/* One decode step over a pool: append one token to every sequence, then attend, in every layer.
 * Layers with recurrent state do a step of it when the others append; where a model has index keys,
 * they are scored and attention reads only what they chose. Holds what that needs on the device
 * beside the pool: plans, queries, sinks, outputs, scores, workspace. The append rewrites the last
 * row of each sequence, so that every step does the same work. */
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

/* kernel NULL: for each group the first of the backend's that can do it. STATUS_REFUSED when the
 * kernel, or the device, cannot do a group. The filled pool must outlive the step: its tables are
 * checked here once, and where the backend records, a step runs once here and is replayed from then
 * on. */
enum status step_create(const struct backend_ops *ops, struct backend_device *device,
                        struct pool *pool, const char *kernel, uint64_t seed,
                        enum options_data data, struct step **out, struct status_text *text);
void step_destroy(struct step *step); /* NULL is fine */

/* All layers; runs in order on the device, no wait. step_append also steps recurrent state;
 * step_attend also scores index keys and chooses. */
enum status step_append(struct step *step, struct status_text *text);
enum status step_attend(struct step *step, struct status_text *text);

/* What one group does in a step, all its layers: its appends, its state, its scores, its attention
 * (over what its index chose last). For itemising a step's time. */
enum status step_group_run(struct step *step, uint32_t group, struct status_text *text);

/* One layer, outputs poisoned before and copied to `outputs` after
 * ([seqs][query_heads][v_dim] of the group); its index chooses first. */
enum status step_attend_layer(struct step *step, uint32_t group, uint32_t layer, float *outputs,
                              struct status_text *text);

/* A whole step as step_append and step_attend give it, on poisoned outputs: outputs[g] receives
 * what the last layer to read group g left; not looked at for groups that are not attended. */
enum status step_run(struct step *step, float *const *outputs, struct status_text *text);
uint32_t step_last_layer(const struct step *step, uint32_t group);

const char *step_kernel(const struct step *step); /* "mma", or "mma, simple" */
/* Why another kernel than the backend's default does some group, when none was asked for; else "".
 */
const char *step_remark(const struct step *step);
/* The kernel of one attended group. */
const char *step_group_kernel(const struct step *step, uint32_t group);
const float *step_queries(const struct step *step, uint32_t group); /* host copy */
const float *step_sinks(const struct step *step, uint32_t group);   /* host copy, NULL: none */
float step_softmax_scale(const struct step *step, uint32_t group);

/* The index group whose choice the outputs of step_attend_layer rest on, and its layer; false: all
 * rows were read. */
bool step_chosen_by(const struct step *step, uint32_t group, uint32_t layer, uint32_t *index_group,
                    uint32_t *index_layer);
/* What an index group was asked last, and what came of it for one sequence. Host copies:
 * queries [heads][key_dim], weights [heads]; scores [rows of seq], selected [top_k]. */
struct step_choice {
    uint32_t heads, top_k;
    const float *queries, *weights;
};
void step_choice_get(const struct step *step, uint32_t group, uint32_t seq,
                     struct step_choice *out);
enum status step_choice_read(const struct step *step, uint32_t group, uint32_t seq, float *scores,
                             int32_t *selected, struct status_text *text);
/* Scores and chooses one layer by itself. */
enum status step_choose(struct step *step, uint32_t group, uint32_t layer,
                        struct status_text *text);

/* What every step of a group's state is given; host copies, shapes as in backend_state_step. */
struct step_slots_inputs {
    float *decays, *keys, *queries, *values, *gains, *conv_inputs, *conv_weights;
};
const struct step_slots_inputs *step_slots_inputs_get(const struct step *step, uint32_t group);
/* Steps one layer's state by itself and reads one sequence's outputs ([heads][rows] and
 * [conv_channels]), poisoned before. */
enum status step_slots_layer(struct step *step, uint32_t group, uint32_t layer, uint32_t seq,
                             float *outputs, float *conv_outputs, struct status_text *text);
/* One sequence's outputs as the last step left them. */
enum status step_slots_read(const struct step *step, uint32_t group, uint32_t seq, float *outputs,
                            float *conv_outputs, struct status_text *text);

/* Partial results, plans, scores; does not grow with the pool, but scores do with the rows. */
uint64_t step_workspace_bytes(const struct step *step);
/* Unique K, V, index key and scale bytes that attention needs in one step, once per reading layer;
 * a shared prefix counts once, and sparse layers count what is chosen. */
uint64_t step_read_bytes(const struct step *step);
/* K, V, index key, scale and state bytes that one step writes. */
uint64_t step_written_bytes(const struct step *step);
/* The same of one group; here what its state reads is counted too. */
uint64_t step_group_read_bytes(const struct step *step, uint32_t group);
uint64_t step_group_written_bytes(const struct step *step, uint32_t group);

#endif
