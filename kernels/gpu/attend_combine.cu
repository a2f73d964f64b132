/* Merges partial results: a block per row and query head, as far as blocks go. */
#include "attend_combine.h"

#include <math.h>

#include "attend_finish.cuh"
#include "block_all.cuh"

enum : uint32_t {
    COMBINE_THREADS = 128,
    COMBINE_WARPS = COMBINE_THREADS / GPU_WARP_LANES,
    COMBINE_SEGMENTS = 1024, /* whose factors are kept at a time */
    COMBINE_VALUES = 4,      /* a thread's, at a time */
    COMBINE_SHARED_BYTES = (COMBINE_SEGMENTS + COMBINE_WARPS) * 4,
};
static const uint64_t COMBINE_MOST_BLOCKS = 1u << 20;

/* What segment s counts for. */
GPU_DEVICE float combine_factor(const struct attend_arguments &a, uint32_t s, uint32_t head,
                                float largest) {
    const float own = attend_partial_numbers(a, s, head)[ATTEND_PARTIAL_LARGEST];
    return own == largest ? 1.0f : ptx_exp2(own - largest); /* -inf less -inf is no number */
}

/* A thread per segment first, then a thread per value: nothing is looked up one after the other. */
GPU_DEVICE void combine_head(const struct attend_arguments &a, uint32_t row, uint32_t head,
                             float *factors, float *of_warps) {
    const uint32_t first = a.dev_row_first[row], end = a.dev_row_first[row + 1];
    if (end - first == 1)
        return; /* the attend kernel has written it */
    float largest = -INFINITY, sum = 0.0f;
    for (uint32_t s = first + gpu_thread(); s < end; s += COMBINE_THREADS)
        largest = fmaxf(largest, attend_partial_numbers(a, s, head)[ATTEND_PARTIAL_LARGEST]);
    largest = block_all<true, COMBINE_WARPS>(largest, of_warps);
    for (uint32_t s = first + gpu_thread(); s < end; s += COMBINE_THREADS)
        sum += attend_partial_numbers(a, s, head)[ATTEND_PARTIAL_SUM] *
               combine_factor(a, s, head, largest);
    sum = block_all<false, COMBINE_WARPS>(sum, of_warps);
    const uint32_t query_head = row % a.kv_heads * a.group_heads + head;
    const float last_factor = attend_final_factor(a, query_head, largest, sum);
    float *to =
        a.dev_outputs + ((uint64_t)(row / a.kv_heads) * a.query_heads + query_head) * a.v_dim;
    for (uint32_t base = 0; base < a.v_dim; base += COMBINE_VALUES * COMBINE_THREADS) {
        const uint32_t value = base + gpu_thread();
        float outputs[COMBINE_VALUES] = {};
        for (uint32_t at = first; at < end; at += COMBINE_SEGMENTS) {
            const uint32_t count = end - at < COMBINE_SEGMENTS ? end - at : COMBINE_SEGMENTS;
            gpu_sync_block();
            for (uint32_t s = gpu_thread(); s < count; s += COMBINE_THREADS)
                factors[s] = combine_factor(a, at + s, head, largest);
            gpu_sync_block();
            for (uint32_t s = 0; s < count; s++) {
                const float *from = attend_partial_output(a, at + s, head);
                GPU_UNROLL
                for (uint32_t i = 0; i < COMBINE_VALUES; i++)
                    if (value + i * COMBINE_THREADS < a.v_dim)
                        outputs[i] += from[value + i * COMBINE_THREADS] * factors[s];
            }
        }
        GPU_UNROLL
        for (uint32_t i = 0; i < COMBINE_VALUES; i++)
            if (value + i * COMBINE_THREADS < a.v_dim)
                to[value + i * COMBINE_THREADS] = outputs[i] * last_factor;
    }
}

GPU_KERNEL(COMBINE_THREADS, 4) attend_combine(const struct attend_arguments a) {
    GPU_SHARED(shared);
    float *factors = reinterpret_cast<float *>(shared), *of_warps = factors + COMBINE_SEGMENTS;
    const uint64_t count = (uint64_t)a.row_count * a.group_heads;
    for (uint64_t i = gpu_block(); i < count; i += gpu_blocks())
        combine_head(a, (uint32_t)(i / a.group_heads), (uint32_t)(i % a.group_heads), factors,
                     of_warps);
}

extern "C" enum status gpu_attend_combine(const struct gpu_machine *machine,
                                          const struct attend_arguments *arguments,
                                          struct status_text *text) {
    const uint64_t count = (uint64_t)arguments->row_count * arguments->group_heads;
    const struct gpu_launch launch = {
        "attend_combine",
        GPU_ENTRY(struct attend_arguments, attend_combine),
        (uint32_t)(count < COMBINE_MOST_BLOCKS ? count : COMBINE_MOST_BLOCKS),
        COMBINE_THREADS,
        COMBINE_SHARED_BYTES,
        arguments,
        sizeof *arguments,
    };
    return machine->launch(machine->self, &launch, text);
}
