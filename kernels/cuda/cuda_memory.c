/* Memory of the device: plain cudaMalloc, one call for each request.
 *
 * On a GPU that shares the host's memory taking too much hangs the machine instead of failing.
 * There MemAvailable is looked at before a request and after it, and a large one is taken in pieces
 * (cuda_pieces.h) with a look before each; what was taken is counted here as well, in case the
 * system's number lags behind. Where the driver has no calls for that, it is one cudaMalloc between
 * two looks, whatever its size. */
#include "cuda_device.h"

#include <stdio.h>

static uint64_t whole_steps(const struct backend_device *device, uint64_t bytes) {
    const uint64_t step = device->step_bytes;
    if (step == 0 || bytes > UINT64_MAX - step)
        return bytes;
    return (bytes + step - 1) / step * step;
}

/* What may be taken: MemAvailable, but no more than was there before this device's first request
 * less what was taken since. */
static uint64_t available_bytes(struct backend_device *device, const struct cuda_meminfo *info,
                                uint64_t taken_bytes) {
    const uint64_t taken = device->taken_bytes + taken_bytes;
    if (taken == 0)
        device->before_taking_bytes = info->available_bytes;
    const uint64_t before = device->before_taking_bytes;
    const uint64_t left = before > taken ? before - taken : 0;
    return before > 0 && left < info->available_bytes ? left : info->available_bytes;
}

enum status cuda_memory_look(struct backend_device *device, const char *what, uint64_t asked_bytes,
                             uint64_t taken_bytes, uint64_t more_bytes, struct status_text *text) {
    struct cuda_meminfo info;
    if (!cuda_meminfo_read(device->meminfo_path, &info))
        return STATUS_OK; /* cuda_free_bytes says so; the driver's own limit stands */
    const uint64_t floor = cuda_meminfo_floor_bytes(&info);
    const uint64_t available = available_bytes(device, &info, taken_bytes);
    const uint64_t there = available > floor ? available - floor : 0;
    if (more_bytes <= there && available >= floor)
        return STATUS_OK;
    char taken[64] = "";
    if (taken_bytes > 0)
        (void)snprintf(taken, sizeof taken, ", %llu were taken so far",
                       (unsigned long long)taken_bytes);
    return status_set(text, STATUS_OUT_OF_MEMORY,
                      "%s: %llu bytes were asked%s and %llu %s (%s %llu, of which %llu stay with "
                      "the rest of the machine)",
                      what, (unsigned long long)asked_bytes, taken, (unsigned long long)there,
                      taken_bytes > 0 ? "more are there" : "are there",
                      available < info.available_bytes ? "what was there less what was taken:"
                      : info.huge_pages                ? "free huge pages:"
                                                       : "MemAvailable",
                      (unsigned long long)available, (unsigned long long)floor);
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

static enum status take_whole(struct backend_device *device, uint64_t bytes, const char *what,
                              void **out, struct status_text *text) {
    struct status_text why = {""};
    const enum status status =
        cuda_check(device, cudaMalloc(out, (size_t)bytes), "cudaMalloc", bytes, &why);
    return status == STATUS_OK              ? STATUS_OK
           : status == STATUS_OUT_OF_MEMORY ? refuse(device, bytes, what, why.line, text)
                                            : status_set(text, status, "%s: %s", what, why.line);
}

/* A request that is one piece anyway gains nothing, and a small one would take a whole step. */
static bool in_pieces(const struct backend_device *device, uint64_t bytes) {
    return device->pieces.step > 0 && bytes > device->pieces.largest;
}

static uint64_t taken_by(const struct backend_device *device, uint64_t bytes) {
    return in_pieces(device, bytes) ? cuda_pieces_bytes(&device->pieces, bytes)
                                    : whole_steps(device, bytes);
}

/* What cannot be there at all is refused before the first piece is taken. */
static enum status take_shared(struct backend_device *device, uint64_t bytes, const char *what,
                               void **out, struct status_text *text) {
    const uint64_t taken = taken_by(device, bytes);
    enum status status = cuda_memory_look(device, what, bytes, 0, taken, text);
    if (status != STATUS_OK)
        return status;
    if (in_pieces(device, bytes))
        return cuda_pieces_take(device, bytes, what, out, text);
    status = take_whole(device, bytes, what, out, text);
    if (status != STATUS_OK)
        return status;
    status = cuda_memory_look(device, what, bytes, taken, 0, text);
    if (status != STATUS_OK)
        (void)cuda_check(device, cudaFree(*out), "cudaFree", bytes, NULL);
    return status;
}

enum status cuda_memory_allocate(struct backend_device *device, uint64_t bytes, const char *what,
                                 struct backend_memory *out, struct status_text *text) {
    *out = (struct backend_memory){0};
    if (bytes == 0)
        return refuse(device, bytes, what, "empty request", text);
    if (bytes > SIZE_MAX / 2)
        return refuse(device, bytes, what, "no address space has as many", text);
    void *address = NULL;
    const enum status status = device->integrated ? take_shared(device, bytes, what, &address, text)
                                                  : take_whole(device, bytes, what, &address, text);
    if (status != STATUS_OK)
        return status;
    device->taken_bytes += taken_by(device, bytes);
    *out = (struct backend_memory){.dev_address = address, .bytes = bytes};
    return STATUS_OK;
}

void cuda_memory_free(struct backend_device *device, struct backend_memory *memory) {
    if (memory->dev_address != NULL) {
        /* Waits for the device; of a lost context nothing is left to free. */
        if (in_pieces(device, memory->bytes))
            cuda_pieces_free(device, memory->dev_address, memory->bytes);
        else
            (void)cuda_check(device, cudaFree(memory->dev_address), "cudaFree", memory->bytes,
                             NULL);
        device->taken_bytes -= taken_by(device, memory->bytes);
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
