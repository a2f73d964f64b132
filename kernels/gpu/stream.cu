/* The ceilings: every byte read once, and every byte copied, by plain streaming. A block takes
 * contiguous chunks, so many loads of a thread on their way before the first is used. */
#include <string.h>

#include "gpu.h"
#include "gpu_ptx.cuh"

enum : uint32_t {
    STREAM_THREADS = 256,
    STREAM_LOADS = 8, /* of a thread at once */
    STREAM_PIECE_BYTES = 16,
    STREAM_CHUNK_PIECES = STREAM_THREADS * STREAM_LOADS,
};

/* [head bytes][pieces of 16, aligned][tail bytes]; a copy whose two sides are not aligned alike is
 * all tail. */
struct stream_arguments {
    const uint8_t *dev_from;
    uint8_t *dev_to;
    uint32_t *dev_sink;
    uint64_t head_bytes;
    uint64_t pieces;
    uint64_t tail_bytes;
};

/* One bit in 2^32 of all data would write it; no compiler can know that. */
GPU_DEVICE void stream_keep(const struct stream_arguments &a, uint32_t seen) {
    if (seen == 0x9E3779B9u)
        *a.dev_sink = seen;
}

GPU_DEVICE uint32_t stream_fold(const uint32_t (&x)[4]) {
    return x[0] ^ x[1] ^ x[2] ^ x[3];
}

GPU_KERNEL(STREAM_THREADS, 4) stream_read_kernel(const struct stream_arguments a) {
    const uint8_t *from = a.dev_from + a.head_bytes;
    const uint64_t stride = (uint64_t)gpu_blocks() * STREAM_CHUNK_PIECES;
    const uint64_t whole = a.pieces / STREAM_CHUNK_PIECES * STREAM_CHUNK_PIECES;
    uint32_t seen = 0;
    for (uint64_t at = (uint64_t)gpu_block() * STREAM_CHUNK_PIECES; at < whole; at += stride) {
        uint32_t x[STREAM_LOADS][4];
        for (uint32_t i = 0; i < STREAM_LOADS; i++)
            ptx_load_global_once_v4(x[i], from + (at + i * STREAM_THREADS + gpu_thread()) *
                                                     STREAM_PIECE_BYTES);
        for (uint32_t i = 0; i < STREAM_LOADS; i++)
            seen ^= stream_fold(x[i]);
    }
    const uint64_t thread = (uint64_t)gpu_block() * STREAM_THREADS + gpu_thread();
    const uint64_t threads = (uint64_t)gpu_blocks() * STREAM_THREADS;
    for (uint64_t piece = whole + thread; piece < a.pieces; piece += threads) {
        uint32_t x[4];
        ptx_load_global_once_v4(x, from + piece * STREAM_PIECE_BYTES);
        seen ^= stream_fold(x);
    }
    const uint8_t *tail = from + a.pieces * STREAM_PIECE_BYTES;
    for (uint64_t i = thread; i < a.head_bytes; i += threads)
        seen ^= a.dev_from[i];
    for (uint64_t i = thread; i < a.tail_bytes; i += threads)
        seen ^= tail[i];
    stream_keep(a, seen);
}

GPU_DEVICE void stream_store(uint8_t *to, const uint32_t (&x)[4]) {
    memcpy(__builtin_assume_aligned(to, STREAM_PIECE_BYTES), x, sizeof x);
}

