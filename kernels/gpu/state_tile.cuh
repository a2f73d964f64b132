/* A step of the recurrent state by the lanes of one warp: a row lies in the registers of as many
 * lanes as it takes at 16 bytes an access, so that its bytes are read once and written once. Which
 * warp does which rows is state.cu's. */
#ifndef STATE_TILE_CUH
#define STATE_TILE_CUH

#include <string.h>

#include "format_bits.h"
#include "gpu_ptx.cuh"

enum : uint32_t { STATE_PIECE_BYTES = 16 };

struct state_arguments {
    uint8_t *dev_state;
    uint16_t *dev_conv;
    const float *dev_decays;
    const float *dev_keys;
    const float *dev_queries;
    const float *dev_values;
    const float *dev_gains;
    const float *dev_conv_inputs;
    const float *dev_conv_weights;
    float *dev_outputs;
    float *dev_conv_outputs;
    uint64_t warp_trips;   /* of all heads' trips, a warp does so many that follow each other, */
    uint64_t longer_warps; /* and the first of them one more */
    uint64_t all_channels; /* of all sequences */
    uint32_t head_trips;   /* that the rows of a head are cut into */
    uint32_t rows;
    uint32_t cols;
    uint32_t channels;
    uint32_t taps;
    uint32_t channel_step; /* the threads of the convolution, modulo channels */
    uint32_t conv_blocks;
    bool delta;
};

/* Adds up over 2^lane_bits lanes; all of them get the sum. */
template <uint32_t lane_bits, uint32_t count> GPU_DEVICE void state_sum(float (&x)[count]) {
    GPU_UNROLL
    for (uint32_t bit = 0; bit < lane_bits; bit++) {
        GPU_UNROLL
        for (uint32_t i = 0; i < count; i++)
            x[i] += gpu_shuffle_xor(x[i], 1u << bit);
    }
}

GPU_DEVICE void state_load_piece(uint32_t (&words)[4], const void *from) {
    memcpy(words, __builtin_assume_aligned(from, STATE_PIECE_BYTES), sizeof words);
}

GPU_DEVICE void state_store_piece(uint8_t *to, const uint32_t (&words)[4]) {
    memcpy(__builtin_assume_aligned(to, STATE_PIECE_BYTES), words, sizeof words);
}

/* The lanes of a warp over some rows of a head: `bytes` of a value, 2^lane_bits lanes to a row,
 * `pieces` of a row in a lane, `count` rows that a lane has at once. */
template <uint32_t bytes, uint32_t lane_bits, uint32_t pieces, uint32_t count> struct state_tile {
    enum : uint32_t {
        PIECE = STATE_PIECE_BYTES / bytes,
        VALUES = PIECE * pieces,
        LANES = 1u << lane_bits,
        GROUPS = GPU_WARP_LANES / LANES, /* rows side by side in a warp */
        ROWS = GROUPS * count,
        COLS = LANES * VALUES, /* that there is room for */
    };

    const struct state_arguments &a;
    uint32_t group;  /* which of the rows side by side */
    uint32_t column; /* where this lane's first piece starts; the others LANES pieces on */
    float decay[VALUES], key[VALUES], query[VALUES];
    float gain;

    GPU_DEVICE state_tile(const struct state_arguments &arguments) : a(arguments) {
        const uint32_t lane = gpu_thread() % GPU_WARP_LANES;
        group = lane / LANES;
        column = lane % LANES * PIECE;
    }

    /* Zeros where there is no column. */
    GPU_DEVICE void load_vector(float (&out)[VALUES], const float *from) {
        GPU_UNROLL
        for (uint32_t p = 0; p < pieces; p++) {
            const uint32_t at = column + p * LANES * PIECE;
            const float *piece = from + (at < a.cols ? at : 0);
            GPU_UNROLL
            for (uint32_t i = 0; i < PIECE; i += 4) {
                uint32_t words[4];
                state_load_piece(words, piece + i);
                GPU_UNROLL
                for (uint32_t w = 0; w < 4; w++)
                    out[p * PIECE + i + w] = at < a.cols ? format_bits_to_f32(words[w]) : 0.0f;
            }
        }
    }

    GPU_DEVICE void load_head(uint64_t head) {
        load_vector(decay, a.dev_decays + head * a.cols);
        load_vector(key, a.dev_keys + head * a.cols);
        load_vector(query, a.dev_queries + head * a.cols);
        gain = a.dev_gains[head];
    }

    static GPU_DEVICE float decode(const uint32_t (&words)[4], uint32_t i) {
        if (bytes == 4)
            return format_bits_to_f32(words[i]);
        return format_bits_to_f32(i % 2 == 0 ? words[i / 2] << 16 : words[i / 2] & 0xFFFF0000u);
    }

    static GPU_DEVICE void encode(uint32_t (&words)[4], const float *x) {
        GPU_UNROLL
        for (uint32_t w = 0; w < 4; w++)
            words[w] =
                bytes == 4 ? format_bits_of_f32(x[w]) : ptx_pack_bf16x2(x[w * 2], x[w * 2 + 1]);
    }

    /* Rows [first, first + ROWS) of a head. `whole`: all are there, and COLS columns. */
    template <bool whole> GPU_DEVICE void trip(uint64_t head, uint32_t first) {
        const uint32_t cols = whole ? COLS : a.cols;
        const uint64_t row = head * a.rows + first + group;
        uint8_t *at = a.dev_state + (row * cols + column) * bytes;
        const uint64_t row_step = (uint64_t)GROUPS * cols * bytes;
        bool real[count][pieces];
        float value[count];
        uint32_t words[count][pieces][4];
        GPU_UNROLL
        for (uint32_t r = 0; r < count; r++) {
            const bool row_real = whole || r * GROUPS + group < a.rows - first;
            GPU_UNROLL
            for (uint32_t p = 0; p < pieces; p++) {
                real[r][p] = whole || (row_real && column + p * LANES * PIECE < cols);
                if (!whole)
                    memset(words[r][p], 0, sizeof words[r][p]);
                if (real[r][p])
                    state_load_piece(words[r][p],
                                     at + r * row_step + p * LANES * STATE_PIECE_BYTES);
            }
            value[r] = row_real ? a.dev_values[row + r * GROUPS] : 0.0f;
        }
        float x[count][VALUES], sum[count];
        GPU_UNROLL
        for (uint32_t r = 0; r < count; r++) {
            sum[r] = 0;
            GPU_UNROLL
            for (uint32_t i = 0; i < VALUES; i++) {
                x[r][i] = decode(words[r][i / PIECE], i % PIECE) * decay[i];
                sum[r] += x[r][i] * key[i];
            }
        }
        if (a.delta)
            state_sum<lane_bits>(sum);
        GPU_UNROLL
        for (uint32_t r = 0; r < count; r++) {
            const float added = gain * (a.delta ? value[r] - sum[r] : value[r]);
            sum[r] = 0;
            GPU_UNROLL
            for (uint32_t i = 0; i < VALUES; i++) {
                x[r][i] += added * key[i];
                sum[r] += x[r][i] * query[i];
            }
            GPU_UNROLL
            for (uint32_t p = 0; p < pieces; p++) {
                encode(words[r][p], &x[r][p * PIECE]);
                if (real[r][p])
                    state_store_piece(at + r * row_step + p * LANES * STATE_PIECE_BYTES,
                                      words[r][p]);
            }
        }
        state_sum<lane_bits>(sum);
        GPU_UNROLL
        for (uint32_t r = 0; r < count; r++)
            if (real[r][0] && column == 0)
                a.dev_outputs[row + r * GROUPS] = sum[r];
    }
};

#endif
