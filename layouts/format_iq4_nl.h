/* iq4_nl: llama.cpp's 4-bit block with a table of uneven steps, in two planes: 32 codes in 16 bytes
 * (element j in the low nibble of byte j, element j + 16 in the high one), and one f16 per 32
 * values. m = the first value of the largest magnitude, with its sign; d0 = m / -127 in fp32; code
 * = the table's value nearest to x * (1 / d0), a tie to the higher; then d = sum(x^2 t x) / sum(x^2
 * t t) over the chosen values t, in fp32 and in order, and the codes stay. ggml's reference rule.
 * (formats.md 1.9) */
#ifndef FORMAT_IQ4_NL_H
#define FORMAT_IQ4_NL_H

#include "format_q4_0.h"

static_assert(FORMAT_IQ4_NL_VALUES == 32 && FORMAT_IQ4_NL_PAYLOAD_BYTES == 32 / 2 &&
                  FORMAT_IQ4_NL_SCALE_BYTES == sizeof(uint16_t),
              "iq4_nl is 32 nibbles and one 16-bit scale");

/* -127 -104 -83 -65 -49 -35 -22 -10 1 13 25 38 53 69 89 113, a byte each: no table in memory, which
 * a GPU thread would have a copy of. */
FORMAT_HD static inline float format_iq4_nl_value(uint32_t code) {
    const uint64_t values = (code & 8u) == 0 ? 0xF6EADDCFBFAD9881u : 0x7159453526190D01u;
    return (float)(int8_t)(uint8_t)(values >> (code % 8 * 8));
}

/* How many of the midpoints between the table's values `scaled` has reached. */
FORMAT_HD static inline uint32_t format_iq4_nl_code(float scaled) {
    uint32_t code = 0;
    for (uint32_t i = 0; i < 15; i++) {
        const float middle = (format_iq4_nl_value(i) + format_iq4_nl_value(i + 1)) * 0.5f;
        code += (uint32_t)(scaled >= middle);
    }
    return code;
}

/* A group of less than 1e-15 is d = 0 over codes 8, as ggml's CUDA code leaves it (its CPU code
 * leaves stale nibbles). Where the sums overflow, d is d0; a d beyond f16's range is stored as
 * +-65504. */
FORMAT_HD static inline void format_iq4_nl_encode(const float *x, float tensor_scale,
                                                  uint8_t *payload, uint8_t *scale) {
    uint8_t codes[FORMAT_IQ4_NL_VALUES];
    const float extreme = format_q4_0_extreme(x);
    float d = extreme / -127.0f;
    const bool tiny = extreme < 1e-15f && extreme > -1e-15f;
    const float inverse = tiny ? 0.0f : 1.0f / d;
    float products = 0.0f, squares = 0.0f;
    (void)tensor_scale;
    FORMAT_UNROLL
    for (uint32_t i = 0; i < FORMAT_IQ4_NL_VALUES; i++) {
        codes[i] = (uint8_t)format_iq4_nl_code(x[i] * inverse);
        const float value = format_iq4_nl_value(codes[i]);
        const float weighted = format_bits_product(format_bits_product(x[i], x[i]), value);
        products += format_bits_product(weighted, x[i]);
        squares += format_bits_product(weighted, value);
    }
    for (uint32_t j = 0; j < FORMAT_IQ4_NL_PAYLOAD_BYTES; j++)
        payload[j] = (uint8_t)(codes[j] | (uint32_t)codes[j + FORMAT_IQ4_NL_PAYLOAD_BYTES] << 4);
    const float largest = 3.402823466e+38f;
    if (squares > 0.0f && squares <= largest && products >= -largest && products <= largest)
        d = products / squares;
    d = d < 65504.0f ? d : 65504.0f;
    d = d > -65504.0f ? d : -65504.0f;
    format_bits_store16(scale, format_bits_f32_to_f16(tiny ? 0.0f : d));
}

/* 32 values into `units`; returns the group scale, which may be negative. */
FORMAT_HD static inline float format_iq4_nl_decode(const uint8_t *payload, const uint8_t *scale,
                                                   float *units) {
    for (uint32_t j = 0; j < FORMAT_IQ4_NL_PAYLOAD_BYTES; j++) {
        units[j] = format_iq4_nl_value(payload[j]);
        units[j + FORMAT_IQ4_NL_PAYLOAD_BYTES] = format_iq4_nl_value((uint32_t)payload[j] >> 4);
    }
    return format_bits_f16_to_f32(format_bits_load16(scale));
}

/* A NaN scale over the largest codes. */
FORMAT_HD static inline void format_iq4_nl_poison(uint8_t *payload, uint8_t *scale) {
    memset(payload, 0, FORMAT_IQ4_NL_PAYLOAD_BYTES);
    format_bits_store16(scale, 0x7FFFu);
}

#endif
