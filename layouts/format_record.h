/* What the codecs of records share: the conversions of one tile. Values that are not finite are
 * replaced here, as format_encode_row does, so that a device encodes straight from memory without a
 * copy of the row: infinities become +-65504, NaN 0, since a record's codes cannot all hold it. */
#ifndef FORMAT_RECORD_H
#define FORMAT_RECORD_H

#include "format_bits.h"

FORMAT_HD static inline float format_record_finite(float value) {
    const uint32_t magnitude = format_bits_magnitude(value);
    const uint32_t sign = format_bits_of_f32(value) & 0x80000000u;
    const uint32_t largest = sign | format_bits_of_f32(FORMAT_INFINITY_STORED);
    const uint32_t bits =
        format_bits_select(magnitude == 0x7F800000u, largest, format_bits_of_f32(value));
    return format_bits_to_f32(format_bits_select(magnitude > 0x7F800000u, 0, bits));
}

/* The largest magnitude, at least `floor`. */
FORMAT_HD static inline float format_record_amax(const float *x, uint32_t count, float floor) {
    float largest = floor;
    for (uint32_t i = 0; i < count; i++) {
        const float magnitude =
            format_bits_to_f32(format_bits_magnitude(format_record_finite(x[i])));
        largest = magnitude > largest ? magnitude : largest;
    }
    return largest;
}

/* e4m3 of x / scale, saturating. Where the scale is a power of two this is x * 2^-exponent. */
FORMAT_HD static inline void format_record_e4m3(const float *x, uint32_t count, float scale,
                                                uint8_t *codes) {
    for (uint32_t i = 0; i < count; i++)
        codes[i] = format_bits_f32_to_e4m3(format_record_finite(x[i]) / scale);
}

FORMAT_HD static inline void format_record_bf16(const float *x, uint32_t count, uint8_t *codes) {
    for (uint32_t i = 0; i < count; i++)
        format_bits_store16(codes + (size_t)2 * i,
                            format_bits_f32_to_bf16(format_record_finite(x[i])));
}

/* The e8m0 code of 2^ceil(log2(max(amax, 1e-4) / 448)). */
FORMAT_HD static inline uint8_t format_record_e8m0(const float *x, uint32_t count) {
    return format_bits_f32_to_e8m0_up(format_record_amax(x, count, 1e-4f) / 448.0f);
}

/* Value i of nibbles, the even one in the low half. */
FORMAT_HD static inline float format_record_e2m1(const uint8_t *codes, uint32_t i) {
    return format_bits_e2m1_to_f32((uint32_t)codes[i / 2] >> (i % 2 * 4));
}

#endif
