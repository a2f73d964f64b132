/* The kernel `cublas`: what a cache that is not paged and not quantised can do, as a baseline. Two
 * batched products and a softmax between them; scores and weights of all tokens go through memory.
 */
#include <string.h>

#include "cuda_blas.h"
#include "cuda_device.h"
#include "attend_arguments.h"
#include "checked.h"
#include "dense_attend.h"

enum { STRIDE_TOKENS = 8 }; /* rows of scores and weights begin on 16 bytes */

enum status cuda_dense_check(struct backend_device *device, const struct page_layout *page,
                             uint32_t query_heads, bool selected, struct status_text *text) {
    const struct page_shape *shape = &page->shape;
    if (shape->k_format != FORMAT_BF16 || shape->v_format != FORMAT_BF16)
        return status_set(text, STATUS_REFUSED,
                          "kernel cublas reads K and V in bf16, not %s and %s (--kernel mma and "
                          "simple do)",
                          format_get(shape->k_format)->name, format_get(shape->v_format)->name);
    if (shape->v_in_k)
        return status_set(text, STATUS_REFUSED,
                          "kernel cublas reads K and V apart, not one row for both (--kernel mma "
                          "and simple do)");
    if (selected)
        return status_set(text, STATUS_REFUSED,
                          "kernel cublas reads all tokens, whatever is selected (--kernel mma and "
                          "simple read those alone)");
    if (query_heads == 0 || query_heads % shape->kv_heads != 0)
        return status_set(text, STATUS_REFUSED,
                          "%u query heads over %u KV heads: a whole number per KV head is needed",
                          query_heads, shape->kv_heads);
    struct status_text why = {""};
    if (cuda_blas_open(device, false, &why) != STATUS_OK)
        return status_set(text, STATUS_REFUSED, "kernel cublas: %.400s", why.line);
    return gpu_attend_check_page(page, text);
}

static uint64_t aligned(uint64_t bytes) {
    return checked_divide_up(bytes, 256) * 256;
}

static uint64_t score_stride(const struct page_layout *page) {
    return checked_divide_up(page->shape.page_tokens, STRIDE_TOKENS) * STRIDE_TOKENS;
}

/* Where the parts of the workspace begin, for `rows` rows. cuBLAS's own comes first. */
struct dense_parts {
    uint64_t pointers, queries, scores, weights, end;
};
static struct dense_parts cut(const struct page_layout *page, uint32_t query_heads, uint64_t rows) {
    const uint64_t heads = rows * (query_heads / page->shape.kv_heads);
    struct dense_parts parts = {.pointers = CUDA_BLAS_WORKSPACE_BYTES};
    parts.queries = parts.pointers + aligned(rows * DENSE_POINTERS * sizeof(uint64_t));
    parts.scores = parts.queries + aligned(heads * page->shape.k_dim * sizeof(uint16_t));
    parts.weights = parts.scores + aligned(heads * score_stride(page) * sizeof(float));
    parts.end = parts.weights + aligned(heads * score_stride(page) * sizeof(uint16_t));
    return parts;
}

/* Rows are no more than segments. */
uint64_t cuda_dense_workspace_bytes(const struct page_layout *page, uint32_t query_heads,
                                    uint32_t segment_count) {
    return cut(page, query_heads, segment_count).end;
}

/* A row's tokens, from the host's copy of the plan. */
struct range {
    uint64_t first, count;
};
static struct range range_of(const struct backend_plan *plan, uint32_t row) {
    const uint32_t first = plan->host_row_first[row], end = plan->host_row_first[row + 1];
    struct range range = {.first = plan->host_segments[first].first_token};
    for (uint32_t s = first; s < end; s++)
        range.count += plan->host_segments[s].token_count;
    return range;
}

static enum status check_contiguous(const struct backend_attend *work, struct status_text *text) {
    const struct backend_cache *cache = &work->cache;
    uint64_t longest = 0;
    if (work->plan.host_segments == NULL)
        return status_set(text, STATUS_REFUSED, "kernel cublas needs the plan on the host too");
    for (uint32_t row = 0; row < work->plan.row_count; row++) {
        const struct range range = range_of(&work->plan, row);
        const uint64_t end = range.count > 0 ? range.first + range.count : 0;
        longest = end > longest ? end : longest;
    }
    if (cache->page_table_columns == 1 && longest <= cache->page.shape.page_tokens)
        return STATUS_OK;
    return status_set(text, STATUS_REFUSED,
                      "kernel cublas reads the tokens of a sequence where they follow each other: "
                      "in one page, and pages have %u of up to %llu tokens (--page-tokens %llu)",
                      cache->page.shape.page_tokens, (unsigned long long)longest,
                      (unsigned long long)longest);
}

