/* The two kernels beside cuBLAS in dense attention: contiguous K and V of a sequence and KV head as
 * matrices, scores = Q K^T and outputs = P V by batched products (kernels/cuda/cuda_dense.c), and
 * here what stands before and between them. */
#ifndef DENSE_ATTEND_H
#define DENSE_ATTEND_H

#include "gpu.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What the pointers of row r (sequence * kv_heads + KV head) lead to; [DENSE_POINTERS][rows]. */
enum {
    DENSE_QUERIES, /* bf16 [group_heads][k_dim] */
    DENSE_K,       /* bf16 [tokens][k_dim] */
    DENSE_SCORES,  /* fp32 [group_heads][score_stride] */
    DENSE_WEIGHTS, /* bf16 [group_heads][score_stride] */
    DENSE_V,       /* bf16 [tokens][v_dim] */
    DENSE_OUTPUTS, /* fp32 [group_heads][v_dim] */
    DENSE_POINTERS
};

/* One page per sequence, so that each of its KV heads' tokens follow each other in it. */
struct dense_arguments {
    const uint8_t *dev_pages;
    const int32_t *dev_page_table; /* [seqs], one column */
    const float *dev_queries;      /* [seqs][query_heads][k_dim] */
    const float *dev_sinks;        /* [query_heads] or NULL */
    float *dev_outputs;            /* [seqs][query_heads][v_dim] */
    const struct backend_segment *dev_segments;
    const uint32_t *dev_row_first;
    uint64_t *dev_pointers; /* [DENSE_POINTERS][rows] */
    uint16_t *dev_bf16;     /* queries, [rows][group_heads][k_dim] */
    float *dev_scores;      /* [rows][group_heads][score_stride] */
    uint16_t *dev_weights;  /* the same shape */
    struct page_plane k, v;
    uint64_t page_stride_bytes;
    uint64_t score_stride;
    uint32_t page_tokens;
    uint32_t rows, kv_heads, group_heads;
    uint32_t k_dim, v_dim;
    float score_scale; /* softmax scale * log2(e) */
};

/* Writes pointers, and queries as bf16, which hold them exactly. Rows without tokens point at
 * nothing for K and V. */
enum status gpu_dense_prepare(const struct gpu_machine *machine,
                              const struct dense_arguments *arguments, struct status_text *text);
/* Scores to weights that add up to 1, the sink's share left out; what is behind a row's tokens is
 * neither read nor written. */
enum status gpu_dense_softmax(const struct gpu_machine *machine,
                              const struct dense_arguments *arguments, struct status_text *text);

#ifdef __cplusplus
}
#endif
#endif
