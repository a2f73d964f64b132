/* gpu_state: one step of recurrent states and of the short convolution before them, in one launch.
 * The first blocks do the convolution, a thread to a channel; the others the state, a warp to some
 * rows of one head at a time (state_tile.cuh). Rows that are not made of pieces of 16 bytes, or too
 * long for a warp's registers, go value by value through kernel state_scalar, which reads them
 * again from the cache. */
#include "gpu.h"
#include "state_tile.cuh"

enum : uint32_t {
    STATE_THREADS = 128,
    STATE_WARPS = STATE_THREADS / GPU_WARP_LANES,
    STATE_CONV_SHARE = 8, /* of all blocks that run at once, one in so many, beside a state */
    STATE_CONV_LOADS = 4, /* of a thread at once */
};

/* One channel of one sequence: the kept columns give their share as they move up. */
GPU_DEVICE void state_channel(const struct state_arguments &a, uint64_t i, uint32_t channel) {
    const float *weights = a.dev_conv_weights + (uint64_t)channel * (a.taps + 1);
    uint16_t *columns = a.dev_conv + i * a.taps;
    const float input = a.dev_conv_inputs[i];
    float sum = 0;
    for (uint32_t first = 0; first < a.taps; first += STATE_CONV_LOADS) {
        uint16_t kept[STATE_CONV_LOADS];
        GPU_UNROLL
        for (uint32_t t = 0; t < STATE_CONV_LOADS; t++)
            kept[t] = first + t < a.taps ? columns[first + t] : (uint16_t)0;
        GPU_UNROLL
        for (uint32_t t = 0; t < STATE_CONV_LOADS; t++) {
            if (first + t >= a.taps)
                break;
            sum += format_bits_bf16_to_f32(kept[t]) * weights[first + t];
            if (first + t > 0)
                columns[first + t - 1] = kept[t];
        }
    }
    if (a.taps > 0)
        columns[a.taps - 1] = format_bits_f32_to_bf16(input);
    a.dev_conv_outputs[i] = sum + input * weights[a.taps];
}

GPU_DEVICE void state_convolve(const struct state_arguments &a) {
    const uint32_t thread = gpu_block() * STATE_THREADS + gpu_thread();
    uint32_t channel = thread % a.channels;
    for (uint64_t i = thread; i < a.all_channels; i += a.conv_blocks * STATE_THREADS) {
        state_channel(a, i, channel);
        const uint32_t room = a.channels - channel; /* no sum that wraps */
        channel = a.channel_step < room ? channel + a.channel_step : a.channel_step - room;
    }
}

/* Which trips this warp does. */
struct state_share {
    uint64_t left;
    uint64_t head;
    uint32_t in_head;
};

GPU_DEVICE struct state_share state_share_of_warp(const struct state_arguments &a) {
    const uint32_t warp =
        (gpu_block() - a.conv_blocks) * STATE_WARPS + gpu_thread() / GPU_WARP_LANES;
    const bool longer = warp < a.longer_warps;
    const uint64_t first = warp * a.warp_trips + (longer ? warp : a.longer_warps);
    struct state_share share;
    share.left = a.warp_trips + (longer ? 1 : 0);
    share.head = first / a.head_trips;
    share.in_head = (uint32_t)(first - share.head * a.head_trips);
    return share;
}

/* Whether the next trip is of another head. */
GPU_DEVICE bool state_share_advance(struct state_share &share, uint32_t head_trips) {
    share.left--;
    share.in_head++;
    if (share.in_head < head_trips)
        return false;
    share.in_head = 0;
    share.head++;
    return true;
}

/* bf16 has half as many bytes on their way in each warp: one block more, where no register of it
 * has to be spilled for that. */
GPU_CONSTEXPR uint32_t state_blocks_per_unit(uint32_t bytes, uint32_t count) {
    return bytes == 2 && count > 2 ? 5 : 4;
}

