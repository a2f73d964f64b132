/* Decoders of the tiled kernel: runs of stored rows to fp32, value times group scale, tensor
 * scales left out. One function per row of formats.def, found through cpu_decoders[]. A run is
 * contiguous: rows of one head and one page, one after the other. */
#ifndef CPU_DECODE_H
#define CPU_DECODE_H

#include "cpu_vector.h"
#include "format.h"

#include <stdalign.h>

typedef void (*cpu_decoder)(const uint8_t *payload, const uint8_t *scales, uint64_t values,
                            float *out);

static void cpu_decode_bf16(const uint8_t *payload, const uint8_t *scales, uint64_t values,
                            float *out) {
    (void)scales;
    uint64_t i = 0;
    for (; i + CPU_LANES <= values; i += CPU_LANES) {
        vf_store(out + i, (vf)(vi_from_u16(vh_load(payload + 2 * i)) << 16));
    }
    if (i < values)
        format_decode_row(FORMAT_BF16, payload + 2 * i, NULL, (uint32_t)(values - i), 1, out + i);
}

static void cpu_decode_f16(const uint8_t *payload, const uint8_t *scales, uint64_t values,
                           float *out) {
    (void)scales;
    uint64_t i = 0;
    for (; i + CPU_LANES <= values; i += CPU_LANES)
        vf_store(out + i, vf_from_f16(vh_load(payload + 2 * i)));
    if (i < values)
        format_decode_row(FORMAT_F16, payload + 2 * i, NULL, (uint32_t)(values - i), 1, out + i);
}

/* e4m3 is f16 with four exponent bits: shifted into place it is the value over 2^8. */
static inline vf cpu_from_e4m3(vb codes) {
    const vh wide = vh_from_u8(codes);
    const vh shifted = (vh)((wide & 0x80u) << 8 | (wide & 0x7Fu) << 7);
    return vf_from_f16(shifted) * 256.0f;
}

static void cpu_decode_fp8_e4m3(const uint8_t *payload, const uint8_t *scales, uint64_t values,
                                float *out) {
    (void)scales;
    uint64_t i = 0;
    for (; i + CPU_LANES <= values; i += CPU_LANES)
        vf_store(out + i, cpu_from_e4m3(vb_load(payload + i)));
    if (i < values)
        format_decode_row(FORMAT_FP8_E4M3, payload + i, NULL, (uint32_t)(values - i), 1, out + i);
}

/* e5m2 is the high byte of an f16. */
static void cpu_decode_fp8_e5m2(const uint8_t *payload, const uint8_t *scales, uint64_t values,
                                float *out) {
    (void)scales;
    uint64_t i = 0;
    for (; i + CPU_LANES <= values; i += CPU_LANES) {
        const vh wide = vh_from_u8(vb_load(payload + i));
        vf_store(out + i, vf_from_f16((vh)(wide << 8)));
    }
    if (i < values)
        format_decode_row(FORMAT_FP8_E5M2, payload + i, NULL, (uint32_t)(values - i), 1, out + i);
}

static const float cpu_e2m1_table[16] = {0,     0.5f,  1,     1.5f,  2,     3,     4,     6,
                                         -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};
static const float cpu_q4_table[16] = {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};

/* CPU_LANES indexes for the values of CPU_LANES / 2 bytes, even element in the low nibble. Bits
 * above the low four are noise; vf_table16 ignores them. */
static inline vi cpu_nibble_pairs(const uint8_t *payload) {
    typedef uint8_t bytes __attribute__((vector_size(CPU_LANES / 2)));
    typedef uint64_t wide __attribute__((vector_size(CPU_LANES * 4)));
    bytes b;
    memcpy(&b, payload, sizeof b);
#if CPU_LANES == 16
    const wide q = (wide)_mm512_cvtepu8_epi64(_mm_loadl_epi64((const __m128i *)(const void *)&b));
#else
    const wide q = __builtin_convertvector(b, wide);
#endif
    return (vi)(q | q << 28);
}

/* `group` e2m1 values under one fp32 scale. */
static inline void cpu_decode_e2m1_group(const uint8_t *payload, uint32_t group, float scale,
                                         float *out) {
    for (uint32_t i = 0; i < group; i += CPU_LANES)
        vf_store(out + i, vf_table16(cpu_e2m1_table, cpu_nibble_pairs(payload + i / 2)) * scale);
}

static void cpu_decode_nvfp4(const uint8_t *payload, const uint8_t *scales, uint64_t values,
                             float *out) {
    const uint64_t groups = values / 16;
    alignas(64) float wide[CPU_LANES];
    uint64_t g = 0;
    for (; g + CPU_LANES <= groups; g += CPU_LANES) {
        vf_store(wide, cpu_from_e4m3(vb_load(scales + g)));
        for (uint64_t i = 0; i < CPU_LANES; i++)
            cpu_decode_e2m1_group(payload + (g + i) * 8, 16, wide[i], out + (g + i) * 16);
    }
    if (g < groups) {
        uint8_t last[CPU_LANES] = {0};
        memcpy(last, scales + g, groups - g);
        vf_store(wide, cpu_from_e4m3(vb_load(last)));
        for (uint64_t i = 0; g + i < groups; i++)
            cpu_decode_e2m1_group(payload + (g + i) * 8, 16, wide[i], out + (g + i) * 16);
    }
}

