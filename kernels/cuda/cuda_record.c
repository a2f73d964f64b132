/* Recordings: work captured from the stream into a CUDA graph, given again in one call. */
#include <stdlib.h>

#include "cuda_device.h"

struct backend_recording {
    cudaGraphExec_t exec;
};

enum status cuda_record_begin(struct backend_device *device, struct status_text *text) {
    if (device->recording)
        return status_set(text, STATUS_REFUSED, "a recording is being made already");
    const enum status status =
        cuda_check(device, cudaStreamBeginCapture(device->stream, cudaStreamCaptureModeThreadLocal),
                   "cudaStreamBeginCapture", 0, text);
    device->recording = status == STATUS_OK;
    return status;
}

/* A capture that went wrong is ended all the same: otherwise the stream takes no work any more. */
enum status cuda_record_end(struct backend_device *device, struct backend_recording **out,
                            struct status_text *text) {
    *out = NULL;
    if (!device->recording)
        return status_set(text, STATUS_REFUSED, "no recording is being made");
    device->recording = false;
    cudaGraph_t graph = NULL;
    enum status status = cuda_check(device, cudaStreamEndCapture(device->stream, &graph),
                                    "cudaStreamEndCapture", 0, text);
    struct backend_recording *recording = NULL;
    if (status == STATUS_OK) {
        recording = calloc(1, sizeof *recording);
        if (recording == NULL)
            status = status_set(text, STATUS_OUT_OF_MEMORY, "no host memory for a recording");
    }
    if (status == STATUS_OK)
        status = cuda_check(device, cudaGraphInstantiateWithFlags(&recording->exec, graph, 0),
                            "cudaGraphInstantiateWithFlags", 0, text);
    /* Now, so that no replay that is timed pays for it. */
    if (status == STATUS_OK)
        status = cuda_check(device, cudaGraphUpload(recording->exec, device->stream),
                            "cudaGraphUpload", 0, text);
    if (graph != NULL)
        (void)cuda_check(device, cudaGraphDestroy(graph), "cudaGraphDestroy", 0, NULL);
    if (status != STATUS_OK) {
        cuda_record_free(device, recording);
        return status;
    }
    *out = recording;
    return STATUS_OK;
}

enum status cuda_replay(struct backend_device *device, struct backend_recording *recording,
                        struct status_text *text) {
    if (device->recording)
        return status_set(text, STATUS_REFUSED, "a recording cannot hold another one's replay");
    return cuda_check(device, cudaGraphLaunch(recording->exec, device->stream), "cudaGraphLaunch",
                      0, text);
}

void cuda_record_free(struct backend_device *device, struct backend_recording *recording) {
    if (recording == NULL)
        return;
    if (recording->exec != NULL)
        (void)cuda_check(device, cudaGraphExecDestroy(recording->exec), "cudaGraphExecDestroy", 0,
                         NULL);
    free(recording);
}
