/* One step of recurrent state, and of the partial entries of compressed groups: what it is given,
 * layer by layer the same. */
#include "step_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "generate.h"

/* Arrays of one group, in the order of their places on the device. */
struct array {
    float **host;
    const float **device;
    uint64_t count;
};

enum { INPUT_ARRAYS = 7 };

static void list_inputs(struct step_slots *slots, struct array out[INPUT_ARRAYS]) {
    const struct backend_state_shape *shape = &slots->work.shape;
    struct step_slots_inputs *in = &slots->inputs;
    struct backend_state_step *work = &slots->work;
    const uint64_t heads = (uint64_t)shape->seqs * shape->heads;
    const struct array arrays[INPUT_ARRAYS] = {
        {&in->decays, &work->dev_decays, heads * shape->cols},
        {&in->keys, &work->dev_keys, heads * shape->cols},
        {&in->queries, &work->dev_queries, heads * shape->cols},
        {&in->values, &work->dev_values, heads * shape->rows},
        {&in->gains, &work->dev_gains, heads},
        {&in->conv_inputs, &work->dev_conv_inputs, (uint64_t)shape->seqs * shape->conv_channels},
        {&in->conv_weights, &work->dev_conv_weights,
         (uint64_t)shape->conv_channels * (shape->conv_taps + 1)},
    };
    memcpy(out, arrays, sizeof arrays);
}

static float uniform(struct generate_random *random) {
    return (float)(generate_random_next(random) >> 40) * 0x1p-24f;
}

static void fill_normal(struct generate_random *random, float *out, uint64_t count, float scale) {
    for (uint64_t i = 0; i < count; i++)
        out[i] = generate_random_normal(random) * scale;
}

/* Decays below 1, keys of length about 1, gains up to 1: the state stays bounded however often it
 * is stepped. One decay per head, except for kda, which has one per column. */
static void make_inputs(struct step_slots *slots, bool decay_per_column, uint64_t seed) {
    const struct backend_state_shape *shape = &slots->work.shape;
    struct step_slots_inputs *in = &slots->inputs;
    struct generate_random random;
    generate_random_seed(&random, seed ^ STEP_INPUTS);
    const uint64_t heads = (uint64_t)shape->seqs * shape->heads;
    for (uint64_t head = 0; head < heads; head++) {
        float decay = 1.0f - 0.125f * uniform(&random);
        for (uint32_t c = 0; c < shape->cols; c++) {
            in->decays[head * shape->cols + c] = decay;
            if (decay_per_column)
                decay = 1.0f - 0.125f * uniform(&random);
        }
        in->gains[head] = 0.25f + 0.75f * uniform(&random);
    }
    const float length = heads > 0 ? 1.0f / sqrtf((float)shape->cols) : 0.0f;
    fill_normal(&random, in->keys, heads * shape->cols, length);
    fill_normal(&random, in->queries, heads * shape->cols, length);
    fill_normal(&random, in->values, heads * shape->rows, 1.0f);
    fill_normal(&random, in->conv_weights, (uint64_t)shape->conv_channels * (shape->conv_taps + 1),
                0.5f);
    /* sixteenths: exact in bf16 */
    for (uint64_t i = 0; i < (uint64_t)shape->seqs * shape->conv_channels; i++) {
        const int32_t sixteenths = (int32_t)(generate_random_normal(&random) * 16.0f);
        in->conv_inputs[i] = (float)sixteenths * 0.0625f;
    }
}

static enum status upload(struct step *step, struct step_slots *slots, struct status_text *text) {
    const struct backend_state_shape *shape = &slots->work.shape;
    struct array arrays[INPUT_ARRAYS];
    list_inputs(slots, arrays);
    const uint64_t outputs = (uint64_t)shape->seqs * shape->heads * shape->rows;
    const uint64_t conv_outputs = (uint64_t)shape->seqs * shape->conv_channels;
    uint64_t bytes = step_align_up(outputs * sizeof(float)) + conv_outputs * sizeof(float);
    for (int i = 0; i < INPUT_ARRAYS; i++)
        bytes += step_align_up(arrays[i].count * sizeof(float));
    enum status status = step->ops->memory_allocate(
        step->device, bytes, "the inputs and outputs of recurrent state", &slots->memory, text);
    uint8_t *at = slots->memory.dev_address;
    for (int i = 0; i < INPUT_ARRAYS && status == STATUS_OK; i++) {
        *arrays[i].device = (const float *)at;
        if (arrays[i].count > 0)
            status = step->ops->memory_write(step->device, at, *arrays[i].host,
                                             arrays[i].count * sizeof(float), text);
        at += step_align_up(arrays[i].count * sizeof(float));
    }
    slots->work.dev_outputs = (float *)at;
    slots->work.dev_conv_outputs = (float *)(at + step_align_up(outputs * sizeof(float)));
    return status;
}