/* 2^(code - 127); code 0 is 2^-127, a subnormal. */
static inline float cpu_from_e8m0(uint8_t code) {
    const uint32_t bits = code == 0      ? 0x00400000u
                          : code == 0xFF ? 0x7FC00000u
                                         : (uint32_t)code << 23;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void cpu_decode_mxfp4(const uint8_t *payload, const uint8_t *scales, uint64_t values,
                             float *out) {
    for (uint64_t g = 0; g < values / 32; g++)
        cpu_decode_e2m1_group(payload + g * 16, 32, cpu_from_e8m0(scales[g]), out + g * 32);
}

static void cpu_decode_fp4_mx_block16(const uint8_t *payload, const uint8_t *scales,
                                      uint64_t values, float *out) {
    for (uint64_t g = 0; g < values / 16; g++)
        cpu_decode_e2m1_group(payload + g * 8, 16, cpu_from_e8m0(scales[g]), out + g * 16);
}

/* `count` f16 scales (at most CPU_LANES), `stride` bytes apart, to fp32. */
static inline void cpu_scales_f16(const uint8_t *scales, uint64_t count, uint64_t stride,
                                  float out[CPU_LANES]) {
    uint16_t codes[CPU_LANES] = {0};
    for (uint64_t i = 0; i < count; i++)
        memcpy(&codes[i], scales + i * stride, sizeof codes[i]);
    vf_store(out, vf_from_f16(vh_load((const uint8_t *)codes)));
}

static inline void cpu_decode_q8_group(const uint8_t *payload, float scale, float *out) {
    for (uint32_t i = 0; i < 32; i += CPU_LANES) {
        const vi wide = vi_from_s8(vb_load(payload + i));
        vf_store(out + i, __builtin_convertvector(wide, vf) * scale);
    }
}

/* Element j in the low nibble of byte j, element j + 16 in its high nibble. */
static inline void cpu_decode_q4_group(const uint8_t *payload, float scale, float *out) {
    for (uint32_t i = 0; i < 16; i += CPU_LANES) {
        const vi wide = vi_from_u8(vb_load(payload + i));
        vf_store(out + i, vf_table16(cpu_q4_table, wide) * scale);
        vf_store(out + 16 + i, vf_table16(cpu_q4_table, wide >> 4) * scale);
    }
}

/* Blocks of 32 values: codes `payload_stride` bytes apart, their f16 scales `scale_stride` apart.
 */
#define CPU_DECODE_BLOCKS(decode_group, payload, payload_stride, scales, scale_stride, values,     \
                          out)                                                                     \
    do {                                                                                           \
        const uint64_t groups = (values) / 32;                                                     \
        alignas(64) float wide[CPU_LANES];                                                         \
        for (uint64_t g = 0; g < groups; g += CPU_LANES) {                                         \
            const uint64_t left = groups - g;                                                      \
            const uint64_t count = left < CPU_LANES ? left : CPU_LANES;                            \
            cpu_scales_f16((scales) + g * (scale_stride), count, scale_stride, wide);              \
            for (uint64_t i = 0; i < count; i++)                                                   \
                decode_group((payload) + (g + i) * (payload_stride), wide[i],                      \
                             (out) + (g + i) * 32);                                                \
        }                                                                                          \
    } while (0)

static void cpu_decode_q8_0(const uint8_t *payload, const uint8_t *scales, uint64_t values,
                            float *out) {
    CPU_DECODE_BLOCKS(cpu_decode_q8_group, payload, 32, scales, 2, values, out);
}

static void cpu_decode_q4_0(const uint8_t *payload, const uint8_t *scales, uint64_t values,
                            float *out) {
    CPU_DECODE_BLOCKS(cpu_decode_q4_group, payload, 16, scales, 2, values, out);
}

static void cpu_decode_q8_0_ggml(const uint8_t *payload, const uint8_t *scales, uint64_t values,
                                 float *out) {
    (void)scales;
    CPU_DECODE_BLOCKS(cpu_decode_q8_group, payload + 2, 34, payload, 34, values, out);
}

static void cpu_decode_q4_0_ggml(const uint8_t *payload, const uint8_t *scales, uint64_t values,
                                 float *out) {
    (void)scales;
    CPU_DECODE_BLOCKS(cpu_decode_q4_group, payload + 2, 18, payload, 18, values, out);
}

static const cpu_decoder cpu_decoders[FORMAT_COUNT] = {
#define FORMAT(ID, id, values, payload, scale, nan, tensor, bits, tolerance) cpu_decode_##id,
#include "formats.def"
#undef FORMAT
};

#endif
