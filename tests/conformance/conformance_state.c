/* Arrays, the step, and what the arrays must hold after it. */
#include "conformance_state.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD_BYTE = 0xA5, POISON_BYTE = 0xFF /* a NaN in every type */ };

static const char *const array_names[STATE_ARRAYS] = {
    "state", "conv",        "decays",       "keys",    "queries",     "values",
    "gains", "conv inputs", "conv weights", "outputs", "conv outputs"};

/* fp32's unit roundoff, eight times. A new value of the state takes two roundings of the decayed
 * one (product, sum), four of the value (difference, two products, sum), and of `held` those and
 * what its own sum is off by: n terms of random signs, added one after the other, by half a
 * roundoff of the sum of their magnitudes, whatever n is, and by less in lanes. A fault is off by a
 * term. */
static const double tolerance = 8 * 0x1p-24;

void conformance_state_describe(const struct conformance_state_case *which, char *out,
                                uint32_t out_bytes) {
    const struct backend_state_shape *shape = &which->shape;
    (void)snprintf(out, out_bytes, "%u seqs, %u heads of %u x %u %s, %s, %s decays%s, conv %u x %u",
                   shape->seqs, shape->heads, shape->rows, shape->cols,
                   shape->value_bytes == 2 ? "bf16" : "f32", shape->delta ? "delta" : "no delta",
                   which->equal_decays ? "equal" : "per-column", which->shifted ? ", shifted" : "",
                   shape->conv_channels, shape->conv_taps);
}