template <uint32_t bytes, uint32_t lane_bits, uint32_t pieces, uint32_t count>
GPU_KERNEL(STATE_THREADS, state_blocks_per_unit(bytes, count))
state_wide(const struct state_arguments a) {
    if (gpu_block() < a.conv_blocks) {
        state_convolve(a);
        return;
    }
    using tile_type = struct state_tile<bytes, lane_bits, pieces, count>;
    tile_type tile(a);
    struct state_share share = state_share_of_warp(a);
    bool other_head = true;
    while (share.left > 0) {
        if (other_head)
            tile.load_head(share.head);
        const uint32_t first = share.in_head * tile_type::ROWS;
        if (a.cols == tile_type::COLS && tile_type::ROWS <= a.rows - first)
            tile.template trip<true>(share.head, first);
        else
            tile.template trip<false>(share.head, first);
        other_head = state_share_advance(share, a.head_trips);
    }
}

template <uint32_t bytes> GPU_DEVICE float state_load(const uint8_t *row, uint32_t c) {
    if (bytes == 2)
        return format_bits_bf16_to_f32(reinterpret_cast<const uint16_t *>(row)[c]);
    return reinterpret_cast<const float *>(row)[c];
}

/* A warp to a row. */
template <uint32_t bytes>
GPU_DEVICE void state_row(const struct state_arguments &a, uint64_t head, uint32_t in_head) {
    const uint32_t lane = gpu_thread() % GPU_WARP_LANES;
    const uint64_t row = head * a.rows + in_head;
    const float *decays = a.dev_decays + head * a.cols, *keys = a.dev_keys + head * a.cols;
    const float *queries = a.dev_queries + head * a.cols;
    uint8_t *at = a.dev_state + row * a.cols * bytes;
    float sum[1] = {0};
    if (a.delta) {
        for (uint32_t c = lane; c < a.cols; c += GPU_WARP_LANES)
            sum[0] += state_load<bytes>(at, c) * decays[c] * keys[c];
        state_sum<5>(sum);
    }
    const float added = a.dev_gains[head] * (a.dev_values[row] - sum[0]);
    sum[0] = 0;
    for (uint32_t c = lane; c < a.cols; c += GPU_WARP_LANES) {
        const float x = state_load<bytes>(at, c) * decays[c] + added * keys[c];
        sum[0] += x * queries[c];
        if (bytes == 2)
            reinterpret_cast<uint16_t *>(at)[c] = format_bits_f32_to_bf16(x);
        else
            reinterpret_cast<float *>(at)[c] = x;
    }
    state_sum<5>(sum);
    if (lane == 0)
        a.dev_outputs[row] = sum[0];
}

template <uint32_t bytes>
GPU_KERNEL(STATE_THREADS, 8)
state_scalar(const struct state_arguments a) {
    if (gpu_block() < a.conv_blocks) {
        state_convolve(a);
        return;
    }
    struct state_share share = state_share_of_warp(a);
    while (share.left > 0) {
        state_row<bytes>(a, share.head, share.in_head);
        (void)state_share_advance(share, a.head_trips);
    }
}

/* A kernel and the rows of one of its trips. */
struct state_choice {
    const char *name;
    const void *entry;
    uint32_t trip_rows;
};

template <uint32_t bytes, uint32_t lane_bits, uint32_t pieces, uint32_t count>
static struct state_choice state_choice_wide() {
    struct state_choice choice = {};
    choice.name = bytes == 4 ? "state_wide f32" : "state_wide bf16";
    choice.entry = GPU_ENTRY(struct state_arguments, state_wide<bytes, lane_bits, pieces, count>);
    choice.trip_rows = state_tile<bytes, lane_bits, pieces, count>::ROWS;
    return choice;
}

