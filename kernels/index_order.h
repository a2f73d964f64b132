/* The order of index scores, the same on every backend: as integers, larger ones first. */
#ifndef INDEX_ORDER_H
#define INDEX_ORDER_H

#include "format_bits.h"

/* NaN is below all, and the zeros of both signs are alike. Without branches: signs come as they
 * like.
 */
FORMAT_HD static inline uint32_t index_order_key(float score) {
    const uint32_t bits = format_bits_of_f32(score), magnitude = format_bits_magnitude(score);
    const uint32_t negative = 0u - (bits >> 31); /* all bits or none */
    const uint32_t key = 0x80000000u + ((magnitude ^ negative) - negative);
    return magnitude > 0x7F800000u ? 0 : key;
}

#endif
