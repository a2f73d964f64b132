/* How gpu.h's kernels are launched, and time marks. One stream, so that work runs in the order it
 * was given. */
#include <stdio.h>

#include "cuda_device.h"

enum {
    UNASKED_SHARED_BYTES = 48 * 1024, /* a kernel may have this much without being told to */
    CARVE_OUT_FROM_BYTES = 16 * 1024,
};

/* Lets the kernel have this much shared memory. Kernels past the table are told every time. */
static enum status prepare(struct backend_device *device, const void *entry, uint32_t shared_bytes,
                           struct status_text *text) {
    if (shared_bytes < CARVE_OUT_FROM_BYTES)
        return STATUS_OK;
    struct cuda_prepared *known = NULL;
    for (uint32_t i = 0; i < device->prepared_count && known == NULL; i++)
        if (device->prepared[i].entry == entry)
            known = &device->prepared[i];
    if (known != NULL && known->shared_bytes >= shared_bytes)
        return STATUS_OK;
    if (shared_bytes > UNASKED_SHARED_BYTES) {
        const enum status status =
            cuda_check(device,
                       cudaFuncSetAttribute(entry, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                            (int)shared_bytes),
                       "cudaFuncSetAttribute for shared memory", shared_bytes, text);
        if (status != STATUS_OK)
            return status;
    }
    /* First-level cache and shared memory are one array; these kernels use the latter, and as many
     * of their blocks as fit should be there at once. A hint: the driver may decide otherwise. */
    const enum status status =
        cuda_check(device,
                   cudaFuncSetAttribute(entry, cudaFuncAttributePreferredSharedMemoryCarveout,
                                        cudaSharedmemCarveoutMaxShared),
                   "cudaFuncSetAttribute for the carve-out", 0, text);
    if (status != STATUS_OK)
        return status;
    if (known == NULL && device->prepared_count < CUDA_PREPARED_KERNELS)
        known = &device->prepared[device->prepared_count++];
    if (known != NULL)
        *known = (struct cuda_prepared){.entry = entry, .shared_bytes = shared_bytes};
    return STATUS_OK;
}

enum status cuda_launch(void *self, const struct gpu_launch *launch, struct status_text *text) {
    struct backend_device *device = self;
    enum status status = prepare(device, launch->entry, launch->shared_bytes, text);
    if (status != STATUS_OK)
        return status;
    (void)snprintf(device->last_name, sizeof device->last_name, "%s", launch->name);
    /* The runtime only reads the arguments, though it takes them as writable. */
    void *arguments[] = {(void *)(uintptr_t)launch->arguments};
    const cudaError_t error =
        cudaLaunchKernel(launch->entry, (dim3){launch->blocks, 1, 1}, (dim3){launch->threads, 1, 1},
                         arguments, launch->shared_bytes, device->stream);
    if (error == cudaSuccess)
        return STATUS_OK;
    char call[160];
    (void)snprintf(call, sizeof call,
                   "cudaLaunchKernel of %s (%u blocks of %u threads, %u bytes of shared memory)",
                   launch->name, launch->blocks, launch->threads, launch->shared_bytes);
    return cuda_check(device, error, call, 0, text);
}

uint32_t cuda_blocks_per_unit(void *self, const void *entry, uint32_t threads,
                              uint32_t shared_bytes) {
    struct backend_device *device = self;
    int blocks = 0;
    if (prepare(device, entry, shared_bytes, NULL) != STATUS_OK)
        return 0;
    const cudaError_t error =
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, entry, (int)threads, shared_bytes);
    return cuda_check(device, error, "cudaOccupancyMaxActiveBlocksPerMultiprocessor", 0, NULL) ==
                       STATUS_OK &&
                   blocks > 0
               ? (uint32_t)blocks
               : 0;
}

enum status cuda_mark(struct backend_device *device, uint32_t mark, struct status_text *text) {
    if (mark >= BACKEND_MARKS)
        return status_set(text, STATUS_REFUSED, "time mark %u: there are %d", mark, BACKEND_MARKS);
    /* Within a recording the mark is set anew at each replay, for cudaEventElapsedTime to see. */
    const cudaError_t error =
        device->recording
            ? cudaEventRecordWithFlags(device->marks[mark], device->stream, cudaEventRecordExternal)
            : cudaEventRecord(device->marks[mark], device->stream);
    return cuda_check(device, error, "cudaEventRecord", 0, text);
}

uint64_t cuda_elapsed_ns(struct backend_device *device, uint32_t from_mark, uint32_t to_mark) {
    float ms = 0;
    const cudaError_t error =
        cudaEventElapsedTime(&ms, device->marks[from_mark], device->marks[to_mark]);
    if (cuda_check(device, error, "cudaEventElapsedTime", 0, NULL) != STATUS_OK || ms < 0)
        return 0;
    return (uint64_t)((double)ms * 1e6 + 0.5);
}
