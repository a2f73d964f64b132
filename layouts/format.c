/* The table of formats and records, and the row codecs: loops over the groups of a row around the
 * group codecs of format_<id>.h, one loop per format so that each is inlined and vectorised.
 * Everything here expands from formats.def and records.def. */
#include "format.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

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

static const struct format_info format_table[FORMAT_END] = {
#define FORMAT(ID, id, values, payload, scale, nan, tensor, bits, tolerance)                       \
    [FORMAT_##ID] = {.name = #id,                                                                  \
                     .group_values = (values),                                                     \
                     .group_payload_bytes = (payload),                                             \
                     .group_scale_bytes = (scale),                                                 \
                     .has_nan = (nan),                                                             \
                     .has_tensor_scale = (tensor),                                                 \
                     .value_bits = (bits),                                                         \
                     .kernel_tolerance = (tolerance)},
#include "formats.def"
#undef FORMAT
#define RECORD(ID, id, latent, rope, key, tile, payload, scale, align, bits, tolerance)            \
    [FORMAT_##ID] = {.name = #id,                                                                  \
                     .group_values = FORMAT_##ID##_VALUES,                                         \
                     .group_payload_bytes = (payload),                                             \
                     .group_scale_bytes = (scale),                                                 \
                     .value_bits = (bits),                                                         \
                     .kernel_tolerance = (tolerance),                                              \
                     .latent_dim = (latent),                                                       \
                     .rope_dim = (rope),                                                           \
                     .key_dim = (key),                                                             \
                     .page_alignment_bytes = (align)},
#include "records.def"
#undef RECORD
};

const struct format_info *format_get(enum format_id id) {
    return &format_table[id];
}

/* ASCII only and free of the locale: names are. */
static bool same_name(const char *a, const char *b) {
    for (; *a != '\0' && *b != '\0'; a++, b++) {
        const char x = (char)(*a >= 'A' && *a <= 'Z' ? *a - 'A' + 'a' : *a);
        const char y = (char)(*b >= 'A' && *b <= 'Z' ? *b - 'A' + 'a' : *b);
        if (x != y)
            return false;
    }
    return *a == *b;
}

bool format_find(const char *name, enum format_id *out) {
    static const struct {
        const char *name;
        enum format_id id;
    } aliases[] = {
        {"bfloat16", FORMAT_BF16},
        {"float16", FORMAT_F16},
        {"fp16", FORMAT_F16},
        {"fp8", FORMAT_FP8_E4M3}, /* vLLM's meaning of it */
    };
    for (uint32_t i = 0; i < FORMAT_COUNT; i++) {
        if (same_name(name, format_table[i].name)) {
            *out = (enum format_id)i;
            return true;
        }
    }
    for (size_t i = 0; i < sizeof aliases / sizeof aliases[0]; i++) {
        if (same_name(name, aliases[i].name)) {
            *out = aliases[i].id;
            return true;
        }
    }
    return false;
}

bool format_find_record(const char *name, enum format_id *out) {
    for (uint32_t i = FORMAT_COUNT + 1; i < FORMAT_END; i++) {
        if (same_name(name, format_table[i].name)) {
            *out = (enum format_id)i;
            return true;
        }
    }
    return false;
}

bool format_fits(enum format_id id, uint32_t values) {
    const uint32_t group = format_table[id].group_values;
    return format_is_record(id) ? values == group : values != 0 && values % group == 0;
}

void format_multiples_words(enum format_id id, uint32_t values, char *out, size_t out_bytes) {
    const uint32_t group = format_table[id].group_values;
    const uint64_t below = values / group * group, above = (uint64_t)below + group;
    if (below == 0 || above > UINT32_MAX)
        (void)snprintf(out, out_bytes, "%llu", (unsigned long long)(below == 0 ? above : below));
    else
        (void)snprintf(out, out_bytes, "%llu or %llu", (unsigned long long)below,
                       (unsigned long long)above);
}

