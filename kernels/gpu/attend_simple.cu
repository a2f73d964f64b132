/* One block per worker and query head. A tile of K is decoded into shared memory, a warp scores
 * one token at a time, then V's tile takes K's place and every thread sums some of the dims. */
#include "attend_simple.h"

#include "codec_rows.cuh"

enum : uint32_t {
    SIMPLE_WARPS = ATTEND_SIMPLE_THREADS / GPU_WARP_LANES,
    SIMPLE_MOST_TILE_TOKENS = 32,
    SIMPLE_TARGET_BYTES = 32768, /* of shared memory: several blocks on a multiprocessor */
};

/* Parts of the block's shared memory, all fp32. */
struct simple_shared {
    float *query;   /* [k_dim] */
    float *outputs; /* [v_dim], each owned by one thread */
    float *scores;  /* [tile_tokens] */
    float *tile;    /* [tile_tokens][wider of k_dim and v_dim] */
};

/* scores[t] = query . K row t, a warp per token. */
GPU_DEVICE void simple_score(const struct attend_arguments &a, const struct simple_shared &shared,
                             uint32_t count) {
    const uint32_t warp = gpu_thread() / GPU_WARP_LANES, lane = gpu_thread() % GPU_WARP_LANES;
    for (uint32_t t = warp; t < count; t += SIMPLE_WARPS) {
        const float *row = shared.tile + (uint64_t)t * a.k_dim;
        float sum = 0.0f;
        for (uint32_t i = lane; i < a.k_dim; i += GPU_WARP_LANES)
            sum += shared.query[i] * row[i];
        for (uint32_t bits = 1; bits < GPU_WARP_LANES; bits *= 2)
            sum += gpu_shuffle_xor(sum, bits);
        if (lane == 0)
            shared.scores[t] = sum * a.score_scale;
    }
}

/* Adds the tile to the running sums, which every thread keeps alike. A NaN among the scores is no
 * maximum, but makes its own weight NaN, and with it all that follows. */
GPU_DEVICE void simple_add(const struct attend_arguments &a, const struct simple_shared &shared,
                           uint32_t row_values, uint32_t count, float &largest, float &sum) {
    float top = largest;
    for (uint32_t t = 0; t < count; t++)
        top = shared.scores[t] > top ? shared.scores[t] : top;
    const float shrink = top == largest ? 1.0f : ptx_exp2(largest - top);
    sum *= shrink;
    for (uint32_t t = 0; t < count; t++)
        sum += ptx_exp2(shared.scores[t] - top);
    for (uint32_t i = gpu_thread(); i < a.v_dim; i += gpu_threads()) {
        float output = shared.outputs[i] * shrink;
        for (uint32_t t = 0; t < count; t++)
            output += ptx_exp2(shared.scores[t] - top) * shared.tile[(uint64_t)t * row_values + i];
        shared.outputs[i] = output;
    }
    largest = top;
}

/* Final values where the segment is its whole row, else partial ones. */
GPU_DEVICE void simple_finish(const struct attend_arguments &a, const struct simple_shared &shared,
                              uint32_t index, const struct backend_segment &segment, uint32_t head,
                              float largest, float sum) {
    const bool whole = attend_is_whole(a, segment);
    const uint64_t row = attend_output_row(a, segment, head);
    float *to = whole ? a.dev_outputs + row * a.v_dim : attend_partial_output(a, index, head);
    float factor = a.v_tensor_scale;
    if (whole)
        factor *= attend_final_factor(a, segment.kv_head * a.group_heads + head, largest, sum);
    for (uint32_t i = gpu_thread(); i < a.v_dim; i += gpu_threads())
        to[i] = shared.outputs[i] * factor;
    if (!whole && gpu_thread() == 0) {
        float *numbers = attend_partial_numbers(a, index, head);
        numbers[ATTEND_PARTIAL_LARGEST] = largest;
        numbers[ATTEND_PARTIAL_SUM] = sum;
    }
}