GPU_KERNEL(STREAM_THREADS, 4) stream_copy_kernel(const struct stream_arguments a) {
    const uint8_t *from = a.dev_from + a.head_bytes;
    uint8_t *to = a.dev_to + a.head_bytes;
    const uint64_t stride = (uint64_t)gpu_blocks() * STREAM_CHUNK_PIECES;
    const uint64_t whole = a.pieces / STREAM_CHUNK_PIECES * STREAM_CHUNK_PIECES;
    for (uint64_t at = (uint64_t)gpu_block() * STREAM_CHUNK_PIECES; at < whole; at += stride) {
        const uint64_t mine = (at + gpu_thread()) * STREAM_PIECE_BYTES;
        const uint64_t step = STREAM_THREADS * STREAM_PIECE_BYTES;
        uint32_t x[STREAM_LOADS][4];
        for (uint32_t i = 0; i < STREAM_LOADS; i++)
            ptx_load_global_once_v4(x[i], from + mine + i * step);
        for (uint32_t i = 0; i < STREAM_LOADS; i++)
            stream_store(to + mine + i * step, x[i]);
    }
    const uint64_t thread = (uint64_t)gpu_block() * STREAM_THREADS + gpu_thread();
    const uint64_t threads = (uint64_t)gpu_blocks() * STREAM_THREADS;
    for (uint64_t piece = whole + thread; piece < a.pieces; piece += threads) {
        uint32_t x[4];
        ptx_load_global_once_v4(x, from + piece * STREAM_PIECE_BYTES);
        stream_store(to + piece * STREAM_PIECE_BYTES, x);
    }
    const uint64_t tail_at = a.head_bytes + a.pieces * STREAM_PIECE_BYTES;
    for (uint64_t i = thread; i < a.head_bytes; i += threads)
        a.dev_to[i] = a.dev_from[i];
    for (uint64_t i = thread; i < a.tail_bytes; i += threads)
        a.dev_to[tail_at + i] = a.dev_from[tail_at + i];
}

static enum status stream_launch(const struct gpu_machine *machine, const char *name,
                                 const void *entry, struct stream_arguments *a, uint64_t bytes,
                                 bool aligned_alike, struct status_text *text) {
    const uint64_t to_alignment =
        (STREAM_PIECE_BYTES - (uintptr_t)a->dev_from % STREAM_PIECE_BYTES) % STREAM_PIECE_BYTES;
    a->head_bytes = !aligned_alike || bytes < to_alignment ? 0 : to_alignment;
    a->pieces = aligned_alike ? (bytes - a->head_bytes) / STREAM_PIECE_BYTES : 0;
    /* fewer bytes than reach the alignment are all tail */
    if (bytes < to_alignment)
        a->pieces = 0;
    a->tail_bytes = bytes - a->head_bytes - a->pieces * STREAM_PIECE_BYTES;
    const uint32_t fit = machine->blocks_per_unit(machine->self, entry, STREAM_THREADS, 0);
    struct gpu_launch launch = {};
    launch.name = name;
    launch.entry = entry;
    launch.blocks = machine->units * (fit > 0 ? fit : 1);
    launch.threads = STREAM_THREADS;
    launch.arguments = a;
    launch.arguments_bytes = sizeof *a;
    return machine->launch(machine->self, &launch, text);
}

extern "C" enum status gpu_stream_read(const struct gpu_machine *machine, const void *dev_from,
                                       uint64_t bytes, uint32_t *dev_sink,
                                       struct status_text *text) {
    struct stream_arguments a = {};
    a.dev_from = (const uint8_t *)dev_from;
    a.dev_sink = dev_sink;
    return stream_launch(machine, "stream_read",
                         GPU_ENTRY(struct stream_arguments, stream_read_kernel), &a, bytes, true,
                         text);
}

extern "C" enum status gpu_stream_copy(const struct gpu_machine *machine, void *dev_to,
                                       const void *dev_from, uint64_t bytes,
                                       struct status_text *text) {
    struct stream_arguments a = {};
    a.dev_from = (const uint8_t *)dev_from;
    a.dev_to = (uint8_t *)dev_to;
    const bool aligned_alike = ((uintptr_t)dev_from ^ (uintptr_t)dev_to) % STREAM_PIECE_BYTES == 0;
    return stream_launch(machine, "stream_copy",
                         GPU_ENTRY(struct stream_arguments, stream_copy_kernel), &a, bytes,
                         aligned_alike, text);
}
