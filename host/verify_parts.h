/* Between verify.c (samples of attention) and what stands beside it: verify_choice.c looks at the
 * index that chose, verify_slots.c at recurrent state, verify_step.c at a step as a whole. Private
 * to host/verify*.c. */
#ifndef VERIFY_PARTS_H
#define VERIFY_PARTS_H

#include "verify.h"

/* One output to check. */
struct verify_sample {
    uint32_t group;
    uint32_t layer;
    uint32_t seq;
    uint32_t query_head;
};

/* Sums over heads of squared differences and of squared exact values. */
struct verify_pooled {
    double k, v, both, exact;
};

struct verifier {
    const struct backend_ops *ops;
    struct backend_device *device;
    struct pool *pool;
    struct step *step;
    uint64_t seed;
    uint64_t effort_values;
    struct verify_sample *samples; /* sorted by group, layer, sequence */
    uint64_t sample_count;
    uint64_t output_count;  /* outputs there are, heads of state among them */
    uint64_t checked_count; /* of those */
    struct verify_pooled pooled;
    struct verify_result *result;
};

/* Outputs of all layers of a group; 0 where it is not attended. */
uint64_t verify_outputs(const struct pool *pool, uint32_t group);
/* Values of one layer's outputs, room for them (NULL and a text), and the error they may have. */
uint64_t verify_output_values(const struct verifier *v, uint32_t group);
float *verify_allocate_outputs(const struct verifier *v, uint32_t group, struct status_text *text);
double verify_bound(const struct verifier *v, uint32_t group);

/* Runs a step as it is measured, as a recording where the device makes one: it must leave what its
 * last layers leave one by one, and a state that follows from the one before. */
enum status verify_step(struct verifier *v, struct status_text *text);

/* What an index chose for one sequence, found right: `selected` has min(top_k, rows) places.
 * Scores are set against double precision on the stored keys (of a long sequence every n-th), the
 * choice against the scores. Free `selected`. */
enum status verify_choice(const struct verifier *v, uint32_t index_group, uint32_t index_layer,
                          uint32_t seq, int32_t **selected, struct status_text *text);

/* Steps the state of some layers of a group, each by itself, and sets what it stored and gave for
 * one sequence against double precision on what was stored before. */
enum status verify_slots(struct verifier *v, uint32_t group, struct status_text *text);

/* The state of one sequence in one layer, and what a step of it must leave: `before` is taken
 * before the step, verify_state_check looks afterwards. */
struct verify_state {
    uint8_t *values; /* the slot's bytes, then the convolution's */
    uint32_t group, layer, seq;
};
enum status verify_state_take(const struct verifier *v, uint32_t group, uint32_t layer,
                              uint32_t seq, struct verify_state *out, struct status_text *text);
/* outputs [heads][rows], conv_outputs [conv_channels] of that sequence. */
enum status verify_state_check(struct verifier *v, const struct verify_state *before,
                               const float *outputs, const float *conv_outputs,
                               struct status_text *text);
void verify_state_free(struct verify_state *state); /* a zeroed one is fine */

#endif
