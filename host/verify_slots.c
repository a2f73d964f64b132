/* State steps in double precision, from the stored bytes to the stored bytes. */
#include "verify_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "format.h"
#include "generate.h"

/* An fp32 sum of `count` products may be off by half an ulp for each, relative to the sum of
 * magnitudes; a little more for what went into the products. */
static double tolerance(uint32_t count) {
    return fmax(1e-5, (double)count * 0x1p-24);
}

static double value_at(const uint8_t *values, uint64_t index, uint32_t value_bytes) {
    if (value_bytes == sizeof(float)) {
        float value;
        memcpy(&value, values + index * sizeof value, sizeof value);
        return (double)value;
    }
    double value;
    format_decode_row_double(FORMAT_BF16, values + index * 2, NULL, 1, 1.0f, &value);
    return value;
}

static uint64_t bytes_of(const struct pool_slots *slots) {
    return slots->slot_bytes + slots->conv_slot_bytes;
}

static enum status read_state(const struct verifier *v, uint32_t g, uint32_t layer, uint32_t seq,
                              uint8_t *out, struct status_text *text) {
    const struct pool_slots *slots = pool_group_slots(v->pool, g);
    const uint8_t *dev_state = pool_dev_state(v->pool, g, layer);
    const uint8_t *dev_conv = (const uint8_t *)pool_dev_conv(v->pool, g, layer);
    enum status status = STATUS_OK;
    if (dev_state != NULL)
        status = v->ops->memory_read(v->device, out, dev_state + seq * slots->slot_bytes,
                                     slots->slot_bytes, text);
    if (status == STATUS_OK && dev_conv != NULL)
        status = v->ops->memory_read(v->device, out + slots->slot_bytes,
                                     dev_conv + seq * slots->conv_slot_bytes,
                                     slots->conv_slot_bytes, text);
    return status;
}

enum status verify_state_take(const struct verifier *v, uint32_t g, uint32_t layer, uint32_t seq,
                              struct verify_state *out, struct status_text *text) {
    *out = (struct verify_state){.group = g, .layer = layer, .seq = seq};
    out->values = malloc(bytes_of(pool_group_slots(v->pool, g)) + 1);
    if (out->values == NULL)
        return status_set(text, STATUS_OUT_OF_MEMORY, "no host memory to verify a state");
    return read_state(v, g, layer, seq, out->values, text);
}

void verify_state_free(struct verify_state *state) {
    free(state->values);
    *state = (struct verify_state){0};
}

static enum status wrong(const struct verify_state *before, const char *what, uint64_t at,
                         double got, double right, struct status_text *text) {
    return status_set(text, STATUS_WRONG,
                      "group %u layer %u sequence %u: %s %llu is %.9g after a step and should be "
                      "%.9g",
                      before->group, before->layer, before->seq, what, (unsigned long long)at, got,
                      right);
}

/* A stored value may be off by the sum's rounding and, in bf16, by half an ulp of its own (2^-8 of
 * its magnitude, a subnormal's step below). */
static bool is_stored(double got, double right, double magnitude, uint32_t cols,
                      uint32_t value_bytes) {
    const double rounding = value_bytes == 2 ? 0x1p-8 * fabs(right) + 0x1p-133 : 0;
    return fabs(got - right) <= tolerance(cols) * magnitude + rounding;
}

/* One row of one head; `row` is its number in the slot. */
static enum status check_row(const struct verify_state *before, const uint8_t *after,
                             const struct backend_state_shape *shape,
                             const struct step_slots_inputs *in, uint64_t head, uint64_t row,
                             float value, float output, struct status_text *text) {
    const uint32_t cols = shape->cols;
    const float *decays = in->decays + head * cols, *keys = in->keys + head * cols;
    const float *queries = in->queries + head * cols;
    double held = 0, held_size = 0, given = 0, given_size = 0;
    for (uint32_t c = 0; c < cols; c++) {
        const double old = value_at(before->values, row * cols + c, shape->value_bytes);
        held += old * (double)decays[c] * (double)keys[c];
        held_size += fabs(old * (double)decays[c] * (double)keys[c]);
    }
    const double added = (double)in->gains[head] * ((double)value - (shape->delta ? held : 0));
    const double added_size =
        (double)in->gains[head] * (fabs((double)value) + (shape->delta ? held_size : 0));
    for (uint32_t c = 0; c < cols; c++) {
        const double old = value_at(before->values, row * cols + c, shape->value_bytes);
        const double right = old * (double)decays[c] + added * (double)keys[c];
        const double size = fabs(old * (double)decays[c]) + added_size * fabs((double)keys[c]);
        const double got = value_at(after, row * cols + c, shape->value_bytes);
        if (!is_stored(got, right, size, cols, shape->value_bytes))
            return wrong(before, "state value", row * cols + c, got, right, text);
        given += right * (double)queries[c];
        given_size += size * fabs((double)queries[c]);
    }
    if (!(fabs((double)output - given) <= tolerance(cols) * given_size))
        return wrong(before, "output", row, (double)output, given, text);
    return STATUS_OK;
}

