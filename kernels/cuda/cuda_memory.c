/* Memory of the device: plain cudaMalloc, one call for each request.
 *
 * On a GPU that shares the host's memory a request is looked at before it is made and once more
 * after it, against MemAvailable: taking too much there hangs the machine instead of failing. It is
 * not taken in pieces with looks between them: one address range of several pieces needs the
 * driver's virtual memory calls, and a look before the whole asks the same number. */
#include "cuda_device.h"

static uint64_t whole_steps(const struct backend_device *device, uint64_t bytes) {
    const uint64_t step = device->step_bytes;
    if (step == 0 || bytes > UINT64_MAX - step)
        return bytes;
    return (bytes + step - 1) / step * step;
}

/* Whether the rest of the machine keeps its share when `bytes` more are taken. */
static enum status check_shared(const char *what, uint64_t asked_bytes, uint64_t more_bytes,
                                struct status_text *text) {
    struct cuda_meminfo info;
    if (!cuda_meminfo_read("/proc/meminfo", &info))
        return STATUS_OK; /* cuda_free_bytes says so; cudaMalloc's own limit stands */
    const uint64_t floor = cuda_meminfo_floor_bytes(&info);
    const uint64_t there = info.available_bytes > floor ? info.available_bytes - floor : 0;
    if (more_bytes <= there && info.available_bytes >= floor)
        return STATUS_OK;
    return status_set(text, STATUS_OUT_OF_MEMORY,
                      "%s: %llu bytes were asked and %llu are there (%s %llu, of which %llu stay "
                      "with the rest of the machine)",
                      what, (unsigned long long)asked_bytes, (unsigned long long)there,
                      info.huge_pages ? "free huge pages:" : "MemAvailable",
                      (unsigned long long)info.available_bytes, (unsigned long long)floor);
}

static enum status refuse(struct backend_device *device, uint64_t bytes, const char *what,
                          const char *why, struct status_text *text) {
    uint64_t there = 0, total;
    const char *source = "unknown";
    (void)cuda_free_bytes(device, &there, &total, &source);
    return status_set(text, STATUS_OUT_OF_MEMORY,
                      "%s: %llu bytes were asked and %llu are there (%s): %s", what,
                      (unsigned long long)bytes, (unsigned long long)there, source, why);
}

enum status cuda_memory_allocate(struct backend_device *device, uint64_t bytes, const char *what,
                                 struct backend_memory *out, struct status_text *text) {
    *out = (struct backend_memory){0};
    if (bytes == 0)
        return refuse(device, bytes, what, "empty request", text);
    if (bytes > SIZE_MAX / 2)
        return refuse(device, bytes, what, "no address space has as many", text);
    const uint64_t taken = whole_steps(device, bytes);
    enum status status = device->integrated ? check_shared(what, bytes, taken, text) : STATUS_OK;
    if (status != STATUS_OK)
        return status;
    void *address = NULL;
    const cudaError_t error = cudaMalloc(&address, (size_t)bytes);
    if (error != cudaSuccess) {
        struct status_text why = {""};
        status = cuda_check(device, error, "cudaMalloc", bytes, &why);
        return status == STATUS_OUT_OF_MEMORY ? refuse(device, bytes, what, why.line, text)
                                              : status_set(text, status, "%s: %s", what, why.line);
    }
    if (device->integrated)
        status = check_shared(what, bytes, 0, text);
    if (status != STATUS_OK) {
        (void)cuda_check(device, cudaFree(address), "cudaFree", bytes, NULL);
        return status;
    }
    device->taken_bytes += taken;
    *out = (struct backend_memory){.dev_address = address, .bytes = bytes};
    return STATUS_OK;
}

void cuda_memory_free(struct backend_device *device, struct backend_memory *memory) {
    if (memory->dev_address != NULL) {
        /* Waits for the device; of a lost context nothing is left to free. */
        (void)cuda_check(device, cudaFree(memory->dev_address), "cudaFree", memory->bytes, NULL);
        device->taken_bytes -= whole_steps(device, memory->bytes);
    }
    *memory = (struct backend_memory){0};
}

/* Copies wait for their end: the caller's memory is pageable, and on machines where the GPU reads
 * such memory itself the copy may still be under way when the call returns. */
enum status cuda_memory_write(struct backend_device *device, void *dev_to, const void *from,
                              uint64_t bytes, struct status_text *text) {
    if (bytes == 0)
        return STATUS_OK;
    const cudaError_t error =
        cudaMemcpyAsync(dev_to, from, (size_t)bytes, cudaMemcpyHostToDevice, device->stream);
    const enum status status =
        cuda_check(device, error, "cudaMemcpyAsync to the device", bytes, text);
    return status == STATUS_OK ? cuda_wait(device, text) : status;
}

enum status cuda_memory_read(struct backend_device *device, void *to, const void *dev_from,
                             uint64_t bytes, struct status_text *text) {
    if (bytes == 0)
        return STATUS_OK;
    const cudaError_t error =
        cudaMemcpyAsync(to, dev_from, (size_t)bytes, cudaMemcpyDeviceToHost, device->stream);
    const enum status status =
        cuda_check(device, error, "cudaMemcpyAsync from the device", bytes, text);
    return status == STATUS_OK ? cuda_wait(device, text) : status;
}

enum status cuda_memory_fill(struct backend_device *device, void *dev_to, uint8_t byte,
                             uint64_t bytes, struct status_text *text) {
    if (bytes == 0)
        return STATUS_OK;
    return cuda_check(device, cudaMemsetAsync(dev_to, byte, (size_t)bytes, device->stream),
                      "cudaMemsetAsync", bytes, text);
}

enum status cuda_memory_measure_step(struct backend_device *device, struct status_text *text) {
    size_t before = 0, after = 0, total = 0;
    void *address = NULL;
    enum status status =
        cuda_check(device, cudaMemGetInfo(&before, &total), "cudaMemGetInfo", 0, text);
    if (status == STATUS_OK)
        status = cuda_check(device, cudaMalloc(&address, 1), "cudaMalloc", 1, text);
    if (status == STATUS_OK)
        status = cuda_check(device, cudaMemGetInfo(&after, &total), "cudaMemGetInfo", 0, text);
    if (address != NULL)
        (void)cuda_check(device, cudaFree(address), "cudaFree", 1, NULL);
    /* Of two programs on one GPU the other may take or free memory in between: then the difference
     * is no power of two, and nothing is concluded from it. */
    const uint64_t step = before > after ? before - after : 0;
    device->step_bytes = (step & (step - 1)) == 0 ? step : 0;
    return status;
}