static uint64_t next_bits(uint64_t *seed) {
    uint64_t x = *seed += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

static float next_within(uint64_t *seed, float low, float high) {
    return low + (high - low) * (float)(next_bits(seed) >> 40) * 0x1p-24f;
}

/* A random bf16 of magnitude 2^-4 to 2. */
static uint16_t next_bf16(uint64_t *seed) {
    const uint64_t bits = next_bits(seed);
    return (uint16_t)((bits & 0x8000u) | (123 + (bits >> 16) % 5) << 7 | (bits & 0x7Fu));
}

static double from_bf16(uint16_t code) {
    const uint32_t bits = (uint32_t)code << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void fill(const struct conformance_state_case *which, enum conformance_state_array array,
                 uint8_t *to, uint64_t bytes) {
    const struct backend_state_shape *shape = &which->shape;
    uint64_t seed = (uint64_t)array << 32 | 77;
    const bool codes =
        array == STATE_CONV || (array == STATE_VALUES_OF_STATE && shape->value_bytes == 2);
    if (array == STATE_OUTPUTS || array == STATE_CONV_OUTPUTS) {
        memset(to, POISON_BYTE, bytes);
    } else if (codes) {
        for (uint64_t i = 0; i < bytes / 2; i++) {
            const uint16_t code = next_bf16(&seed);
            memcpy(to + i * 2, &code, sizeof code);
        }
    } else {
        /* decays in (0, 1], gains in (0, 1], keys near unit length: the state stays as large */
        const float key = sqrtf(3.0f / (float)(shape->cols > 0 ? shape->cols : 1));
        float value = 0;
        for (uint64_t i = 0; i < bytes / 4; i++) {
            if (array == STATE_CONV_INPUTS)
                value = (float)from_bf16(next_bf16(&seed));
            else if (array == STATE_KEYS)
                value = next_within(&seed, -key, key);
            else if (array == STATE_GAINS)
                value = next_within(&seed, 0.25f, 1);
            else if (array != STATE_DECAYS)
                value = next_within(&seed, -1, 1);
            else if (!which->equal_decays || i % shape->cols == 0)
                value = next_within(&seed, 0.5f, 1);
            memcpy(to + i * 4, &value, sizeof value);
        }
    }
}

static void sizes(const struct backend_state_shape *shape, uint64_t *bytes) {
    const uint64_t heads = (uint64_t)shape->seqs * shape->heads;
    const uint64_t channels = (uint64_t)shape->seqs * shape->conv_channels;
    bytes[STATE_VALUES_OF_STATE] = heads * shape->rows * shape->cols * shape->value_bytes;
    bytes[STATE_CONV] = channels * shape->conv_taps * 2;
    bytes[STATE_DECAYS] = bytes[STATE_KEYS] = bytes[STATE_QUERIES] = heads * shape->cols * 4;
    bytes[STATE_VALUES] = bytes[STATE_OUTPUTS] = heads * shape->rows * 4;
    bytes[STATE_GAINS] = heads * 4;
    bytes[STATE_CONV_INPUTS] = bytes[STATE_CONV_OUTPUTS] = channels * 4;
    bytes[STATE_CONV_WEIGHTS] = (uint64_t)shape->conv_channels * (shape->conv_taps + 1) * 4;
}

static uint64_t memory_bytes(const struct conformance_state *state, int array) {
    return state->arrays[array].offset_bytes + state->arrays[array].bytes +
           CONFORMANCE_STATE_GUARD_BYTES;
}

enum status conformance_state_create(const struct backend_ops *ops, struct backend_device *device,
                                     const struct conformance_state_case *which,
                                     struct conformance_state *state, struct status_text *text) {
    *state = (struct conformance_state){.ops = ops, .device = device, .which = which};
    uint64_t bytes[STATE_ARRAYS];
    sizes(&which->shape, bytes);
    for (int a = 0; a < STATE_ARRAYS; a++) {
        const bool shift =
            which->shifted && a != STATE_VALUES_OF_STATE && a != STATE_CONV; /* fp32 */
        state->arrays[a].bytes = bytes[a];
        state->arrays[a].offset_bytes = CONFORMANCE_STATE_GUARD_BYTES + (shift ? 4 : 0);
        const uint64_t all = memory_bytes(state, a);
        state->arrays[a].before = malloc(all);
        state->arrays[a].after = malloc(all);
        if (state->arrays[a].before == NULL || state->arrays[a].after == NULL)
            return status_set(text, STATUS_OUT_OF_MEMORY, "no memory for %s", array_names[a]);
        memset(state->arrays[a].before, GUARD_BYTE, all);
        fill(which, (enum conformance_state_array)a,
             state->arrays[a].before + state->arrays[a].offset_bytes, bytes[a]);
        enum status status =
            ops->memory_allocate(device, all, array_names[a], &state->arrays[a].memory, text);
        if (status == STATUS_OK)
            status = ops->memory_write(device, state->arrays[a].memory.dev_address,
                                       state->arrays[a].before, all, text);
        if (status != STATUS_OK)
            return status;
    }
    return STATUS_OK;
}

void conformance_state_destroy(struct conformance_state *state) {
    for (int a = 0; a < STATE_ARRAYS; a++) {
        state->ops->memory_free(state->device, &state->arrays[a].memory);
        free(state->arrays[a].before);
        free(state->arrays[a].after);
    }
}

static void *dev_array(const struct conformance_state *state, enum conformance_state_array array) {
    return (uint8_t *)state->arrays[array].memory.dev_address + state->arrays[array].offset_bytes;
}

enum status conformance_state_step(struct conformance_state *state, struct status_text *text) {
    const struct backend_state_step work = {
        .shape = state->which->shape,
        .dev_state = dev_array(state, STATE_VALUES_OF_STATE),
        .dev_conv = dev_array(state, STATE_CONV),
        .dev_decays = dev_array(state, STATE_DECAYS),
        .dev_keys = dev_array(state, STATE_KEYS),
        .dev_queries = dev_array(state, STATE_QUERIES),
        .dev_values = dev_array(state, STATE_VALUES),
        .dev_gains = dev_array(state, STATE_GAINS),
        .dev_conv_inputs = dev_array(state, STATE_CONV_INPUTS),
        .dev_conv_weights = dev_array(state, STATE_CONV_WEIGHTS),
        .dev_outputs = dev_array(state, STATE_OUTPUTS),
        .dev_conv_outputs = dev_array(state, STATE_CONV_OUTPUTS),
    };
    enum status status = state->ops->state_step(state->device, &work, text);
    if (status == STATUS_OK)
        status = state->ops->synchronize(state->device, text);
    for (int a = 0; a < STATE_ARRAYS && status == STATUS_OK; a++)
        status = state->ops->memory_read(state->device, state->arrays[a].after,
                                         state->arrays[a].memory.dev_address,
                                         memory_bytes(state, a), text);
    return status;
}

/* Value i of an fp32 array, before the step or after it. */
static double before_f32(const struct conformance_state *state, enum conformance_state_array array,
                         uint64_t i) {
    float value;
    memcpy(&value, state->arrays[array].before + state->arrays[array].offset_bytes + i * 4,
           sizeof value);
    return value;
}

static double after_f32(const struct conformance_state *state, enum conformance_state_array array,
                        uint64_t i) {
    float value;
    memcpy(&value, state->arrays[array].after + state->arrays[array].offset_bytes + i * 4,
           sizeof value);
    return value;
}

static uint16_t code_of(const uint8_t *image, uint64_t offset_bytes, uint64_t i) {
    uint16_t code;
    memcpy(&code, image + offset_bytes + i * 2, sizeof code);
    return code;
}

static double state_value(const struct conformance_state *state, bool after, uint64_t i) {
    const enum conformance_state_array array = STATE_VALUES_OF_STATE;
    if (state->which->shape.value_bytes == 4)
        return after ? after_f32(state, array, i) : before_f32(state, array, i);
    const uint8_t *image = after ? state->arrays[array].after : state->arrays[array].before;
    return from_bf16(code_of(image, state->arrays[array].offset_bytes, i));
}

/* Half of bf16's last place at a magnitude. */
static double half_place(double magnitude) {
    int exponent;
    (void)frexp(magnitude, &exponent); /* magnitude is below 2^exponent */
    return ldexp(1, exponent - 9);
}

static enum status wrong(struct status_text *text, const char *what, uint64_t row, uint64_t column,
                         double got, double expected, double allowed) {
    return status_set(text, STATUS_WRONG, "%s, row %llu, column %llu: %.9g, not %.9g +- %.2g", what,
                      (unsigned long long)row, (unsigned long long)column, got, expected, allowed);
}

/* Row `row` of all rows, and its output. */
static enum status check_row(const struct conformance_state *state, uint64_t row,
                             struct status_text *text) {
    const struct backend_state_shape *shape = &state->which->shape;
    const uint64_t head = row / shape->rows, first = head * shape->cols;
    const double value = before_f32(state, STATE_VALUES, row);
    const double gain = before_f32(state, STATE_GAINS, head);
    double held = 0, held_size = 0;
    for (uint32_t c = 0; c < shape->cols && shape->delta; c++) {
        const double term = state_value(state, false, row * shape->cols + c) *
                            before_f32(state, STATE_DECAYS, first + c) *
                            before_f32(state, STATE_KEYS, first + c);
        held += term;
        held_size += fabs(term);
    }
    double output = 0, output_size = 0;
    for (uint32_t c = 0; c < shape->cols; c++) {
        const uint64_t i = row * shape->cols + c;
        const double query = before_f32(state, STATE_QUERIES, first + c);
        const double key = before_f32(state, STATE_KEYS, first + c);
        const double decayed =
            state_value(state, false, i) * before_f32(state, STATE_DECAYS, first + c);
        const double expected = decayed + gain * (value - held) * key;
        const double size = fabs(decayed) + gain * (fabs(value) + held_size) * fabs(key);
        double allowed = tolerance * size;
        if (shape->value_bytes == 2)
            allowed += half_place(fabs(expected) + allowed);
        const double got = state_value(state, true, i);
        if (!(fabs(got - expected) <= allowed))
            return wrong(text, "state", row, c, got, expected, allowed);
        output += expected * query;
        output_size += 2 * size * fabs(query); /* each value's own error, and the sum's */
    }
    const double got = after_f32(state, STATE_OUTPUTS, row);
    if (!(fabs(got - output) <= tolerance * output_size))
        return wrong(text, "outputs", row, 0, got, output, tolerance * output_size);
    return STATUS_OK;
}

/* Channel `channel` of all sequences': its output, and its columns bit for bit. */
static enum status check_channel(const struct conformance_state *state, uint64_t channel,
                                 struct status_text *text) {
    const uint32_t taps = state->which->shape.conv_taps;
    const uint64_t weights = channel % state->which->shape.conv_channels * (taps + 1);
    const uint64_t offset = state->arrays[STATE_CONV].offset_bytes;
    const double input = before_f32(state, STATE_CONV_INPUTS, channel);
    double output = 0, size = 0;
    for (uint32_t t = 0; t <= taps; t++) {
        const double column =
            t < taps
                ? from_bf16(code_of(state->arrays[STATE_CONV].before, offset, channel * taps + t))
                : input;
        const double term = column * before_f32(state, STATE_CONV_WEIGHTS, weights + t);
        output += term;
        size += fabs(term);
        if (t == 0)
            continue;
        const double moved =
            from_bf16(code_of(state->arrays[STATE_CONV].after, offset, channel * taps + t - 1));
        if (!(moved == column)) /* none is zero */
            return wrong(text, "conv", channel, t - 1, moved, column, 0);
    }
    const double got = after_f32(state, STATE_CONV_OUTPUTS, channel);
    if (!(fabs(got - output) <= tolerance * size))
        return wrong(text, "conv outputs", channel, 0, got, output, tolerance * size);
    return STATUS_OK;
}

/* Guards, and what is only read. */
static enum status check_untouched(const struct conformance_state *state,
                                   struct status_text *text) {
    for (int a = 0; a < STATE_ARRAYS; a++) {
        const bool written = a == STATE_VALUES_OF_STATE || a == STATE_CONV || a == STATE_OUTPUTS ||
                             a == STATE_CONV_OUTPUTS;
        const uint64_t first = state->arrays[a].offset_bytes;
        const uint64_t end = first + state->arrays[a].bytes;
        for (uint64_t i = 0; i < memory_bytes(state, a); i++)
            if (!(written && i >= first && i < end) &&
                state->arrays[a].after[i] != state->arrays[a].before[i])
                return status_set(text, STATUS_WRONG, "%s: byte %lld of %llu was written",
                                  array_names[a], (long long)i - (long long)first,
                                  (unsigned long long)state->arrays[a].bytes);
    }
    return STATUS_OK;
}

enum status conformance_state_check(const struct conformance_state *state,
                                    struct status_text *text) {
    const struct backend_state_shape *shape = &state->which->shape;
    enum status status = check_untouched(state, text);
    const uint64_t rows = (uint64_t)shape->seqs * shape->heads * shape->rows;
    for (uint64_t row = 0; row < rows && status == STATUS_OK; row++)
        status = check_row(state, row, text);
    const uint64_t channels = (uint64_t)shape->seqs * shape->conv_channels;
    for (uint64_t channel = 0; channel < channels && status == STATUS_OK; channel++)
        status = check_channel(state, channel, text);
    return status;
}

enum status conformance_state_run(const struct backend_ops *ops, struct backend_device *device,
                                  const struct conformance_state_case *which,
                                  struct status_text *text) {
    struct conformance_state state;
    enum status status = conformance_state_create(ops, device, which, &state, text);
    if (status == STATUS_OK)
        status = conformance_state_step(&state, text);
    if (status == STATUS_OK)
        status = conformance_state_check(&state, text);
    conformance_state_destroy(&state);
    return status;
}
