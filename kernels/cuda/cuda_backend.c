/* The cuda backend's table of functions; opening and closing a device. What the kernels do is
 * gpu.h's. */
#include "cuda_backend.h"

#include <stdlib.h>
#include <string.h>

#include "cuda_device.h"

static const struct gpu_machine *machine_of(struct backend_device *device) {
    return &device->machine;
}

static void close_device(struct backend_device *device) {
    if (device == NULL)
        return;
    cuda_blas_close(device);
    /* Errors of work that nobody waited for have no reader any more. */
    if (device->dev_replaced != NULL)
        (void)cuda_check(device, cudaFree(device->dev_replaced), "cudaFree", 0, NULL);
    for (int i = 0; i < BACKEND_MARKS; i++)
        if (device->marks[i] != NULL)
            (void)cuda_check(device, cudaEventDestroy(device->marks[i]), "cudaEventDestroy", 0,
                             NULL);
    if (device->stream != NULL)
        (void)cuda_check(device, cudaStreamDestroy(device->stream), "cudaStreamDestroy", 0, NULL);
    free(device);
}

/* The context, with every kernel loaded: what is taken later is taken by what asked for it. */
static enum status make_context(const struct backend_options *options, struct status_text *text) {
    /* The runtime would otherwise load each kernel when it is first used, within a measurement of
     * memory or a recording. A setting of the user's stands. */
    (void)setenv("CUDA_MODULE_LOADING", "EAGER", 0);
    int count = 0;
    cudaError_t error = cudaGetDeviceCount(&count);
    if (error != cudaSuccess)
        return cuda_missing(error, "cudaGetDeviceCount", options, text);
    if (options->ordinal >= (uint32_t)count)
        return status_set(text, STATUS_MISSING,
                          "--device cuda:%u: no such device; there %s %d, numbered from 0",
                          options->ordinal, count == 1 ? "is" : "are", count);
    const int ordinal = (int)options->ordinal;
    error = cudaSetDevice(ordinal);
    if (error == cudaSuccess)
        error = cudaFree(NULL); /* older runtimes make the context here, not above */
    if (cuda_image_is_missing(error))
        return cuda_image_missing(ordinal, text);
    return error == cudaSuccess ? STATUS_OK : cuda_missing(error, "cudaSetDevice", options, text);
}

static enum status make_device(struct backend_device *device, struct status_text *text) {
    enum status status =
        cuda_check(device, cudaStreamCreateWithFlags(&device->stream, cudaStreamNonBlocking),
                   "cudaStreamCreateWithFlags", 0, text);
    for (int i = 0; i < BACKEND_MARKS && status == STATUS_OK; i++)
        status = cuda_check(device, cudaEventCreate(&device->marks[i]), "cudaEventCreate", 0, text);
    if (status == STATUS_OK)
        status = cuda_facts_open(device, text);
    if (status == STATUS_OK)
        status = cuda_memory_measure_step(device, text);
    if (status == STATUS_OK && device->integrated)
        cuda_pieces_open(device, &device->pieces);
    if (status == STATUS_OK)
        status =
            cuda_check(device, cudaMalloc((void **)&device->dev_replaced, 3 * sizeof(uint64_t)),
                       "cudaMalloc", 3 * sizeof(uint64_t), text);
    if (status == STATUS_OK) {
        device->dev_sink = (uint32_t *)(device->dev_replaced + 2);
        status = cuda_image_check(device, text);
    }
    return status;
}

static enum status open_device(const struct backend_options *options, struct backend_device **out,
                               struct status_text *text) {
    *out = NULL;
    enum status status = make_context(options, text);
    if (status != STATUS_OK)
        return status;
    struct backend_device *device = calloc(1, sizeof *device);
    if (device == NULL)
        return status_set(text, STATUS_OUT_OF_MEMORY, "no memory for the cuda device");
    device->ordinal = (int)options->ordinal;
    device->llc_told_bytes = options->llc_bytes;
    device->meminfo_path = "/proc/meminfo";
    device->machine.self = device;
    device->machine.launch = cuda_launch;
    device->machine.blocks_per_unit = cuda_blocks_per_unit;
    status = make_device(device, text);
    if (status != STATUS_OK) {
        close_device(device);
        return status;
    }
    *out = device;
    return STATUS_OK;
}

/* Device memory of a GPU is not read in place by the host, shared or not. */
static const void *memory_host(struct backend_device *device, const void *dev_from) {
    (void)device;
    (void)dev_from;
    return NULL;
}

/* The kernels of gpu.h, and behind them the one that is cuBLAS. */
static const char *const kernels[] = {"mma", "simple", "expand", CUDA_DENSE_NAME, NULL};

static bool is_dense(const char *kernel) {
    return strcmp(kernel, CUDA_DENSE_NAME) == 0;
}

