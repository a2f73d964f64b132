/* Two passes: all scores, then the weighted sum, as the definition reads. */
#include "reference.h"

#include <math.h>
#include <string.h>

/* Row `token` of K or V in double precision. */
static void read_row(const struct reference_view *view, bool side_v, uint32_t kv_head,
                     uint64_t token, uint32_t dim, double *row) {
    const struct page_shape *shape = &view->page->shape;
    if (view->selected != NULL)
        token = (uint64_t)view->selected[token];
    if (side_v ? view->use_exact_v : view->use_exact_k) {
        const bool from_k = !side_v || shape->v_in_k;
        const uint32_t width = from_k ? shape->k_dim : shape->v_dim;
        const uint64_t source = (view->exact_first_row + token) % view->exact_rows;
        const float *exact =
            (from_k ? view->exact_k : view->exact_v) + (source * shape->kv_heads + kv_head) * width;
        for (uint32_t i = 0; i < dim; i++)
            row[i] = (double)exact[i];
        return;
    }
    const uint64_t column = token / shape->page_tokens % view->page_table_columns;
    const uint8_t *page =
        view->pages + (uint64_t)view->page_table[column] * view->page->stride_bytes;
    const struct page_plane *plane = side_v ? &view->page->v : &view->page->k;
    const struct page_place place =
        page_locate(plane, shape->page_tokens, kv_head, (uint32_t)(token % shape->page_tokens));
    format_decode_row_double(side_v ? shape->v_format : shape->k_format, page + place.payload_bytes,
                             page + place.scale_bytes, dim,
                             side_v ? view->v_tensor_scale : view->k_tensor_scale, row);
}

void reference_row(const struct reference_view *view, uint32_t kv_head, uint64_t token,
                   double *row) {
    read_row(view, false, kv_head, token, view->page->shape.k_dim, row);
}

void reference_attend(const struct reference_view *view, uint32_t kv_head, const float *query,
                      float softmax_scale, const float *sink, uint64_t first_token,
                      uint64_t token_count, double *scratch, double *out) {
    const struct page_shape *shape = &view->page->shape;
    double *row = scratch;
    double *scores = scratch + shape->k_dim + shape->v_dim;
    double largest = sink != NULL ? (double)*sink : -INFINITY;
    for (uint64_t t = 0; t < token_count; t++) {
        read_row(view, false, kv_head, first_token + t, shape->k_dim, row);
        double dot = 0;
        for (uint32_t i = 0; i < shape->k_dim; i++)
            dot += (double)query[i] * row[i];
        scores[t] = dot * (double)softmax_scale;
        largest = scores[t] > largest ? scores[t] : largest;
    }
    double denominator = sink != NULL ? exp((double)*sink - largest) : 0;
    for (uint32_t i = 0; i < shape->v_dim; i++)
        out[i] = 0;
    /* A latent's V is a prefix of its K row; whole groups are decoded, so read the whole row. */
    const uint32_t v_read = shape->v_in_k ? shape->k_dim : shape->v_dim;
    for (uint64_t t = 0; t < token_count; t++) {
        const double weight = exp(scores[t] - largest);
        denominator += weight;
        read_row(view, true, kv_head, first_token + t, v_read, row);
        for (uint32_t i = 0; i < shape->v_dim; i++)
            out[i] += weight * row[i];
    }
    for (uint32_t i = 0; i < shape->v_dim && denominator > 0; i++)
        out[i] /= denominator;
}

double reference_relative_error(const float *a, const double *b, uint32_t count) {
    double difference = 0, length = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (!isfinite(a[i]))
            return INFINITY;
        const double d = (double)a[i] - b[i];
        difference += d * d;
        length += b[i] * b[i];
    }
    if (length == 0)
        return difference == 0 ? 0 : INFINITY;
    return sqrt(difference / length);
}

/* More significant bits than f16 has: a code times an f16 scale, and perhaps a minimum added. */
static bool is_rounded_by_f16(enum format_id format) {
    return format == FORMAT_Q8_0 || format == FORMAT_Q8_0_GGML || format == FORMAT_Q4_0 ||
           format == FORMAT_Q4_0_GGML || format == FORMAT_Q4_1 || format == FORMAT_Q5_0 ||
           format == FORMAT_Q5_1 || format == FORMAT_IQ4_NL;
}

double reference_bound(const char *kernel, enum format_id k_format, enum format_id v_format) {
    const double bound =
        fmax(format_get(k_format)->kernel_tolerance, format_get(v_format)->kernel_tolerance);
    const bool is_rounded = strcmp(kernel, "expand") == 0 &&
                            (is_rounded_by_f16(k_format) || is_rounded_by_f16(v_format));
    return is_rounded ? fmax(bound, 0x1p-6) : bound;
}
