/* See fake_runtime.h. */
#include "fake_runtime.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <vector>

#include "gpu_lang.cuh"
#include "simt.h"

static struct fake_runtime healthy() {
    struct fake_runtime runtime = {};
    runtime.driver_version = 13000;
    runtime.device_count = 1;
    runtime.pci_bus = 0x41;
    runtime.major = 9;
    runtime.total_bytes = (uint64_t)1 << 30;
    runtime.step_bytes = (uint64_t)2 << 20;
    return runtime;
}
struct fake_runtime fake_runtime = healthy();

using work = std::function<cudaError_t()>;
struct CUstream_st {
    bool capturing, broken;
    std::vector<work> captured;
};
struct CUevent_st {
    std::chrono::steady_clock::time_point time;
    bool recorded;
};
struct CUgraph_st {
    std::vector<work> nodes;
};
struct CUgraphExec_st {
    std::vector<work> nodes;
};

namespace {

std::map<void *, uint64_t> taken; /* address: bytes of free memory it took */

cudaError_t fail(cudaError_t error) {
    return fake_runtime.last = error;
}

/* Runs it now, or keeps it for the graph. */
cudaError_t give(cudaStream_t stream, const work &what) {
    if (!stream->capturing)
        return what();
    stream->captured.push_back(what);
    return cudaSuccess;
}

/* The programs of these tests find their cuBLAS by the variables that name it; one that is set
 * already stands. */
const bool cublas_is_named = setenv("KVGAUGE_CUBLAS", FAKE_CUBLAS, 0) == 0 &&
                             setenv("KVGAUGE_CUBLASLT", FAKE_CUBLAS, 0) == 0;

#define ENTER()                                                                                    \
    do {                                                                                           \
        const cudaError_t entered = fake_runtime_enter(__func__);                                  \
        if (entered != cudaSuccess)                                                                \
            return entered;                                                                        \
    } while (0)

} // namespace

