/* A CUDA runtime for tests of kernels/cuda on a machine without a GPU: memory is the host's,
 * kernels run on the fibers of tests/simt when they are launched, a captured graph is a list of
 * calls. What it answers, and which call fails, is set here. Not the runtime's behaviour beyond
 * what kernels/cuda relies on. */
#ifndef FAKE_RUNTIME_H
#define FAKE_RUNTIME_H

#include <cuda_runtime_api.h>

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct fake_runtime {
    int driver_version; /* 0: no driver */
    int device_count;
    int major, minor;
    bool integrated, no_image;
    uint64_t total_bytes, used_bytes;
    uint64_t step_bytes; /* every allocation takes a multiple of it */
    const char *fail_in; /* a call that fails, once, with fail_error; NULL: none */
    uint32_t fail_after; /* so many calls of it succeed before */
    cudaError_t fail_error;
    cudaError_t sticky; /* once set, every call returns it */
    /* what the code under test did */
    uint32_t allocations, streams, events, graphs, graph_execs; /* alive */
    uint32_t launches, syncs, shared_settings;
    cudaError_t last; /* cudaGetLastError's */
};
extern struct fake_runtime fake_runtime;

/* As at the start: one healthy device of 1 GiB, compute capability 9.0, nothing counted. */
void fake_runtime_reset(void);

#ifdef __cplusplus
}
#endif
#endif
