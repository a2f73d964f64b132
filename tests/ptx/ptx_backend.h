/* The PTX interpreter as a backend: the kernels of kernels/gpu as nvcc compiles them, run on the
 * host. In test builds only. KVGAUGE_PTX_FOLDER is where the modules of one architecture lie;
 * KVGAUGE_PTX_SHARED how many bytes of shared memory a block may have, 232448 (sm_90) unless told
 * otherwise; with KVGAUGE_PTX_WHOLE every kernel of the host's tables must be there, without it
 * those of head dim 128 for pairs of one format. */
#ifndef PTX_BACKEND_H
#define PTX_BACKEND_H

#include "backend.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const struct backend_ops ptx_backend_ops;

#ifdef __cplusplus
}
#endif
#endif
