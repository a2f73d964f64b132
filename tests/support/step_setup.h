/* What tests of steps start from: the cpu, a pool that is filled, a step over it. What cannot be
 * set up fails the test with the message of what failed. Pools and steps are the test's to destroy,
 * the step first. */
#ifndef STEP_SETUP_H
#define STEP_SETUP_H

#include <stdint.h>

#include "pool.h"
#include "step.h"

/* The cpu with two threads, between step_setup_open and step_setup_close: a group's set-up and
 * tear-down of cmocka. */
extern const struct backend_ops *cpu;
extern struct backend_device *device;

int step_setup_open(void **state);
int step_setup_close(void **state);

/* `ops` are the cpu's or some that stand before them. */
struct pool *step_setup_pool(const struct backend_ops *ops, const struct pool_request *request);
struct step *step_setup_step(const struct backend_ops *ops, struct pool *pool, uint64_t seed,
                             enum options_data data);

/* A model of all kinds of groups but latents: rows and the keys that choose among them (4 for 0),
 * keys of 7 tokens that choose for nobody (group 5); a window; slots of entries that are not whole
 * yet, and of a state with a convolution, whose bytes are no multiple of 16. The second sequence
 * has no entry of 4 tokens, the third nothing at all. */
enum { STEP_SETUP_SEQS = 4, STEP_SETUP_PAGE_TOKENS = 5 };
extern const uint64_t step_setup_lengths[STEP_SETUP_SEQS];
extern const struct model step_setup_model;
/* In q8_0, index keys in mxfp4. */
struct pool *step_setup_mixed_pool(const struct backend_ops *ops, uint32_t state_value_bytes);

#endif
