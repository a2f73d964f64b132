/* What every attend kernel is given, and where partial results lie. Plain C: the host fills it. */
#ifndef ATTEND_ARGUMENTS_H
#define ATTEND_ARGUMENTS_H

#include "backend.h"

/* x / divisor = (x * multiplier >> 32 >> shift) + x * whole for every x below 2^31: `whole` is 1
 * for a divisor of 1 (whose multiplier, 2^32, does not fit and is 0) and 0 for all others. */
struct attend_divider {
    uint32_t divisor;
    uint32_t multiplier;
    uint32_t shift;
    uint32_t whole;
};

struct attend_arguments {
    const uint8_t *dev_pages;
    const int32_t *dev_page_table; /* [seqs][columns] */
    const float *dev_queries;      /* [seqs][query_heads][k_dim] */
    const float *dev_sinks;        /* [query_heads] or NULL */
    float *dev_outputs;            /* [seqs][query_heads][v_dim] */
    const struct backend_segment *dev_segments;
    const uint32_t *dev_row_first;
    const uint32_t *dev_worker_first;
    const int32_t *dev_selected; /* [seqs][selected_stride]: tokens to attend; NULL: all */
    float *dev_partials; /* [segments][group_heads][v_dim], then [segments][group_heads][2] */
    uint64_t page_stride_bytes;
    struct page_plane k, v; /* v equal to k with v_in_k */
    struct attend_divider page_tokens;
    uint32_t columns;
    uint32_t selected_stride;
    uint32_t segment_count;
    uint32_t row_count;
    uint32_t worker_count;
    uint32_t kv_heads;
    uint32_t query_heads;
    uint32_t group_heads; /* query heads per KV head */
    uint32_t head_chunks; /* blocks that share one worker's segments, each with its own heads */
    uint32_t k_dim, v_dim;
    uint32_t k_format, v_format; /* enum format_id */
    uint32_t tile_tokens;        /* of the simple kernel */
    uint32_t stages;             /* of the mma kernels' rings in shared memory */
    bool v_in_k;
    /* scores are kept as powers of two: softmax scale * log2(e) * K's tensor scale */
    float score_scale;
    float v_tensor_scale;
};

#ifdef __cplusplus
extern "C" {
#endif

/* What says where a cache's tokens lie; all else is zero. gpu_attend.c has both. */
struct attend_arguments gpu_attend_cache_arguments(const struct backend_cache *cache);
/* STATUS_REFUSED where a page is too large for the kernels' arithmetic. */
enum status gpu_attend_check_page(const struct page_layout *page, struct status_text *text);

#ifdef __cplusplus
}
#endif

/* The two numbers beside a partial output: the largest score (a power of two; -inf where there was
 * no token) and the sum of 2^(score - largest). Outputs are sums of weights times V, v's tensor
 * scale already in, not yet divided. */
enum { ATTEND_PARTIAL_LARGEST, ATTEND_PARTIAL_SUM, ATTEND_PARTIAL_NUMBERS };

#endif
