// Built for every target like the other kernels; cuda_image.c asks for it first.
#include "cuda_probe.h"

__global__ void cuda_probe(struct cuda_probe_arguments arguments) {
    *arguments.dev_out = CUDA_PROBE_WORD;
}

extern "C" const void *cuda_probe_entry(void) {
    return reinterpret_cast<const void *>(&cuda_probe);
}
