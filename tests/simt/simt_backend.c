/* backend.h over the shim: a machine of a few multiprocessors whose launches are simt_launch.
 * KVGAUGE_SIMT_SHARED is the shared memory that a block may have, in bytes: 232448 (sm_90) unless
 * told otherwise; 101376 is sm_120's. */
#include "simt_backend.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gpu.h"
#include "simt.h"

enum {
    UNITS = 3, /* few, and no divisor of what tests are made of */
    SHARED_SM90_BYTES = 232448,
    SHARED_RESERVED_BYTES = 1024,
    THREADS_PER_UNIT = 1536,
    BLOCKS_PER_UNIT = 24
};

struct backend_device {
    struct gpu_machine machine;
    uint64_t *dev_replaced; /* two numbers; then the word that streaming writes in theory */
    uint32_t *dev_sink;
    uint64_t mark_ns[BACKEND_MARKS];
};

static enum status launch(void *self, const struct gpu_launch *launch, struct status_text *text) {
    const struct backend_device *device = self;
    if (launch->shared_bytes > device->machine.shared_bytes_per_block)
        return status_set(text, STATUS_WRONG, "%s: launch with %u bytes of shared memory, of %u",
                          launch->name, launch->shared_bytes,
                          device->machine.shared_bytes_per_block);
    return simt_launch(launch, text);
}

static uint32_t blocks_per_unit(void *self, const void *entry, uint32_t threads,
                                uint32_t shared_bytes) {
    const struct backend_device *device = self;
    if (entry == NULL || threads == 0 || threads > SIMT_MAX_THREADS ||
        shared_bytes > device->machine.shared_bytes_per_block)
        return 0;
    const uint32_t by_shared =
        device->machine.shared_bytes_per_unit / (shared_bytes + SHARED_RESERVED_BYTES);
    uint32_t blocks = THREADS_PER_UNIT / threads;
    blocks = blocks < by_shared ? blocks : by_shared;
    return blocks < BLOCKS_PER_UNIT ? blocks : BLOCKS_PER_UNIT;
}

static uint32_t shared_bytes_told(void) {
    const char *told = getenv("KVGAUGE_SIMT_SHARED");
    const unsigned long bytes = told != NULL ? strtoul(told, NULL, 10) : 0;
    return bytes > 0 && bytes <= SHARED_SM90_BYTES ? (uint32_t)bytes : SHARED_SM90_BYTES;
}

static enum status open_device(const struct backend_options *options, struct backend_device **out,
                               struct status_text *text) {
    *out = NULL;
    if (options->ordinal != 0)
        return status_set(text, STATUS_MISSING, "the simt backend has one device, number 0");
    struct backend_device *device = calloc(1, sizeof *device);
    uint64_t *dev_words = simt_memory_allocate(3 * sizeof *dev_words, "counters");
    if (device == NULL || dev_words == NULL) {
        free(device);
        simt_memory_free(dev_words);
        return status_set(text, STATUS_OUT_OF_MEMORY, "no memory for the simt device");
    }
    device->dev_replaced = dev_words;
    device->dev_sink = (uint32_t *)(dev_words + 2);
    device->machine = (struct gpu_machine){
        .self = device,
        .units = UNITS,
        .shared_bytes_per_block = shared_bytes_told(),
        .shared_bytes_per_unit = shared_bytes_told() + SHARED_RESERVED_BYTES,
        .shared_reserved_bytes = SHARED_RESERVED_BYTES,
        .launch = launch,
        .blocks_per_unit = blocks_per_unit,
    };
    *out = device;
    return STATUS_OK;
}

static void close_device(struct backend_device *device) {
    if (device != NULL)
        simt_memory_free(device->dev_replaced);
    free(device);
}

static void facts(struct backend_device *device, struct backend_facts *out) {
    (void)device;
    *out = (struct backend_facts){.backend = "simt",
                                  .device = "CUDA kernels on the host, a fiber for each thread",
                                  .compute_units = UNITS,
                                  .llc_source = "none",
                                  .memory_total_bytes = (uint64_t)1 << 32,
                                  .memory_free_bytes = (uint64_t)1 << 32,
                                  .memory_source = "a figure of its own",
                                  .instruction_set = "simt",
                                  .integrated = true};
}

static enum status memory_allocate(struct backend_device *device, uint64_t bytes, const char *what,
                                   struct backend_memory *out, struct status_text *text) {
    (void)device;
    *out = (struct backend_memory){0};
    void *address = simt_memory_allocate(bytes, what);
    if (address == NULL)
        return status_set(text, STATUS_OUT_OF_MEMORY,
                          "%s: %llu bytes were asked, and the host gave none", what,
                          (unsigned long long)bytes);
    *out = (struct backend_memory){.dev_address = address, .bytes = bytes};
    return STATUS_OK;
}

