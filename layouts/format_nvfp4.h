/* nvfp4: e2m1 codes, one e4m3 scale per 16 values, one fp32 tensor scale g = amax / (6 * 448).
 * s = e4m3 of (group amax / 6) / g; code = e2m1, ties to even, of x / (s * g): fp32 operations in
 * that order, nothing approximate. Even element in the low nibble. (design.md, formats.md 1.6) */
#ifndef FORMAT_NVFP4_H
#define FORMAT_NVFP4_H

#include "format_bits.h"

static_assert(FORMAT_NVFP4_VALUES == 16 && FORMAT_NVFP4_PAYLOAD_BYTES == 16 / 2 &&
                  FORMAT_NVFP4_SCALE_BYTES == 1,
              "nvfp4 is 16 nibbles and one scale byte");

/* A group whose scale rounds to zero is stored as zeros. So is one whose s * g is below fp32's
 * range: it would decode to zero whatever its codes. */
FORMAT_HD static inline void format_nvfp4_encode(const float *x, float tensor_scale,
                                                 uint8_t *payload, uint8_t *scale) {
    uint8_t codes[FORMAT_NVFP4_VALUES];
    const float amax = format_bits_amax(x, FORMAT_NVFP4_VALUES);
    scale[0] = format_bits_f32_to_e4m3(amax / 6.0f / tensor_scale);
    const float divisor = format_bits_e4m3_to_f32(scale[0]) * tensor_scale;
    if (divisor == 0.0f) {
        scale[0] = 0;
        memset(payload, 0, FORMAT_NVFP4_PAYLOAD_BYTES);
        return;
    }
    for (uint32_t i = 0; i < FORMAT_NVFP4_VALUES; i++)
        codes[i] = format_bits_f32_to_e2m1_even(x[i] / divisor);
    format_bits_pack_nibbles(codes, FORMAT_NVFP4_VALUES, payload);
}

/* 16 values into `units`; returns the group scale. */
FORMAT_HD static inline float format_nvfp4_decode(const uint8_t *payload, const uint8_t *scale,
                                                  float *units) {
    format_bits_unpack_e2m1(payload, FORMAT_NVFP4_PAYLOAD_BYTES, units);
    return format_bits_e4m3_to_f32(scale[0]);
}

/* A NaN scale over the largest codes. */
FORMAT_HD static inline void format_nvfp4_poison(uint8_t *payload, uint8_t *scale) {
    memset(payload, 0x77, FORMAT_NVFP4_PAYLOAD_BYTES);
    scale[0] = 0x7Fu;
}

#endif
