/* The cpu backend's table of functions: device, memory and time. */
#include "cpu.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "cpu_device.h"

static enum status open_device(const struct backend_options *options, struct backend_device **out,
                               struct status_text *text) {
    *out = NULL;
    if (options->ordinal != 0)
        return status_set(text, STATUS_MISSING, "the cpu backend has one device, number 0");
    const uint32_t usable = cpu_usable_threads();
    if (options->threads > 4096)
        return status_set(text, STATUS_BAD_INPUT, "--threads %u: at most 4096", options->threads);
    struct backend_device *device = calloc(1, sizeof *device);
    if (device == NULL)
        return status_set(text, STATUS_OUT_OF_MEMORY, "no memory for the cpu device");
    device->threads = options->threads > 0 ? options->threads : usable;
    device->llc_told = options->llc_bytes > 0;
    device->llc_bytes = device->llc_told ? options->llc_bytes : cpu_sysfs_llc_bytes();
    device->tile = cpu_tile_choose();
    *out = device;
    return STATUS_OK;
}

static void close_device(struct backend_device *device) {
    if (device != NULL)
        cpu_blas_close(&device->blas);
    free(device);
}

static enum status memory_allocate(struct backend_device *device, uint64_t bytes, const char *what,
                                   struct backend_memory *out, struct status_text *text) {
    (void)device;
    *out = (struct backend_memory){0};
    void *address = MAP_FAILED;
    errno = ENOMEM; /* what a size no mapping can have amounts to */
    if (bytes > 0 && bytes < SIZE_MAX / 2)
        address =
            mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (address == MAP_FAILED) {
        const char *why = bytes == 0 ? "empty request" : strerror(errno);
        struct backend_facts facts;
        cpu_facts(device, &facts);
        return status_set(text, STATUS_OUT_OF_MEMORY,
                          "%s: %llu bytes were asked and %llu are there (%s): %s", what,
                          (unsigned long long)bytes, (unsigned long long)facts.memory_free_bytes,
                          facts.memory_source, why);
    }
    /* Pages of the pool lie anywhere; with 4 KiB pages of the system every one of them would cost
     * an address translation. Only advice: ignored where it is not supported. */
    (void)madvise(address, (size_t)bytes, MADV_HUGEPAGE);
    *out = (struct backend_memory){.dev_address = address, .bytes = bytes};
    return STATUS_OK;
}

static void memory_free(struct backend_device *device, struct backend_memory *memory) {
    (void)device;
    if (memory->dev_address != NULL)
        (void)munmap(memory->dev_address, (size_t)memory->bytes);
    *memory = (struct backend_memory){0};
}

static enum status memory_write(struct backend_device *device, void *dev_to, const void *from,
                                uint64_t bytes, struct status_text *text) {
    (void)device;
    (void)text;
    memcpy(dev_to, from, (size_t)bytes);
    return STATUS_OK;
}

static enum status memory_read(struct backend_device *device, void *to, const void *dev_from,
                               uint64_t bytes, struct status_text *text) {
    (void)device;
    (void)text;
    memcpy(to, dev_from, (size_t)bytes);
    return STATUS_OK;
}

static enum status memory_fill(struct backend_device *device, void *dev_to, uint8_t byte,
                               uint64_t bytes, struct status_text *text) {
    (void)device;
    (void)text;
    memset(dev_to, byte, (size_t)bytes);
    return STATUS_OK;
}

static const void *memory_host(struct backend_device *device, const void *dev_from) {
    (void)device;
    return dev_from;
}

/* Work is done when its call returns, so a mark is now and there is nothing to wait for. */
static enum status mark(struct backend_device *device, uint32_t number, struct status_text *text) {
    struct timespec now;
    if (clock_gettime(CLOCK_MONOTONIC_RAW, &now) != 0)
        return status_set(text, STATUS_IO, "the monotonic clock cannot be read");
    device->mark_ns[number] = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    return STATUS_OK;
}

static enum status synchronize(struct backend_device *device, struct status_text *text) {
    (void)device;
    (void)text;
    return STATUS_OK;
}

static uint64_t elapsed_ns(struct backend_device *device, uint32_t from_mark, uint32_t to_mark) {
    return device->mark_ns[to_mark] - device->mark_ns[from_mark];
}

const struct backend_ops cpu_backend_ops = {
    .name = "cpu",
    .kernels = cpu_kernels,
    .weights_formats = cpu_weights_formats,
    .open = open_device,
    .close = close_device,
    .facts = cpu_facts,
    .memory_allocate = memory_allocate,
    .memory_free = memory_free,
    .memory_write = memory_write,
    .memory_read = memory_read,
    .memory_fill = memory_fill,
    .memory_host = memory_host,
    .attend_check = cpu_attend_check,
    .attend_workers = cpu_attend_workers,
    .attend_workspace_bytes = cpu_attend_workspace_bytes,
    .append = cpu_append,
    .attend = cpu_attend,
    .state_step = cpu_state_step,
    .index_score = cpu_index_score,
    .index_select = cpu_index_select,
    .libraries_open = cpu_libraries_open,
    .product = cpu_product,
    .product_workspace_bytes = cpu_product_workspace_bytes,
    .stream_read = cpu_stream_read,
    .pace = cpu_pace,
    .stream_copy = cpu_stream_copy,
    .mark = mark,
    .synchronize = synchronize,
    .elapsed_ns = elapsed_ns,
};
