/* fp4_mx_block16: SGLang's 4-bit cache. Like mxfp4 but 16 values per scale byte, ties away from
 * zero, -0 stored as 0 and another floor: exponent = ceil(log2(max(amax / 6, 1e-10))).
 * Even element in the low nibble. The logarithm here is exact; SGLang's own is torch's fp32 log2,
 * which may round to an integer just above a power of two. (formats.md 1.7, E7) */
#ifndef FORMAT_FP4_MX_BLOCK16_H
#define FORMAT_FP4_MX_BLOCK16_H

#include "format_bits.h"

static_assert(FORMAT_FP4_MX_BLOCK16_VALUES == 16 && FORMAT_FP4_MX_BLOCK16_PAYLOAD_BYTES == 16 / 2 &&
                  FORMAT_FP4_MX_BLOCK16_SCALE_BYTES == 1,
              "fp4_mx_block16 is 16 nibbles and one scale byte");

FORMAT_HD static inline void format_fp4_mx_block16_encode(const float *x, float tensor_scale,
                                                          uint8_t *payload, uint8_t *scale) {
    uint8_t codes[FORMAT_FP4_MX_BLOCK16_VALUES];
    const float sixth = format_bits_amax(x, FORMAT_FP4_MX_BLOCK16_VALUES) / 6.0f;
    (void)tensor_scale;
    scale[0] = format_bits_f32_to_e8m0_up(sixth > 1e-10f ? sixth : 1e-10f);
    const float inverse = format_bits_e8m0_inverse(scale[0]);
    for (uint32_t i = 0; i < FORMAT_FP4_MX_BLOCK16_VALUES; i++)
        codes[i] = format_bits_f32_to_e2m1_away(x[i] * inverse);
    format_bits_pack_nibbles(codes, FORMAT_FP4_MX_BLOCK16_VALUES, payload);
}

/* 16 values into `units`; returns the group scale. */
FORMAT_HD static inline float format_fp4_mx_block16_decode(const uint8_t *payload,
                                                           const uint8_t *scale, float *units) {
    format_bits_unpack_e2m1(payload, FORMAT_FP4_MX_BLOCK16_PAYLOAD_BYTES, units);
    return format_bits_e8m0_to_f32(scale[0]);
}

/* A NaN scale over the largest codes. */
FORMAT_HD static inline void format_fp4_mx_block16_poison(uint8_t *payload, uint8_t *scale) {
    memset(payload, 0x77, FORMAT_FP4_MX_BLOCK16_PAYLOAD_BYTES);
    scale[0] = 0xFFu;
}

#endif
