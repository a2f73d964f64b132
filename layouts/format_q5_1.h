/* q5_1: llama.cpp's 5-bit block with a minimum in two planes: codes as q5_0's in 20 bytes, and two
 * f16 per 32 values, d then m. d = (max - min) / 31 and m = min in fp32; code = trunc((x - m) * (1
 * / d) + 0.5), by the unrounded d and m; decoded code * d + m in fp32, which is what the value is.
 * ggml's reference rule. (formats.md 1.9) */
#ifndef FORMAT_Q5_1_H
#define FORMAT_Q5_1_H

#include "format_q4_1.h"
#include "format_q5_0.h"

static_assert(FORMAT_Q5_1_VALUES == 32 && FORMAT_Q5_1_PAYLOAD_BYTES == FORMAT_Q5_0_PAYLOAD_BYTES &&
                  FORMAT_Q5_1_SCALE_BYTES == 2 * sizeof(uint16_t),
              "q5_1 is 32 fifth bits, 32 nibbles and two 16-bit numbers");

FORMAT_HD static inline void format_q5_1_encode(const float *x, float tensor_scale,
                                                uint8_t *payload, uint8_t *scale) {
    const struct format_q4_1_range range = format_q4_1_measure(x, 31.0f);
    uint8_t codes[FORMAT_Q5_1_VALUES];
    (void)tensor_scale;
    for (uint32_t i = 0; i < FORMAT_Q5_1_VALUES; i++)
        codes[i] = (uint8_t)format_q4_1_code(x[i], range);
    format_q5_pack(codes, payload);
    format_q4_1_store(range, scale);
}

/* 32 values into `units`, the minimum in them; returns 1. The product is exact in fp32. */
FORMAT_HD static inline float format_q5_1_decode(const uint8_t *payload, const uint8_t *scale,
                                                 float *units) {
    const float d = format_bits_f16_to_f32(format_bits_load16(scale));
    const float m = format_bits_f16_to_f32(format_bits_load16(scale + 2));
    for (uint32_t i = 0; i < FORMAT_Q5_1_VALUES; i++)
        units[i] = (float)(int32_t)format_q5_code(payload, i) * d + m;
    return 1.0f;
}

/* NaN for d and m. */
FORMAT_HD static inline void format_q5_1_poison(uint8_t *payload, uint8_t *scale) {
    memset(payload, 0xFF, FORMAT_Q5_1_PAYLOAD_BYTES);
    format_bits_store16(scale, 0x7FFFu);
    format_bits_store16(scale + 2, 0x7FFFu);
}

#endif
