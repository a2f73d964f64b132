// Built for every target like the other kernels; cuda_image.c asks for it first.
#include "cuda_probe.h"
#include "gpu_lang.cuh"

GPU_KERNEL(CUDA_PROBE_THREADS, 1) cuda_probe(struct cuda_probe_arguments arguments) {
    if (gpu_thread() == 0)
        *arguments.dev_out = CUDA_PROBE_WORD;
}

extern "C" const void *cuda_probe_entry(void) {
    return GPU_ENTRY(cuda_probe_arguments, cuda_probe);
}
