/* fp8_ds_mla_656: DeepSeek-V3.2's latent as vLLM and FlashMLA store it, one row of 656 bytes:
 * [0, 512) e4m3 codes, [512, 528) an fp32 scale per 128 of them, [528, 656) 64 rotary values in
 * bf16. vLLM's rule: scale = max(amax / 448, FLT_MIN) in plain fp32, code = e4m3 of x / scale,
 * saturating. (formats.md 3; FlashMLA's own test quantiser rounds the scale to a power of two,
 * SGLang's has no floor: other bytes, which the same readers read.) */
#ifndef FORMAT_FP8_DS_MLA_656_H
#define FORMAT_FP8_DS_MLA_656_H

#include "format_record.h"

enum format_fp8_ds_mla_656_places { FORMAT_656_SCALES = 512, FORMAT_656_ROPE = 528 };

static_assert(FORMAT_FP8_DS_MLA_656_CODED == 512 && FORMAT_FP8_DS_MLA_656_TILE == 128 &&
                  FORMAT_FP8_DS_MLA_656_PAYLOAD_BYTES ==
                      FORMAT_656_ROPE + 2 * FORMAT_FP8_DS_MLA_656_ROPE &&
                  FORMAT_FP8_DS_MLA_656_SCALE_BYTES == 0,
              "fp8_ds_mla_656 is 512 codes, four fp32 scales and 64 bf16 values");

/* Tile `tile` of a row; the one behind the codes is rope. */
FORMAT_HD static inline void format_fp8_ds_mla_656_encode(const float *row, uint32_t tile,
                                                          uint8_t *payload, uint8_t *scales) {
    const uint32_t first = tile * FORMAT_FP8_DS_MLA_656_TILE;
    (void)scales;
    if (first >= FORMAT_FP8_DS_MLA_656_CODED) {
        format_record_bf16(row + first, FORMAT_FP8_DS_MLA_656_ROPE, payload + FORMAT_656_ROPE);
        return;
    }
    const float share = format_record_amax(row + first, FORMAT_FP8_DS_MLA_656_TILE, 0.0f) / 448.0f;
    const float scale = share > 0x1p-126f ? share : 0x1p-126f;
    format_bits_store32(payload + FORMAT_656_SCALES + 4 * (size_t)tile, format_bits_of_f32(scale));
    format_record_e4m3(row + first, FORMAT_FP8_DS_MLA_656_TILE, scale, payload + first);
}

/* Value i as its code says, and what it is to be multiplied by. */
FORMAT_HD static inline float format_fp8_ds_mla_656_unit(const uint8_t *payload, uint32_t i) {
    if (i < FORMAT_FP8_DS_MLA_656_CODED)
        return format_bits_e4m3_to_f32(payload[i]);
    return format_bits_bf16_to_f32(format_bits_load16(
        payload + FORMAT_656_ROPE + 2 * (size_t)(i - FORMAT_FP8_DS_MLA_656_CODED)));
}

FORMAT_HD static inline float format_fp8_ds_mla_656_factor(const uint8_t *payload,
                                                           const uint8_t *scales, uint32_t i) {
    (void)scales;
    if (i >= FORMAT_FP8_DS_MLA_656_CODED)
        return 1.0f;
    return format_bits_to_f32(format_bits_load32(payload + FORMAT_656_SCALES +
                                                 4 * (size_t)(i / FORMAT_FP8_DS_MLA_656_TILE)));
}

/* NaN codes, scales and rope. */
FORMAT_HD static inline void format_fp8_ds_mla_656_poison(uint8_t *payload, uint8_t *scales) {
    (void)scales;
    memset(payload, 0x7F, FORMAT_656_SCALES);
    memset(payload + FORMAT_656_SCALES, 0xFF,
           FORMAT_FP8_DS_MLA_656_PAYLOAD_BYTES - FORMAT_656_SCALES);
}

#endif
