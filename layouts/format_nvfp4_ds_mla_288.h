/* nvfp4_ds_mla_288: DeepSeek-V4.1's entries in four bits: 512 e2m1 codes, rope among them, the even
 * one in the low nibble, and in the scale plane one e4m3 scale per 16; no scale above them. Pages
 * are aligned to 512 bytes. scale = e4m3 of amax / 6 clamped to [2^-9, 448]; code = e2m1, ties to
 * even, of x / scale. (formats.md 3; seen in a new release of vLLM only) */
#ifndef FORMAT_NVFP4_DS_MLA_288_H
#define FORMAT_NVFP4_DS_MLA_288_H

#include "format_record.h"

static_assert(FORMAT_NVFP4_DS_MLA_288_PAYLOAD_BYTES == FORMAT_NVFP4_DS_MLA_288_VALUES / 2 &&
                  FORMAT_NVFP4_DS_MLA_288_TILE == 16 &&
                  FORMAT_NVFP4_DS_MLA_288_SCALE_BYTES == FORMAT_NVFP4_DS_MLA_288_VALUES / 16,
              "nvfp4_ds_mla_288 is 512 nibbles and a scale byte per 16");

FORMAT_HD static inline void format_nvfp4_ds_mla_288_encode(const float *row, uint32_t tile,
                                                            uint8_t *payload, uint8_t *scales) {
    const float *x = row + (size_t)tile * FORMAT_NVFP4_DS_MLA_288_TILE;
    const float sixth = format_record_amax(x, FORMAT_NVFP4_DS_MLA_288_TILE, 0.0f) / 6.0f;
    scales[tile] = format_bits_f32_to_e4m3(sixth > 0x1p-9f ? sixth : 0x1p-9f);
    const float scale = format_bits_e4m3_to_f32(scales[tile]);
    uint8_t codes[FORMAT_NVFP4_DS_MLA_288_TILE];
    for (uint32_t i = 0; i < FORMAT_NVFP4_DS_MLA_288_TILE; i++)
        codes[i] = format_bits_f32_to_e2m1_even(format_record_finite(x[i]) / scale);
    format_bits_pack_nibbles(codes, FORMAT_NVFP4_DS_MLA_288_TILE,
                             payload + (size_t)tile * FORMAT_NVFP4_DS_MLA_288_TILE / 2);
}

/* Value i as its code says, and what it is to be multiplied by. */
FORMAT_HD static inline float format_nvfp4_ds_mla_288_unit(const uint8_t *payload, uint32_t i) {
    return format_record_e2m1(payload, i);
}

FORMAT_HD static inline float format_nvfp4_ds_mla_288_factor(const uint8_t *payload,
                                                             const uint8_t *scales, uint32_t i) {
    (void)payload;
    return format_bits_e4m3_to_f32(scales[i / FORMAT_NVFP4_DS_MLA_288_TILE]);
}

/* NaN scales over the largest codes. */
FORMAT_HD static inline void format_nvfp4_ds_mla_288_poison(uint8_t *payload, uint8_t *scales) {
    memset(payload, 0x77, FORMAT_NVFP4_DS_MLA_288_PAYLOAD_BYTES);
    memset(scales, 0x7F, FORMAT_NVFP4_DS_MLA_288_SCALE_BYTES);
}

#endif
