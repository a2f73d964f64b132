/* Exact unsigned 64-bit arithmetic that refuses to wrap. Used for every size the formula
 * or an allocator computes; the caller decides what the refusal means. */
#ifndef CHECKED_H
#define CHECKED_H

#include <stdbool.h>
#include <stdint.h>

/* *out = a + b; false, and *out untouched, when that does not fit 64 bits. */
static inline bool checked_add(uint64_t a, uint64_t b, uint64_t *out) {
    if (a > UINT64_MAX - b)
        return false;
    *out = a + b;
    return true;
}

/* *out = a * b; false, and *out untouched, when that does not fit 64 bits. */
static inline bool checked_multiply(uint64_t a, uint64_t b, uint64_t *out) {
    if (a != 0 && b > UINT64_MAX / a)
        return false;
    *out = a * b;
    return true;
}

/* ceil(a / b), b > 0. */
static inline uint64_t checked_divide_up(uint64_t a, uint64_t b) {
    return a / b + (a % b != 0);
}

/* *out = a rounded up to a multiple of b, b > 0. */
static inline bool checked_round_up(uint64_t a, uint64_t b, uint64_t *out) {
    return checked_multiply(checked_divide_up(a, b), b, out);
}

#endif
