/* Scalar conversions between fp32 and the storage codes, for C17, C++17 and CUDA, host and device.
 * Which values share a scale, and by which rule, is format_<id>.h's business.
 *
 * Every function gives the same bits everywhere: integers and comparisons, or fp32 steps that are
 * exact by construction, so that neither -ffp-contract nor vectorisation can change a code. They
 * want what IEEE programs want: round to nearest even, no -ffast-math, on CUDA no -use_fast_math.
 * Rounding rules: those of the CUDA headers (cuda_bf16, cuda_fp16, cuda_fp8, cuda_fp4). */
#ifndef FORMAT_BITS_H
#define FORMAT_BITS_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#if defined(__CUDACC__)
#define FORMAT_HD __host__ __device__
#else
#define FORMAT_HD
#endif
/* A loop over arrays that a GPU is to keep in registers. */
#if defined(__CUDA_ARCH__)
#define FORMAT_UNROLL _Pragma("unroll")
#else
#define FORMAT_UNROLL
#endif

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the storage formats are little-endian, and rows are stored as the machine stores them"
#endif

/* Sizes of one group, from the list: FORMAT_NVFP4_VALUES and so on. */
enum format_group_sizes {
#define FORMAT(ID, id, values, payload, scale, nan, tensor, bits, tolerance)                       \
    FORMAT_##ID##_VALUES = (values), FORMAT_##ID##_PAYLOAD_BYTES = (payload),                      \
    FORMAT_##ID##_SCALE_BYTES = (scale),
#include "formats.def"
#undef FORMAT
    FORMAT_GROUP_SIZES_END
};

/* Of one record, which is a whole row: its values, those that have a scale (rope is behind them),
 * how many share it, and how many tiles that makes, the last of which may be shorter. */
enum format_record_sizes {
#define RECORD(ID, id, latent, rope, key, tile, payload, scale, align, bits, tolerance)            \
    FORMAT_##ID##_VALUES = (latent) + (rope) + (key), FORMAT_##ID##_CODED = (latent) + (key),      \
    FORMAT_##ID##_ROPE = (rope), FORMAT_##ID##_TILE = (tile),                                      \
    FORMAT_##ID##_TILES = ((latent) + (rope) + (key) + (tile)-1) / (tile),                         \
    FORMAT_##ID##_PAYLOAD_BYTES = (payload), FORMAT_##ID##_SCALE_BYTES = (scale),
#include "records.def"
#undef RECORD
    FORMAT_RECORD_SIZES_END
};

/* The magnitude that replaces an infinity in the input: the largest finite f16. */
#define FORMAT_INFINITY_STORED 65504.0f

