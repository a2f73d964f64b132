/* The driver's virtual memory calls (CUDA 10.2): reserve a range of addresses, then create, map and
 * open one piece of memory after the other.
 *
 * A piece is taken when it is created, not when it is first touched: cuMemCreate knows only pinned
 * allocations and fails itself where there is no memory. That MemAvailable has fallen by the time
 * of the next look is not promised anywhere, which is why cuda_memory.c counts what was taken. Not
 * yet tried on a GPU that shares the host's memory. */
#include "cuda_device.h"

#include <string.h>

static const uint64_t PIECE_BYTES = (uint64_t)1 << 30;

/* The function as it was when it was introduced, in `call`, a function pointer; later versions may
 * take other arguments. */
static bool find(struct backend_device *device, const char *name, unsigned version, void *call) {
    void *found = NULL;
#if CUDART_VERSION >= 12000
    enum cudaDriverEntryPointQueryResult result;
#endif
#if CUDART_VERSION >= 12050
    const cudaError_t error =
        cudaGetDriverEntryPointByVersion(name, &found, version, cudaEnableDefault, &result);
#else
    (void)version; /* the newest that these runtimes know are still the first */
#if CUDART_VERSION >= 12000
    const cudaError_t error = cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, &result);
#else
    const cudaError_t error = cudaGetDriverEntryPoint(name, &found, cudaEnableDefault);
#endif
#endif
    if (cuda_check(device, error, "cudaGetDriverEntryPoint", 0, NULL) != STATUS_OK)
        return false;
    memcpy(call, &found, sizeof found); /* standard C casts no void * to a function's */
    return found != NULL;
}

/* The driver's errors have the numbers of the runtime's since CUDA 10.2. */
static enum status check(struct backend_device *device, CUresult result, const char *call,
                         uint64_t bytes, struct status_text *text) {
    return cuda_check(device, (cudaError_t)result, call, bytes, text);
}

static CUmemAllocationProp properties_of(const struct cuda_pieces *pieces) {
    return (CUmemAllocationProp){
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = pieces->driver_id}};
}

/* Whether the driver can do it for this device, and which number the device has there. */
static bool is_supported(struct backend_device *device, CUdevice *driver_id) {
    PFN_cuCtxGetDevice_v2000 get_device;
    PFN_cuDeviceGetAttribute_v2000 get_attribute;
    int supported = 0;
    return find(device, "cuCtxGetDevice", 2000, &get_device) &&
           find(device, "cuDeviceGetAttribute", 2000, &get_attribute) &&
           get_device(driver_id) == CUDA_SUCCESS &&
           get_attribute(&supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
                         *driver_id) == CUDA_SUCCESS &&
           supported != 0;
}

void cuda_pieces_open(struct backend_device *device, struct cuda_pieces *out) {
    *out = (struct cuda_pieces){.step = 0};
    struct cuda_pieces pieces = {.step = 0};
    const struct {
        const char *name;
        void *call;
    } wanted[] = {
        {"cuMemAddressReserve", &pieces.reserve},
        {"cuMemCreate", &pieces.create},
        {"cuMemMap", &pieces.map},
        {"cuMemSetAccess", &pieces.set_access},
        {"cuMemUnmap", &pieces.unmap},
        {"cuMemRelease", &pieces.release},
        {"cuMemAddressFree", &pieces.free_range},
        {"cuMemGetAllocationGranularity", &pieces.granularity},
    };
    if (!is_supported(device, &pieces.driver_id))
        return;
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
        if (!find(device, wanted[i].name, 10020, wanted[i].call))
            return;
    const CUmemAllocationProp properties = properties_of(&pieces);
    size_t step = 0;
    if (pieces.granularity(&step, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM) != CUDA_SUCCESS ||
        step == 0 || step > PIECE_BYTES)
        return;
    pieces.step = step;
    pieces.largest = PIECE_BYTES / step * step;
    *out = pieces;
}

uint64_t cuda_pieces_bytes(const struct cuda_pieces *pieces, uint64_t bytes) {
    return (bytes + pieces->step - 1) / pieces->step * pieces->step;
}

/* Memory behind [at, at + bytes). Whoever maps it holds it: the handle is given up at once, and
 * unmapping then frees the memory. */
