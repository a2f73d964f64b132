/* What the GPU instructions that the kernels use mean, as pure functions over the registers of a
 * lane or of a warp's 32 lanes. Knows nothing of threads, fibers or addresses: whoever executes
 * kernels (tests/simt) decides who holds which register and when.
 * Source: PTX ISA 9.0, the instructions' own sections; layouts from "Matrix Fragments for
 * mma.m16n8k16". A chip's sums inside one mma are not IEEE; here they are fp32 in the order of k,
 * so results are compared with tolerances, never bit for bit against a GPU. */
#ifndef GPU_MODEL_H
#define GPU_MODEL_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "format_bits.h"

enum {
    GPU_MODEL_LANES = 32,
    GPU_MODEL_MMA_M = 16,
    GPU_MODEL_MMA_N = 8,
    GPU_MODEL_MMA_K = 16,
    GPU_MODEL_ROW_BYTES = 16 /* one row of an 8 x 8 matrix of 16-bit units */
};

static inline uint32_t gpu_model_pair(uint16_t low, uint16_t high) {
    return (uint32_t)low | (uint32_t)high << 16;
}
static inline uint16_t gpu_model_low(uint32_t pair) {
    return (uint16_t)(pair & 0xFFFFu);
}
static inline uint16_t gpu_model_high(uint32_t pair) {
    return (uint16_t)(pair >> 16);
}

/* cvt.rn.f16x2.f32, cvt.rn.bf16x2.f32 */
static inline uint32_t gpu_model_pack_f16x2(float low, float high) {
    return gpu_model_pair(format_bits_f32_to_f16(low), format_bits_f32_to_f16(high));
}
static inline uint32_t gpu_model_pack_bf16x2(float low, float high) {
    return gpu_model_pair(format_bits_f32_to_bf16(low), format_bits_f32_to_bf16(high));
}

/* One rounding: products of two f16 are exact in fp32, and so are those of two bf16 wherever the
 * result does not round to the same bf16 anyway (16 bits, the last of them at 2^-149 or above once
 * the product is at least half the smallest bf16). */
static inline uint16_t gpu_model_mul_f16(uint16_t a, uint16_t b) {
    return format_bits_f32_to_f16(format_bits_f16_to_f32(a) * format_bits_f16_to_f32(b));
}
static inline uint16_t gpu_model_mul_bf16(uint16_t a, uint16_t b) {
    return format_bits_f32_to_bf16(format_bits_bf16_to_f32(a) * format_bits_bf16_to_f32(b));
}
/* mul.rn.f16x2; fma.rn.bf16x2 with -0 as its last operand */
static inline uint32_t gpu_model_mul_f16x2(uint32_t a, uint32_t b) {
    return gpu_model_pair(gpu_model_mul_f16(gpu_model_low(a), gpu_model_low(b)),
                          gpu_model_mul_f16(gpu_model_high(a), gpu_model_high(b)));
}
static inline uint32_t gpu_model_mul_bf16x2(uint32_t a, uint32_t b) {
    return gpu_model_pair(gpu_model_mul_bf16(gpu_model_low(a), gpu_model_low(b)),
                          gpu_model_mul_bf16(gpu_model_high(a), gpu_model_high(b)));
}

/* %globaltimer and %clock64 of a device whose time goes on by `read_ns` whenever one of them is
 * read: the timer in steps of tick_ns (0: it stands still), cycles by the thousand per
 * `cycles_per_us`. No test depends on how long anything takes. */
struct gpu_model_clock {
    uint64_t now_ns, read_ns, tick_ns, cycles_per_us;
};
#define GPU_MODEL_CLOCK                                                                            \
    { 1000400007, 40, 1000000, 1500 }

static inline uint64_t gpu_model_globaltimer(struct gpu_model_clock *clock) {
    clock->now_ns += clock->read_ns;
    return clock->tick_ns > 0 ? clock->now_ns / clock->tick_ns * clock->tick_ns : 0;
}
static inline uint64_t gpu_model_clock64(struct gpu_model_clock *clock) {
    clock->now_ns += clock->read_ns;
    return clock->now_ns * clock->cycles_per_us / 1000;
}

/* cvt.f32.f16 of the low half */
static inline float gpu_model_f16_to_f32(uint32_t half) {
    return format_bits_f16_to_f32(gpu_model_low(half));
}