static enum status check_conv(const struct verify_state *before, const uint8_t *after,
                              const struct backend_state_shape *shape, const float *inputs,
                              const float *weights, const float *outputs,
                              struct status_text *text) {
    const uint32_t taps = shape->conv_taps;
    for (uint64_t channel = 0; channel < shape->conv_channels; channel++) {
        const float *weight = weights + channel * (taps + 1);
        double given = 0, size = 0;
        for (uint32_t tap = 0; tap <= taps; tap++) {
            const double column = tap == taps ? (double)inputs[channel]
                                              : value_at(before->values, channel * taps + tap, 2);
            given += column * (double)weight[tap];
            size += fabs(column * (double)weight[tap]);
            if (tap == 0)
                continue;
            const double got = value_at(after, channel * taps + tap - 1, 2);
            if (got != column)
                return wrong(before, "convolution column", channel * taps + tap - 1, got, column,
                             text);
        }
        if (!(fabs((double)outputs[channel] - given) <= tolerance(taps + 1) * size))
            return wrong(before, "convolution output", channel, (double)outputs[channel], given,
                         text);
    }
    return STATUS_OK;
}

enum status verify_state_check(struct verifier *v, const struct verify_state *before,
                               const float *outputs, const float *conv_outputs,
                               struct status_text *text) {
    const struct pool_slots *slots = pool_group_slots(v->pool, before->group);
    const struct backend_state_shape *shape = &slots->shape;
    const struct step_slots_inputs *in = step_slots_inputs_get(v->step, before->group);
    uint8_t *after = malloc(bytes_of(slots) + 1);
    if (after == NULL)
        return status_set(text, STATUS_OUT_OF_MEMORY, "no host memory to verify a state");
    enum status status = read_state(v, before->group, before->layer, before->seq, after, text);
    const uint64_t first_head = (uint64_t)before->seq * shape->heads;
    for (uint64_t row = 0; row < (uint64_t)shape->heads * shape->rows && status == STATUS_OK;
         row++) {
        const float value = in->values[first_head * shape->rows + row];
        status = check_row(before, after, shape, in, first_head + row / shape->rows, row, value,
                           outputs[row], text);
    }
    const struct verify_state conv = {.values = before->values + slots->slot_bytes,
                                      .group = before->group,
                                      .layer = before->layer,
                                      .seq = before->seq};
    if (status == STATUS_OK && shape->conv_channels > 0)
        status = check_conv(&conv, after + slots->slot_bytes, shape,
                            in->conv_inputs + (uint64_t)before->seq * shape->conv_channels,
                            in->conv_weights, conv_outputs, text);
    free(after);
    return status;
}

static enum status check_layer(struct verifier *v, uint32_t g, uint32_t layer, uint32_t seq,
                               float *outputs, float *conv_outputs, struct status_text *text) {
    struct verify_state before = {0};
    enum status status = verify_state_take(v, g, layer, seq, &before, text);
    if (status == STATUS_OK)
        status = step_slots_layer(v->step, g, layer, seq, outputs, conv_outputs, text);
    if (status == STATUS_OK)
        status = verify_state_check(v, &before, outputs, conv_outputs, text);
    verify_state_free(&before);
    return status;
}

enum status verify_slots(struct verifier *v, uint32_t g, struct status_text *text) {
    const struct backend_state_shape *shape = &pool_group_slots(v->pool, g)->shape;
    const uint32_t layers = pool_group(v->pool, g)->layers;
    const uint64_t values = (uint64_t)shape->heads * shape->rows * shape->cols +
                            (uint64_t)shape->conv_channels * shape->conv_taps + 1;
    /* the first and the last layer, and between them as many as the effort allows */
    uint64_t want = v->effort_values / values;
    want = want < 2 ? 2 : want;
    want = want > layers ? layers : want;
    float *outputs =
        malloc(((uint64_t)shape->heads * shape->rows + shape->conv_channels + 1) * sizeof *outputs);
    if (outputs == NULL)
        return status_set(text, STATUS_OUT_OF_MEMORY, "no host memory to verify a state");
    float *conv_outputs = outputs + (uint64_t)shape->heads * shape->rows;
    struct generate_random random;
    generate_random_seed(&random, v->seed + g);
    enum status status = STATUS_OK;
    for (uint64_t i = 0; i < want && status == STATUS_OK; i++) {
        const uint32_t layer = want == 1 ? 0 : (uint32_t)(i * (layers - 1) / (want - 1));
        const uint32_t seq = (uint32_t)generate_random_below(&random, shape->seqs);
        status = check_layer(v, g, layer, seq, outputs, conv_outputs, text);
        v->checked_count += status == STATUS_OK ? shape->heads + (shape->heads == 0) : 0;
    }
    v->output_count += (uint64_t)layers * shape->seqs * (shape->heads + (shape->heads == 0));
    free(outputs);
    return status;
}
