/* fp8_e5m2: one byte per value, one fp32 scale per layer and per K or V.
 * code = e5m2 of (x / tensor scale), an fp32 division, nearest even, saturating at 57344. */
#ifndef FORMAT_FP8_E5M2_H
#define FORMAT_FP8_E5M2_H

#include "format_bits.h"

static_assert(FORMAT_FP8_E5M2_VALUES == 1 && FORMAT_FP8_E5M2_PAYLOAD_BYTES == 1 &&
                  FORMAT_FP8_E5M2_SCALE_BYTES == 0,
              "fp8_e5m2 is one byte per value");

#define FORMAT_FP8_E5M2_LARGEST 57344.0f

FORMAT_HD static inline void format_fp8_e5m2_encode(const float *x, float tensor_scale,
                                                    uint8_t *payload, uint8_t *scale) {
    (void)scale;
    payload[0] = format_bits_f32_to_e5m2(x[0] / tensor_scale);
}

/* One value, before the tensor scale, into `units`; the group scale, here always 1, is returned. */
FORMAT_HD static inline float format_fp8_e5m2_decode(const uint8_t *payload, const uint8_t *scale,
                                                     float *units) {
    (void)scale;
    units[0] = format_bits_e5m2_to_f32(payload[0]);
    return 1.0f;
}

/* NaN. */
FORMAT_HD static inline void format_fp8_e5m2_poison(uint8_t *payload, uint8_t *scale) {
    (void)scale;
    payload[0] = 0x7Fu;
}

#endif