/* cvt.rn.f16x2.e4m3x2: two codes in the low half, the first in the low byte; NaN is 0x7FFF */
static inline uint32_t gpu_model_e4m3x2_to_f16x2(uint32_t codes) {
    return gpu_model_pack_f16x2(format_bits_e4m3_to_f32((uint8_t)(codes & 0xFFu)),
                                format_bits_e4m3_to_f32((uint8_t)(codes >> 8 & 0xFFu)));
}
/* cvt.rn.f16x2.e2m1x2: two codes in the low byte, the first in the low nibble */
static inline uint32_t gpu_model_e2m1x2_to_f16x2(uint32_t codes) {
    return gpu_model_pack_f16x2(format_bits_e2m1_to_f32(codes & 15u),
                                format_bits_e2m1_to_f32(codes >> 4 & 15u));
}

/* prmt.b32: byte i of the result is the byte that nibble i of `selector` names among the eight of
 * a and b; with bit 3 set, that byte's sign bit eight times. */
static inline uint32_t gpu_model_permute_bytes(uint32_t a, uint32_t b, uint32_t selector) {
    const uint64_t bytes = (uint64_t)b << 32 | a;
    uint32_t out = 0;
    for (uint32_t i = 0; i < 4; i++) {
        const uint32_t nibble = selector >> (4 * i) & 15u;
        uint32_t byte = (uint32_t)(bytes >> (8 * (nibble & 7u))) & 0xFFu;
        if ((nibble & 8u) != 0)
            byte = (byte & 0x80u) != 0 ? 0xFFu : 0u;
        out |= byte << (8 * i);
    }
    return out;
}

/* mul.hi.u32 */
static inline uint32_t gpu_model_multiply_high(uint32_t a, uint32_t b) {
    return (uint32_t)((uint64_t)a * b >> 32);
}

/* Subnormal numbers as zeros of their sign, as .ftz has it. */
static inline float gpu_model_flush(float value) {
    const uint32_t bits = format_bits_of_f32(value);
    return (bits & 0x7F800000u) == 0 ? format_bits_to_f32(bits & 0x80000000u) : value;
}
/* ex2.approx.ftz.f32, but correctly rounded or nearly so */
static inline float gpu_model_exp2(float x) {
    return gpu_model_flush(exp2f(gpu_model_flush(x)));
}

/* The two coordinates of a lane in all fragments: g = lane / 4 and t = lane % 4. */
static inline uint32_t gpu_model_group(uint32_t lane) {
    return lane >> 2;
}
static inline uint32_t gpu_model_in_group(uint32_t lane) {
    return lane & 3u;
}

/* ldmatrix.x4 (.trans): rows[8 m + i] is row i of matrix m, as lane 8 m + i addressed it. Lane
 * 4 g + t gets units 2 t and 2 t + 1 of row g; trans: of column g. */
static inline void gpu_model_ldmatrix_x4(const uint8_t rows[GPU_MODEL_LANES][GPU_MODEL_ROW_BYTES],
                                         bool trans, uint32_t out[GPU_MODEL_LANES][4]) {
    uint16_t units[GPU_MODEL_LANES][8];
    memcpy(units, rows, sizeof units);
    for (uint32_t lane = 0; lane < GPU_MODEL_LANES; lane++) {
        const uint32_t g = gpu_model_group(lane), t = gpu_model_in_group(lane);
        for (uint32_t m = 0; m < 4; m++)
            out[lane][m] =
                trans ? gpu_model_pair(units[8 * m + 2 * t][g], units[8 * m + 2 * t + 1][g])
                      : gpu_model_pair(units[8 * m + g][2 * t], units[8 * m + g][2 * t + 1]);
    }
}

