/* f16: IEEE binary16, 1 sign, 5 exponent, 10 mantissa bits, nearest even. */
#ifndef FORMAT_F16_H
#define FORMAT_F16_H

#include "format_bits.h"

static_assert(FORMAT_F16_VALUES == 1 && FORMAT_F16_PAYLOAD_BYTES == sizeof(uint16_t) &&
                  FORMAT_F16_SCALE_BYTES == 0,
              "f16 is one 16-bit code per value");

/* Magnitudes from 65520 up become infinities, as the type has it; NaN stays NaN (0x7FFF). */
FORMAT_HD static inline void format_f16_encode(const float *x, float tensor_scale, uint8_t *payload,
                                               uint8_t *scale) {
    (void)tensor_scale;
    (void)scale;
    format_bits_store16(payload, format_bits_f32_to_f16(x[0]));
}

/* One value into `units`; the group scale, here always 1, is returned. */
FORMAT_HD static inline float format_f16_decode(const uint8_t *payload, const uint8_t *scale,
                                                float *units) {
    (void)scale;
    units[0] = format_bits_f16_to_f32(format_bits_load16(payload));
    return 1.0f;
}

/* A quiet NaN. */
FORMAT_HD static inline void format_f16_poison(uint8_t *payload, uint8_t *scale) {
    (void)scale;
    format_bits_store16(payload, 0x7FFFu);
}

#endif
