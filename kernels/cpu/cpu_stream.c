/* The ceilings: every byte read or copied once, each thread its own contiguous pieces. */
#include <string.h>

#include "cpu_device.h"

/* Large enough that starting a piece costs nothing, small enough to balance the cores. */
#define STREAM_MOST_PIECE_BYTES ((uint64_t)1 << 20)
#define STREAM_LEAST_PIECE_BYTES ((uint64_t)1 << 16)

static uint64_t choose_piece_bytes(uint64_t bytes, uint32_t threads) {
    const uint64_t piece =
        bytes / threads / 4 / STREAM_LEAST_PIECE_BYTES * STREAM_LEAST_PIECE_BYTES;
    return piece > STREAM_MOST_PIECE_BYTES    ? STREAM_MOST_PIECE_BYTES
           : piece < STREAM_LEAST_PIECE_BYTES ? STREAM_LEAST_PIECE_BYTES
                                              : piece;
}

enum status cpu_stream_read(struct backend_device *device, const void *dev_from, uint64_t bytes,
                            struct status_text *text) {
    (void)text;
    const uint8_t *from = dev_from;
    const uint64_t piece_bytes = choose_piece_bytes(bytes, device->threads);
    const uint64_t pieces = (bytes + piece_bytes - 1) / piece_bytes;
    uint64_t all = 0;
#pragma omp parallel for schedule(dynamic) num_threads(device->threads) reduction(^ : all)
    for (uint64_t piece = 0; piece < pieces; piece++) {
        const uint64_t start = piece * piece_bytes;
        const uint64_t length = bytes - start < piece_bytes ? bytes - start : piece_bytes;
        all ^= device->tile->stream(from + start, length);
    }
    device->stream_result = all;
    return STATUS_OK;
}

enum status cpu_stream_copy(struct backend_device *device, void *dev_to, const void *dev_from,
                            uint64_t bytes, struct status_text *text) {
    (void)text;
    uint8_t *to = dev_to;
    const uint8_t *from = dev_from;
    const uint64_t piece_bytes = choose_piece_bytes(bytes, device->threads);
    const uint64_t pieces = (bytes + piece_bytes - 1) / piece_bytes;
#pragma omp parallel for schedule(dynamic) num_threads(device->threads)
    for (uint64_t piece = 0; piece < pieces; piece++) {
        const uint64_t start = piece * piece_bytes;
        const uint64_t length = bytes - start < piece_bytes ? bytes - start : piece_bytes;
        memcpy(to + start, from + start, (size_t)length);
    }
    return STATUS_OK;
}
