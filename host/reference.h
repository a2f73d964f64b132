/* Decode attention in double precision, straight from the definition: the judge of every kernel.
 * Works on stored bytes through the plain codecs (kernel_error), or on the unquantised rows
 * (format_error); shares no code with any kernel. */
#ifndef REFERENCE_H
#define REFERENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "backend.h"

/* One sequence's view of one group and layer, all in host memory. */
struct reference_view {
    const struct page_layout *page;
    const uint8_t *pages;      /* page p at pages + p * page->stride_bytes */
    const int32_t *page_table; /* the sequence's own columns */
    uint32_t page_table_columns;
    float k_tensor_scale;
    float v_tensor_scale;
    const int32_t *selected; /* token t is selected[t] of the cache; NULL: t itself */
    /* Unquantised rows instead of stored ones, where use_exact_k / use_exact_v say so:
     * token t's row is (first_row + t) % row_count; [row][kv_heads][dim]. */
    const float *exact_k;
    const float *exact_v; /* v_in_k: NULL, V comes from exact_k */
    uint64_t exact_rows;
    uint64_t exact_first_row;
    bool use_exact_k;
    bool use_exact_v;
};

/* The K row of one token as stored, k_dim values. */
void reference_row(const struct reference_view *view, uint32_t kv_head, uint64_t token,
                   double *row);

/* out[v_dim] for one query head: query [k_dim], tokens [first_token, first_token + token_count)
 * of KV head kv_head; sink: NULL or one logit that joins the denominator. No tokens and no sink:
 * zeros. `scratch` holds at least k_dim + v_dim + token_count doubles. */
void reference_attend(const struct reference_view *view, uint32_t kv_head, const float *query,
                      float softmax_scale, const float *sink, uint64_t first_token,
                      uint64_t token_count, double *scratch, double *out);

/* |a - b| / |b| over `count` values; 0 when both are zero, infinity when only b is or a value of
 * `a` is not finite. */
double reference_relative_error(const float *a, const double *b, uint32_t count);

/* The largest relative error a kernel may show: the larger of the formats' kernel_tolerance. The
 * kernel "expand" rounds values of llama.cpp's blocks to f16 before it attends; large scores
 * magnify that, and it is allowed 2^-6 (0.012 was seen over biased data). */
double reference_bound(const char *kernel, enum format_id k_format, enum format_id v_format);

#endif
