/* Plans a page: plane offsets, strides and the padding between what is stored and what it takes. */
#include "page.h"

#include "checked.h"

#include <stddef.h>

static enum status check_fit(enum format_id format, const char *side, uint32_t dim,
                             struct status_text *text) {
    const struct format_info *info = format_get(format);
    if (format_fits(format, dim))
        return STATUS_OK;
    if (format_is_record(format))
        return status_set(text, STATUS_REFUSED, "%s is a row of %u values and cannot hold %u",
                          info->name, info->group_values, dim);
    char multiples[48];
    format_multiples_words(format, dim, multiples, sizeof multiples);
    return status_set(text, STATUS_REFUSED,
                      "%s cannot hold %s rows of %u values: one scale covers %u values, so the dim "
                      "must be a multiple of %u (%s would do)",
                      info->name, side, dim, info->group_values, info->group_values, multiples);
}

static bool plane_bytes(uint64_t rows, uint32_t row_bytes, uint64_t *out) {
    return checked_multiply(rows, row_bytes, out);
}

enum status page_plan(const struct page_shape *shape, struct page_layout *out,
                      struct status_text *text) {
    if (shape->kv_heads == 0 || shape->page_tokens == 0 || shape->k_dim == 0)
        return status_set(text, STATUS_BAD_INPUT,
                          "a page needs KV heads, tokens and dims above zero (got %u heads, %u "
                          "tokens, K dim %u)",
                          shape->kv_heads, shape->page_tokens, shape->k_dim);
    if (shape->v_in_k ? shape->v_dim > shape->k_dim : shape->v_dim == 0)
        return status_set(text, STATUS_BAD_INPUT, "V dim %u does not go with K dim %u",
                          shape->v_dim, shape->k_dim);
    if (!shape->v_in_k && (format_is_record(shape->k_format) || format_is_record(shape->v_format)))
        return status_set(text, STATUS_REFUSED,
                          "%s/%s: a record holds one row for K and V, not one of each",
                          format_get(shape->k_format)->name, format_get(shape->v_format)->name);
    enum status status = check_fit(shape->k_format, "K", shape->k_dim, text);
    if (status == STATUS_OK && !shape->v_in_k)
        status = check_fit(shape->v_format, "V", shape->v_dim, text);
    if (status != STATUS_OK)
        return status;

    struct page_layout layout = {.shape = *shape};
    const uint64_t rows = (uint64_t)shape->kv_heads * shape->page_tokens;
    layout.k.row_payload_bytes = format_payload_bytes(shape->k_format, shape->k_dim);
    layout.k.row_scale_bytes = format_scale_bytes(shape->k_format, shape->k_dim);
    if (!shape->v_in_k) {
        layout.v.row_payload_bytes = format_payload_bytes(shape->v_format, shape->v_dim);
        layout.v.row_scale_bytes = format_scale_bytes(shape->v_format, shape->v_dim);
    }
    const uint64_t alignment_bytes = format_is_record(shape->k_format)
                                         ? format_get(shape->k_format)->page_alignment_bytes
                                         : PAGE_ALIGNMENT_BYTES;
    uint64_t k_values, v_values, k_scales, v_scales, offset;
    const bool fits =
        plane_bytes(rows, layout.k.row_payload_bytes, &k_values) &&
        plane_bytes(rows, layout.v.row_payload_bytes, &v_values) &&
        plane_bytes(rows, layout.k.row_scale_bytes, &k_scales) &&
        plane_bytes(rows, layout.v.row_scale_bytes, &v_scales) &&
        checked_round_up(k_values, PAGE_ALIGNMENT_BYTES, &layout.v.values_offset_bytes) &&
        checked_add(layout.v.values_offset_bytes, v_values, &offset) &&
        checked_round_up(offset, PAGE_ALIGNMENT_BYTES, &layout.k.scales_offset_bytes) &&
        checked_add(layout.k.scales_offset_bytes, k_scales, &layout.v.scales_offset_bytes) &&
        checked_add(layout.v.scales_offset_bytes, v_scales, &offset) &&
        checked_round_up(offset, alignment_bytes, &layout.stride_bytes);
    if (!fits)
        return status_set(text, STATUS_OVERFLOW,
                          "a page of %u heads x %u tokens does not fit 64-bit sizes",
                          shape->kv_heads, shape->page_tokens);
    if (shape->v_in_k)
        layout.v = layout.k;
    layout.payload_bytes = k_values + v_values + k_scales + v_scales;
    layout.padding_bytes = layout.stride_bytes - layout.payload_bytes;
    *out = layout;
    return STATUS_OK;
}
