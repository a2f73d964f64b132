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
    int pci_bus; /* of device 0; the others follow */
    int major, minor;
    bool integrated, no_image;
    uint64_t total_bytes, used_bytes;
    uint64_t step_bytes; /* every allocation takes a multiple of it */
    const char *fail_in; /* a call that fails, once, with fail_error; NULL: none */
    uint32_t fail_after; /* so many calls of it succeed before */
    cudaError_t fail_error;
    cudaError_t sticky; /* once set, every call returns it */
    /* the driver's virtual memory (fake_driver.cc) */
    bool no_virtual_memory;   /* the attribute says so */
    const char *missing_call; /* a function the driver does not have; NULL: none */
    const char *meminfo_path; /* rewritten with every piece that is created; NULL: none */
    uint64_t available_bytes; /* MemAvailable there; MemTotal is total_bytes */
    uint64_t others_bytes;    /* what others take from it at every piece */
    bool lags;                /* what this program takes is not seen there */
    /* what the code under test did */
    uint32_t allocations, streams, events, graphs, graph_execs; /* alive */
    uint32_t ranges, pieces, mappings;                          /* alive */
    uint32_t pieces_created;
    uint32_t launches, syncs, shared_settings;
    uint32_t blas_handles, blas_objects; /* alive: handles; cublasLt's descriptions */
    uint32_t products;                   /* run, batches counted as one */
    bool no_fp8_product;                 /* cublasLt finds none */
    cudaError_t last;                    /* cudaGetLastError's */
};
extern struct fake_runtime fake_runtime;

/* As at the start: one healthy device of 1 GiB, compute capability 9.0, nothing counted. */
void fake_runtime_reset(void);

/* Writes meminfo_path as the figures above have it. */
void fake_runtime_meminfo(void);

/* For fake_cublas.cc, a library of its own: gives work to a stream, with a copy of its arguments;
 * and says that device memory got values. */
cudaError_t fake_runtime_give(cudaStream_t stream, void (*run)(const void *arguments),
                              const void *arguments, size_t bytes);
void fake_runtime_written(const void *from, uint64_t bytes);

/* For the fake's own files: what every call starts with, cudaSuccess when it should go on; and
 * whether device code could touch these bytes, as far as virtual memory goes. */
cudaError_t fake_runtime_enter(const char *name);
bool fake_driver_reaches(const void *address, uint64_t bytes);

#ifdef __cplusplus
}
#endif
#endif
