/* The shim as a backend: the kernels of kernels/gpu, run on the host. In test builds only. */
#ifndef SIMT_BACKEND_H
#define SIMT_BACKEND_H

#include "backend.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const struct backend_ops simt_backend_ops;

#ifdef __cplusplus
}
#endif
#endif
