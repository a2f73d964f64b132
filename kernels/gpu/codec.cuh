/* The codecs of formats.def and records.def as types, so that a kernel's loop can be written once
 * and exists for every format: codec_switch picks one outside the loop. Slow and plain: the fast
 * decoders are elsewhere. A record's scales are scattered over its row, so it is read value by
 * value and written tile by tile, straight to memory: a whole row does not fit a thread's
 * registers. */
#ifndef CODEC_CUH
#define CODEC_CUH

#include "format.h"
#include "format_bf16.h"
#include "format_f16.h"
#include "format_fp4_mx_block16.h"
#include "format_fp8_ds_mla_528.h"
#include "format_fp8_ds_mla_584.h"
#include "format_fp8_ds_mla_656.h"
#include "format_fp8_e4m3.h"
#include "format_fp8_e5m2.h"
#include "format_index_fp8_132.h"
#include "format_iq4_nl.h"
#include "format_mxfp4.h"
#include "format_nvfp4.h"
#include "format_nvfp4_ds_mla_288.h"
#include "format_nvfp4_ds_mla_352.h"
#include "format_q4_0.h"
#include "format_q4_0_ggml.h"
#include "format_q4_1.h"
#include "format_q5_0.h"
#include "format_q5_1.h"
#include "format_q8_0.h"
#include "format_q8_0_ggml.h"
#include "gpu_lang.cuh"

/* The largest power of two that divides `bytes`, at most 16: groups in a value plane are so
 * aligned, since planes start on 16 bytes. Scale planes promise nothing. */
GPU_CONSTEXPR uint32_t codec_alignment(uint32_t bytes) {
    return bytes % 16 == 0 ? 16 : bytes % 8 == 0 ? 8 : bytes % 4 == 0 ? 4 : bytes % 2 == 0 ? 2 : 1;
}

#define FORMAT(ID, name, values, payload, scale, nan, tensor, bits, tolerance)                     \
    struct codec_##name {                                                                          \
        enum : uint32_t { VALUES = (values), PAYLOAD_BYTES = (payload), SCALE_BYTES = (scale) };   \
        enum : bool { HAS_NAN = (nan), IS_RECORD = false };                                        \
        GPU_DEVICE void encode(const float *x, float tensor_scale, uint8_t *codes,                 \
                               uint8_t *scales) {                                                  \
            format_##name##_encode(x, tensor_scale, codes, scales);                                \
        }                                                                                          \
        GPU_DEVICE float decode(const uint8_t *codes, const uint8_t *scales, float *units) {       \
            return format_##name##_decode(codes, scales, units);                                   \
        }                                                                                          \
    };
#include "formats.def"
#undef FORMAT

#define RECORD(ID, name, latent, rope, key, tile, payload, scale, align, bits, tolerance)          \
    struct codec_##name {                                                                          \
        enum : uint32_t {                                                                          \
            VALUES = FORMAT_##ID##_VALUES,                                                         \
            TILE = (tile),                                                                         \
            TILES = FORMAT_##ID##_TILES                                                            \
        };                                                                                         \
        enum : bool { IS_RECORD = true };                                                          \
        GPU_DEVICE void encode(const float *row, uint32_t which, uint8_t *codes,                   \
                               uint8_t *scales) {                                                  \
            format_##name##_encode(row, which, codes, scales);                                     \
        }                                                                                          \
        GPU_DEVICE float value(const uint8_t *codes, const uint8_t *scales, uint32_t i) {          \
            return format_##name##_unit(codes, i) * format_##name##_factor(codes, scales, i);      \
        }                                                                                          \
    };
#include "records.def"
#undef RECORD

/* work(codec_nvfp4()) and so on; `work` is an object with a templated operator(). */
template <class Work> GPU_DEVICE void codec_switch(uint32_t format, Work &work) {
    switch (format) {
#define FORMAT(ID, name, ...)                                                                      \
    case FORMAT_##ID:                                                                              \
        work(codec_##name());                                                                      \
        break;
#include "formats.def"
#undef FORMAT
#define RECORD(ID, name, ...)                                                                      \
    case FORMAT_##ID:                                                                              \
        work(codec_##name());                                                                      \
        break;
#include "records.def"
#undef RECORD
    default:
        break;
    }
}

/* `count` bytes between memory and registers, in pieces as wide as `alignment` allows. */
template <uint32_t count, uint32_t alignment>
GPU_DEVICE void codec_load(uint8_t (&to)[count], const uint8_t *from) {
    memcpy(to, __builtin_assume_aligned(from, alignment), count);
}
template <uint32_t count, uint32_t alignment>
GPU_DEVICE void codec_store(uint8_t *to, const uint8_t (&from)[count]) {
    memcpy(__builtin_assume_aligned(to, alignment), from, count);
}

#endif
