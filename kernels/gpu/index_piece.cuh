/* Which keys a block of the index kernels scores. */
#ifndef INDEX_PIECE_CUH
#define INDEX_PIECE_CUH

#include "gpu_lang.cuh"
#include "index_arguments.h"

/* No tokens where a sequence is shorter than the longest. */
GPU_DEVICE struct backend_segment index_piece(const struct index_arguments &a) {
    struct backend_segment segment;
    segment.seq = gpu_block() / a.pieces;
    segment.kv_head = 0;
    segment.first_token = (uint64_t)(gpu_block() - segment.seq * a.pieces) * a.piece_tokens;
    const uint64_t length = a.dev_lengths[segment.seq];
    const uint64_t left = length > segment.first_token ? length - segment.first_token : 0;
    segment.token_count = left < a.piece_tokens ? left : a.piece_tokens;
    return segment;
}

/* max(0, x), of NaN NaN. */
GPU_DEVICE float index_relu(float x) {
    return x < 0.0f ? 0.0f : x;
}

#endif
