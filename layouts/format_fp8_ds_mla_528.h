/* fp8_ds_mla_528: DeepSeek-V4.1's entries in fp8: 512 e4m3 codes, rope among them, and in the scale
 * plane one power of two (ue8m0) per 32. Pages are aligned to 512 bytes. The rule is
 * fp8_ds_mla_584's. (formats.md 3; seen in a new release of vLLM only) */
#ifndef FORMAT_FP8_DS_MLA_528_H
#define FORMAT_FP8_DS_MLA_528_H

#include "format_record.h"

static_assert(FORMAT_FP8_DS_MLA_528_PAYLOAD_BYTES == FORMAT_FP8_DS_MLA_528_VALUES &&
                  FORMAT_FP8_DS_MLA_528_TILE == 32 &&
                  FORMAT_FP8_DS_MLA_528_SCALE_BYTES == FORMAT_FP8_DS_MLA_528_VALUES / 32,
              "fp8_ds_mla_528 is 512 codes and a scale byte per 32");

FORMAT_HD static inline void format_fp8_ds_mla_528_encode(const float *row, uint32_t tile,
                                                          uint8_t *payload, uint8_t *scales) {
    const uint32_t first = tile * FORMAT_FP8_DS_MLA_528_TILE;
    scales[tile] = format_record_e8m0(row + first, FORMAT_FP8_DS_MLA_528_TILE);
    format_record_e4m3(row + first, FORMAT_FP8_DS_MLA_528_TILE,
                       format_bits_e8m0_to_f32(scales[tile]), payload + first);
}

/* Value i as its code says, and what it is to be multiplied by. */
FORMAT_HD static inline float format_fp8_ds_mla_528_unit(const uint8_t *payload, uint32_t i) {
    return format_bits_e4m3_to_f32(payload[i]);
}

FORMAT_HD static inline float format_fp8_ds_mla_528_factor(const uint8_t *payload,
                                                           const uint8_t *scales, uint32_t i) {
    (void)payload;
    return format_bits_e8m0_to_f32(scales[i / FORMAT_FP8_DS_MLA_528_TILE]);
}

/* NaN codes and scales. */
FORMAT_HD static inline void format_fp8_ds_mla_528_poison(uint8_t *payload, uint8_t *scales) {
    memset(payload, 0x7F, FORMAT_FP8_DS_MLA_528_PAYLOAD_BYTES);
    memset(scales, 0xFF, FORMAT_FP8_DS_MLA_528_SCALE_BYTES);
}

#endif
