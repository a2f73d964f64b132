/* fp8_ds_mla_584: DeepSeek-V4's entries and window rows: 448 e4m3 codes and 64 rotary values in
 * bf16 (576 bytes), and in the scale plane one power of two (ue8m0) per 64 codes and a zero byte.
 * Pages are rounded up to 576 bytes. exponent = ceil(log2(max(amax, 1e-4) / 448)), code = e4m3 of
 * x * 2^-exponent, saturating: vLLM's kernel. (formats.md 3) */
#ifndef FORMAT_FP8_DS_MLA_584_H
#define FORMAT_FP8_DS_MLA_584_H

#include "format_record.h"

static_assert(FORMAT_FP8_DS_MLA_584_CODED == 448 && FORMAT_FP8_DS_MLA_584_TILE == 64 &&
                  FORMAT_FP8_DS_MLA_584_PAYLOAD_BYTES == 448 + 2 * FORMAT_FP8_DS_MLA_584_ROPE &&
                  FORMAT_FP8_DS_MLA_584_ROPE == FORMAT_FP8_DS_MLA_584_TILE &&
                  FORMAT_FP8_DS_MLA_584_SCALE_BYTES == 448 / 64 + 1,
              "fp8_ds_mla_584 is 448 codes, 64 bf16 values, seven scale bytes and a zero");

/* Tile `tile` of a row; the one behind the codes is rope, and with it goes the zero byte. */
FORMAT_HD static inline void format_fp8_ds_mla_584_encode(const float *row, uint32_t tile,
                                                          uint8_t *payload, uint8_t *scales) {
    const uint32_t first = tile * FORMAT_FP8_DS_MLA_584_TILE;
    if (first >= FORMAT_FP8_DS_MLA_584_CODED) {
        format_record_bf16(row + first, FORMAT_FP8_DS_MLA_584_ROPE, payload + first);
        scales[tile] = 0;
        return;
    }
    scales[tile] = format_record_e8m0(row + first, FORMAT_FP8_DS_MLA_584_TILE);
    format_record_e4m3(row + first, FORMAT_FP8_DS_MLA_584_TILE,
                       format_bits_e8m0_to_f32(scales[tile]), payload + first);
}

/* Value i as its code says, and what it is to be multiplied by. */
FORMAT_HD static inline float format_fp8_ds_mla_584_unit(const uint8_t *payload, uint32_t i) {
    if (i < FORMAT_FP8_DS_MLA_584_CODED)
        return format_bits_e4m3_to_f32(payload[i]);
    return format_bits_bf16_to_f32(format_bits_load16(
        payload + FORMAT_FP8_DS_MLA_584_CODED + 2 * (size_t)(i - FORMAT_FP8_DS_MLA_584_CODED)));
}

FORMAT_HD static inline float format_fp8_ds_mla_584_factor(const uint8_t *payload,
                                                           const uint8_t *scales, uint32_t i) {
    (void)payload;
    if (i >= FORMAT_FP8_DS_MLA_584_CODED)
        return 1.0f;
    return format_bits_e8m0_to_f32(scales[i / FORMAT_FP8_DS_MLA_584_TILE]);
}

/* NaN codes, scales and rope. */
FORMAT_HD static inline void format_fp8_ds_mla_584_poison(uint8_t *payload, uint8_t *scales) {
    memset(payload, 0x7F, FORMAT_FP8_DS_MLA_584_CODED);
    memset(payload + FORMAT_FP8_DS_MLA_584_CODED, 0xFF, 2 * FORMAT_FP8_DS_MLA_584_ROPE);
    memset(scales, 0xFF, FORMAT_FP8_DS_MLA_584_SCALE_BYTES);
}

#endif
