/* Steps of the recurrent state and of the short convolution before it, all cores: which thread does
 * which rows. The arithmetic of rows is cpu_state_rows.c's. */
#include "cpu_device.h"
#include "format_bits.h"

/* One turn of a thread: enough to be worth starting, little enough for all to end together. */
#define STATE_PIECE_BYTES ((uint64_t)1 << 16)
enum { CONV_PIECE_CHANNELS = 1024 };

static uint32_t choose_piece_rows(const struct backend_state_shape *shape, uint32_t threads) {
    const uint64_t row_bytes = (uint64_t)shape->cols * shape->value_bytes;
    const uint64_t by_size = STATE_PIECE_BYTES / row_bytes;
    const uint64_t pieces = (uint64_t)threads * CPU_WORKERS_PER_THREAD;
    const uint64_t by_threads = (uint64_t)shape->seqs * shape->heads * shape->rows / pieces;
    uint64_t rows = by_size < by_threads ? by_size : by_threads;
    rows = (rows + 3) / 4 * 4; /* as many are done side by side */
    rows = rows > 0 ? rows : 4;
    return rows < shape->rows ? (uint32_t)rows : shape->rows;
}

static void step_state(struct backend_device *device, const struct backend_state_step *work) {
    const struct backend_state_shape *shape = &work->shape;
    const uint64_t heads = (uint64_t)shape->seqs * shape->heads; /* of all sequences */
    if (heads == 0 || shape->rows == 0)
        return;
    const uint32_t piece_rows = choose_piece_rows(shape, device->threads);
    const uint64_t pieces = (shape->rows + (uint64_t)piece_rows - 1) / piece_rows;
#pragma omp parallel for schedule(dynamic) num_threads(device->threads)
    for (uint64_t turn = 0; turn < heads * pieces; turn++) {
        const uint64_t head = turn / pieces;
        const uint32_t first = (uint32_t)(turn % pieces) * piece_rows;
        const uint64_t row = head * shape->rows + first, cols = head * shape->cols;
        const uint32_t left = shape->rows - first;
        const struct cpu_state_rows job = {
            .state = (uint8_t *)work->dev_state + row * shape->cols * shape->value_bytes,
            .decays = work->dev_decays + cols,
            .keys = work->dev_keys + cols,
            .queries = work->dev_queries + cols,
            .values = work->dev_values + row,
            .outputs = work->dev_outputs + row,
            .gain = work->dev_gains[head],
            .rows = left < piece_rows ? left : piece_rows,
            .cols = shape->cols,
            .bf16 = shape->value_bytes == 2,
            .delta = shape->delta,
        };
        device->tile->state_rows(&job);
    }
}

/* One channel: the kept columns give their share as they move up. */
static float step_channel(uint16_t *columns, uint32_t taps, float input, const float *weights) {
    float sum = 0;
    for (uint32_t t = 0; t < taps; t++) {
        const uint16_t column = columns[t];
        sum += format_bits_bf16_to_f32(column) * weights[t];
        if (t > 0)
            columns[t - 1] = column;
    }
    if (taps > 0)
        columns[taps - 1] = format_bits_f32_to_bf16(input);
    return sum + input * weights[taps];
}

static void step_conv(struct backend_device *device, const struct backend_state_step *work) {
    const uint32_t channels = work->shape.conv_channels, taps = work->shape.conv_taps;
    const uint64_t all = (uint64_t)work->shape.seqs * channels;
    const uint64_t pieces = (all + CONV_PIECE_CHANNELS - 1) / CONV_PIECE_CHANNELS;
#pragma omp parallel for schedule(dynamic) num_threads(device->threads)
    for (uint64_t piece = 0; piece < pieces; piece++) {
        const uint64_t first = piece * CONV_PIECE_CHANNELS;
        uint32_t channel = (uint32_t)(first % channels);
        for (uint64_t i = first; i < all && i < first + CONV_PIECE_CHANNELS; i++) {
            work->dev_conv_outputs[i] =
                step_channel(work->dev_conv + i * taps, taps, work->dev_conv_inputs[i],
                             work->dev_conv_weights + (uint64_t)channel * (taps + 1));
            channel = channel + 1 < channels ? channel + 1 : 0;
        }
    }
}

enum status cpu_state_step(struct backend_device *device, const struct backend_state_step *work,
                           struct status_text *text) {
    const uint32_t value_bytes = work->shape.value_bytes;
    if (work->shape.heads > 0 && value_bytes != 2 && value_bytes != 4)
        return status_set(text, STATUS_REFUSED,
                          "state values of %u bytes: there are 2 (bf16) and 4 (f32)", value_bytes);
    step_state(device, work);
    step_conv(device, work);
    return STATUS_OK;
}