static enum status attend_check(struct backend_device *device, const char *kernel,
                                const struct page_layout *page, uint32_t query_heads, bool selected,
                                struct status_text *text) {
    if (is_dense(kernel))
        return cuda_dense_check(device, page, query_heads, selected, text);
    return gpu_attend_check(machine_of(device), kernel, page, query_heads, selected, text);
}

static uint32_t attend_workers(struct backend_device *device, const char *kernel,
                               const struct page_layout *page, uint32_t query_heads) {
    if (is_dense(kernel))
        return 1; /* rows are not cut */
    return gpu_attend_workers(machine_of(device), kernel, page, query_heads);
}

static uint64_t attend_workspace_bytes(struct backend_device *device, const char *kernel,
                                       const struct page_layout *page, uint32_t query_heads,
                                       uint32_t segment_count, uint32_t page_count) {
    (void)device;
    if (is_dense(kernel))
        return cuda_dense_workspace_bytes(page, query_heads, segment_count);
    return gpu_attend_workspace_bytes(kernel, page, query_heads, segment_count, page_count);
}

static enum status append(struct backend_device *device, const struct backend_append *work,
                          struct format_replaced *replaced, struct status_text *text) {
    if (replaced == NULL)
        return gpu_append(machine_of(device), work, NULL, text);
    uint64_t counts[2];
    enum status status = cuda_memory_fill(device, device->dev_replaced, 0, sizeof counts, text);
    if (status == STATUS_OK)
        status = gpu_append(machine_of(device), work, device->dev_replaced, text);
    if (status == STATUS_OK)
        status = cuda_memory_read(device, counts, device->dev_replaced, sizeof counts, text);
    if (status != STATUS_OK)
        return status;
    replaced->nan_values += counts[0];
    replaced->infinite_values += counts[1];
    return STATUS_OK;
}

static enum status attend(struct backend_device *device, const struct backend_attend *work,
                          struct status_text *text) {
    return is_dense(work->kernel) ? cuda_dense_attend(device, work, text)
                                  : gpu_attend(machine_of(device), work, text);
}

static enum status state_step(struct backend_device *device, const struct backend_state_step *work,
                              struct status_text *text) {
    return gpu_state(machine_of(device), work, text);
}

static enum status index_score(struct backend_device *device,
                               const struct backend_index_score *work, struct status_text *text) {
    return gpu_index_score(machine_of(device), work, text);
}

static enum status index_select(struct backend_device *device,
                                const struct backend_index_select *work, struct status_text *text) {
    return gpu_index_select(machine_of(device), work, text);
}

static enum status stream_read(struct backend_device *device, const void *dev_from, uint64_t bytes,
                               struct status_text *text) {
    return gpu_stream_read(machine_of(device), dev_from, bytes, device->dev_sink, text);
}

static enum status stream_copy(struct backend_device *device, void *dev_to, const void *dev_from,
                               uint64_t bytes, struct status_text *text) {
    return gpu_stream_copy(machine_of(device), dev_to, dev_from, bytes, text);
}

/* The two words of append's counters are free between appends. */
static enum status clock_mhz(struct backend_device *device, double *mhz, struct status_text *text) {
    uint64_t counts[2] = {0};
    enum status status = gpu_clock(machine_of(device), device->dev_replaced, text);
    if (status == STATUS_OK)
        status = cuda_memory_read(device, counts, device->dev_replaced, sizeof counts, text);
    *mhz = gpu_clock_mhz(counts);
    return status;
}

const struct backend_ops cuda_backend_ops = {
    .name = "cuda",
    .kernels = kernels,
    .kernels_by_name = 1,
    .weights_formats = cuda_weights_formats,
    .open = open_device,
    .close = close_device,
    .facts = cuda_facts,
    .memory_allocate = cuda_memory_allocate,
    .memory_free = cuda_memory_free,
    .memory_write = cuda_memory_write,
    .memory_read = cuda_memory_read,
    .memory_fill = cuda_memory_fill,
    .memory_host = memory_host,
    .attend_check = attend_check,
    .attend_workers = attend_workers,
    .attend_workspace_bytes = attend_workspace_bytes,
    .append = append,
    .attend = attend,
    .state_step = state_step,
    .index_score = index_score,
    .index_select = index_select,
    .libraries_open = cuda_libraries_open,
    .product = cuda_product,
    .product_workspace_bytes = cuda_product_workspace_bytes,
    .stream_read = stream_read,
    .stream_copy = stream_copy,
    .clock_mhz = clock_mhz,
    .record_begin = cuda_record_begin,
    .record_end = cuda_record_end,
    .replay = cuda_replay,
    .record_free = cuda_record_free,
    .mark = cuda_mark,
    .synchronize = cuda_wait,
    .elapsed_ns = cuda_elapsed_ns,
};