enum status step_slots_create(struct step *step, uint32_t g, uint64_t seed,
                              struct status_text *text) {
    struct step_slots *slots = &step->groups[g].slots;
    if (step->ops->state_step == NULL)
        return status_set(text, STATUS_REFUSED, "the %s backend has no state steps",
                          step->ops->name);
    slots->work.shape = pool_group_slots(step->pool, g)->shape;
    struct array arrays[INPUT_ARRAYS];
    list_inputs(slots, arrays);
    for (int i = 0; i < INPUT_ARRAYS; i++) {
        *arrays[i].host = malloc(arrays[i].count * sizeof(float) + 1);
        if (*arrays[i].host == NULL)
            return status_set(text, STATUS_OUT_OF_MEMORY,
                              "no host memory for the inputs of recurrent state");
    }
    make_inputs(slots, strcmp(pool_group(step->pool, g)->family, "kda") == 0, seed + g);
    return upload(step, slots, text);
}

void step_slots_destroy(struct step *step, uint32_t g) {
    struct step_slots *slots = &step->groups[g].slots;
    struct array arrays[INPUT_ARRAYS];
    list_inputs(slots, arrays);
    for (int i = 0; i < INPUT_ARRAYS; i++)
        free(*arrays[i].host);
    step->ops->memory_free(step->device, &slots->memory);
}

enum status step_slots_give(const struct step *step, uint32_t g, uint32_t layer,
                            struct status_text *text) {
    struct backend_state_step work = step->groups[g].slots.work;
    work.dev_state = pool_dev_state(step->pool, g, layer);
    work.dev_conv = pool_dev_conv(step->pool, g, layer);
    return step->ops->state_step(step->device, &work, text);
}

const struct step_slots_inputs *step_slots_inputs_get(const struct step *step, uint32_t g) {
    return &step->groups[g].slots.inputs;
}

enum status step_slots_read(const struct step *step, uint32_t g, uint32_t seq, float *outputs,
                            float *conv_outputs, struct status_text *text) {
    const struct backend_state_step *work = &step->groups[g].slots.work;
    const uint64_t count = (uint64_t)work->shape.heads * work->shape.rows;
    enum status status = STATUS_OK;
    if (count > 0)
        status = step->ops->memory_read(step->device, outputs, work->dev_outputs + seq * count,
                                        count * sizeof *outputs, text);
    if (status == STATUS_OK && work->shape.conv_channels > 0)
        status = step->ops->memory_read(step->device, conv_outputs,
                                        work->dev_conv_outputs +
                                            (uint64_t)seq * work->shape.conv_channels,
                                        work->shape.conv_channels * sizeof *conv_outputs, text);
    return status;
}

enum status step_slots_layer(struct step *step, uint32_t g, uint32_t layer, uint32_t seq,
                             float *outputs, float *conv_outputs, struct status_text *text) {
    const struct backend_state_step *work = &step->groups[g].slots.work;
    const struct backend_state_shape *shape = &work->shape;
    const uint64_t bytes = (uint64_t)shape->seqs * shape->heads * shape->rows * sizeof(float);
    const uint64_t conv_bytes = (uint64_t)shape->seqs * shape->conv_channels * sizeof(float);
    enum status status = STATUS_OK;
    if (bytes > 0)
        status = step->ops->memory_fill(step->device, work->dev_outputs, 0xFF, bytes, text);
    if (status == STATUS_OK && conv_bytes > 0)
        status =
            step->ops->memory_fill(step->device, work->dev_conv_outputs, 0xFF, conv_bytes, text);
    if (status == STATUS_OK)
        status = step_slots_give(step, g, layer, text);
    if (status == STATUS_OK)
        status = step->ops->synchronize(step->device, text);
    return status == STATUS_OK ? step_slots_read(step, g, seq, outputs, conv_outputs, text)
                               : status;
}
