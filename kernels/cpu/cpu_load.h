/* How the tiled kernel reads stored values: cpu_load_<id> gives values [i, i + CPU_LANES) of a row
 * in fp32, unit times group scale, tensor scales left out; i is a multiple of CPU_LANES. Group
 * scales come as fp32: cpu_widen converts those of a whole tile at once. Everything is inlined
 * where the format is a constant. The formats are those of cpu_formats.def. */
#ifndef CPU_LOAD_H
#define CPU_LOAD_H

#include "cpu_vector.h"
#include "format.h"
#include "format_bits.h"

#define CPU_FP32 FORMAT_COUNT /* a row that is decoded already */

CPU_INLINE vf cpu_load_fp32(const uint8_t *payload, const float *scales, uint32_t i) {
    (void)scales;
    return vf_load((const float *)(const void *)payload + i);
}

CPU_INLINE vf cpu_load_bf16(const uint8_t *payload, const float *scales, uint32_t i) {
    (void)scales;
    return (vf)(vi_from_u16(vh_load(payload + (uint64_t)2 * i)) << 16);
}

CPU_INLINE vf cpu_load_f16(const uint8_t *payload, const float *scales, uint32_t i) {
    (void)scales;
    return vf_from_f16(vh_load(payload + (uint64_t)2 * i));
}

/* e4m3 is f16 with four exponent bits: shifted into place it is the value over 2^8, which
 * cpu_unit() makes good. */
CPU_INLINE vf cpu_from_e4m3(vb codes) {
    const vh wide = vh_from_s8(codes);
    const vh nan = (vh)((wide & 0x7Fu) == 0x7Fu) & 0x7E00u;
    return vf_from_f16((vh)((wide << 7 & 0xBFFFu) | nan));
}

CPU_INLINE vf cpu_load_fp8_e4m3(const uint8_t *payload, const float *scales, uint32_t i) {
    (void)scales;
    return cpu_from_e4m3(vb_load(payload + i));
}

/* What every value that comes of a load is to be multiplied by. */
CPU_INLINE float cpu_unit(enum format_id format) {
    return format == FORMAT_FP8_E4M3 ? 256.0f : 1.0f;
}

/* e5m2 is the high byte of an f16. */
CPU_INLINE vf cpu_load_fp8_e5m2(const uint8_t *payload, const float *scales, uint32_t i) {
    (void)scales;
    return vf_from_f16((vh)(vh_from_u8(vb_load(payload + i)) << 8));
}

CPU_INLINE vf cpu_load_nvfp4(const uint8_t *payload, const float *scales, uint32_t i) {
    return vf_from_e2m1(vi_from_nibbles(payload + i / 2), scales[i / 16]);
}

CPU_INLINE vf cpu_load_mxfp4(const uint8_t *payload, const float *scales, uint32_t i) {
    return vf_from_e2m1(vi_from_nibbles(payload + i / 2), scales[i / 32]);
}

CPU_INLINE vf cpu_load_fp4_mx_block16(const uint8_t *payload, const float *scales, uint32_t i) {
    return cpu_load_nvfp4(payload, scales, i);
}

CPU_INLINE vf cpu_load_q8_0(const uint8_t *payload, const float *scales, uint32_t i) {
    const vi wide = vi_from_s8(vb_load(payload + i));
    return __builtin_convertvector(wide, vf) * scales[i / 32];
}

CPU_INLINE vf cpu_load_q8_0_ggml(const uint8_t *payload, const float *scales, uint32_t i) {
    return cpu_load_q8_0(payload + i / 32 * 2 + 2, scales, i);
}

/* Element j of 32 in the low nibble of byte j, element j + 16 in its high nibble. */
CPU_INLINE vf cpu_load_q4_0(const uint8_t *payload, const float *scales, uint32_t i) {
    const vi wide = vi_from_u8(vb_load(payload + i / 32 * 16 + i % 16));
    return vf_from_q4(wide >> (int)(i % 32 / 16 * 4), scales[i / 32]);
}