FORMAT_HD static inline uint32_t format_bits_of_f32(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

FORMAT_HD static inline float format_bits_to_f32(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

FORMAT_HD static inline uint32_t format_bits_magnitude(float value) {
    return format_bits_of_f32(value) & 0x7FFFFFFFu;
}

FORMAT_HD static inline uint16_t format_bits_load16(const uint8_t *from) {
    uint16_t value;
    memcpy(&value, from, sizeof value);
    return value;
}

FORMAT_HD static inline void format_bits_store16(uint8_t *to, uint16_t value) {
    memcpy(to, &value, sizeof value);
}

FORMAT_HD static inline uint32_t format_bits_load32(const uint8_t *from) {
    uint32_t value;
    memcpy(&value, from, sizeof value);
    return value;
}

FORMAT_HD static inline void format_bits_store32(uint8_t *to, uint32_t value) {
    /* The analyser does not know that formats which store a scale have a place for it. */
    memcpy(to, &value, sizeof value); /* NOLINT(clang-analyzer-core.NonNullParamChecker) */
}

/* a * b rounded to fp32, whatever a compiler would like to fuse it with. */
FORMAT_HD static inline float format_bits_product(float a, float b) {
#if defined(__CUDA_ARCH__)
    return __fmul_rn(a, b);
#else
    const volatile float product = a * b;
    return product;
#endif
}

/* `yes` or `no`, both computed: compilers turn ?: between floating-point results into branches,
 * which a loop over values cannot be vectorised with. */
FORMAT_HD static inline uint32_t format_bits_select(bool condition, uint32_t yes, uint32_t no) {
    const uint32_t mask = 0u - (uint32_t)condition;
    return (yes & mask) | (no & ~mask);
}

/* The largest magnitude of `count` finite values, at least one. Compared as integers: same order,
 * and the loop vectorises. */
FORMAT_HD static inline float format_bits_amax(const float *values, uint32_t count) {
    int32_t largest = 0;
    for (uint32_t i = 0; i < count; i++) {
        const int32_t magnitude = (int32_t)format_bits_magnitude(values[i]);
        largest = magnitude > largest ? magnitude : largest;
    }
    return format_bits_to_f32((uint32_t)largest);
}

/* bf16: nearest even, overflow to infinity, any NaN to 0x7FFF. */
FORMAT_HD static inline uint16_t format_bits_f32_to_bf16(float value) {
    const uint32_t bits = format_bits_of_f32(value);
    const uint32_t rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
    return (uint16_t)format_bits_select((bits & 0x7FFFFFFFu) > 0x7F800000u, 0x7FFFu, rounded);
}

FORMAT_HD static inline float format_bits_bf16_to_f32(uint16_t code) {
    return format_bits_to_f32((uint32_t)code << 16);
}

/* The codes below the smallest normal number are |value| / step, nearest even. Adding 2^23 rounds
 * to an integer; the product is exact (a power of two), so a fused multiply-add gives the same. */
FORMAT_HD static inline uint32_t format_bits_subnormal(uint32_t magnitude, float inverse_step) {
    const float shifted = format_bits_to_f32(magnitude) * inverse_step + 8388608.0f;
    return format_bits_of_f32(shifted) & 0x7FFFFFu;
}

/* f16: nearest even, from 65520 up to infinity, any NaN to 0x7FFF. */
FORMAT_HD static inline uint16_t format_bits_f32_to_f16(float value) {
    const uint32_t magnitude = format_bits_magnitude(value);
    const uint32_t sign = (format_bits_of_f32(value) >> 16) & 0x8000u;
    const uint32_t rounded = (magnitude + 0xFFFu + ((magnitude >> 13) & 1u)) >> 13;
    const uint32_t normal = rounded - (112u << 10);
    const uint32_t small = format_bits_subnormal(magnitude, 0x1p24f);
    uint32_t code = format_bits_select(magnitude < 0x38800000u, small, normal);
    code = format_bits_select(magnitude >= 0x477FF000u, 0x7C00u, code) | sign;
    return (uint16_t)format_bits_select(magnitude > 0x7F800000u, 0x7FFFu, code);
}

FORMAT_HD static inline float format_bits_f16_to_f32(uint16_t code) {
    const uint32_t sign = ((uint32_t)code & 0x8000u) << 16;
    const uint32_t exponent = ((uint32_t)code >> 10) & 31u;
    const uint32_t mantissa = (uint32_t)code & 0x3FFu;
    const float small = (float)(int32_t)mantissa * 0x1p-24f;
    const uint32_t rebias = exponent == 31u ? 224u : 112u;
    const uint32_t normal = ((exponent + rebias) << 23) | (mantissa << 13);
    return format_bits_to_f32(sign |
                              format_bits_select(exponent == 0, format_bits_of_f32(small), normal));
}

/* e4m3 (no infinity): nearest even, saturating at 448 (0x7E), any NaN to 0x7F. */
FORMAT_HD static inline uint8_t format_bits_f32_to_e4m3(float value) {
    const uint32_t magnitude = format_bits_magnitude(value);
    const uint32_t sign = (format_bits_of_f32(value) >> 24) & 0x80u;
    const uint32_t rounded = (magnitude + 0x7FFFFu + ((magnitude >> 20) & 1u)) >> 20;
    const uint32_t small = format_bits_subnormal(magnitude, 0x1p9f);
    uint32_t code = format_bits_select(magnitude < 0x3C800000u, small, rounded - (120u << 3));
    code = format_bits_select(magnitude >= 0x43E00000u, 0x7Eu, code) | sign;
    return (uint8_t)format_bits_select(magnitude > 0x7F800000u, 0x7Fu, code);
}

FORMAT_HD static inline float format_bits_e4m3_to_f32(uint8_t code) {
    const uint32_t sign = ((uint32_t)code & 0x80u) << 24;
    const uint32_t magnitude = (uint32_t)code & 0x7Fu;
    const float small = (float)(int32_t)magnitude * 0x1p-9f;
    const uint32_t normal = (magnitude << 20) + (120u << 23);
    uint32_t bits = format_bits_select(magnitude < 8u, format_bits_of_f32(small), normal);
    bits = format_bits_select(magnitude == 0x7Fu, 0x7FC00000u, bits);
    return format_bits_to_f32(sign | bits);
}

/* e5m2: nearest even, saturating at 57344 (0x7B), any NaN to 0x7F. */
FORMAT_HD static inline uint8_t format_bits_f32_to_e5m2(float value) {
    const uint32_t magnitude = format_bits_magnitude(value);
    const uint32_t sign = (format_bits_of_f32(value) >> 24) & 0x80u;
    const uint32_t rounded = (magnitude + 0xFFFFFu + ((magnitude >> 21) & 1u)) >> 21;
    const uint32_t small = format_bits_subnormal(magnitude, 0x1p16f);
    uint32_t code = format_bits_select(magnitude < 0x38800000u, small, rounded - (112u << 2));
    code = format_bits_select(magnitude >= 0x47600000u, 0x7Bu, code) | sign;
    return (uint8_t)format_bits_select(magnitude > 0x7F800000u, 0x7Fu, code);
}

/* e5m2 is the upper half of f16, infinities and NaN included. */
FORMAT_HD static inline float format_bits_e5m2_to_f32(uint8_t code) {
    return format_bits_f16_to_f32((uint16_t)((uint32_t)code << 8));
}

/* e2m1, nearest, ties to even codes, saturating at 6; NaN to +6. The code is how many midpoints
 * between codes the magnitude has passed; compared as bits, which a NaN passes all. */
FORMAT_HD static inline uint8_t format_bits_f32_to_e2m1_even(float value) {
    const uint32_t m = format_bits_magnitude(value);
    const uint32_t sign =
        (format_bits_of_f32(value) >> 28) & 8u & (0u - (uint32_t)(m <= 0x7F800000u));
    const uint32_t code = (uint32_t)(m > 0x3E800000u) +  /* 0.25 */
                          (uint32_t)(m >= 0x3F400000u) + /* 0.75 */
                          (uint32_t)(m > 0x3FA00000u) +  /* 1.25 */
                          (uint32_t)(m >= 0x3FE00000u) + /* 1.75 */
                          (uint32_t)(m > 0x40200000u) +  /* 2.5 */
                          (uint32_t)(m >= 0x40600000u) + /* 3.5 */
                          (uint32_t)(m > 0x40A00000u);   /* 5 */
    return (uint8_t)(sign | code);
}

/* e2m1, nearest, ties away from zero, saturating at 6; -0 becomes 0, but a small negative value
 * keeps its sign (SGLang's fp4_mx_block16: the sign bit is x < 0). Not for NaN. */
FORMAT_HD static inline uint8_t format_bits_f32_to_e2m1_away(float value) {
    const uint32_t m = format_bits_magnitude(value);
    const uint32_t sign = (format_bits_of_f32(value) >> 28) & 8u & (0u - (uint32_t)(m != 0));
    const uint32_t code = (uint32_t)(m >= 0x3E800000u) + /* 0.25 */
                          (uint32_t)(m >= 0x3F400000u) + /* 0.75 */
                          (uint32_t)(m >= 0x3FA00000u) + /* 1.25 */
                          (uint32_t)(m >= 0x3FE00000u) + /* 1.75 */
                          (uint32_t)(m >= 0x40200000u) + /* 2.5 */
                          (uint32_t)(m >= 0x40600000u) + /* 3.5 */
                          (uint32_t)(m >= 0x40A00000u);  /* 5 */
    return (uint8_t)(sign | code);
}

/* Only the low four bits of `code` are looked at. */
FORMAT_HD static inline float format_bits_e2m1_to_f32(uint32_t code) {
    const uint32_t sign = (code & 8u) << 28;
    const uint32_t magnitude = code & 7u;
    /* 1 to 6: exponent in bits 1 and 2, mantissa in bit 0; 0 and 0.5 have no hidden bit */
    const uint32_t normal = ((magnitude >> 1) + 126u) << 23 | (magnitude & 1u) << 22;
    const uint32_t small = (0u - magnitude) & 0x3F000000u; /* 0, or the bits of 0.5 */
    return format_bits_to_f32(sign | format_bits_select(magnitude < 2u, small, normal));
}

/* e8m0: the smallest power of two that is not below |value|; capped at 2^127 (0xFE), NaN to
 * 0xFF. fp32 subnormals: up to 2^-127 to code 0, above to code 1. */
FORMAT_HD static inline uint8_t format_bits_f32_to_e8m0_up(float value) {
    const uint32_t magnitude = format_bits_magnitude(value);
    const uint32_t exponent = magnitude >> 23;
    uint32_t code = exponent + ((magnitude & 0x7FFFFFu) != 0 ? 1u : 0u);
    code = exponent == 0 && magnitude <= 0x400000u ? 0u : code;
    code = code > 0xFEu ? 0xFEu : code;
    return (uint8_t)(magnitude > 0x7F800000u ? 0xFFu : code);
}

/* 2^(code - 127); code 0 is a subnormal fp32, code 0xFF is NaN. */
FORMAT_HD static inline float format_bits_e8m0_to_f32(uint8_t code) {
    const uint32_t normal = code == 0xFFu ? 0x7FC00000u : (uint32_t)code << 23;
    return format_bits_to_f32(code == 0 ? 0x400000u : normal);
}

/* x / 2^(code - 127) for codes 1 to 253, as a multiplication by a power of two: exact unless
 * the quotient is below fp32's normal numbers. */
FORMAT_HD static inline float format_bits_e8m0_inverse(uint8_t code) {
    return format_bits_to_f32((254u - (uint32_t)code) << 23);
}

/* Packs `count` codes, even element in the low nibble, into count / 2 bytes. */
FORMAT_HD static inline void format_bits_pack_nibbles(const uint8_t *codes, uint32_t count,
                                                      uint8_t *payload) {
    for (uint32_t i = 0; i < count / 2; i++)
        payload[i] = (uint8_t)(codes[2 * i] | (uint32_t)codes[2 * i + 1] << 4);
}

/* Decodes 2 * `bytes` e2m1 values, even element in the low nibble. */
FORMAT_HD static inline void format_bits_unpack_e2m1(const uint8_t *payload, uint32_t bytes,
                                                     float *units) {
    for (uint32_t i = 0; i < bytes; i++) {
        units[2 * i] = format_bits_e2m1_to_f32(payload[i]);
        units[2 * i + 1] = format_bits_e2m1_to_f32((uint32_t)payload[i] >> 4);
    }
}

#endif
