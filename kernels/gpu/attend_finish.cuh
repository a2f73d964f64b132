/* What all attend kernels share on the device: where a token lies, and where a result goes. */
#ifndef ATTEND_FINISH_CUH
#define ATTEND_FINISH_CUH

#include "attend_arguments.h"
#include "gpu_ptx.cuh"

GPU_DEVICE uint32_t attend_divide(const struct attend_divider &by, uint32_t x) {
    return (ptx_multiply_high(x, by.multiplier) >> by.shift) + x * by.whole;
}

/* Positions within one segment are counted from the first slot of its first page, so that they fit
 * 32 bits whatever the token's own number is; of selected tokens, from the first of them. */
struct attend_place {
    uint64_t row;        /* address of the sequence's row of the page table, or of the list */
    uint32_t column;     /* where the segment's first page stands in it; of a list: the entry of the
                          * whole table that the sequence's row begins with */
    uint32_t first_slot; /* of the segment's first token, in that page; 0 */
};

/* selects false: of a kernel that never has selected tokens, and is spared looking for them. */
template <bool selects = true>
GPU_DEVICE struct attend_place attend_locate(const struct attend_arguments &arguments,
                                             const struct backend_segment &segment) {
    struct attend_place place;
    if (selects && arguments.dev_selected != nullptr) {
        place.row = gpu_keep(reinterpret_cast<uint64_t>(
            arguments.dev_selected + (uint64_t)segment.seq * arguments.selected_stride +
            segment.first_token));
        place.column = segment.seq * arguments.columns;
        place.first_slot = 0;
        return place;
    }
    const uint64_t page = segment.first_token / arguments.page_tokens.divisor;
    place.row = gpu_keep(reinterpret_cast<uint64_t>(arguments.dev_page_table +
                                                    (uint64_t)segment.seq * arguments.columns));
    place.column = (uint32_t)(page % arguments.columns);
    place.first_slot = (uint32_t)(segment.first_token - page * arguments.page_tokens.divisor);
    return place;
}

/* The page of the selected token at `position`, and the slot within it. Its sequence's pages all
 * stand in the table (backend_check.h), from the first one on. */
GPU_DEVICE int32_t attend_selected_page(const struct attend_arguments &arguments,
                                        const struct attend_place &place, uint32_t position,
                                        uint32_t *slot) {
    const uint32_t token =
        ptx_load_global_u32(reinterpret_cast<const int32_t *>(place.row) + position);
    const uint32_t page = attend_divide(arguments.page_tokens, token);
    *slot = token - page * arguments.page_tokens.divisor;
    return (int32_t)ptx_load_global_u32(arguments.dev_page_table + (place.column + page));
}

/* The page of position `position`, and the slot within it. A table that is a ring wraps once. */
template <bool selects = true>
GPU_DEVICE int32_t attend_page(const struct attend_arguments &arguments,
                               const struct attend_place &place, uint32_t position,
                               uint32_t *slot) {
    if (selects && arguments.dev_selected != nullptr)
        return attend_selected_page(arguments, place, position, slot);
    const uint32_t page = attend_divide(arguments.page_tokens, position);
    *slot = position - page * arguments.page_tokens.divisor;
    const uint32_t ahead = place.column + page, wrapped = ahead - arguments.columns;
    const uint32_t column = wrapped < ahead ? wrapped : ahead; /* below 0 is above everything */
    return (int32_t)ptx_load_global_u32(reinterpret_cast<const int32_t *>(place.row) + column);
}

GPU_DEVICE float *attend_partial_output(const struct attend_arguments &arguments, uint32_t segment,
                                        uint32_t head) {
    return arguments.dev_partials +
           ((uint64_t)segment * arguments.group_heads + head) * arguments.v_dim;
}

GPU_DEVICE float *attend_partial_numbers(const struct attend_arguments &arguments, uint32_t segment,
                                         uint32_t head) {
    return arguments.dev_partials +
           (uint64_t)arguments.segment_count * arguments.group_heads * arguments.v_dim +
           ((uint64_t)segment * arguments.group_heads + head) * ATTEND_PARTIAL_NUMBERS;
}

/* True when the row this segment belongs to has no other: its result is final. */
GPU_DEVICE bool attend_is_whole(const struct attend_arguments &arguments,
                                const struct backend_segment &segment) {
    const uint64_t row = (uint64_t)segment.seq * arguments.kv_heads + segment.kv_head;
    return arguments.dev_row_first[row + 1] - arguments.dev_row_first[row] == 1;
}

GPU_DEVICE uint64_t attend_output_row(const struct attend_arguments &arguments,
                                      const struct backend_segment &segment, uint32_t head) {
    return (uint64_t)segment.seq * arguments.query_heads +
           (uint64_t)segment.kv_head * arguments.group_heads + head;
}

/* What a final sum is multiplied by: the sink is one more logit in the denominator, and a row
 * without tokens gives zeros. */
GPU_DEVICE float attend_final_factor(const struct attend_arguments &arguments, uint32_t query_head,
                                     float largest, float sum) {
    const float log2_e = 1.44269504088896340736f;
    if (!(sum > 0.0f))
        return 0.0f;
    if (arguments.dev_sinks == nullptr)
        return 1.0f / sum;
    /* with a sink far above every score the rest is 0, as it should be */
    const float sink = arguments.dev_sinks[query_head] * log2_e;
    const float top = sink > largest ? sink : largest;
    const float rest = ptx_exp2(largest - top);
    return rest / (sum * rest + ptx_exp2(sink - top));
}

#endif
