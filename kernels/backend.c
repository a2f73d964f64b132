/* The list of backends built into this program. */
#include "backend.h"
#include "backend_build.h"

#include "cpu/cpu.h"
#ifdef KVGAUGE_HAS_CUDA
#include "cuda/cuda_backend.h"
#else
#define KVGAUGE_CUDA_VERSION ""
#define KVGAUGE_CUDA_BUILT ""
#endif

#include <string.h>

static const struct backend_ops *const backends[] = {
    &cpu_backend_ops,
#ifdef KVGAUGE_HAS_CUDA
    &cuda_backend_ops,
#endif
    NULL,
};

const struct backend_ops *const *backend_list(void) {
    return backends;
}

const struct backend_ops *backend_find(const char *name) {
    for (const struct backend_ops *const *ops = backends; *ops != NULL; ops++)
        if (strcmp((*ops)->name, name) == 0)
            return *ops;
    return NULL;
}

const char *backend_cuda_version(void) {
    return KVGAUGE_CUDA_VERSION;
}

const char *backend_cuda_targets(void) {
    return KVGAUGE_CUDA_BUILT;
}
