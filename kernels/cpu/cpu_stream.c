/* The read ceiling: every byte once, each thread its own contiguous pieces. */
#include "cpu_device.h"

/* Large enough that starting a piece costs nothing, small enough to balance two cores. */
#define STREAM_PIECE_BYTES ((uint64_t)1 << 20)

enum status cpu_stream_read(struct backend_device *device, const void *dev_from, uint64_t bytes,
                            struct status_text *text) {
    (void)text;
    const uint8_t *from = dev_from;
    const uint64_t pieces = (bytes + STREAM_PIECE_BYTES - 1) / STREAM_PIECE_BYTES;
    uint64_t all = 0;
#pragma omp parallel for schedule(dynamic) num_threads(device->threads) reduction(^ : all)
    for (uint64_t piece = 0; piece < pieces; piece++) {
        const uint64_t start = piece * STREAM_PIECE_BYTES;
        const uint64_t length =
            bytes - start < STREAM_PIECE_BYTES ? bytes - start : STREAM_PIECE_BYTES;
        all ^= device->tile->stream(from + start, length);
    }
    device->stream_result = all;
    return STATUS_OK;
}
