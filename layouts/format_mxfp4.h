/* mxfp4: e2m1 codes, one power-of-two scale byte (e8m0) per 32 values, OCP Microscaling's layout.
 * exponent = ceil(log2(max(amax, 6 * 2^-126) / 6)), so no code is clipped; code = e2m1, ties to
 * even, of x * 2^-exponent. Even element in the low nibble. (formats.md 1.7, rule (a)) */
#ifndef FORMAT_MXFP4_H
#define FORMAT_MXFP4_H

#include "format_bits.h"

static_assert(FORMAT_MXFP4_VALUES == 32 && FORMAT_MXFP4_PAYLOAD_BYTES == 32 / 2 &&
                  FORMAT_MXFP4_SCALE_BYTES == 1,
              "mxfp4 is 32 nibbles and one scale byte");

/* The floor under amax makes the all-zero group's scale byte 1. */
FORMAT_HD static inline void format_mxfp4_encode(const float *x, float tensor_scale,
                                                 uint8_t *payload, uint8_t *scale) {
    uint8_t codes[FORMAT_MXFP4_VALUES];
    const float amax = format_bits_amax(x, FORMAT_MXFP4_VALUES);
    const float floored = amax > 6.0f * 0x1p-126f ? amax : 6.0f * 0x1p-126f;
    (void)tensor_scale;
    scale[0] = format_bits_f32_to_e8m0_up(floored / 6.0f);
    const float inverse = format_bits_e8m0_inverse(scale[0]);
    for (uint32_t i = 0; i < FORMAT_MXFP4_VALUES; i++)
        codes[i] = format_bits_f32_to_e2m1_even(x[i] * inverse);
    format_bits_pack_nibbles(codes, FORMAT_MXFP4_VALUES, payload);
}

/* 32 values into `units`; returns the group scale. */
FORMAT_HD static inline float format_mxfp4_decode(const uint8_t *payload, const uint8_t *scale,
                                                  float *units) {
    format_bits_unpack_e2m1(payload, FORMAT_MXFP4_PAYLOAD_BYTES, units);
    return format_bits_e8m0_to_f32(scale[0]);
}

/* A NaN scale over the largest codes. */
FORMAT_HD static inline void format_mxfp4_poison(uint8_t *payload, uint8_t *scale) {
    memset(payload, 0x77, FORMAT_MXFP4_PAYLOAD_BYTES);
    scale[0] = 0xFFu;
}

#endif
