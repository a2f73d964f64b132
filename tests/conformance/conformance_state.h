/* One step of a recurrent state and its short convolution, directly through backend.h: random
 * arrays between guards, every one read back whole, judged against double precision by formulas of
 * the suite's own. Knows no backend by name. */
#ifndef CONFORMANCE_STATE_H
#define CONFORMANCE_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "backend.h"

enum { CONFORMANCE_STATE_GUARD_BYTES = 256 };

enum conformance_state_array {
    STATE_VALUES_OF_STATE,
    STATE_CONV,
    STATE_DECAYS,
    STATE_KEYS,
    STATE_QUERIES,
    STATE_VALUES,
    STATE_GAINS,
    STATE_CONV_INPUTS,
    STATE_CONV_WEIGHTS,
    STATE_OUTPUTS,
    STATE_CONV_OUTPUTS,
    STATE_ARRAYS
};

struct conformance_state_case {
    struct backend_state_shape shape;
    bool equal_decays; /* one for all columns of a head (Mamba-2, Gated DeltaNet) */
    bool shifted;      /* fp32 arrays start 4 bytes past a multiple of 16 */
};

struct conformance_state {
    const struct backend_ops *ops;
    struct backend_device *device;
    const struct conformance_state_case *which;
    struct {
        struct backend_memory memory;
        uint64_t offset_bytes; /* of the array in its memory, behind the first guard */
        uint64_t bytes;        /* of the array; may be 0 */
        uint8_t *before;       /* the memory, guards included, as it was written */
        uint8_t *after;        /* and as conformance_state_step found it */
    } arrays[STATE_ARRAYS];
};

/* In words, for messages. */
void conformance_state_describe(const struct conformance_state_case *which, char *out,
                                uint32_t out_bytes);

/* `state` is always safe to destroy. Outputs are poisoned. */
enum status conformance_state_create(const struct backend_ops *ops, struct backend_device *device,
                                     const struct conformance_state_case *which,
                                     struct conformance_state *state, struct status_text *text);
void conformance_state_destroy(struct conformance_state *state);

/* One step; all arrays are read back. */
enum status conformance_state_step(struct conformance_state *state, struct status_text *text);

/* STATUS_WRONG, naming the first place, unless every value is right and every other byte as it
 * was. */
enum status conformance_state_check(const struct conformance_state *state,
                                    struct status_text *text);

/* All of the above in order. */
enum status conformance_state_run(const struct backend_ops *ops, struct backend_device *device,
                                  const struct conformance_state_case *which,
                                  struct status_text *text);

#endif
