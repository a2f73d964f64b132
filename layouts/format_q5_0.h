/* q5_0: llama.cpp's 5-bit block in two planes: the fifth bits of 32 codes (bit j: element j) in
 * four bytes, then the others in 16 (element j in the low nibble of byte j, element j + 16 in the
 * high one), and one f16 scale per 32 values. m = the first value of the largest magnitude, with
 * its sign; d = m / -16 in fp32; code = min(31, trunc(x * (1 / d) + 16.5)), by the unrounded d;
 * decoded (code - 16) * d. ggml's reference rule. (formats.md 1.9) */
#ifndef FORMAT_Q5_0_H
#define FORMAT_Q5_0_H

#include "format_q4_0.h"

enum format_q5_places { FORMAT_Q5_LOW = 4, FORMAT_Q5_HALF = 16 };

static_assert(FORMAT_Q5_0_VALUES == 32 &&
                  FORMAT_Q5_0_PAYLOAD_BYTES == FORMAT_Q5_LOW + FORMAT_Q5_HALF &&
                  FORMAT_Q5_0_SCALE_BYTES == sizeof(uint16_t),
              "q5_0 is 32 fifth bits, 32 nibbles and one 16-bit scale");

/* Codes of 32 values to their 20 bytes; q5_1's too. */
FORMAT_HD static inline void format_q5_pack(const uint8_t *codes, uint8_t *payload) {
    uint32_t fifths = 0;
    for (uint32_t j = 0; j < FORMAT_Q5_HALF; j++) {
        const uint32_t low = codes[j], high = codes[j + FORMAT_Q5_HALF];
        fifths |= (low >> 4) << j | (high >> 4) << (j + FORMAT_Q5_HALF);
        payload[FORMAT_Q5_LOW + j] = (uint8_t)((low & 15u) | (high & 15u) << 4);
    }
    format_bits_store32(payload, fifths);
}

/* The code of element i. */
FORMAT_HD static inline uint32_t format_q5_code(const uint8_t *payload, uint32_t i) {
    const uint32_t fifth = format_bits_load32(payload) >> i & 1u;
    const uint32_t low =
        (uint32_t)payload[FORMAT_Q5_LOW + i % FORMAT_Q5_HALF] >> (i / FORMAT_Q5_HALF * 4);
    return (low & 15u) | fifth << 4;
}

/* An all-zero group has d = -0 and codes 16. What is stored where ggml's rule leaves finite numbers
 * is as in format_q4_0.h. */
FORMAT_HD static inline void format_q5_0_encode(const float *x, float tensor_scale,
                                                uint8_t *payload, uint8_t *scale) {
    uint8_t codes[FORMAT_Q5_0_VALUES];
    float d = format_q4_0_extreme(x) / -16.0f;
    const float inverse = d > 0x1p-128f || d < -0x1p-128f ? 1.0f / d : 0.0f;
    (void)tensor_scale;
    for (uint32_t i = 0; i < FORMAT_Q5_0_VALUES; i++) {
        const float value = x[i] * inverse;
        /* halves, for the reason told in format_q4_0.h */
        const int32_t code = (int32_t)((value * 0.5f + 8.25f) * 2.0f);
        codes[i] = (uint8_t)(code < 31 ? code : 31);
    }
    format_q5_pack(codes, payload);
    d = d < 65504.0f ? d : 65504.0f;
    d = d > -65504.0f ? d : -65504.0f;
    format_bits_store16(scale, format_bits_f32_to_f16(d));
}

/* 32 values into `units`; returns the group scale, which may be negative. */
FORMAT_HD static inline float format_q5_0_decode(const uint8_t *payload, const uint8_t *scale,
                                                 float *units) {
    for (uint32_t i = 0; i < FORMAT_Q5_0_VALUES; i++)
        units[i] = (float)((int32_t)format_q5_code(payload, i) - 16);
    return format_bits_f16_to_f32(format_bits_load16(scale));
}

/* A NaN scale over the largest codes. */
FORMAT_HD static inline void format_q5_0_poison(uint8_t *payload, uint8_t *scale) {
    memset(payload, 0, FORMAT_Q5_0_PAYLOAD_BYTES);
    format_bits_store16(scale, 0x7FFFu);
}

#endif