static enum status take_piece(struct backend_device *device, CUdeviceptr at, uint64_t bytes,
                              bool *mapped, struct status_text *text) {
    const struct cuda_pieces *pieces = &device->pieces;
    const CUmemAllocationProp properties = properties_of(pieces);
    CUmemGenericAllocationHandle handle = 0;
    enum status status =
        check(device, pieces->create(&handle, bytes, &properties, 0), "cuMemCreate", bytes, text);
    if (status != STATUS_OK)
        return status;
    status = check(device, pieces->map(at, bytes, 0, handle, 0), "cuMemMap", bytes, text);
    *mapped = status == STATUS_OK;
    if (!*mapped) {
        (void)check(device, pieces->release(handle), "cuMemRelease", bytes, NULL);
        return status;
    }
    const CUmemAccessDesc access = {
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = pieces->driver_id},
        .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    status = check(device, pieces->release(handle), "cuMemRelease", bytes, text);
    return status != STATUS_OK ? status
                               : check(device, pieces->set_access(at, bytes, &access, 1),
                                       "cuMemSetAccess", bytes, text);
}

/* Every piece by itself: the driver unmaps no part of one, and promises nothing of several. */
static void give_back(struct backend_device *device, CUdeviceptr base, uint64_t mapped_bytes,
                      uint64_t reserved_bytes) {
    const struct cuda_pieces *pieces = &device->pieces;
    for (uint64_t at = 0; at < mapped_bytes; at += pieces->largest) {
        const uint64_t left = mapped_bytes - at;
        const uint64_t bytes = left < pieces->largest ? left : pieces->largest;
        (void)check(device, pieces->unmap(base + at, bytes), "cuMemUnmap", bytes, NULL);
    }
    (void)check(device, pieces->free_range(base, reserved_bytes), "cuMemAddressFree",
                reserved_bytes, NULL);
}

/* Pieces until the range is full; *taken is what it holds, on failure too. */
static enum status fill_range(struct backend_device *device, CUdeviceptr base, uint64_t bytes,
                              const char *what, uint64_t *taken, struct status_text *text) {
    const uint64_t whole = cuda_pieces_bytes(&device->pieces, bytes);
    while (*taken < whole) {
        const uint64_t left = whole - *taken;
        const uint64_t piece = left < device->pieces.largest ? left : device->pieces.largest;
        enum status status = cuda_memory_look(device, what, bytes, *taken, piece, text);
        if (status != STATUS_OK)
            return status;
        const uint64_t before = *taken;
        struct status_text why = {""};
        bool mapped = false;
        status = take_piece(device, base + before, piece, &mapped, &why);
        *taken += mapped ? piece : 0;
        if (status != STATUS_OK)
            return status_set(text, status, "%s: %llu bytes were asked, %llu were taken so far: %s",
                              what, (unsigned long long)bytes, (unsigned long long)before,
                              why.line);
    }
    return cuda_memory_look(device, what, bytes, *taken, 0, text);
}

enum status cuda_pieces_take(struct backend_device *device, uint64_t bytes, const char *what,
                             void **out, struct status_text *text) {
    const uint64_t whole = cuda_pieces_bytes(&device->pieces, bytes);
    CUdeviceptr base = 0;
    uint64_t taken = 0;
    struct status_text why = {""};
    *out = NULL;
    enum status status = check(device, device->pieces.reserve(&base, whole, 0, 0, 0),
                               "cuMemAddressReserve", whole, &why);
    if (status != STATUS_OK)
        return status_set(text, status, "%s: %llu bytes were asked: %s", what,
                          (unsigned long long)bytes, why.line);
    status = fill_range(device, base, bytes, what, &taken, text);
    if (status == STATUS_OK)
        *out = (void *)(uintptr_t)base;
    else
        give_back(device, base, taken, whole);
    return status;
}

void cuda_pieces_free(struct backend_device *device, void *dev_address, uint64_t bytes) {
    const uint64_t whole = cuda_pieces_bytes(&device->pieces, bytes);
    /* A recording under way gave the device no work of its own; waiting would break it. */
    if (!device->recording)
        (void)cuda_wait(device, NULL);
    give_back(device, (CUdeviceptr)(uintptr_t)dev_address, whole, whole);
}
