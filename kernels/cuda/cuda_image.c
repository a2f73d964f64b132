/* Does this program hold code that the device runs? Asked once, with a kernel of every target, so
 * that a missing target is refused in words and not in the middle of a run. */
#include <string.h>

#include "cuda_device.h"
#include "cuda_probe.h"

#include "backend_build.h"

enum { LEAST_CAPABILITY = 80 }; /* below it mma.m16n8k16 and cp.async do not exist */

bool cuda_image_is_missing(cudaError_t error) {
    switch ((int)error) {
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorInvalidKernelImage:
    case cudaErrorInvalidDeviceFunction:
    case cudaErrorUnsupportedPtxVersion:
    case cudaErrorJitCompilerNotFound:
    case cudaErrorJitCompilationDisabled:
    case cudaErrorInvalidPtx:
        return true;
    default:
        return false;
    }
}

enum status cuda_image_missing(int ordinal, struct status_text *text) {
    struct cudaDeviceProp properties;
    memset(&properties, 0, sizeof properties);
    (void)cudaGetLastError();
    if (cudaGetDeviceProperties(&properties, ordinal) != cudaSuccess)
        (void)cudaGetLastError();
    const int capability = properties.major * 10 + properties.minor;
    if (capability > 0 && capability < LEAST_CAPABILITY)
        return status_set(text, STATUS_MISSING,
                          "--device cuda:%d: %s has compute capability %d.%d; kvgauge's kernels "
                          "need 8.0 or newer",
                          ordinal, properties.name, properties.major, properties.minor);
    return status_set(text, STATUS_MISSING,
                      "--device cuda:%d: %s has compute capability %d.%d and this program holds no "
                      "code for it (built in: %s); build again on this machine with "
                      "-DKVGAUGE_CUDA=ON -DKVGAUGE_CUDA_TARGETS=native",
                      ordinal, properties.name, properties.major, properties.minor,
                      backend_cuda_targets());
}

/* Runs it: code that loads and cannot run would show here too. */
static enum status run_probe(struct backend_device *device, struct status_text *text) {
    const struct cuda_probe_arguments arguments = {.dev_out = device->dev_sink};
    const struct gpu_launch launch = {
        .name = "cuda_probe",
        .entry = cuda_probe_entry(),
        .blocks = 1,
        .threads = CUDA_PROBE_THREADS,
        .arguments = &arguments,
        .arguments_bytes = sizeof arguments,
    };
    uint32_t word = 0;
    enum status status = cuda_launch(device, &launch, text);
    if (status == STATUS_OK)
        status = cuda_memory_read(device, &word, device->dev_sink, sizeof word, text);
    if (status == STATUS_OK && word != CUDA_PROBE_WORD)
        status = status_set(text, STATUS_WRONG,
                            "--device cuda:%d: the first kernel wrote 0x%08X where 0x%08X was "
                            "expected",
                            device->ordinal, word, CUDA_PROBE_WORD);
    return status;
}

enum status cuda_image_check(struct backend_device *device, struct status_text *text) {
    struct cudaFuncAttributes attributes;
    const cudaError_t error = cudaFuncGetAttributes(&attributes, cuda_probe_entry());
    if (cuda_image_is_missing(error))
        return cuda_image_missing(device->ordinal, text);
    const enum status status = cuda_check(device, error, "cudaFuncGetAttributes", 0, text);
    return status == STATUS_OK ? run_probe(device, text) : status;
}
