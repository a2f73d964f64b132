/* The one place that turns an error of the CUDA runtime into a status and a sentence. */
#include <stdio.h>

#include "cuda_device.h"

/* After these every later call fails too, until the process ends. */
static bool context_is_lost(cudaError_t error) {
    switch ((int)error) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorAssert:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
        return true;
    default:
        return false;
    }
}

enum status cuda_check(struct backend_device *device, cudaError_t error, const char *call,
                       uint64_t bytes, struct status_text *text) {
    if (error == cudaSuccess)
        return STATUS_OK;
    /* Otherwise the runtime keeps it and hands it to whoever asks next. */
    (void)cudaGetLastError();
    char size[48] = "";
    if (bytes > 0)
        (void)snprintf(size, sizeof size, " of %llu bytes", (unsigned long long)bytes);
    char after[192] = "";
    if (device != NULL && context_is_lost(error))
        (void)snprintf(after, sizeof after,
                       "; the last kernel given was %s; the device's context is lost and this "
                       "process gets nothing more done on it",
                       device->last_name[0] != '\0' ? device->last_name : "none");
    return status_set(text, error == cudaErrorMemoryAllocation ? STATUS_OUT_OF_MEMORY : STATUS_IO,
                      "%s%s: %s (%s)%s", call, size, cudaGetErrorName(error),
                      cudaGetErrorString(error), after);
}

enum status cuda_wait(struct backend_device *device, struct status_text *text) {
    if (device->recording)
        return status_set(text, STATUS_REFUSED,
                          "nothing can be waited for while work is recorded, not run");
    return cuda_check(device, cudaStreamSynchronize(device->stream), "cudaStreamSynchronize", 0,
                      text);
}
