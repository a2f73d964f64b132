/* What the stored codes of a format are as 16-bit numbers, several at a time in registers. One
 * struct per format; how words get into registers is tile.cuh's and unit.cuh's business.
 *
 * A decoder turns a 32-bit word of codes into pairs of f16 or bf16 (BF16 says which):
 *   pairs    of a word of one row (K): PAIRS pairs, holding the values pair_value(pair, half)
 *   columns  of a word that ldmatrix transposed (V): its low half holds codes of one token and its
 *            high half the same ones of the next; column c is the pair of both tokens' c-th value
 * Decoded numbers are the format's units times 1 / UNDO, exactly (for Q8_0 and Q4_0 with ZERO
 * subtracted by an extra product, see there). UNDO differs with what the target can convert, so it
 * is used on the device only, never baked into an argument. */
#ifndef DECODE_CUH
#define DECODE_CUH

#include <string.h>

#include "format.h"
#include "gpu_ptx.cuh"

/* Where a format's block scales are multiplied in. */
enum decode_scale {
    DECODE_SCALE_NONE,
    DECODE_SCALE_FRAGMENT, /* 16 values each: on the decoded fragments */
    DECODE_SCALE_BLOCK     /* 32 values each: on the sums of scores, and on the weights before V */
};

/* Bytes 0 and 2, or 1 and 3, as the high bytes of two 16-bit numbers. */
GPU_DEVICE uint32_t decode_even_bytes(uint32_t word) {
    return ptx_permute_bytes(word, 0, 0x2404);
}
GPU_DEVICE uint32_t decode_odd_bytes(uint32_t word) {
    return word & 0xFF00FF00u;
}

