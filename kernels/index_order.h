/* The order of index scores, the same on every backend: as integers, larger ones first. */
#ifndef INDEX_ORDER_H
#define INDEX_ORDER_H

#include "format_bits.h"

/* NaN is below all, and the zeros of both signs are alike. */
FORMAT_HD static inline uint32_t index_order_key(float score) {
    const uint32_t bits = format_bits_of_f32(score), magnitude = format_bits_magnitude(score);
    if (magnitude > 0x7F800000u)
        return 0;
    return bits >> 31 != 0 ? 0x80000000u - magnitude : 0x80000000u + magnitude;
}

#endif
