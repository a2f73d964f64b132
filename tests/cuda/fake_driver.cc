/* The driver's virtual memory, as far as kernels/cuda relies on it: a range is host memory from the
 * start, and pieces are only counted; but bytes without a piece that is open to the device cannot
 * be copied. As strict as the documentation: whole steps, whole pieces, ranges that are empty again
 * before they go. */
#include "fake_runtime.h"

#include <cuda.h>
#include <cstdio>
#include <cstring>
#include <map>

#include "simt.h"

namespace {

constexpr int driver_id = 7; /* not the runtime's 0 */

struct piece {
    uint64_t bytes;
    bool mapped, released;
};
struct mapping {
    uint64_t bytes;
    CUmemGenericAllocationHandle handle;
    bool open;
};

std::map<CUdeviceptr, uint64_t> ranges; /* start: bytes */
std::map<CUmemGenericAllocationHandle, piece> pieces;
std::map<CUdeviceptr, mapping> mappings;
CUmemGenericAllocationHandle last_handle;

bool is_whole(uint64_t bytes) {
    return bytes > 0 && bytes % fake_runtime.step_bytes == 0;
}

/* The range that holds all of [at, at + bytes), or the end. */
std::map<CUdeviceptr, uint64_t>::iterator range_of(CUdeviceptr at, uint64_t bytes) {
    auto found = ranges.upper_bound(at);
    if (found == ranges.begin())
        return ranges.end();
    --found;
    const bool inside =
        at - found->first < found->second && bytes <= found->second - (at - found->first);
    return inside ? found : ranges.end();
}

/* A piece goes when nobody holds it: no handle, no mapping. */
void forget(CUmemGenericAllocationHandle handle) {
    const auto found = pieces.find(handle);
    if (found->second.mapped || !found->second.released)
        return;
    fake_runtime.used_bytes -= found->second.bytes;
    fake_runtime.pieces--;
    if (!fake_runtime.lags)
        fake_runtime.available_bytes += found->second.bytes;
    pieces.erase(found);
    fake_runtime_meminfo();
}

#define ENTER()                                                                                    \
    do {                                                                                           \
        const cudaError_t entered = fake_runtime_enter(__func__);                                  \
        if (entered != cudaSuccess)                                                                \
            return static_cast<CUresult>(entered);                                                 \
    } while (0)

CUresult cuCtxGetDevice(CUdevice *device) {
    ENTER();
    *device = driver_id;
    return CUDA_SUCCESS;
}
CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
    ENTER();
    if (device != driver_id || attribute != CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED)
        return CUDA_ERROR_INVALID_VALUE;
    *value = fake_runtime.no_virtual_memory ? 0 : 1;
    return CUDA_SUCCESS;
}
CUresult cuMemGetAllocationGranularity(size_t *step, const CUmemAllocationProp *properties,
                                       CUmemAllocationGranularity_flags) {
    ENTER();
    if (properties->location.id != driver_id)
        return CUDA_ERROR_INVALID_VALUE;
    *step = fake_runtime.step_bytes;
    return CUDA_SUCCESS;
}
CUresult cuMemAddressReserve(CUdeviceptr *out, size_t bytes, size_t, CUdeviceptr,
                             unsigned long long) {
    ENTER();
    void *memory = is_whole(bytes) ? simt_memory_allocate(bytes, "cuMemAddressReserve") : nullptr;
    if (memory == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    *out = reinterpret_cast<CUdeviceptr>(memory);
    ranges[*out] = bytes;
    fake_runtime.ranges++;
    return CUDA_SUCCESS;
}
CUresult cuMemAddressFree(CUdeviceptr at, size_t bytes) {
    const auto found = ranges.find(at);
    if (found == ranges.end() || found->second != bytes)
        return CUDA_ERROR_INVALID_VALUE;
    const auto inside = mappings.lower_bound(at);
    if (inside != mappings.end() && inside->first < at + bytes)
        return CUDA_ERROR_INVALID_VALUE;
    simt_memory_free(reinterpret_cast<void *>(at));
    ranges.erase(found);
    fake_runtime.ranges--;
    ENTER();
    return CUDA_SUCCESS;
}
CUresult cuMemCreate(CUmemGenericAllocationHandle *out, size_t bytes,
                     const CUmemAllocationProp *properties, unsigned long long) {
    ENTER();
    if (!is_whole(bytes) || properties->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
        properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        properties->location.id != driver_id)
        return CUDA_ERROR_INVALID_VALUE;
    if (bytes > fake_runtime.total_bytes - fake_runtime.used_bytes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *out = ++last_handle;
    pieces[*out] = {bytes, false, false};
    fake_runtime.used_bytes += bytes;
    fake_runtime.pieces++;
    fake_runtime.pieces_created++;
    const uint64_t less = fake_runtime.others_bytes + (fake_runtime.lags ? 0 : bytes);
    fake_runtime.available_bytes -=
        less < fake_runtime.available_bytes ? less : fake_runtime.available_bytes;
    fake_runtime_meminfo();
    return CUDA_SUCCESS;
}
CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
    const auto found = pieces.find(handle);
    if (found == pieces.end() || found->second.released)
        return CUDA_ERROR_INVALID_VALUE;
    found->second.released = true;
    forget(handle);
    ENTER();
    return CUDA_SUCCESS;
}
CUresult cuMemMap(CUdeviceptr at, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long) {
    ENTER();
    const auto found = pieces.find(handle);
    const auto next = mappings.lower_bound(at);
    if (found == pieces.end() || found->second.mapped || found->second.bytes != bytes ||
        offset != 0 || range_of(at, bytes) == ranges.end() ||
        (next != mappings.end() && next->first < at + bytes))
        return CUDA_ERROR_INVALID_VALUE;
    found->second.mapped = true;
    mappings[at] = {bytes, handle, false};
    fake_runtime.mappings++;
    return CUDA_SUCCESS;
}
CUresult cuMemUnmap(CUdeviceptr at, size_t bytes) {
    const auto found = mappings.find(at);
    if (found == mappings.end() || found->second.bytes != bytes)
        return CUDA_ERROR_INVALID_VALUE;
    const CUmemGenericAllocationHandle handle = found->second.handle;
    mappings.erase(found);
    fake_runtime.mappings--;
    pieces[handle].mapped = false;
    forget(handle);
    ENTER();
    return CUDA_SUCCESS;
}
CUresult cuMemSetAccess(CUdeviceptr at, size_t bytes, const CUmemAccessDesc *access, size_t count) {
    ENTER();
    const auto found = mappings.find(at);
    if (found == mappings.end() || found->second.bytes != bytes || count != 1 ||
        access->location.type != CU_MEM_LOCATION_TYPE_DEVICE || access->location.id != driver_id ||
        access->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
        return CUDA_ERROR_INVALID_VALUE;
    found->second.open = true;
    return CUDA_SUCCESS;
}

template <class F> void *as_pointer(F function) {
    return reinterpret_cast<void *>(function);
}

const struct {
    const char *name;
    void *function;
} calls[] = {
    {"cuCtxGetDevice", as_pointer(cuCtxGetDevice)},
    {"cuDeviceGetAttribute", as_pointer(cuDeviceGetAttribute)},
    {"cuMemGetAllocationGranularity", as_pointer(cuMemGetAllocationGranularity)},
    {"cuMemAddressReserve", as_pointer(cuMemAddressReserve)},
    {"cuMemAddressFree", as_pointer(cuMemAddressFree)},
    {"cuMemCreate", as_pointer(cuMemCreate)},
    {"cuMemRelease", as_pointer(cuMemRelease)},
    {"cuMemMap", as_pointer(cuMemMap)},
    {"cuMemUnmap", as_pointer(cuMemUnmap)},
    {"cuMemSetAccess", as_pointer(cuMemSetAccess)},
};

cudaError_t entry_point(const char *name, void **out,
                        enum cudaDriverEntryPointQueryResult *result) {
    *out = nullptr;
    if (result != nullptr)
        *result = cudaDriverEntryPointSymbolNotFound;
    for (const auto &call : calls)
        if (strcmp(call.name, name) == 0 && (fake_runtime.missing_call == nullptr ||
                                             strcmp(fake_runtime.missing_call, name) != 0)) {
            *out = call.function;
            if (result != nullptr)
                *result = cudaDriverEntryPointSuccess;
        }
    return cudaSuccess;
}

} // namespace

extern "C" {

void fake_runtime_meminfo(void) {
    FILE *file =
        fake_runtime.meminfo_path != nullptr ? fopen(fake_runtime.meminfo_path, "w") : nullptr;
    if (file == nullptr)
        return;
    (void)fprintf(file, "MemTotal: %llu kB\nMemAvailable: %llu kB\n",
                  (unsigned long long)(fake_runtime.total_bytes >> 10),
                  (unsigned long long)(fake_runtime.available_bytes >> 10));
    (void)fclose(file);
}

bool fake_driver_reaches(const void *address, uint64_t bytes) {
    CUdeviceptr at = reinterpret_cast<CUdeviceptr>(address);
    if (bytes == 0 || range_of(at, 1) == ranges.end())
        return true; /* other memory */
    for (const CUdeviceptr end = at + bytes; at < end;) {
        auto found = mappings.upper_bound(at);
        if (found == mappings.begin())
            return false;
        --found;
        if (at - found->first >= found->second.bytes || !found->second.open)
            return false;
        at = found->first + found->second.bytes;
    }
    return true;
}

#if CUDART_VERSION >= 12050
cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **out, unsigned int,
                                             unsigned long long,
                                             enum cudaDriverEntryPointQueryResult *result) {
    const cudaError_t entered = fake_runtime_enter(__func__);
    return entered != cudaSuccess ? entered : entry_point(name, out, result);
}
#elif CUDART_VERSION >= 12000
cudaError_t cudaGetDriverEntryPoint(const char *name, void **out, unsigned long long,
                                    enum cudaDriverEntryPointQueryResult *result) {
    const cudaError_t entered = fake_runtime_enter(__func__);
    return entered != cudaSuccess ? entered : entry_point(name, out, result);
}
#else
cudaError_t cudaGetDriverEntryPoint(const char *name, void **out, unsigned long long) {
    const cudaError_t entered = fake_runtime_enter(__func__);
    return entered != cudaSuccess ? entered : entry_point(name, out, nullptr);
}
#endif

} // extern "C"
