/* Pointers and queries for cuBLAS, a block per row; softmax, a block per row and query head. */
#include "dense_attend.h"

#include <math.h>

#include "block_all.cuh"
#include "gpu_ptx.cuh"

enum : uint32_t {
    DENSE_THREADS = 256,
    DENSE_WARPS = DENSE_THREADS / GPU_WARP_LANES,
    DENSE_SHARED_BYTES = DENSE_WARPS * 4,
};
static const uint64_t DENSE_MOST_BLOCKS = 1u << 20;

/* A row's tokens: its segments follow each other. */
struct dense_range {
    uint64_t first, count;
};
GPU_DEVICE struct dense_range dense_tokens(const struct dense_arguments &a, uint32_t row) {
    struct dense_range range = {0, 0};
    for (uint32_t s = a.dev_row_first[row]; s < a.dev_row_first[row + 1]; s++) {
        if (range.count == 0)
            range.first = a.dev_segments[s].first_token;
        range.count += a.dev_segments[s].token_count;
    }
    return range;
}

GPU_DEVICE void dense_point(const struct dense_arguments &a, uint32_t row) {
    const uint32_t seq = row / a.kv_heads, head = row - seq * a.kv_heads;
    const uint64_t first_head = (uint64_t)row * a.group_heads;
    const struct dense_range range = dense_tokens(a, row);
    uint64_t k = 0, v = 0;
    if (range.count > 0) {
        const uint32_t slot = (uint32_t)(range.first % a.page_tokens);
        const uint64_t page = reinterpret_cast<uint64_t>(a.dev_pages) +
                              (uint64_t)(uint32_t)a.dev_page_table[seq] * a.page_stride_bytes;
        k = page + page_locate(&a.k, a.page_tokens, head, slot).payload_bytes;
        v = page + page_locate(&a.v, a.page_tokens, head, slot).payload_bytes;
    }
    const uint64_t pointers[DENSE_POINTERS] = {
        reinterpret_cast<uint64_t>(a.dev_bf16 + first_head * a.k_dim),
        k,
        reinterpret_cast<uint64_t>(a.dev_scores + first_head * a.score_stride),
        reinterpret_cast<uint64_t>(a.dev_weights + first_head * a.score_stride),
        v,
        reinterpret_cast<uint64_t>(a.dev_outputs + first_head * a.v_dim),
    };
    for (uint32_t i = 0; i < DENSE_POINTERS; i++)
        a.dev_pointers[(uint64_t)i * a.rows + row] = pointers[i];
}

GPU_KERNEL(DENSE_THREADS, 2) dense_prepare(const struct dense_arguments a) {
    const uint32_t values = a.group_heads * a.k_dim;
    for (uint32_t row = gpu_block(); row < a.rows; row += gpu_blocks()) {
        if (gpu_thread() == 0)
            dense_point(a, row);
        for (uint32_t i = gpu_thread(); i < values; i += DENSE_THREADS) {
            const uint64_t at = (uint64_t)row * values + i;
            a.dev_bf16[at] = (uint16_t)ptx_pack_bf16x2(a.dev_queries[at], 0.0f);
        }
    }
}

GPU_DEVICE void dense_head(const struct dense_arguments &a, uint32_t row, uint32_t head,
                           float *of_warps) {
    const float log2_e = 1.44269504f;
    const uint64_t count = dense_tokens(a, row).count;
    const uint64_t at = ((uint64_t)row * a.group_heads + head) * a.score_stride;
    const float *scores = a.dev_scores + at;
    uint16_t *weights = a.dev_weights + at;
    const uint32_t query_head = row % a.kv_heads * a.group_heads + head;
    const float sink = a.dev_sinks != nullptr ? a.dev_sinks[query_head] * log2_e : -INFINITY;
    float largest = sink, sum = 0.0f;
    for (uint64_t t = gpu_thread(); t < count; t += DENSE_THREADS)
        largest = fmaxf(largest, scores[t] * a.score_scale);
    largest = block_all<true, DENSE_WARPS>(largest, of_warps);
    for (uint64_t t = gpu_thread(); t < count; t += DENSE_THREADS)
        sum += ptx_exp2(scores[t] * a.score_scale - largest);
    sum = block_all<false, DENSE_WARPS>(sum, of_warps);
    if (a.dev_sinks != nullptr)
        sum += ptx_exp2(sink - largest);
    const float factor = count > 0 ? 1.0f / sum : 0.0f;
    for (uint64_t t = gpu_thread(); t < count; t += DENSE_THREADS)
        weights[t] =
            (uint16_t)ptx_pack_bf16x2(ptx_exp2(scores[t] * a.score_scale - largest) * factor, 0.0f);
}

GPU_KERNEL(DENSE_THREADS, 2) dense_softmax(const struct dense_arguments a) {
    GPU_SHARED(shared);
    float *of_warps = reinterpret_cast<float *>(shared);
    const uint64_t count = (uint64_t)a.rows * a.group_heads;
    for (uint64_t i = gpu_block(); i < count; i += gpu_blocks())
        dense_head(a, (uint32_t)(i / a.group_heads), (uint32_t)(i % a.group_heads), of_warps);
}

static enum status dense_launch(const struct gpu_machine *machine, const char *name,
                                const void *entry, uint64_t blocks,
                                const struct dense_arguments *arguments, struct status_text *text) {
    const struct gpu_launch launch = {
        name,
        entry,
        (uint32_t)(blocks < DENSE_MOST_BLOCKS ? blocks : DENSE_MOST_BLOCKS),
        DENSE_THREADS,
        DENSE_SHARED_BYTES,
        arguments,
        sizeof *arguments,
    };
    return machine->launch(machine->self, &launch, text);
}

extern "C" enum status gpu_dense_prepare(const struct gpu_machine *machine,
                                         const struct dense_arguments *arguments,
                                         struct status_text *text) {
    return dense_launch(machine, "dense_prepare", GPU_ENTRY(struct dense_arguments, dense_prepare),
                        arguments->rows, arguments, text);
}

extern "C" enum status gpu_dense_softmax(const struct gpu_machine *machine,
                                         const struct dense_arguments *arguments,
                                         struct status_text *text) {
    return dense_launch(machine, "dense_softmax", GPU_ENTRY(struct dense_arguments, dense_softmax),
                        (uint64_t)arguments->rows * arguments->group_heads, arguments, text);
}