/* A lane takes 8 values of a row, 16 of one that is too long for that. */
template <uint32_t bytes> static struct state_choice state_choose(const struct state_arguments &a) {
    enum : uint32_t { PIECES = bytes / 2 };
    const uintptr_t starts = (uintptr_t)a.dev_state | (uintptr_t)a.dev_decays |
                             (uintptr_t)a.dev_keys | (uintptr_t)a.dev_queries;
    const bool pieces = starts % STATE_PIECE_BYTES == 0 && a.cols * bytes % STATE_PIECE_BYTES == 0;
    if (pieces && a.cols <= 64)
        return state_choice_wide<bytes, 3, PIECES, 4>();
    if (pieces && a.cols <= 128)
        return state_choice_wide<bytes, 4, PIECES, 4>();
    if (pieces && a.cols <= 256)
        return state_choice_wide<bytes, 5, PIECES, 4>();
    if (pieces && a.cols <= 512)
        return state_choice_wide<bytes, 5, 2 * PIECES, 2>();
    struct state_choice choice = {};
    choice.name = bytes == 4 ? "state_scalar f32" : "state_scalar bf16";
    choice.entry = GPU_ENTRY(struct state_arguments, state_scalar<bytes>);
    choice.trip_rows = 1;
    return choice;
}

static uint32_t state_least(uint64_t a, uint64_t b) {
    return (uint32_t)(a < b ? a : b);
}

extern "C" enum status gpu_state(const struct gpu_machine *machine,
                                 const struct backend_state_step *work, struct status_text *text) {
    const struct backend_state_shape &shape = work->shape;
    const uint64_t heads = shape.rows > 0 ? (uint64_t)shape.seqs * shape.heads : 0;
    if (heads > 0 && shape.value_bytes != 2 && shape.value_bytes != 4)
        return status_set(text, STATUS_REFUSED,
                          "state values of %u bytes: there are 2 (bf16) and 4 (f32)",
                          shape.value_bytes);
    struct state_arguments a = {};
    a.dev_state = (uint8_t *)work->dev_state;
    a.dev_conv = work->dev_conv;
    a.dev_decays = work->dev_decays;
    a.dev_keys = work->dev_keys;
    a.dev_queries = work->dev_queries;
    a.dev_values = work->dev_values;
    a.dev_gains = work->dev_gains;
    a.dev_conv_inputs = work->dev_conv_inputs;
    a.dev_conv_weights = work->dev_conv_weights;
    a.dev_outputs = work->dev_outputs;
    a.dev_conv_outputs = work->dev_conv_outputs;
    a.all_channels = (uint64_t)shape.seqs * shape.conv_channels;
    a.rows = shape.rows;
    a.cols = shape.cols;
    a.channels = shape.conv_channels;
    a.taps = shape.conv_taps;
    a.delta = shape.delta;
    const struct state_choice choice =
        shape.value_bytes == 2 ? state_choose<2>(a) : state_choose<4>(a);
    a.head_trips = (uint32_t)(((uint64_t)shape.rows + choice.trip_rows - 1) / choice.trip_rows);
    const uint64_t trips = heads * a.head_trips;

    /* All blocks run at once: none waits for another's end. */
    const uint32_t fit = machine->blocks_per_unit(machine->self, choice.entry, STATE_THREADS, 0);
    const uint64_t most = (uint64_t)machine->units * (fit > 0 ? fit : 1);
    const uint64_t share = most / STATE_CONV_SHARE > 0 ? most / STATE_CONV_SHARE : 1;
    a.conv_blocks =
        state_least((a.all_channels + STATE_THREADS - 1) / STATE_THREADS, heads > 0 ? share : most);
    if (a.channels > 0)
        a.channel_step = a.conv_blocks * STATE_THREADS % a.channels;
    const uint64_t left = most > a.conv_blocks ? most - a.conv_blocks : 1;
    const uint32_t state_blocks = state_least((trips + STATE_WARPS - 1) / STATE_WARPS, left);
    if (state_blocks > 0) {
        a.warp_trips = trips / (state_blocks * STATE_WARPS);
        a.longer_warps = trips % (state_blocks * STATE_WARPS);
    }
    struct gpu_launch launch = {};
    launch.name = choice.name;
    launch.entry = choice.entry;
    launch.blocks = a.conv_blocks + state_blocks;
    launch.threads = STATE_THREADS;
    launch.arguments = &a;
    launch.arguments_bytes = sizeof a;
    return launch.blocks > 0 ? machine->launch(machine->self, &launch, text) : STATUS_OK;
}
