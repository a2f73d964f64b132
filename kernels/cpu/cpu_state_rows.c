/* One step of a linear recurrence over rows of one head (backend.h has the formulas): a row is read
 * twice and written once, the second time out of the first-level cache. Compiled once per
 * instruction set under its own CPU_TILE_VARIANT. */
#include "cpu_state.h"

#include "cpu_vector.h"
#include "format_bits.h"

#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)

enum {
    STATE_ROWS = 4, /* side by side: one load of the head's vectors serves them all */
    STATE_PREFETCHED_BYTES = 8192,
};

CPU_INLINE vf load_vector(const float *from) {
    return (vf) * (const vf_unaligned *)from;
}

CPU_INLINE vf load_state(const uint8_t *row, uint32_t c, bool bf16) {
    if (bf16)
        return (vf)(vi_from_u16(vh_load(row + (uint64_t)c * 2)) << 16);
    return (vf) * (const vf_unaligned *)(row + (uint64_t)c * 4);
}

/* bf16: format_bits_f32_to_bf16 in lanes, with comparisons where that shifts: processors shift in
 * fewer places than they compare. */
CPU_INLINE void store_state(uint8_t *row, uint32_t c, bool bf16, vf value) {
    if (!bf16) {
        *(vf_unaligned *)(row + (uint64_t)c * 4) = (vf_unaligned)value;
        return;
    }
    const vu bits = (vu)value;
    const vu nan = (vu)(value != value); /* NOLINT(misc-redundant-expression): of NaN it is */
    const vu odd = (vu)((bits & 0x10000u) == 0x10000u); /* all ones: -1 */
    const vu rounded = bits + 0x7FFFu - odd;
    const vu codes = (rounded & ~nan) | (nan & 0x7FFF0000u);
    *(vh_unaligned *)(row + (uint64_t)c * 2) = (vh_unaligned)vh_from_upper(codes);
}

CPU_INLINE float load_one(const uint8_t *row, uint32_t c, bool bf16) {
    if (bf16)
        return format_bits_bf16_to_f32(format_bits_load16(row + (uint64_t)c * 2));
    float value;
    memcpy(&value, row + (uint64_t)c * 4, sizeof value);
    return value;
}

CPU_INLINE void store_one(uint8_t *row, uint32_t c, bool bf16, float value) {
    if (bf16)
        format_bits_store16(row + (uint64_t)c * 2, format_bits_f32_to_bf16(value));
    else
        memcpy(row + (uint64_t)c * 4, &value, sizeof value);
}

CPU_INLINE void sum_lanes(const vf *sums, uint32_t count, float *out) {
    if (count == STATE_ROWS) {
        const v4f four = vf_sum4(sums[0], sums[1], sums[2], sums[3]);
        memcpy(out, &four, sizeof four);
    } else {
        for (uint32_t r = 0; r < count; r++)
            out[r] = vf_sum(sums[r]);
    }
}

/* What the decayed state holds at the key. */
CPU_INLINE void hold(const struct cpu_state_rows *job, uint8_t *const *rows, uint32_t count,
                     bool bf16, float *held) {
    const uint32_t whole = job->cols / CPU_LANES * CPU_LANES;
    vf sums[STATE_ROWS];
    for (uint32_t r = 0; r < count; r++)
        sums[r] = vf_all(0);
    for (uint32_t c = 0; c < whole; c += CPU_LANES) {
        const vf decay = load_vector(job->decays + c), key = load_vector(job->keys + c);
        for (uint32_t r = 0; r < count; r++)
            sums[r] += load_state(rows[r], c, bf16) * decay * key;
    }
    sum_lanes(sums, count, held);
    for (uint32_t r = 0; r < count; r++) {
        for (uint32_t c = whole; c < job->cols; c++)
            held[r] += load_one(rows[r], c, bf16) * job->decays[c] * job->keys[c];
    }
}

/* Rows from `first` on; `count` and what follows are constants where this is called. */
CPU_INLINE void step_rows(const struct cpu_state_rows *job, uint32_t first, uint32_t count,
                          bool bf16, bool delta) {
    const uint32_t whole = job->cols / CPU_LANES * CPU_LANES;
    const uint64_t row_bytes = (uint64_t)job->cols * (bf16 ? 2 : 4);
    uint8_t *rows[STATE_ROWS];
    float gains[STATE_ROWS] = {0};
    for (uint32_t r = 0; r < count; r++)
        rows[r] = job->state + (first + r) * row_bytes;
    if (delta)
        hold(job, rows, count, bf16, gains);
    for (uint32_t r = 0; r < count; r++)
        gains[r] = job->gain * (job->values[first + r] - gains[r]);
    /* Read here: the stores below could otherwise change them, as far as a compiler knows. */
    const float *decays = job->decays, *keys = job->keys, *queries = job->queries;
    vf sums[STATE_ROWS];
    for (uint32_t r = 0; r < count; r++)
        sums[r] = vf_all(0);
    for (uint32_t c = 0; c < whole; c += CPU_LANES) {
        const vf decay = load_vector(decays + c), key = load_vector(keys + c);
        const vf query = load_vector(queries + c);
        for (uint32_t r = 0; r < count; r++) {
            const vf value = load_state(rows[r], c, bf16) * decay + gains[r] * key;
            sums[r] += value * query;
            store_state(rows[r], c, bf16, value);
        }
    }
    float outputs[STATE_ROWS];
    sum_lanes(sums, count, outputs);
    for (uint32_t r = 0; r < count; r++) {
        for (uint32_t c = whole; c < job->cols; c++) {
            const float value = load_one(rows[r], c, bf16) * decays[c] + gains[r] * keys[c];
            outputs[r] += value * queries[c];
            store_one(rows[r], c, bf16, value);
        }
        job->outputs[first + r] = outputs[r];
    }
}

/* The rows two turns ahead, to be written, where a turn is short: the hardware's own prefetching is
 * slow to see that what it reads comes back changed. One core of a busy AMD EPYC (AVX2, November
 * 2026), f32, 48 heads of 128 x 128: 1.25 to 1.3 times stream_copy's GB/s with this, 0.8 to 1.0
 * without. */
CPU_INLINE void prefetch_rows(const struct cpu_state_rows *job, uint32_t r, uint64_t row_bytes) {
    const uint64_t turn_bytes = row_bytes * STATE_ROWS;
    if (job->rows - r < 3 * STATE_ROWS || turn_bytes > STATE_PREFETCHED_BYTES)
        return;
    const uint8_t *next = job->state + (r + 2 * STATE_ROWS) * row_bytes;
    for (uint64_t i = 0; i < turn_bytes; i += 64)
        __builtin_prefetch(next + i, 1, 3);
}

CPU_INLINE void step_all(const struct cpu_state_rows *job, bool bf16, bool delta) {
    uint32_t r = 0;
    for (; job->rows - r >= STATE_ROWS; r += STATE_ROWS) {
        prefetch_rows(job, r, (uint64_t)job->cols * (bf16 ? 2 : 4));
        step_rows(job, r, STATE_ROWS, bf16, delta);
    }
    for (; r < job->rows; r++)
        step_rows(job, r, 1, bf16, delta);
}

void PASTE(cpu_state_rows_, CPU_TILE_VARIANT)(const struct cpu_state_rows *job);
void PASTE(cpu_state_rows_, CPU_TILE_VARIANT)(const struct cpu_state_rows *job) {
    if (job->bf16 && job->delta)
        step_all(job, true, true);
    else if (job->bf16)
        step_all(job, true, false);
    else if (job->delta)
        step_all(job, false, true);
    else
        step_all(job, false, false);
}
