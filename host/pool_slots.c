/* Sizes of state slots, and the values they start with. */
#include "pool_slots.h"

#include <stdlib.h>
#include <string.h>

#include "checked.h"
#include "format.h"
#include "generate.h"
#include "model_reads.h"
#include "pool_state.h"

enum { SLOT_ALIGNMENT_BYTES = 16 };

/* The recurrences that take off what the state already holds at the key (Yang et al., Gated Delta
 * Networks; Kimi Linear); Mamba-2 and lightning attention only add. */
static bool is_delta(const char *family) {
    return strcmp(family, "gated_delta_net") == 0 || strcmp(family, "kda") == 0;
}

static struct backend_state_shape shape_of(const struct model_group *group, uint32_t seqs,
                                           uint32_t state_value_bytes) {
    if (group->kind == MODEL_STATE) {
        const bool recurrent = group->state_rows > 0 && group->state_cols > 0;
        return (struct backend_state_shape){.seqs = seqs,
                                            .heads = recurrent ? group->heads : 0,
                                            .rows = group->state_rows,
                                            .cols = group->state_cols,
                                            .value_bytes = state_value_bytes,
                                            .conv_channels =
                                                group->conv_taps > 0 ? group->conv_channels : 0,
                                            .conv_taps = group->conv_taps,
                                            .delta = is_delta(group->family)};
    }
    const bool partial = group->kind == MODEL_COMPRESSED && model_reads_tokens_per_row(group) > 1;
    return (struct backend_state_shape){.seqs = seqs,
                                        .heads = partial,
                                        .rows = 1,
                                        .cols = group->entry_dim,
                                        .value_bytes = sizeof(float)};
}

/* slot = a * b * c bytes; layer = seqs slots, rounded up. */
static bool size_slots(uint64_t a, uint64_t b, uint64_t c, uint32_t seqs, uint64_t *slot,
                       uint64_t *layer) {
    return checked_multiply(a, b, slot) && checked_multiply(*slot, c, slot) &&
           checked_multiply(*slot, seqs, layer) &&
           checked_round_up(*layer, SLOT_ALIGNMENT_BYTES, layer);
}

enum status pool_slots_plan(const struct model_group *group, uint32_t seqs,
                            uint32_t state_value_bytes, struct pool_slots *out,
                            struct status_text *text) {
    *out = (struct pool_slots){.shape = shape_of(group, seqs, state_value_bytes),
                               .partial = group->kind == MODEL_COMPRESSED};
    const struct backend_state_shape *shape = &out->shape;
    uint64_t head, all;
    if (!checked_multiply((uint64_t)shape->rows * shape->cols, shape->value_bytes, &head) ||
        !size_slots(shape->heads, head, 1, seqs, &out->slot_bytes, &out->layer_bytes) ||
        !size_slots(shape->conv_channels, shape->conv_taps, sizeof(uint16_t), seqs,
                    &out->conv_slot_bytes, &out->conv_layer_bytes) ||
        !checked_add(out->layer_bytes, out->conv_layer_bytes, &all) ||
        !checked_multiply(all, group->layers, &all))
        return status_set(text, STATUS_OVERFLOW, "the state slots' size does not fit 64 bits");
    return STATUS_OK;
}

bool pool_slots_any(const struct pool_slots *slots) {
    return slots->layer_bytes + slots->conv_layer_bytes > 0;
}

uint64_t pool_slots_bytes(const struct pool_slots *slots, uint32_t layers) {
    return layers * (slots->layer_bytes + slots->conv_layer_bytes);
}

uint64_t pool_slots_padding_bytes(const struct pool_slots *slots, uint32_t layers) {
    const uint64_t held = slots->shape.seqs * (slots->slot_bytes + slots->conv_slot_bytes);
    return pool_slots_bytes(slots, layers) - layers * held;
}

/* Normal values, rounded to the type. */
static void make_values(struct generate_random *random, uint32_t value_bytes, uint8_t *out,
                        uint64_t count) {
    for (uint64_t i = 0; i < count; i++, out += value_bytes) {
        const float value = generate_random_normal(random);
        if (value_bytes == sizeof value)
            memcpy(out, &value, sizeof value);
        else
            format_encode_row(FORMAT_BF16, &value, 1, 1.0f, out, NULL, NULL);
    }
}

/* Every slot holds the same values. What is written once and repeated is a slot, or all of a layer
 * where layers are padded. */
static enum status fill_part(const struct backend_ops *ops, struct backend_device *device,
                             struct generate_random *random, uint32_t value_bytes,
                             uint64_t slot_bytes, uint64_t layer_bytes, uint32_t seqs,
                             uint32_t layers, uint8_t *dev_to, struct status_text *text) {
    if (layer_bytes == 0)
        return STATUS_OK;
    const bool padded = layer_bytes != seqs * slot_bytes;
    const uint64_t image_bytes = padded ? layer_bytes : slot_bytes;
    uint8_t *image = calloc(1, image_bytes);
    if (image == NULL)
        return status_set(text, STATUS_OUT_OF_MEMORY, "no host memory for a state of %llu bytes",
                          (unsigned long long)image_bytes);
    make_values(random, value_bytes, image, slot_bytes / value_bytes);
    for (uint64_t at = slot_bytes; at + slot_bytes <= image_bytes; at += slot_bytes)
        memcpy(image + at, image, slot_bytes);
    const enum status status =
        pool_state_repeat(ops, device, dev_to, image, image_bytes, layers * layer_bytes, text);
    free(image);
    return status;
}

enum status pool_slots_fill(const struct backend_ops *ops, struct backend_device *device,
                            const struct pool_slots *slots, uint32_t layers, uint64_t seed,
                            uint8_t *dev_memory, struct status_text *text) {
    struct generate_random random;
    generate_random_seed(&random, seed);
    enum status status = fill_part(ops, device, &random, slots->shape.value_bytes,
                                   slots->slot_bytes, slots->layer_bytes, slots->shape.seqs, layers,
                                   dev_memory + slots->offset_bytes, text);
    if (status == STATUS_OK)
        status = fill_part(ops, device, &random, sizeof(uint16_t), slots->conv_slot_bytes,
                           slots->conv_layer_bytes, slots->shape.seqs, layers,
                           dev_memory + slots->conv_offset_bytes, text);
    return status;
}