CPU_INLINE vf cpu_load_q4_0_ggml(const uint8_t *payload, const float *scales, uint32_t i) {
    return cpu_load_q4_0(payload + i / 32 * 2 + 2, scales, i);
}

/* 2^(code - 127); code 0 is 2^-127, a subnormal, and code 255 NaN. */
CPU_INLINE vf cpu_from_e8m0(vb codes) {
    const vi wide = vi_from_u8(codes);
    const vi bits = wide << 23;
    const vi zero = wide == 0, nan = wide == 255;
    return (vf)((bits & ~zero & ~nan) | (zero & 0x00400000) | (nan & 0x7FC00000));
}

/* `groups` scales of one byte; `out` has room up to a multiple of CPU_LANES. */
CPU_INLINE void cpu_widen_bytes(bool e8m0, const uint8_t *scales, uint32_t groups, float *out) {
    for (uint32_t g = 0; g < groups; g += CPU_LANES) {
        vb codes = {0};
        if (groups - g >= CPU_LANES)
            codes = vb_load(scales + g);
        else
            memcpy(&codes, scales + g, groups - g);
        vf_store(out + g, e8m0 ? cpu_from_e8m0(codes) : cpu_from_e4m3(codes) * 256.0f);
    }
}

/* `groups` scales of type f16, `stride` bytes apart. */
CPU_INLINE void cpu_widen_f16(const uint8_t *scales, uint32_t stride, uint32_t groups, float *out) {
    for (uint32_t g = 0; g < groups; g += CPU_LANES) {
        const uint32_t count = groups - g < CPU_LANES ? groups - g : CPU_LANES;
        vh codes = {0};
        for (uint32_t i = 0; i < count; i++) {
            uint16_t code;
            memcpy(&code, scales + (uint64_t)(g + i) * stride, sizeof code);
            codes[i] = code;
        }
        vf_store(out + g, vf_from_f16(codes));
    }
}

/* By a constant `format`: what is left after inlining is one of the functions above. */
CPU_INLINE vf cpu_load(enum format_id format, const uint8_t *payload, const float *scales,
                       uint32_t i) {
    switch (format) {
#define CPU_FORMAT(ID, id)                                                                         \
    case FORMAT_##ID:                                                                              \
        return cpu_load_##id(payload, scales, i);
#include "cpu_formats.def"
#undef CPU_FORMAT
    default:
        return cpu_load_fp32(payload, scales, i);
    }
}

/* Where in a row's payload value i lies, i a multiple of 32 or of a group. */
CPU_INLINE uint32_t cpu_payload_bytes(enum format_id format, uint32_t i) {
    switch (format) {
#define CPU_FORMAT(ID, id)                                                                         \
    case FORMAT_##ID:                                                                              \
        return i * FORMAT_##ID##_PAYLOAD_BYTES / FORMAT_##ID##_VALUES;
#include "cpu_formats.def"
#undef CPU_FORMAT
    default:
        return i * (uint32_t)sizeof(float);
    }
}

/* The scales of `groups` consecutive groups, which `payload` and `scales` start with. */
CPU_INLINE void cpu_widen(enum format_id format, const uint8_t *payload, const uint8_t *scales,
                          uint32_t groups, float *out) {
    switch (format) {
    case FORMAT_NVFP4:
        cpu_widen_bytes(false, scales, groups, out);
        break;
    case FORMAT_MXFP4:
    case FORMAT_FP4_MX_BLOCK16:
        cpu_widen_bytes(true, scales, groups, out);
        break;
    case FORMAT_Q8_0:
    case FORMAT_Q4_0:
        cpu_widen_f16(scales, sizeof(uint16_t), groups, out);
        break;
    case FORMAT_Q8_0_GGML:
        cpu_widen_f16(payload, FORMAT_Q8_0_GGML_PAYLOAD_BYTES, groups, out);
        break;
    case FORMAT_Q4_0_GGML:
        cpu_widen_f16(payload, FORMAT_Q4_0_GGML_PAYLOAD_BYTES, groups, out);
        break;
    default: /* no group scales */
        break;
    }
}

#endif
