/* q8_0: llama.cpp's 8-bit block in two planes: 32 int8 codes, and one f16 scale per 32 values.
 * d = amax / 127 in fp32; code = x * (1 / d), halves away from zero, by the unrounded d; d is then
 * stored as f16. This is ggml's reference rule; its AVX and NEON paths round halves to even.
 * (formats.md 1.9) */
#ifndef FORMAT_Q8_0_H
#define FORMAT_Q8_0_H

#include "format_bits.h"

static_assert(FORMAT_Q8_0_VALUES == 32 && FORMAT_Q8_0_PAYLOAD_BYTES == 32 * sizeof(int8_t) &&
                  FORMAT_Q8_0_SCALE_BYTES == sizeof(uint16_t),
              "q8_0 is 32 signed bytes and one 16-bit scale");

/* Nearest integer, halves away from zero, of a value below 2^30. Doubling is exact, so twice the
 * value truncated decides without an addition that could fuse with an earlier product. */
FORMAT_HD static inline int32_t format_q8_0_round(float value) {
    const int32_t twice = (int32_t)(value * 2.0f);
    return (twice + (twice < 0 ? -1 : 1)) / 2;
}

/* Two ends where the reference rule leaves finite numbers, and what is stored instead: a d above
 * f16's range is stored as 65504 (data above 8.3e6), and where 1 / d overflows (data below 3.7e-37,
 * whose d is 0 in f16 anyway) the codes are 0. */
FORMAT_HD static inline void format_q8_0_encode(const float *x, float tensor_scale,
                                                uint8_t *payload, uint8_t *scale) {
    const float d = format_bits_amax(x, FORMAT_Q8_0_VALUES) / 127.0f;
    const float inverse = d > 0x1p-128f ? 1.0f / d : 0.0f;
    (void)tensor_scale;
    for (uint32_t i = 0; i < FORMAT_Q8_0_VALUES; i++)
        payload[i] = (uint8_t)format_q8_0_round(x[i] * inverse);
    format_bits_store16(scale, format_bits_f32_to_f16(d < 65504.0f ? d : 65504.0f));
}

/* 32 values into `units`; returns the group scale. */
FORMAT_HD static inline float format_q8_0_decode(const uint8_t *payload, const uint8_t *scale,
                                                 float *units) {
    for (uint32_t i = 0; i < FORMAT_Q8_0_VALUES; i++)
        units[i] = (float)(int8_t)payload[i];
    return format_bits_f16_to_f32(format_bits_load16(scale));
}

/* A NaN scale over the largest codes. */
FORMAT_HD static inline void format_q8_0_poison(uint8_t *payload, uint8_t *scale) {
    memset(payload, 0x7F, FORMAT_Q8_0_PAYLOAD_BYTES);
    format_bits_store16(scale, 0x7FFFu);
}

#endif