GPU_DEVICE float decode_bits_to_f32(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

struct decode_bf16 {
    static constexpr uint32_t BITS = 16;
    static constexpr bool BF16 = true;
    static constexpr enum decode_scale SCALE = DECODE_SCALE_NONE;
    static constexpr float UNDO = 1.0f;
    static constexpr uint32_t RAW_BLOCK_BYTES = 0;
};

struct decode_f16 {
    static constexpr uint32_t BITS = 16;
    static constexpr bool BF16 = false;
    static constexpr enum decode_scale SCALE = DECODE_SCALE_NONE;
    static constexpr float UNDO = 1.0f;
    static constexpr uint32_t RAW_BLOCK_BYTES = 0;
};

struct decode_fp8_e4m3 {
    static constexpr uint32_t BITS = 8, PAIRS = 2;
    static constexpr bool BF16 = false;
    static constexpr enum decode_scale SCALE = DECODE_SCALE_NONE;
    static constexpr uint32_t RAW_BLOCK_BYTES = 0;
#if PTX_HAS_FP8_CONVERT
    static constexpr float UNDO = 1.0f;
    GPU_DEVICE static void pairs(uint32_t (&out)[2], uint32_t word) {
        out[0] = ptx_e4m3x2_to_f16x2(word);
        out[1] = ptx_e4m3x2_to_f16x2(word >> 16);
    }
    GPU_DEVICE static uint32_t pair_value(uint32_t pair, uint32_t half) {
        return 2 * pair + half;
    }
    GPU_DEVICE static void columns(uint32_t (&out)[2], uint32_t word) {
        pairs(out, ptx_permute_bytes(word, 0, 0x3120));
    }
#else
    /* Sign, then exponent and mantissa one place lower: an f16 2^8 times too small, exact, with
     * subnormals (and with the NaN code as 480). */
    static constexpr float UNDO = 256.0f;
    GPU_DEVICE static uint32_t widen(uint32_t word) {
        return (word & 0x80008000u) | ((word >> 1) & 0x3F803F80u);
    }
    GPU_DEVICE static void pairs(uint32_t (&out)[2], uint32_t word) {
        out[0] = widen(word << 8);
        out[1] = widen(word);
    }
    GPU_DEVICE static uint32_t pair_value(uint32_t pair, uint32_t half) {
        return pair + 2 * half;
    }
    GPU_DEVICE static void columns(uint32_t (&out)[2], uint32_t word) {
        pairs(out, word);
    }
#endif
};

/* e5m2 is the upper half of an f16. */
struct decode_fp8_e5m2 {
    static constexpr uint32_t BITS = 8, PAIRS = 2;
    static constexpr bool BF16 = false;
    static constexpr enum decode_scale SCALE = DECODE_SCALE_NONE;
    static constexpr float UNDO = 1.0f;
    static constexpr uint32_t RAW_BLOCK_BYTES = 0;
    GPU_DEVICE static void pairs(uint32_t (&out)[2], uint32_t word) {
        out[0] = decode_even_bytes(word);
        out[1] = decode_odd_bytes(word);
    }
    GPU_DEVICE static uint32_t pair_value(uint32_t pair, uint32_t half) {
        return pair + 2 * half;
    }
    GPU_DEVICE static void columns(uint32_t (&out)[2], uint32_t word) {
        pairs(out, word);
    }
};

/* e2m1 as f16: sign and three bits moved into place are 2^14 times too small, exact. */
struct decode_e2m1_f16 {
    static constexpr uint32_t BITS = 4, PAIRS = 4;
    static constexpr bool BF16 = false;
    static constexpr uint32_t RAW_BLOCK_BYTES = 0;
#if PTX_HAS_FP4_CONVERT
    static constexpr float UNDO = 1.0f;
    GPU_DEVICE static void pairs(uint32_t (&out)[4], uint32_t word) {
        out[0] = ptx_e2m1x2_to_f16x2<0>(word);
        out[1] = ptx_e2m1x2_to_f16x2<1>(word);
        out[2] = ptx_e2m1x2_to_f16x2<2>(word);
        out[3] = ptx_e2m1x2_to_f16x2<3>(word);
    }
    GPU_DEVICE static uint32_t pair_value(uint32_t pair, uint32_t half) {
        return 2 * pair + half;
    }
    GPU_DEVICE static void columns(uint32_t (&out)[4], uint32_t word) {
        uint32_t in[4];
        pairs(in, word);
        for (uint32_t i = 0; i < 2; i++) {
            out[2 * i] = ptx_permute_bytes(in[i], in[i + 2], 0x5410);
            out[2 * i + 1] = ptx_permute_bytes(in[i], in[i + 2], 0x7632);
        }
    }
#else
    static constexpr float UNDO = 16384.0f;
    /* Byte i: the high byte of the f16 that bits 7 to 4 of byte i mean. */
    GPU_DEVICE static uint32_t high_bytes(uint32_t word) {
        return (word & 0x80808080u) | ((word >> 3) & 0x0E0E0E0Eu);
    }
    GPU_DEVICE static void pairs(uint32_t (&out)[4], uint32_t word) {
        const uint32_t even = high_bytes(word << 4), odd = high_bytes(word);
        out[0] = decode_even_bytes(even);
        out[1] = decode_even_bytes(odd);
        out[2] = decode_odd_bytes(even);
        out[3] = decode_odd_bytes(odd);
    }
    GPU_DEVICE static uint32_t pair_value(uint32_t pair, uint32_t half) {
        return pair + 4 * half;
    }
    GPU_DEVICE static void columns(uint32_t (&out)[4], uint32_t word) {
        pairs(out, word);
    }
#endif
};

/* e2m1 as bf16, for scales that f16 cannot hold. */
struct decode_e2m1_bf16 {
    static constexpr uint32_t BITS = 4, PAIRS = 4;
    static constexpr bool BF16 = true;
    static constexpr float UNDO = 1.0f;
    static constexpr uint32_t RAW_BLOCK_BYTES = 0;
    /* Of both halves the nibble in bits 3 to 0, or 7 to 4. One product puts its sign into bit 15
     * and its other bits into 8 to 6, where they are a bf16 2^126 times too small: a multiplication
     * where two shifts would take turns with all other logic. */
    GPU_DEVICE static uint32_t low_nibbles(uint32_t word) {
        const uint32_t both = (word & 0x000F000Fu) * ((1u << 12) + (1u << 6));
        return ptx_mul_bf16x2(both & 0x81C081C0u, 0x7E807E80u);
    }
    GPU_DEVICE static uint32_t high_nibbles(uint32_t word) {
        const uint32_t both = (word & 0x00F000F0u) * ((1u << 8) + (1u << 2));
        return ptx_mul_bf16x2(both & 0x81C081C0u, 0x7E807E80u);
    }
    GPU_DEVICE static void pairs(uint32_t (&out)[4], uint32_t word) {
        const uint32_t odd = word >> 8;
        out[0] = low_nibbles(word);
        out[1] = high_nibbles(word);
        out[2] = low_nibbles(odd);
        out[3] = high_nibbles(odd);
    }
    GPU_DEVICE static uint32_t pair_value(uint32_t pair, uint32_t half) {
        return pair + 4 * half;
    }
    GPU_DEVICE static void columns(uint32_t (&out)[4], uint32_t word) {
        pairs(out, word);
    }
};

/* fragment_scale: of a word with the scales of 64 values (four bytes), byte `which`, twice.
 * column_scales: of the words of two tokens, the pairs of both tokens' scales `which` (0 or 1) and
 * which + 2, one for each chunk of 32 values. `which` is told as a selector, made once. */
GPU_DEVICE uint32_t decode_column_selector(uint32_t which) {
    return 0x6240u + 0x1111u * which;
}
struct decode_nvfp4 : decode_e2m1_f16 {
    static constexpr enum decode_scale SCALE = DECODE_SCALE_FRAGMENT;
    static constexpr uint32_t UNIT_SCALE_BYTES = 4;
    /* Two e4m3 scales, never negative, in the low half. */
    GPU_DEVICE static uint32_t scales(uint32_t codes) {
#if PTX_HAS_FP8_CONVERT
        return ptx_e4m3x2_to_f16x2(codes);
#else
        return ptx_mul_f16x2(ptx_permute_bytes(codes, 0, 0x1404) >> 1, 0x5C005C00u); /* times 256 */
#endif
    }
    GPU_DEVICE static uint32_t fragment_selector(uint32_t which) {
        return 0x4400u | which << 4 | which;
    }
    GPU_DEVICE static uint32_t fragment_scale(uint32_t word, uint32_t selector) {
        return scales(ptx_permute_bytes(word, 0, selector));
    }
    GPU_DEVICE static void column_scales(uint32_t (&out)[2], uint32_t first, uint32_t second,
                                         uint32_t selector) {
        const uint32_t codes = ptx_permute_bytes(first, second, selector);
        out[0] = scales(codes);
        out[1] = scales(codes >> 16);
    }
    GPU_DEVICE static uint32_t multiply(uint32_t a, uint32_t b) {
        return ptx_mul_f16x2(a, b);
    }
};

struct decode_fp4_mx_block16 : decode_e2m1_bf16 {
    static constexpr enum decode_scale SCALE = DECODE_SCALE_FRAGMENT;
    static constexpr uint32_t UNIT_SCALE_BYTES = 4;
    /* An e8m0 byte is a bf16's exponent; code 0 (2^-127, below every scale that is written) is 0.
     */
    GPU_DEVICE static uint32_t fragment_selector(uint32_t which) {
        return 0x4040u | which << 8 | which;
    }
    GPU_DEVICE static uint32_t fragment_scale(uint32_t word, uint32_t selector) {
        return ptx_permute_bytes(word, 0, selector) << 7;
    }
    GPU_DEVICE static void column_scales(uint32_t (&out)[2], uint32_t first, uint32_t second,
                                         uint32_t selector) {
        const uint32_t codes = ptx_permute_bytes(first, second, selector);
        out[0] = ptx_permute_bytes(codes, 0, 0x4140) << 7;
        out[1] = ptx_permute_bytes(codes, 0, 0x4342) << 7;
    }
    GPU_DEVICE static uint32_t multiply(uint32_t a, uint32_t b) {
        return ptx_mul_bf16x2(a, b);
    }
};

/* block_scale: of a word with the scales of 64 values, scale `which` (0 or 1) as fp32.
 * weight_scales: the pair of two tokens' scales `which`, as the weights' 16-bit type. A word of
 * mxfp4 may hold those of 128 values: `which` then is up to 3. */
template <class codes> struct decode_mxfp4_codes : codes {
    static constexpr enum decode_scale SCALE = DECODE_SCALE_BLOCK;
    static constexpr uint32_t UNIT_SCALE_BYTES = 2;
    static constexpr bool HAS_ZERO = false;
    static constexpr float LIFT = 0.0f;
    GPU_DEVICE static uint32_t block_value(uint32_t lane4, uint32_t pair, uint32_t half) {
        return 8 * lane4 + codes::pair_value(pair, half);
    }
    GPU_DEVICE static float block_scale(uint32_t word, uint32_t which) {
        return decode_bits_to_f32((word >> (8 * which) & 0xFFu) << 23);
    }
};
struct decode_mxfp4 : decode_mxfp4_codes<decode_e2m1_bf16> {
    GPU_DEVICE static uint32_t weight_scales(uint32_t first, uint32_t second, uint32_t which) {
        return (ptx_permute_bytes(first, second, 0x0400u + 0x0101u * which) & 0x00FF00FFu) << 7;
    }
    GPU_DEVICE static uint32_t multiply(uint32_t a, uint32_t b) {
        return ptx_mul_bf16x2(a, b);
    }
};

/* Integer codes become f16 subnormals: an unsigned u is u * 2^-24. What makes them unsigned (128
 * for q8_0, 8 for q4_0) is taken off by one more product with the constant ZERO, so that no code
 * is touched twice. Weights are lifted by 2^LIFT before a block scale d multiplies them: small
 * scales must not push them into subnormals, and the largest (65504 / 127, 65504 / 8) must not
 * overflow. */
struct decode_q8_0 {
    static constexpr uint32_t BITS = 8, PAIRS = 2;
    static constexpr bool BF16 = false;
    static constexpr enum decode_scale SCALE = DECODE_SCALE_BLOCK;
    static constexpr uint32_t UNIT_SCALE_BYTES = 4;
    static constexpr float UNDO = 16777216.0f;
    static constexpr bool HAS_ZERO = true;
    static constexpr float LIFT = 6.0f;
    static constexpr uint32_t RAW_BLOCK_BYTES = 0;
    GPU_DEVICE static uint32_t zero(uint32_t pair) {
        (void)pair;
        return 0x80808080u; /* -128 * 2^-24 */
    }
    GPU_DEVICE static void pairs(uint32_t (&out)[2], uint32_t word) {
        const uint32_t above = word ^ 0x80808080u;
        out[0] = ptx_permute_bytes(above, 0, 0x4240);
        out[1] = ptx_permute_bytes(above, 0, 0x4341);
    }
    GPU_DEVICE static uint32_t pair_value(uint32_t pair, uint32_t half) {
        return pair + 2 * half;
    }
    GPU_DEVICE static void columns(uint32_t (&out)[2], uint32_t word) {
        pairs(out, word);
    }
    GPU_DEVICE static float block_scale(uint32_t word, uint32_t which) {
        return ptx_f16_to_f32(word >> (16 * which));
    }
    GPU_DEVICE static uint32_t weight_scales(uint32_t first, uint32_t second, uint32_t which) {
        return ptx_permute_bytes(first, second, which == 0 ? 0x5410 : 0x7632);
    }
    GPU_DEVICE static uint32_t multiply(uint32_t a, uint32_t b) {
        return ptx_mul_f16x2(a, b);
    }
};

/* The high nibbles (pairs 2 and 3) stay where they are, 16 times too large: Q is divided by 16
 * beforehand, and the sums of V afterwards. */
struct decode_q4_0 {
    static constexpr uint32_t BITS = 4, PAIRS = 4;
    static constexpr bool BF16 = false;
    static constexpr enum decode_scale SCALE = DECODE_SCALE_BLOCK;
    static constexpr uint32_t UNIT_SCALE_BYTES = 4;
    static constexpr float UNDO = 16777216.0f;
    static constexpr bool HAS_ZERO = true;
    static constexpr float LIFT = 3.0f;
    static constexpr uint32_t RAW_BLOCK_BYTES = 0;
    GPU_DEVICE static uint32_t zero(uint32_t pair) {
        return pair < 2 ? 0x80088008u : 0x80808080u;
    }
    GPU_DEVICE static void pairs(uint32_t (&out)[4], uint32_t word) {
        const uint32_t odd = word >> 8;
        out[0] = word & 0x000F000Fu;
        out[1] = odd & 0x000F000Fu;
        out[2] = word & 0x00F000F0u;
        out[3] = odd & 0x00F000F0u;
    }
    GPU_DEVICE static uint32_t block_value(uint32_t lane4, uint32_t pair, uint32_t half) {
        return 16 * (pair >> 1) + 4 * lane4 + (pair & 1) + 2 * half;
    }
    GPU_DEVICE static void columns(uint32_t (&out)[4], uint32_t word) {
        pairs(out, word);
    }
    GPU_DEVICE static float block_scale(uint32_t word, uint32_t which) {
        return ptx_f16_to_f32(word >> (16 * which));
    }
    GPU_DEVICE static uint32_t weight_scales(uint32_t first, uint32_t second, uint32_t which) {
        return ptx_permute_bytes(first, second, which == 0 ? 0x5410 : 0x7632);
    }
    GPU_DEVICE static uint32_t multiply(uint32_t a, uint32_t b) {
        return ptx_mul_f16x2(a, b);
    }
};

/* llama.cpp's order: the same codes and scales, told apart in shared memory (tile_repack). */
struct decode_q8_0_ggml : decode_q8_0 {
    static constexpr uint32_t RAW_BLOCK_BYTES = 34;
};
struct decode_q4_0_ggml : decode_q4_0 {
    static constexpr uint32_t RAW_BLOCK_BYTES = 18;
};

/* What K of a format is decoded as, where that is not what V is: the scales of mxfp4's K go on fp32
 * sums, and its codes alone fit f16, which is cheaper to make. */
template <class F> struct decode_for_scores { typedef F type; };
template <> struct decode_for_scores<decode_mxfp4> {
    typedef decode_mxfp4_codes<decode_e2m1_f16> type;
};

/* decode_of<FORMAT_NVFP4>::type and so on, from the list of formats. */
template <int format> struct decode_of;
#define MMA_FORMAT(ID, id)                                                                         \
    template <> struct decode_of<FORMAT_##ID> { typedef decode_##id type; };
#include "mma_formats.def"
#undef MMA_FORMAT

#endif
