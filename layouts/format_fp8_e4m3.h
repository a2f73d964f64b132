/* fp8_e4m3: one byte per value, one fp32 scale per layer and per K or V (vLLM's "fp8" cache).
 * code = e4m3 of (x / tensor scale), an fp32 division, nearest even, saturating at 448. */
#ifndef FORMAT_FP8_E4M3_H
#define FORMAT_FP8_E4M3_H

#include "format_bits.h"

static_assert(FORMAT_FP8_E4M3_VALUES == 1 && FORMAT_FP8_E4M3_PAYLOAD_BYTES == 1 &&
                  FORMAT_FP8_E4M3_SCALE_BYTES == 0,
              "fp8_e4m3 is one byte per value");

#define FORMAT_FP8_E4M3_LARGEST 448.0f

FORMAT_HD static inline void format_fp8_e4m3_encode(const float *x, float tensor_scale,
                                                    uint8_t *payload, uint8_t *scale) {
    (void)scale;
    payload[0] = format_bits_f32_to_e4m3(x[0] / tensor_scale);
}

/* One value, before the tensor scale, into `units`; the group scale, here always 1, is returned. */
FORMAT_HD static inline float format_fp8_e4m3_decode(const uint8_t *payload, const uint8_t *scale,
                                                     float *units) {
    (void)scale;
    units[0] = format_bits_e4m3_to_f32(payload[0]);
    return 1.0f;
}

/* NaN. */
FORMAT_HD static inline void format_fp8_e4m3_poison(uint8_t *payload, uint8_t *scale) {
    (void)scale;
    payload[0] = 0x7Fu;
}

#endif
