/* index_fp8_132: a key of a sparse-attention index: 128 e4m3 codes, and in the scale plane one fp32
 * scale. scale = max(amax, 1e-4) / 448 rounded up to a power of two, code = e4m3 of x / scale:
 * vLLM's kernel for DeepSeek-V3.2 (use_ue8m0), because that is what writes this layout for the
 * models that have it. SGLang's fused stores and DeepGEMM's tests leave the scale as it is: other
 * bytes, which the same readers read. (formats.md 3) The 68-byte key of four bits (64 of codes, 4
 * of scales) is mxfp4 with rows of 128 values. */
#ifndef FORMAT_INDEX_FP8_132_H
#define FORMAT_INDEX_FP8_132_H

#include "format_record.h"

static_assert(FORMAT_INDEX_FP8_132_PAYLOAD_BYTES == FORMAT_INDEX_FP8_132_VALUES &&
                  FORMAT_INDEX_FP8_132_TILE == FORMAT_INDEX_FP8_132_VALUES &&
                  FORMAT_INDEX_FP8_132_SCALE_BYTES == sizeof(float),
              "index_fp8_132 is 128 codes and one fp32 scale");

FORMAT_HD static inline void format_index_fp8_132_encode(const float *row, uint32_t tile,
                                                         uint8_t *payload, uint8_t *scales) {
    const float scale =
        format_bits_e8m0_to_f32(format_record_e8m0(row, FORMAT_INDEX_FP8_132_VALUES));
    (void)tile;
    format_bits_store32(scales, format_bits_of_f32(scale));
    format_record_e4m3(row, FORMAT_INDEX_FP8_132_VALUES, scale, payload);
}

/* Value i as its code says, and what it is to be multiplied by. */
FORMAT_HD static inline float format_index_fp8_132_unit(const uint8_t *payload, uint32_t i) {
    return format_bits_e4m3_to_f32(payload[i]);
}

FORMAT_HD static inline float format_index_fp8_132_factor(const uint8_t *payload,
                                                          const uint8_t *scales, uint32_t i) {
    (void)payload;
    (void)i;
    return format_bits_to_f32(format_bits_load32(scales));
}

/* NaN codes and scale. */
FORMAT_HD static inline void format_index_fp8_132_poison(uint8_t *payload, uint8_t *scales) {
    memset(payload, 0x7F, FORMAT_INDEX_FP8_132_PAYLOAD_BYTES);
    memset(scales, 0xFF, FORMAT_INDEX_FP8_132_SCALE_BYTES);
}

#endif