extern "C" {

void fake_runtime_reset(void) {
    fake_runtime = healthy();
}

cudaError_t fake_runtime_give(cudaStream_t stream, void (*run)(const void *arguments),
                              const void *arguments, size_t bytes) {
    const unsigned char *from = static_cast<const unsigned char *>(arguments);
    const std::vector<unsigned char> copy(from, from + bytes);
    return give(stream, [=] {
        run(copy.data());
        return cudaSuccess;
    });
}

void fake_runtime_written(const void *from, uint64_t bytes) {
    simt_memory_written(from, bytes);
}

cudaError_t fake_runtime_enter(const char *name) {
    if (fake_runtime.sticky != cudaSuccess)
        return fake_runtime.last = fake_runtime.sticky;
    if (fake_runtime.fail_in != nullptr && strcmp(fake_runtime.fail_in, name) == 0) {
        if (fake_runtime.fail_after == 0) {
            fake_runtime.fail_in = nullptr;
            return fake_runtime.last = fake_runtime.fail_error;
        }
        fake_runtime.fail_after--;
    }
    return cudaSuccess;
}

const char *cudaGetErrorName(cudaError_t error) {
    static char name[32];
    (void)snprintf(name, sizeof name, "cudaError%d", (int)error);
    return name;
}
const char *cudaGetErrorString(cudaError_t) {
    return "what the runtime says";
}
cudaError_t cudaGetLastError(void) {
    const cudaError_t last = fake_runtime.last;
    fake_runtime.last = fake_runtime.sticky;
    return last;
}
cudaError_t cudaDriverGetVersion(int *version) {
    *version = fake_runtime.driver_version;
    return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int *version) {
    *version = CUDART_VERSION;
    return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int *count) {
    ENTER();
    *count = 0;
    if (fake_runtime.driver_version == 0)
        return fail(cudaErrorInsufficientDriver);
    if (fake_runtime.device_count == 0)
        return fail(cudaErrorNoDevice);
    *count = fake_runtime.device_count;
    return cudaSuccess;
}
cudaError_t cudaSetDevice(int) {
    ENTER();
    return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int) {
    ENTER();
    memset(properties, 0, sizeof *properties);
    (void)snprintf(properties->name, sizeof properties->name, "Fake GPU");
    properties->major = fake_runtime.major;
    properties->minor = fake_runtime.minor;
    return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char *out, int bytes, int ordinal) {
    ENTER();
    (void)snprintf(out, (size_t)bytes, "0000:%02X:00.0", fake_runtime.pci_bus + ordinal);
    return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int) {
    ENTER();
    switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor:
        *value = fake_runtime.major;
        break;
    case cudaDevAttrComputeCapabilityMinor:
        *value = fake_runtime.minor;
        break;
    case cudaDevAttrL2CacheSize:
        *value = 50 << 20;
        break;
    case cudaDevAttrIntegrated:
        *value = fake_runtime.integrated;
        break;
    case cudaDevAttrKernelExecTimeout:
        *value = 0;
        break;
    case cudaDevAttrMultiProcessorCount:
        *value = 3;
        break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
        *value = 232448;
        break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
        *value = 233472;
        break;
    case cudaDevAttrReservedSharedMemoryPerBlock:
        *value = 1024;
        break;
    default:
        return fail(cudaErrorInvalidValue);
    }
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *there, size_t *total) {
    ENTER();
    *there = fake_runtime.total_bytes - fake_runtime.used_bytes;
    *total = fake_runtime.total_bytes;
    return cudaSuccess;
}
cudaError_t cudaMalloc(void **out, size_t bytes) {
    ENTER();
    const uint64_t step = fake_runtime.step_bytes;
    if (bytes > fake_runtime.total_bytes)
        return fail(cudaErrorMemoryAllocation);
    const uint64_t whole = (bytes + step - 1) / step * step;
    if (whole > fake_runtime.total_bytes - fake_runtime.used_bytes)
        return fail(cudaErrorMemoryAllocation);
    *out = simt_memory_allocate(bytes, "cudaMalloc");
    if (*out == nullptr)
        return fail(cudaErrorMemoryAllocation);
    taken[*out] = whole;
    fake_runtime.used_bytes += whole;
    fake_runtime.allocations++;
    return cudaSuccess;
}
cudaError_t cudaFree(void *address) {
    ENTER();
    if (address == nullptr)
        return cudaSuccess;
    const auto found = taken.find(address);
    if (found == taken.end())
        return fail(cudaErrorInvalidValue);
    fake_runtime.used_bytes -= found->second;
    fake_runtime.allocations--;
    taken.erase(found);
    simt_memory_free(address);
    return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream) {
    ENTER();
    if (!fake_driver_reaches(to, bytes) || !fake_driver_reaches(from, bytes))
        return fail(cudaErrorInvalidValue);
    return give(stream, [=] {
        memcpy(to, from, bytes);
        if (kind == cudaMemcpyHostToDevice)
            simt_memory_written(to, bytes);
        return cudaSuccess;
    });
}
cudaError_t cudaMemsetAsync(void *to, int byte, size_t bytes, cudaStream_t stream) {
    ENTER();
    if (!fake_driver_reaches(to, bytes))
        return fail(cudaErrorInvalidValue);
    return give(stream, [=] {
        memset(to, byte, bytes);
        simt_memory_written(to, bytes);
        return cudaSuccess;
    });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned int) {
    ENTER();
    *out = new CUstream_st{};
    fake_runtime.streams++;
    return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    delete stream;
    fake_runtime.streams--;
    ENTER();
    return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    ENTER();
    fake_runtime.syncs++;
    if (stream->capturing) {
        stream->broken = true;
        return fail(cudaErrorStreamCaptureUnsupported);
    }
    return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t *out) {
    ENTER();
    *out = new CUevent_st{};
    fake_runtime.events++;
    return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
    delete event;
    fake_runtime.events--;
    ENTER();
    return cudaSuccess;
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int flags) {
    ENTER();
    const bool seen = !stream->capturing || flags == cudaEventRecordExternal;
    return give(stream, [=] {
        event->time = std::chrono::steady_clock::now();
        event->recorded = seen;
        return cudaSuccess;
    });
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    ENTER();
    return cudaEventRecordWithFlags(event, stream, cudaEventRecordDefault);
}
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to) {
    ENTER();
    if (!from->recorded || !to->recorded)
        return fail(cudaErrorInvalidResourceHandle);
    *ms = std::chrono::duration<float, std::milli>(to->time - from->time).count();
    return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *) {
    ENTER();
    memset(attributes, 0, sizeof *attributes);
    return fake_runtime.no_image ? fail(cudaErrorNoKernelImageForDevice) : cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void *, enum cudaFuncAttribute attribute, int value) {
    ENTER();
    fake_runtime.shared_settings += attribute == cudaFuncAttributeMaxDynamicSharedMemorySize;
    return attribute == cudaFuncAttributeMaxDynamicSharedMemorySize && value > 232448
               ? fail(cudaErrorInvalidValue)
               : cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *, int threads,
                                                          size_t shared_bytes) {
    ENTER();
    const int by_shared = (int)(233472 / (shared_bytes + 1024)), by_threads = 2048 / threads;
    *blocks = by_shared < by_threads ? by_shared : by_threads;
    return cudaSuccess;
}
cudaError_t cudaLaunchKernel(const void *entry, dim3 blocks, dim3 threads, void **arguments,
                             size_t shared_bytes, cudaStream_t stream) {
    ENTER();
    const uint32_t bytes = static_cast<const simt_kernel *>(entry)->arguments_bytes;
    const unsigned char *from = static_cast<const unsigned char *>(arguments[0]);
    /* Taken at the launch, as the runtime takes them. */
    const std::vector<unsigned char> copy(from, from + bytes);
    return give(stream, [=] {
        struct gpu_launch launch = {};
        launch.name = "a launch";
        launch.entry = entry;
        launch.blocks = blocks.x;
        launch.threads = threads.x;
        launch.shared_bytes = (uint32_t)shared_bytes;
        launch.arguments = copy.data();
        launch.arguments_bytes = bytes;
        struct status_text text = {};
        fake_runtime.launches++;
        if (simt_launch(&launch, &text) == STATUS_OK)
            return cudaSuccess;
        (void)fprintf(stderr, "fake_runtime: %s\n", text.line);
        fake_runtime.sticky = cudaErrorLaunchFailure;
        return fail(cudaErrorLaunchFailure);
    });
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode) {
    ENTER();
    if (stream->capturing)
        return fail(cudaErrorIllegalState);
    stream->capturing = true;
    stream->broken = false;
    return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *out) {
    *out = nullptr;
    if (!stream->capturing)
        return fail(cudaErrorIllegalState);
    stream->capturing = false;
    const std::vector<work> captured = std::move(stream->captured);
    stream->captured.clear();
    ENTER();
    if (stream->broken)
        return fail(cudaErrorStreamCaptureInvalidated);
    *out = new CUgraph_st{captured};
    fake_runtime.graphs++;
    return cudaSuccess;
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *out, cudaGraph_t graph,
                                          unsigned long long) {
    ENTER();
    *out = new CUgraphExec_st{graph->nodes};
    fake_runtime.graph_execs++;
    return cudaSuccess;
}
cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) {
    ENTER();
    return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    delete graph;
    fake_runtime.graphs--;
    ENTER();
    return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
    delete exec;
    fake_runtime.graph_execs--;
    ENTER();
    return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t) {
    ENTER();
    for (const work &node : exec->nodes) {
        const cudaError_t error = node();
        if (error != cudaSuccess)
            return error;
    }
    return cudaSuccess;
}

} // extern "C"
