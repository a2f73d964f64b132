/* Merges partial results: a block per row and query head, as far as blocks go. */
#include "attend_combine.h"

#include <math.h>

#include "attend_finish.cuh"

enum { COMBINE_THREADS = 128 };
static const uint64_t COMBINE_MOST_BLOCKS = 1u << 20;

GPU_DEVICE void combine_head(const struct attend_arguments &a, uint32_t row, uint32_t head) {
    const uint32_t first = a.dev_row_first[row], end = a.dev_row_first[row + 1];
    if (end - first == 1)
        return; /* the attend kernel has written it */
    const uint32_t query_head = row % a.kv_heads * a.group_heads + head;
    float *to =
        a.dev_outputs + ((uint64_t)(row / a.kv_heads) * a.query_heads + query_head) * a.v_dim;
    float largest = -INFINITY, sum = 0.0f;
    for (uint32_t s = first; s < end; s++)
        largest = fmaxf(largest, attend_partial_numbers(a, s, head)[ATTEND_PARTIAL_LARGEST]);
    for (uint32_t s = first; s < end; s++) {
        const float *numbers = attend_partial_numbers(a, s, head);
        const float own = numbers[ATTEND_PARTIAL_LARGEST];
        sum += numbers[ATTEND_PARTIAL_SUM] * (own == largest ? 1.0f : ptx_exp2(own - largest));
    }
    const float factor = attend_final_factor(a, query_head, largest, sum);
    for (uint32_t value = gpu_thread(); value < a.v_dim; value += gpu_threads()) {
        float output = 0.0f;
        for (uint32_t s = first; s < end; s++) {
            const float own = attend_partial_numbers(a, s, head)[ATTEND_PARTIAL_LARGEST];
            output += attend_partial_output(a, s, head)[value] *
                      (own == largest ? 1.0f : ptx_exp2(own - largest));
        }
        to[value] = output * factor;
    }
}

GPU_KERNEL(COMBINE_THREADS, 4) attend_combine(const struct attend_arguments a) {
    const uint64_t count = (uint64_t)a.row_count * a.group_heads;
    for (uint64_t i = gpu_block(); i < count; i += gpu_blocks())
        combine_head(a, (uint32_t)(i / a.group_heads), (uint32_t)(i % a.group_heads));
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
        0,
        arguments,
        sizeof *arguments,
    };
    return machine->launch(machine->self, &launch, text);
}