uint32_t format_payload_bytes(enum format_id id, uint32_t values) {
    return values / format_table[id].group_values * format_table[id].group_payload_bytes;
}

uint32_t format_scale_bytes(enum format_id id, uint32_t values) {
    return values / format_table[id].group_values * format_table[id].group_scale_bytes;
}

uint32_t format_row_bytes(enum format_id id, uint32_t values) {
    return format_payload_bytes(id, values) + format_scale_bytes(id, values);
}

float format_tensor_scale(enum format_id id, float amax, bool fp8_amax) {
    float scale = 1.0f;
    if (id == FORMAT_NVFP4)
        scale = amax / (6.0f * 448.0f);
    else if (id == FORMAT_FP8_E4M3 && fp8_amax)
        scale = amax / FORMAT_FP8_E4M3_LARGEST;
    else if (id == FORMAT_FP8_E5M2 && fp8_amax)
        scale = amax / FORMAT_FP8_E5M2_LARGEST;
    return scale > 0.0f ? scale : 1.0f; /* a quotient may also underflow to 0 */
}

/* Scales of group g; formats without scales have no plane to point into. */
#define GROUP_SCALE(scales, g, scale) ((scale) == 0 ? NULL : (scales) + (size_t)(g) * (scale))

/* The row loops of each format, in groups. encode: finite input. */
#define FORMAT(ID, id, values, payload, scale, nan, tensor, bits, tolerance)                       \
    static void encode_##id(const float *restrict row, uint32_t groups, float tensor_scale,        \
                            uint8_t *restrict codes, uint8_t *restrict scales) {                   \
        for (uint32_t g = 0; g < groups; g++)                                                      \
            format_##id##_encode(row + (size_t)g * (values), tensor_scale,                         \
                                 codes + (size_t)g * (payload), GROUP_SCALE(scales, g, scale));    \
    }                                                                                              \
    static void decode_##id(const uint8_t *restrict codes, const uint8_t *restrict scales,         \
                            uint32_t groups, float tensor_scale, float *restrict row) {            \
        for (uint32_t g = 0; g < groups; g++) {                                                    \
            float units[values];                                                                   \
            const float group_scale = format_##id##_decode(codes + (size_t)g * (payload),          \
                                                           GROUP_SCALE(scales, g, scale), units);  \
            for (uint32_t i = 0; i < (values); i++)                                                \
                row[(size_t)g * (values) + i] = (units[i] * group_scale) * tensor_scale;           \
        }                                                                                          \
    }                                                                                              \
    static void decode_double_##id(const uint8_t *restrict codes, const uint8_t *restrict scales,  \
                                   uint32_t groups, float tensor_scale, double *restrict row) {    \
        for (uint32_t g = 0; g < groups; g++) {                                                    \
            float units[values];                                                                   \
            const double group_scale = (double)format_##id##_decode(                               \
                codes + (size_t)g * (payload), GROUP_SCALE(scales, g, scale), units);              \
            for (uint32_t i = 0; i < (values); i++)                                                \
                row[(size_t)g * (values) + i] =                                                    \
                    ((double)units[i] * group_scale) * (double)tensor_scale;                       \
        }                                                                                          \
    }                                                                                              \
    static void poison_##id(uint8_t *restrict codes, uint8_t *restrict scales, uint32_t groups) {  \
        for (uint32_t g = 0; g < groups; g++)                                                      \
            format_##id##_poison(codes + (size_t)g * (payload), GROUP_SCALE(scales, g, scale));    \
    }
#include "formats.def"
#undef FORMAT