static void memory_free(struct backend_device *device, struct backend_memory *memory) {
    (void)device;
    simt_memory_free(memory->dev_address);
    *memory = (struct backend_memory){0};
}

static enum status memory_write(struct backend_device *device, void *dev_to, const void *from,
                                uint64_t bytes, struct status_text *text) {
    (void)device;
    (void)text;
    memcpy(dev_to, from, (size_t)bytes);
    simt_memory_written(dev_to, bytes);
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
    simt_memory_written(dev_to, bytes);
    return STATUS_OK;
}

static const void *memory_host(struct backend_device *device, const void *dev_from) {
    (void)device;
    return dev_from;
}

static enum status attend_check(struct backend_device *device, const char *kernel,
                                const struct page_layout *page, uint32_t query_heads, bool selected,
                                struct status_text *text) {
    return gpu_attend_check(&device->machine, kernel, page, query_heads, selected, text);
}

static uint32_t attend_workers(struct backend_device *device, const char *kernel,
                               const struct page_layout *page, uint32_t query_heads) {
    return gpu_attend_workers(&device->machine, kernel, page, query_heads);
}

static uint64_t attend_workspace_bytes(struct backend_device *device, const char *kernel,
                                       const struct page_layout *page, uint32_t query_heads,
                                       uint32_t segment_count, uint32_t page_count) {
    (void)device;
    return gpu_attend_workspace_bytes(kernel, page, query_heads, segment_count, page_count);
}

static enum status append(struct backend_device *device, const struct backend_append *work,
                          struct format_replaced *replaced, struct status_text *text) {
    uint64_t *dev_replaced = replaced != NULL ? device->dev_replaced : NULL;
    if (dev_replaced != NULL)
        (void)memory_fill(device, dev_replaced, 0, 2 * sizeof *dev_replaced, text);
    const enum status status = gpu_append(&device->machine, work, dev_replaced, text);
    if (dev_replaced != NULL && status == STATUS_OK) {
        replaced->nan_values += dev_replaced[0];
        replaced->infinite_values += dev_replaced[1];
    }
    return status;
}

static enum status attend(struct backend_device *device, const struct backend_attend *work,
                          struct status_text *text) {
    return gpu_attend(&device->machine, work, text);
}

static enum status state_step(struct backend_device *device, const struct backend_state_step *work,
                              struct status_text *text) {
    return gpu_state(&device->machine, work, text);
}

static enum status index_score(struct backend_device *device,
                               const struct backend_index_score *work, struct status_text *text) {
    return gpu_index_score(&device->machine, work, text);
}

static enum status index_select(struct backend_device *device,
                                const struct backend_index_select *work, struct status_text *text) {
    return gpu_index_select(&device->machine, work, text);
}

static enum status stream_read(struct backend_device *device, const void *dev_from, uint64_t bytes,
                               struct status_text *text) {
    return gpu_stream_read(&device->machine, dev_from, bytes, device->dev_sink, text);
}

static enum status stream_copy(struct backend_device *device, void *dev_to, const void *dev_from,
                               uint64_t bytes, struct status_text *text) {
    return gpu_stream_copy(&device->machine, dev_to, dev_from, bytes, text);
}

static enum status clock_mhz(struct backend_device *device, double *mhz, struct status_text *text) {
    const enum status status = gpu_clock(&device->machine, device->dev_replaced, text);
    *mhz = status == STATUS_OK ? gpu_clock_mhz(device->dev_replaced) : 0;
    return status;
}

/* Launches are done when they return. */
static enum status mark(struct backend_device *device, uint32_t number, struct status_text *text) {
    struct timespec now;
    if (clock_gettime(CLOCK_MONOTONIC, &now) != 0)
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

const struct backend_ops simt_backend_ops = {
    .name = "simt",
    .kernels = gpu_attend_kernels,
    .open = open_device,
    .close = close_device,
    .facts = facts,
    .memory_allocate = memory_allocate,
    .memory_free = memory_free,
    .memory_write = memory_write,
    .memory_read = memory_read,
    .memory_fill = memory_fill,
    .memory_host = memory_host,
    .attend_check = attend_check,
    .attend_workers = attend_workers,
    .attend_workspace_bytes = attend_workspace_bytes,
    .append = append,
    .attend = attend,
    .state_step = state_step,
    .index_score = index_score,
    .index_select = index_select,
    .stream_read = stream_read,
    .stream_copy = stream_copy,
    .clock_mhz = clock_mhz,
    .mark = mark,
    .synchronize = synchronize,
    .elapsed_ns = elapsed_ns,
};
