/* Wraps memory_allocate and memory_free; everything else is the cpu backend's. */
#include "counting_ops.h"

#include <assert.h>

#include "cpu/cpu.h"

struct counting_ops counting;

static enum status allocate(struct backend_device *device, uint64_t bytes, const char *what,
                            struct backend_memory *out, struct status_text *text) {
    *out = (struct backend_memory){0};
    if (counting.limit_bytes > 0 && bytes > counting.limit_bytes - counting.held_bytes)
        return status_set(text, STATUS_OUT_OF_MEMORY,
                          "%s: %llu bytes were asked and %llu are there", what,
                          (unsigned long long)bytes,
                          (unsigned long long)(counting.limit_bytes - counting.held_bytes));
    const enum status status = cpu_backend_ops.memory_allocate(device, bytes, what, out, text);
    if (status != STATUS_OK)
        return status;
    counting.requests++;
    counting.asked_bytes += bytes;
    counting.held_bytes += bytes;
    if (counting.held_bytes > counting.peak_bytes)
        counting.peak_bytes = counting.held_bytes;
    if (bytes > counting.largest_bytes)
        counting.largest_bytes = bytes;
    return STATUS_OK;
}

static void release(struct backend_device *device, struct backend_memory *memory) {
    counting.held_bytes -= memory->dev_address != NULL ? memory->bytes : 0;
    cpu_backend_ops.memory_free(device, memory);
}

void counting_reset(uint64_t limit_bytes) {
    assert(counting.held_bytes == 0);
    counting = (struct counting_ops){.ops = cpu_backend_ops, .limit_bytes = limit_bytes};
    counting.ops.memory_allocate = allocate;
    counting.ops.memory_free = release;
}
