/* q4_0: llama.cpp's 4-bit block in two planes: 32 codes in 16 bytes (element j in the low nibble of
 * byte j, element j + 16 in the high one), and one f16 scale per 32 values.
 * m = the first value of the largest magnitude, with its sign; d = m / -8 in fp32; code =
 * min(15, trunc(x * (1 / d) + 8.5)), by the unrounded d; decoded (code - 8) * d. ggml's reference
 * rule. (formats.md 1.9) */
#ifndef FORMAT_Q4_0_H
#define FORMAT_Q4_0_H

#include "format_bits.h"

static_assert(FORMAT_Q4_0_VALUES == 32 && FORMAT_Q4_0_PAYLOAD_BYTES == 32 / 2 &&
                  FORMAT_Q4_0_SCALE_BYTES == sizeof(uint16_t),
              "q4_0 is 32 nibbles and one 16-bit scale");

/* trunc(value + 8.5) with the sum rounded to fp32, at most 15. Halves are added so that what
 * precedes the addition is exact, and fusing it with an earlier product changes nothing. */
FORMAT_HD static inline uint32_t format_q4_0_code(float value) {
    const float half_sum = value * 0.5f + 4.25f;
    const int32_t code = (int32_t)(half_sum * 2.0f);
    return (uint32_t)(code < 15 ? code : 15);
}

/* The first value of the largest magnitude; +0 for an all-zero group. */
FORMAT_HD static inline float format_q4_0_extreme(const float *x) {
    const uint32_t largest = format_bits_of_f32(format_bits_amax(x, FORMAT_Q4_0_VALUES));
    for (uint32_t i = 0; largest != 0 && i < FORMAT_Q4_0_VALUES; i++)
        if (format_bits_magnitude(x[i]) == largest)
            return x[i];
    return 0.0f;
}

/* An all-zero group has d = -0 and mid codes, as ggml's. Two ends where the reference rule leaves
 * finite numbers, and what is stored instead: a d outside f16's range is stored as +-65504 (data
 * above 5.2e5), and where 1 / d overflows (data below 2.4e-38, whose d is 0 in f16 anyway) the
 * codes are 8, which is 0. */
FORMAT_HD static inline void format_q4_0_encode(const float *x, float tensor_scale,
                                                uint8_t *payload, uint8_t *scale) {
    float d = format_q4_0_extreme(x) / -8.0f;
    const float inverse = d > 0x1p-128f || d < -0x1p-128f ? 1.0f / d : 0.0f;
    (void)tensor_scale;
    for (uint32_t j = 0; j < FORMAT_Q4_0_PAYLOAD_BYTES; j++) {
        const uint32_t low = format_q4_0_code(x[j] * inverse);
        const uint32_t high = format_q4_0_code(x[j + FORMAT_Q4_0_PAYLOAD_BYTES] * inverse);
        payload[j] = (uint8_t)(low | high << 4);
    }
    d = d < 65504.0f ? d : 65504.0f;
    d = d > -65504.0f ? d : -65504.0f;
    format_bits_store16(scale, format_bits_f32_to_f16(d));
}

/* 32 values into `units`; returns the group scale, which may be negative. */
FORMAT_HD static inline float format_q4_0_decode(const uint8_t *payload, const uint8_t *scale,
                                                 float *units) {
    for (uint32_t j = 0; j < FORMAT_Q4_0_PAYLOAD_BYTES; j++) {
        units[j] = (float)((int32_t)(payload[j] & 15u) - 8);
        units[j + FORMAT_Q4_0_PAYLOAD_BYTES] = (float)((int32_t)(payload[j] >> 4) - 8);
    }
    return format_bits_f16_to_f32(format_bits_load16(scale));
}

/* A NaN scale over the largest codes. */
FORMAT_HD static inline void format_q4_0_poison(uint8_t *payload, uint8_t *scale) {
    memset(payload, 0, FORMAT_Q4_0_PAYLOAD_BYTES);
    format_bits_store16(scale, 0x7FFFu);
}

#endif