/* movmatrix.trans: the 8 x 8 matrix of 16-bit units whose row g lanes 4 g to 4 g + 3 hold. */
static inline void gpu_model_movmatrix_trans(const uint32_t in[GPU_MODEL_LANES],
                                             uint32_t out[GPU_MODEL_LANES]) {
    uint16_t units[8][8];
    for (uint32_t lane = 0; lane < GPU_MODEL_LANES; lane++) {
        const uint32_t g = gpu_model_group(lane), t = gpu_model_in_group(lane);
        units[g][2 * t] = gpu_model_low(in[lane]);
        units[g][2 * t + 1] = gpu_model_high(in[lane]);
    }
    for (uint32_t lane = 0; lane < GPU_MODEL_LANES; lane++) {
        const uint32_t g = gpu_model_group(lane), t = gpu_model_in_group(lane);
        out[lane] = gpu_model_pair(units[2 * t][g], units[2 * t + 1][g]);
    }
}

/* The registers of one warp for mma.m16n8k16 with 16-bit inputs and fp32 sums. */
struct gpu_model_mma {
    uint32_t a[GPU_MODEL_LANES][4]; /* 16 x 16 */
    uint32_t b[GPU_MODEL_LANES][2]; /* 16 x 8 */
    float d[GPU_MODEL_LANES][4];    /* 16 x 8: c going in, d coming out */
};

/* Where units 0 and 1 of a lane's registers stand. Register i of A: row g + 8 (i & 1), columns
 * 2 t + 8 (i >> 1) and the next. Register i of B: rows 2 t + 8 i and the next, column g. Value i of
 * C and D: row g + 8 (i >> 1), column 2 t + (i & 1). */
static inline uint32_t gpu_model_a_row(uint32_t lane, uint32_t i) {
    return gpu_model_group(lane) + 8 * (i & 1u);
}
static inline uint32_t gpu_model_a_column(uint32_t lane, uint32_t i) {
    return 2 * gpu_model_in_group(lane) + 8 * (i >> 1);
}
static inline uint32_t gpu_model_b_row(uint32_t lane, uint32_t i) {
    return 2 * gpu_model_in_group(lane) + 8 * i;
}
static inline uint32_t gpu_model_d_row(uint32_t lane, uint32_t i) {
    return gpu_model_group(lane) + 8 * (i >> 1);
}
static inline uint32_t gpu_model_d_column(uint32_t lane, uint32_t i) {
    return 2 * gpu_model_in_group(lane) + (i & 1u);
}

static inline float gpu_model_unit(uint16_t code, bool bf16) {
    return bf16 ? format_bits_bf16_to_f32(code) : format_bits_f16_to_f32(code);
}

/* mma.sync.aligned.m16n8k16.row.col.f32.{f16,bf16}.{f16,bf16}.f32, d = a b + d */
static inline void gpu_model_mma(struct gpu_model_mma *warp, bool bf16) {
    float a[GPU_MODEL_MMA_M][GPU_MODEL_MMA_K], b[GPU_MODEL_MMA_K][GPU_MODEL_MMA_N];
    float d[GPU_MODEL_MMA_M][GPU_MODEL_MMA_N];
    for (uint32_t lane = 0; lane < GPU_MODEL_LANES; lane++) {
        for (uint32_t i = 0; i < 4; i++) {
            float *at = &a[gpu_model_a_row(lane, i)][gpu_model_a_column(lane, i)];
            at[0] = gpu_model_unit(gpu_model_low(warp->a[lane][i]), bf16);
            at[1] = gpu_model_unit(gpu_model_high(warp->a[lane][i]), bf16);
            d[gpu_model_d_row(lane, i)][gpu_model_d_column(lane, i)] = warp->d[lane][i];
        }
        for (uint32_t i = 0; i < 2; i++) {
            const uint32_t row = gpu_model_b_row(lane, i), column = gpu_model_group(lane);
            b[row][column] = gpu_model_unit(gpu_model_low(warp->b[lane][i]), bf16);
            b[row + 1][column] = gpu_model_unit(gpu_model_high(warp->b[lane][i]), bf16);
        }
    }
    for (uint32_t row = 0; row < GPU_MODEL_MMA_M; row++)
        for (uint32_t k = 0; k < GPU_MODEL_MMA_K; k++)
            for (uint32_t column = 0; column < GPU_MODEL_MMA_N; column++)
                d[row][column] += a[row][k] * b[k][column];
    for (uint32_t lane = 0; lane < GPU_MODEL_LANES; lane++)
        for (uint32_t i = 0; i < 4; i++)
            warp->d[lane][i] = d[gpu_model_d_row(lane, i)][gpu_model_d_column(lane, i)];
}

#endif