GPU_DEVICE void simple_segment(const struct attend_arguments &a, const struct simple_shared &shared,
                               uint32_t index, uint32_t head) {
    const struct backend_segment segment = a.dev_segments[index];
    const struct attend_place place = attend_locate(a, segment);
    const float *query = a.dev_queries + attend_output_row(a, segment, head) * a.k_dim;
    for (uint32_t i = gpu_thread(); i < a.k_dim; i += gpu_threads())
        shared.query[i] = query[i];
    for (uint32_t i = gpu_thread(); i < a.v_dim; i += gpu_threads())
        shared.outputs[i] = 0.0f;
    float largest = -format_bits_to_f32(0x7F800000u), sum = 0.0f;
    const uint32_t tokens = (uint32_t)segment.token_count;
    for (uint32_t first = 0; first < tokens; first += a.tile_tokens) {
        const uint32_t count = tokens - first < a.tile_tokens ? tokens - first : a.tile_tokens;
        struct codec_rows k = {a, place, a.k, segment.kv_head, a.k_dim, first, count, shared.tile};
        gpu_sync_block(); /* the tile before has been read */
        codec_switch(a.k_format, k);
        gpu_sync_block();
        simple_score(a, shared, count);
        gpu_sync_block();
        if (!a.v_in_k) {
            struct codec_rows v = {a,       place, a.v,   segment.kv_head,
                                   a.v_dim, first, count, shared.tile};
            codec_switch(a.v_format, v);
            gpu_sync_block();
        }
        simple_add(a, shared, a.v_in_k ? a.k_dim : a.v_dim, count, largest, sum);
    }
    simple_finish(a, shared, index, segment, head, largest, sum);
    gpu_sync_block(); /* the query of the next segment overwrites this one's */
}

GPU_KERNEL(ATTEND_SIMPLE_THREADS, 4) attend_simple_kernel(const struct attend_arguments a) {
    GPU_SHARED(memory);
    struct simple_shared shared;
    shared.query = reinterpret_cast<float *>(memory);
    shared.outputs = shared.query + a.k_dim;
    shared.scores = shared.outputs + a.v_dim;
    shared.tile = shared.scores + a.tile_tokens;
    const uint32_t worker = gpu_block() / a.group_heads;
    const uint32_t head = gpu_block() - worker * a.group_heads;
    for (uint32_t i = a.dev_worker_first[worker]; i < a.dev_worker_first[worker + 1]; i++)
        simple_segment(a, shared, i, head);
}

/* Shared memory of a tile of so many tokens, in 64 bits: dims may be anything. */
static uint64_t simple_bytes(uint32_t k_dim, uint32_t v_dim, uint32_t tile_tokens) {
    const uint64_t wider = k_dim > v_dim ? k_dim : v_dim;
    return sizeof(float) * ((uint64_t)k_dim + v_dim + tile_tokens + tile_tokens * wider);
}

/* As many tokens as the target holds, at least one. */
static uint32_t simple_tile_tokens(uint32_t k_dim, uint32_t v_dim) {
    uint32_t tokens = SIMPLE_MOST_TILE_TOKENS;
    while (tokens > 1 && simple_bytes(k_dim, v_dim, tokens) > SIMPLE_TARGET_BYTES)
        tokens /= 2;
    return tokens;
}

extern "C" const void *gpu_attend_simple_entry(void) {
    return GPU_ENTRY(struct attend_arguments, attend_simple_kernel);
}

extern "C" uint32_t gpu_attend_simple_shared_bytes(const struct gpu_machine *machine,
                                                   uint32_t k_dim, uint32_t v_dim) {
    const uint64_t bytes = simple_bytes(k_dim, v_dim, simple_tile_tokens(k_dim, v_dim));
    return bytes <= machine->shared_bytes_per_block ? (uint32_t)bytes : 0;
}

extern "C" enum status gpu_attend_simple(const struct gpu_machine *machine,
                                         const struct attend_arguments *arguments,
                                         struct status_text *text) {
    struct attend_arguments a = *arguments;
    a.tile_tokens = simple_tile_tokens(a.k_dim, a.v_dim);
    struct gpu_launch launch = {};
    launch.name = "attend_simple";
    launch.entry = gpu_attend_simple_entry();
    launch.blocks = a.worker_count * a.group_heads;
    launch.threads = ATTEND_SIMPLE_THREADS;
    launch.shared_bytes = gpu_attend_simple_shared_bytes(machine, a.k_dim, a.v_dim);
    launch.arguments = &a;
    launch.arguments_bytes = sizeof a;
    if (launch.shared_bytes == 0)
        return status_set(text, STATUS_REFUSED,
                          "kernel simple: rows of %u and %u values do not fit the %u bytes of "
                          "shared memory a block may have",
                          a.k_dim, a.v_dim, machine->shared_bytes_per_block);
    return machine->launch(machine->self, &launch, text);
}
