/* Storage formats: how the values of a K or a V vector become bytes and come back.
 * Facts, sizes and bit-exact row codecs; where a row lies in memory is page.h's business.
 *
 * A row is the vector of one token and one KV head. Its codes are contiguous ("payload"), and
 * so are its scales ("scales"), one per `group_values` values. decoded value =
 *     unit * group scale * tensor scale
 * where unit is what the code itself says (exact in fp32), the group scale is 1 for formats
 * without scales, and the tensor scale is one fp32 per layer and per K or V.
 *
 * A record (records.def) is a format whose row has exactly one width: the row is its only group,
 * and the scales within it, wherever they lie, stand for the group scale value by value. */
#ifndef FORMAT_H
#define FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum format_id {
#define FORMAT(ID, id, values, payload, scale, nan, tensor, bits, tolerance) FORMAT_##ID,
#include "formats.def"
#undef FORMAT
    FORMAT_COUNT, /* of element formats; no format itself: it also means none */
#define RECORD(ID, id, latent, rope, key, tile, payload, scale, align, bits, tolerance) FORMAT_##ID,
#include "records.def"
#undef RECORD
    FORMAT_END /* records are those between FORMAT_COUNT and this */
};

struct format_info {
    const char *name;
    uint32_t group_values;
    uint32_t group_payload_bytes;
    uint32_t group_scale_bytes;
    bool has_nan;
    bool has_tensor_scale;
    uint32_t value_bits;     /* 16, 8, 5 or 4 */
    double kernel_tolerance; /* largest relative L2 error a kernel may show; see formats.def */
    /* Records only, else 0. group_values is the whole row: latent_dim + rope_dim, or key_dim. */
    uint32_t latent_dim;
    uint32_t rope_dim;
    uint32_t key_dim;
    uint32_t page_alignment_bytes; /* page strides are rounded up to it */
};

/* The row of formats.def or records.def; `id` must be one of them. */
const struct format_info *format_get(enum format_id id);

static inline bool format_is_record(enum format_id id) {
    return id > FORMAT_COUNT && id < FORMAT_END;
}

/* Looks the name of an element format up, case ignored, aliases included (bfloat16, float16, fp16,
 * fp8). False when there is none. */
bool format_find(const char *name, enum format_id *out);
/* The same for records, which have no aliases. */
bool format_find_record(const char *name, enum format_id *out);

/* True when a row of `values` values can be stored: a multiple of group_values, not 0; of a record
 * the very number. */
bool format_fits(enum format_id id, uint32_t values);
/* For messages: the multiples of group_values on both sides of `values`, "64 or 96". Below the
 * first there is none, and none past 32 bits. */
void format_multiples_words(enum format_id id, uint32_t values, char *out, size_t out_bytes);

/* Bytes of a row of `values` values, which must fit. */
uint32_t format_payload_bytes(enum format_id id, uint32_t values);
uint32_t format_scale_bytes(enum format_id id, uint32_t values);
/* Both together. */
uint32_t format_row_bytes(enum format_id id, uint32_t values);

/* The per-tensor scale a format wants for data whose largest magnitude is `amax`:
 * nvfp4 amax / (6 * 448); fp8 amax / its largest value when `fp8_amax`, else 1; 1 for the rest
 * and for amax 0. */
float format_tensor_scale(enum format_id id, float amax, bool fp8_amax);

/* What format_encode_row had to replace. */
struct format_replaced {
    uint64_t nan_values;      /* NaN stored as 0, formats without NaN only */
    uint64_t infinite_values; /* infinities stored as +-65504 */
};

/* Quantises `values` fp32 values into payload and scales (each sized by the functions above;
 * `scales` may be NULL when the format has none). `replaced` may be NULL; counts are added. */
void format_encode_row(enum format_id id, const float *row, uint32_t values, float tensor_scale,
                       uint8_t *payload, uint8_t *scales, struct format_replaced *replaced);

/* The inverse, in fp32: (unit * group scale) * tensor scale, in that order. */
void format_decode_row(enum format_id id, const uint8_t *payload, const uint8_t *scales,
                       uint32_t values, float tensor_scale, float *row);

/* The inverse in double precision, exact products: what the reference attention reads. */
void format_decode_row_double(enum format_id id, const uint8_t *payload, const uint8_t *scales,
                              uint32_t values, float tensor_scale, double *row);

/* Fills a row with codes that no finite input gives: NaN where the format or its scale has one,
 * the largest magnitude elsewhere. Unused page slots hold it, so that a kernel which reads past
 * a sequence's end is seen. */
void format_poison_row(enum format_id id, uint8_t *payload, uint8_t *scales, uint32_t values);

#ifdef __cplusplus
}
#endif
#endif