/* The same of each record: one group is a row of tiles. A tile's factor is one for all of it. */
#define RECORD(ID, id, latent, rope, key, tile, payload, scale, align, bits, tolerance)            \
    static_assert(FORMAT_##ID##_CODED % (tile) == 0, #id ": rope begins a tile");                  \
    static void encode_##id(const float *restrict row, uint32_t groups, float tensor_scale,        \
                            uint8_t *restrict codes, uint8_t *restrict scales) {                   \
        (void)tensor_scale;                                                                        \
        for (uint32_t t = 0; groups > 0 && t < FORMAT_##ID##_TILES; t++)                           \
            format_##id##_encode(row, t, codes, scales);                                           \
    }                                                                                              \
    static void decode_##id(const uint8_t *restrict codes, const uint8_t *restrict scales,         \
                            uint32_t groups, float tensor_scale, float *restrict row) {            \
        for (uint32_t t = 0; groups > 0 && t < FORMAT_##ID##_CODED / (tile); t++) {                \
            const float factor = format_##id##_factor(codes, scales, t * (tile));                  \
            for (uint32_t i = 0; i < (tile); i++)                                                  \
                row[t * (tile) + i] =                                                              \
                    (format_##id##_unit(codes, t * (tile) + i) * factor) * tensor_scale;           \
        }                                                                                          \
        for (uint32_t i = FORMAT_##ID##_CODED; groups > 0 && i < FORMAT_##ID##_VALUES; i++)        \
            row[i] = format_##id##_unit(codes, i) * tensor_scale;                                  \
    }                                                                                              \
    static void decode_double_##id(const uint8_t *restrict codes, const uint8_t *restrict scales,  \
                                   uint32_t groups, float tensor_scale, double *restrict row) {    \
        for (uint32_t t = 0; groups > 0 && t < FORMAT_##ID##_CODED / (tile); t++) {                \
            const double factor = (double)format_##id##_factor(codes, scales, t * (tile));         \
            for (uint32_t i = 0; i < (tile); i++)                                                  \
                row[t * (tile) + i] =                                                              \
                    ((double)format_##id##_unit(codes, t * (tile) + i) * factor) *                 \
                    (double)tensor_scale;                                                          \
        }                                                                                          \
        for (uint32_t i = FORMAT_##ID##_CODED; groups > 0 && i < FORMAT_##ID##_VALUES; i++)        \
            row[i] = (double)format_##id##_unit(codes, i) * (double)tensor_scale;                  \
    }                                                                                              \
    static void poison_##id(uint8_t *restrict codes, uint8_t *restrict scales, uint32_t groups) {  \
        if (groups > 0)                                                                            \
            format_##id##_poison(codes, scales);                                                   \
    }
#include "records.def"
#undef RECORD

static void encode_finite(enum format_id id, const float *row, uint32_t groups, float tensor_scale,
                          uint8_t *payload, uint8_t *scales) {
    switch (id) {
#define FORMAT(ID, id, ...)                                                                        \
    case FORMAT_##ID:                                                                              \
        encode_##id(row, groups, tensor_scale, payload, scales);                                   \
        break;
#include "formats.def"
#undef FORMAT
#define RECORD(ID, id, ...)                                                                        \
    case FORMAT_##ID:                                                                              \
        encode_##id(row, groups, tensor_scale, payload, scales);                                   \
        break;
#include "records.def"
#undef RECORD
    case FORMAT_COUNT:
    case FORMAT_END:
        break;
    }
}

/* Values a row is encoded in at a time: a multiple of every format's group; a record is one chunk.
 */
enum { CHUNK_VALUES = 128, MOST_RECORD_VALUES = 576 };
#define FORMAT(ID, id, values, ...)                                                                \
    static_assert(CHUNK_VALUES % (values) == 0, "chunks hold whole groups of " #id);
#include "formats.def"
#undef FORMAT
#define RECORD(ID, ...)                                                                            \
    static_assert((int)FORMAT_##ID##_VALUES <= (int)MOST_RECORD_VALUES, "room for a row of " #ID);
#include "records.def"
#undef RECORD

static bool all_finite(const float *values, uint32_t count) {
    int32_t largest = 0;
    for (uint32_t i = 0; i < count; i++) {
        const int32_t magnitude = (int32_t)format_bits_magnitude(values[i]);
        largest = magnitude > largest ? magnitude : largest;
    }
    return largest < 0x7F800000;
}

/* Copies `count` values, infinities replaced, and NaN too where the format has none. */
static void replace_nonfinite(const float *from, uint32_t count, bool has_nan, float *to,
                              struct format_replaced *replaced) {
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t magnitude = format_bits_magnitude(from[i]);
        to[i] = from[i];
        if (magnitude == 0x7F800000u) {
            to[i] = from[i] < 0.0f ? -FORMAT_INFINITY_STORED : FORMAT_INFINITY_STORED;
            replaced->infinite_values++;
        } else if (magnitude > 0x7F800000u && !has_nan) {
            to[i] = 0.0f;
            replaced->nan_values++;
        }
    }
}

void format_encode_row(enum format_id id, const float *row, uint32_t values, float tensor_scale,
                       uint8_t *payload, uint8_t *scales, struct format_replaced *replaced) {
    const struct format_info *info = &format_table[id];
    struct format_replaced counts = {0};
    float clean[MOST_RECORD_VALUES];
    const uint32_t most = format_is_record(id) ? info->group_values : CHUNK_VALUES;
    for (uint32_t first = 0; first < values; first += most) {
        const uint32_t count = values - first < most ? values - first : most;
        const uint32_t group = first / info->group_values;
        const float *chunk = row + first;
        if (!all_finite(chunk, count)) {
            replace_nonfinite(chunk, count, info->has_nan, clean, &counts);
            chunk = clean;
        }
        encode_finite(id, chunk, count / info->group_values, tensor_scale,
                      payload + (size_t)group * info->group_payload_bytes,
                      GROUP_SCALE(scales, group, info->group_scale_bytes));
    }
    if (replaced != NULL) {
        replaced->nan_values += counts.nan_values;
        replaced->infinite_values += counts.infinite_values;
    }
}

void format_decode_row(enum format_id id, const uint8_t *payload, const uint8_t *scales,
                       uint32_t values, float tensor_scale, float *row) {
    const uint32_t groups = values / format_table[id].group_values;
    switch (id) {
#define FORMAT(ID, id, ...)                                                                        \
    case FORMAT_##ID:                                                                              \
        decode_##id(payload, scales, groups, tensor_scale, row);                                   \
        break;
#include "formats.def"
#undef FORMAT
#define RECORD(ID, id, ...)                                                                        \
    case FORMAT_##ID:                                                                              \
        decode_##id(payload, scales, groups, tensor_scale, row);                                   \
        break;
#include "records.def"
#undef RECORD
    case FORMAT_COUNT:
    case FORMAT_END:
        break;
    }
}

void format_decode_row_double(enum format_id id, const uint8_t *payload, const uint8_t *scales,
                              uint32_t values, float tensor_scale, double *row) {
    const uint32_t groups = values / format_table[id].group_values;
    switch (id) {
#define FORMAT(ID, id, ...)                                                                        \
    case FORMAT_##ID:                                                                              \
        decode_double_##id(payload, scales, groups, tensor_scale, row);                            \
        break;
#include "formats.def"
#undef FORMAT
#define RECORD(ID, id, ...)                                                                        \
    case FORMAT_##ID:                                                                              \
        decode_double_##id(payload, scales, groups, tensor_scale, row);                            \
        break;
#include "records.def"
#undef RECORD
    case FORMAT_COUNT:
    case FORMAT_END:
        break;
    }
}

void format_poison_row(enum format_id id, uint8_t *payload, uint8_t *scales, uint32_t values) {
    const uint32_t groups = values / format_table[id].group_values;
    switch (id) {
#define FORMAT(ID, id, ...)                                                                        \
    case FORMAT_##ID:                                                                              \
        poison_##id(payload, scales, groups);                                                      \
        break;
#include "formats.def"
#undef FORMAT
#define RECORD(ID, id, ...)                                                                        \
    case FORMAT_##ID:                                                                              \
        poison_##id(payload, scales, groups);                                                      \
        break;
#include "records.def"
#undef RECORD
    case FORMAT_COUNT:
    case FORMAT_END:
        break;
    }
}
