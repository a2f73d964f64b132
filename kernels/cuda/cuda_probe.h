/* The smallest kernel: it shows that this program holds code the device runs. */
#ifndef CUDA_PROBE_H
#define CUDA_PROBE_H

#include <stdint.h>

#define CUDA_PROBE_WORD 0x6B766761u
enum { CUDA_PROBE_THREADS = 32 };

struct cuda_probe_arguments {
    uint32_t *dev_out; /* one word: CUDA_PROBE_WORD is written */
};

#endif
