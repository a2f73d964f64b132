/* Recurrent state in a pool: of one group, one slot per layer and sequence, that does not grow.
 * [layer][seq][heads][rows][cols] in f32 or bf16, then the convolution's columns in bf16; the
 * slots of a layer start on 16 bytes. A compressed group has them too: the partial entry, the sum
 * of the tokens that do not make a whole entry yet, as fp32 values. */
#ifndef POOL_SLOTS_H
#define POOL_SLOTS_H

#include <stdbool.h>
#include <stdint.h>

#include "backend.h"
#include "formula.h"
#include "model.h"
#include "status.h"

struct pool_slots {
    struct backend_state_shape shape; /* heads and conv_channels 0: the group has no slots */
    bool partial;                     /* of a compressed group, which the formula does not count */
    uint64_t slot_bytes;              /* of one sequence in one layer, without convolution */
    uint64_t conv_slot_bytes;
    uint64_t layer_bytes; /* from one layer's slots to the next's; conv_layer_bytes likewise */
    uint64_t conv_layer_bytes;
    uint64_t offset_bytes; /* of layer 0, from the pool's start */
    uint64_t conv_offset_bytes;
};

/* What a group needs; a zeroed struct where it needs none. STATUS_OVERFLOW past 64 bits. */
enum status pool_slots_plan(const struct model_group *group, uint32_t seqs,
                            uint32_t state_value_bytes, struct pool_slots *out,
                            struct status_text *text);
bool pool_slots_any(const struct pool_slots *slots);
/* All layers, padding included, and the part of it that is padding. */
uint64_t pool_slots_bytes(const struct pool_slots *slots, uint32_t layers);
uint64_t pool_slots_padding_bytes(const struct pool_slots *slots, uint32_t layers);

/* Writes seeded finite values into every slot; memory starts at the pool's. */
enum status pool_slots_fill(const struct backend_ops *ops, struct backend_device *device,
                            const struct pool_slots *slots, uint32_t layers, uint64_t seed,
                            uint8_t *dev_memory, struct status_text *text);

#endif
