/* The ceilings: every byte read or copied once, each thread its own contiguous pieces. And the pace
 * of work that is not plain reading. */
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

/* A distance that, taken again and again, comes by each of `there` places once, far from the last.
 */
static uint64_t choose_stride(uint64_t there) {
    uint64_t stride = there * 5 / 8 + 1;
    for (;; stride++) {
        uint64_t a = stride, b = there;
        while (b > 0) {
            const uint64_t rest = a % b;
            a = b;
            b = rest;
        }
        if (a == 1)
            return stride;
    }
}

/* A step walks over shuffled pages and has the cores' time more than the memory's, so it feels who
 * else uses a core, its second thread and the caches, which plain reading hardly does. */
enum status cpu_pace(struct backend_device *device, const void *dev_from, uint64_t bytes,
                     uint64_t first, uint64_t pieces, struct status_text *text) {
    (void)text;
    const uint8_t *from = dev_from;
    const uint64_t there = bytes / BACKEND_PACE_BYTES;
    device->pace_result = 0;
    if (there == 0)
        return STATUS_OK;
    const uint64_t stride = choose_stride(there);
    float sum = 0;
#pragma omp parallel for schedule(dynamic, 64) num_threads(device->threads) reduction(+ : sum)
    for (uint64_t i = 0; i < pieces; i++)
        sum += device->tile->pace(from + (first + i) % there * stride % there * BACKEND_PACE_BYTES,
                                  BACKEND_PACE_BYTES);
    device->pace_result = sum;
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
