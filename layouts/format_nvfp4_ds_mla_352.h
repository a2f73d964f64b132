/* nvfp4_ds_mla_352: DeepSeek-V3.2's latent in four bits, one row of 352 bytes: [0, 256) 512 e2m1
 * codes, the even one in the low nibble, [256, 320) 64 rotary values in e4m3 without a scale, [320,
 * 352) an e4m3 scale per 16 codes; that of group s lies at 320 + 8 * (s mod 4) + s div 4. scale =
 * e4m3 of max(amax / 6, 2^-9), one code up where rounding went below amax / 6, so that no code is
 * clipped; code = e2m1, ties to even, of x * (1 / scale). (formats.md 3; new, and other layouts
 * have the same name without the size) */
#ifndef FORMAT_NVFP4_DS_MLA_352_H
#define FORMAT_NVFP4_DS_MLA_352_H

#include "format_record.h"

enum format_nvfp4_ds_mla_352_places { FORMAT_352_ROPE = 256, FORMAT_352_SCALES = 320 };

static_assert(FORMAT_NVFP4_DS_MLA_352_CODED == 512 && FORMAT_NVFP4_DS_MLA_352_TILE == 16 &&
                  FORMAT_NVFP4_DS_MLA_352_ROPE == FORMAT_352_SCALES - FORMAT_352_ROPE &&
                  FORMAT_NVFP4_DS_MLA_352_PAYLOAD_BYTES == FORMAT_352_SCALES + 512 / 16 &&
                  FORMAT_NVFP4_DS_MLA_352_SCALE_BYTES == 0,
              "nvfp4_ds_mla_352 is 512 nibbles, 64 e4m3 values and 32 scales");

FORMAT_HD static inline uint32_t format_nvfp4_ds_mla_352_scale_at(uint32_t group) {
    return FORMAT_352_SCALES + 8 * (group % 4) + group / 4;
}

/* Tile `tile` of a row; those behind the codes are rope. */
FORMAT_HD static inline void format_nvfp4_ds_mla_352_encode(const float *row, uint32_t tile,
                                                            uint8_t *payload, uint8_t *scales) {
    const float *x = row + (size_t)tile * FORMAT_NVFP4_DS_MLA_352_TILE;
    (void)scales;
    if (tile >= FORMAT_NVFP4_DS_MLA_352_CODED / FORMAT_NVFP4_DS_MLA_352_TILE) {
        format_record_e4m3(x, FORMAT_NVFP4_DS_MLA_352_TILE, 1.0f,
                           payload + FORMAT_352_ROPE + tile * FORMAT_NVFP4_DS_MLA_352_TILE -
                               FORMAT_NVFP4_DS_MLA_352_CODED);
        return;
    }
    const float sixth = format_record_amax(x, FORMAT_NVFP4_DS_MLA_352_TILE, 0.0f) / 6.0f;
    uint8_t code = format_bits_f32_to_e4m3(sixth > 0x1p-9f ? sixth : 0x1p-9f);
    code = (uint8_t)(code + (format_bits_e4m3_to_f32(code) < sixth && code < 0x7E ? 1 : 0));
    payload[format_nvfp4_ds_mla_352_scale_at(tile)] = code;
    const float inverse = 1.0f / format_bits_e4m3_to_f32(code);
    uint8_t codes[FORMAT_NVFP4_DS_MLA_352_TILE];
    for (uint32_t i = 0; i < FORMAT_NVFP4_DS_MLA_352_TILE; i++)
        codes[i] = format_bits_f32_to_e2m1_even(format_record_finite(x[i]) * inverse);
    format_bits_pack_nibbles(codes, FORMAT_NVFP4_DS_MLA_352_TILE,
                             payload + (size_t)tile * FORMAT_NVFP4_DS_MLA_352_TILE / 2);
}

/* Value i as its code says, and what it is to be multiplied by. */
FORMAT_HD static inline float format_nvfp4_ds_mla_352_unit(const uint8_t *payload, uint32_t i) {
    if (i < FORMAT_NVFP4_DS_MLA_352_CODED)
        return format_record_e2m1(payload, i);
    return format_bits_e4m3_to_f32(payload[FORMAT_352_ROPE + i - FORMAT_NVFP4_DS_MLA_352_CODED]);
}

FORMAT_HD static inline float format_nvfp4_ds_mla_352_factor(const uint8_t *payload,
                                                             const uint8_t *scales, uint32_t i) {
    (void)scales;
    if (i >= FORMAT_NVFP4_DS_MLA_352_CODED)
        return 1.0f;
    return format_bits_e4m3_to_f32(
        payload[format_nvfp4_ds_mla_352_scale_at(i / FORMAT_NVFP4_DS_MLA_352_TILE)]);
}

/* NaN scales and rope over the largest codes. */
FORMAT_HD static inline void format_nvfp4_ds_mla_352_poison(uint8_t *payload, uint8_t *scales) {
    (void)scales;
    memset(payload, 0x77, FORMAT_352_ROPE);
    memset(payload + FORMAT_352_ROPE, 0x7F,
           FORMAT_NVFP4_DS_MLA_352_PAYLOAD_BYTES - FORMAT_352_ROPE);
}

#endif