static struct dense_arguments make_arguments(const struct backend_attend *work) {
    const struct backend_cache *cache = &work->cache;
    const struct page_layout *page = &cache->page;
    const struct dense_parts parts = cut(page, work->query_heads, work->plan.row_count);
    uint8_t *base = work->dev_workspace;
    return (struct dense_arguments){
        .dev_pages = cache->dev_pages,
        .dev_page_table = cache->dev_page_table,
        .dev_queries = work->dev_queries,
        .dev_sinks = work->dev_sinks,
        .dev_outputs = work->dev_outputs,
        .dev_segments = work->plan.dev_segments,
        .dev_row_first = work->plan.dev_row_first,
        .dev_pointers = (uint64_t *)(void *)(base + parts.pointers),
        .dev_bf16 = (uint16_t *)(void *)(base + parts.queries),
        .dev_scores = (float *)(void *)(base + parts.scores),
        .dev_weights = (uint16_t *)(void *)(base + parts.weights),
        .k = page->k,
        .v = page->v,
        .page_stride_bytes = page->stride_bytes,
        .score_stride = score_stride(page),
        .page_tokens = page->shape.page_tokens,
        .rows = work->plan.row_count,
        .kv_heads = page->shape.kv_heads,
        .group_heads = work->query_heads / page->shape.kv_heads,
        .k_dim = page->shape.k_dim,
        .v_dim = page->shape.v_dim,
        .score_scale = (float)(work->softmax_scale * 1.4426950408889634),
    };
}

/* `rows` rows from `first` on, all of `tokens` tokens: one of the two products. */
static enum status multiply(struct backend_device *device, const struct dense_arguments *a,
                            bool scores, uint32_t first, uint32_t rows, uint64_t tokens,
                            struct status_text *text) {
    const struct cuda_blas *blas = &device->blas;
    const float one = 1.0f, zero = 0.0f;
    const int count = (int)tokens, heads = (int)a->group_heads, stride = (int)a->score_stride;
    const int k_dim = (int)a->k_dim, v_dim = (int)a->v_dim;
    uint64_t *lists[DENSE_POINTERS];
    for (int i = 0; i < DENSE_POINTERS; i++)
        lists[i] = a->dev_pointers + (uint64_t)i * a->rows + first;
    const cublasStatus_t error =
        scores
            ? blas->gemm_batched(blas->handle, CUBLAS_OP_T, CUBLAS_OP_N, count, heads, k_dim, &one,
                                 (const void *const *)(const void *)lists[DENSE_K], CUDA_R_16BF,
                                 k_dim, (const void *const *)(const void *)lists[DENSE_QUERIES],
                                 CUDA_R_16BF, k_dim, &zero,
                                 (void *const *)(void *)lists[DENSE_SCORES], CUDA_R_32F, stride,
                                 (int)rows, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT)
            : blas->gemm_batched(blas->handle, CUBLAS_OP_N, CUBLAS_OP_N, v_dim, heads, count, &one,
                                 (const void *const *)(const void *)lists[DENSE_V], CUDA_R_16BF,
                                 v_dim, (const void *const *)(const void *)lists[DENSE_WEIGHTS],
                                 CUDA_R_16BF, stride, &zero,
                                 (void *const *)(void *)lists[DENSE_OUTPUTS], CUDA_R_32F, v_dim,
                                 (int)rows, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
    return cuda_blas_check(error, "cublasGemmBatchedEx", text);
}

/* Sequences of one length that follow each other are one batch; an empty one's outputs are zero. */
static enum status multiply_all(struct backend_device *device, const struct backend_attend *work,
                                const struct dense_arguments *a, bool scores,
                                struct status_text *text) {
    const uint64_t output_bytes = (uint64_t)a->group_heads * a->v_dim * sizeof(float);
    enum status status = STATUS_OK;
    for (uint32_t first = 0, end; first < a->rows && status == STATUS_OK; first = end) {
        const uint64_t tokens = range_of(&work->plan, first).count;
        for (end = first + a->kv_heads;
             end < a->rows && range_of(&work->plan, end).count == tokens;)
            end += a->kv_heads;
        if (tokens > 0)
            status = multiply(device, a, scores, first, end - first, tokens, text);
        else if (!scores)
            status = cuda_memory_fill(device, (uint8_t *)a->dev_outputs + first * output_bytes, 0,
                                      (end - first) * output_bytes, text);
    }
    return status;
}

enum status cuda_dense_attend(struct backend_device *device, const struct backend_attend *work,
                              struct status_text *text) {
    enum status status = check_contiguous(work, text);
    if (status == STATUS_OK)
        status = cuda_blas_begin(device, work->dev_workspace, text);
    if (status != STATUS_OK)
        return status;
    const struct dense_arguments a = make_arguments(work);
    status = gpu_dense_prepare(&device->machine, &a, text);
    if (status == STATUS_OK)
        status = multiply_all(device, work, &a, true, text);
    if (status == STATUS_OK)
        status = gpu_dense_softmax(&device->machine, &a, text);
    return status == STATUS_OK ? multiply_all(device, work, &a, false, text) : status;
}
