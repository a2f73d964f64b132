/* q4_1: llama.cpp's 4-bit block with a minimum in two planes: 32 codes in 16 bytes (element j in
 * the low nibble of byte j, element j + 16 in the high one), and two f16 per 32 values, d then m.
 * d = (max - min) / 15 and m = min in fp32; code = min(15, trunc((x - m) * (1 / d) + 0.5)), by the
 * unrounded d and m; decoded code * d + m in fp32, which is what the value is. ggml's reference
 * rule. (formats.md 1.9) */
#ifndef FORMAT_Q4_1_H
#define FORMAT_Q4_1_H

#include "format_bits.h"

static_assert(FORMAT_Q4_1_VALUES == 32 && FORMAT_Q4_1_PAYLOAD_BYTES == 32 / 2 &&
                  FORMAT_Q4_1_SCALE_BYTES == 2 * sizeof(uint16_t),
              "q4_1 is 32 nibbles and two 16-bit numbers");

struct format_q4_1_range {
    float least;
    float d;       /* a step of the codes, unrounded */
    float inverse; /* 0 where d is 0, or so small or large that 1 / d is of no use */
};

/* The range of 32 values cut into `steps`; q5_1's too. */
FORMAT_HD static inline struct format_q4_1_range format_q4_1_measure(const float *x, float steps) {
    struct format_q4_1_range range;
    float most = x[0];
    range.least = x[0];
    for (uint32_t i = 1; i < FORMAT_Q4_1_VALUES; i++) {
        range.least = x[i] < range.least ? x[i] : range.least;
        most = x[i] > most ? x[i] : most;
    }
    range.d = (most - range.least) / steps;
    range.inverse = range.d > 0x1p-128f && range.d < 0x1p127f ? 1.0f / range.d : 0.0f;
    return range;
}

/* trunc((x - least) / d + 0.5) with the sum rounded to fp32. Halves are added so that what precedes
 * the addition is exact, and fusing it with an earlier product changes nothing. */
FORMAT_HD static inline uint32_t format_q4_1_code(float x, struct format_q4_1_range range) {
    const float value = range.inverse != 0.0f ? (x - range.least) * range.inverse : 0.0f;
    return (uint32_t)(int32_t)((value * 0.5f + 0.25f) * 2.0f);
}

/* d and m to f16; beyond its range (data above 6.5e4) the largest finite number is stored. */
FORMAT_HD static inline void format_q4_1_store(struct format_q4_1_range range, uint8_t *scale) {
    float m = range.least < 65504.0f ? range.least : 65504.0f;
    m = m > -65504.0f ? m : -65504.0f;
    format_bits_store16(scale, format_bits_f32_to_f16(range.d < 65504.0f ? range.d : 65504.0f));
    format_bits_store16(scale + 2, format_bits_f32_to_f16(m));
}

FORMAT_HD static inline void format_q4_1_encode(const float *x, float tensor_scale,
                                                uint8_t *payload, uint8_t *scale) {
    const struct format_q4_1_range range = format_q4_1_measure(x, 15.0f);
    (void)tensor_scale;
    for (uint32_t j = 0; j < FORMAT_Q4_1_PAYLOAD_BYTES; j++) {
        const uint32_t low = format_q4_1_code(x[j], range);
        const uint32_t high = format_q4_1_code(x[j + FORMAT_Q4_1_PAYLOAD_BYTES], range);
        payload[j] = (uint8_t)((low < 15 ? low : 15) | (high < 15 ? high : 15) << 4);
    }
    format_q4_1_store(range, scale);
}

/* 32 values into `units`, the minimum in them; returns 1. The product is exact in fp32. */
FORMAT_HD static inline float format_q4_1_decode(const uint8_t *payload, const uint8_t *scale,
                                                 float *units) {
    const float d = format_bits_f16_to_f32(format_bits_load16(scale));
    const float m = format_bits_f16_to_f32(format_bits_load16(scale + 2));
    for (uint32_t j = 0; j < FORMAT_Q4_1_PAYLOAD_BYTES; j++) {
        units[j] = (float)(int32_t)(payload[j] & 15u) * d + m;
        units[j + FORMAT_Q4_1_PAYLOAD_BYTES] = (float)(int32_t)(payload[j] >> 4) * d + m;
    }
    return 1.0f;
}

/* NaN for d and m. */
FORMAT_HD static inline void format_q4_1_poison(uint8_t *payload, uint8_t *scale) {
    memset(payload, 0xFF, FORMAT_Q4_1_PAYLOAD_BYTES);
    format_bits_store16(scale, 0x7FFFu);
    format_bits_store16(scale + 2, 0x7FFFu);
}

#endif
