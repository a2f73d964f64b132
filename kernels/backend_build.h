/* What this program was built with, for --version and messages. */
#ifndef BACKEND_BUILD_H
#define BACKEND_BUILD_H

#ifdef __cplusplus
extern "C" {
#endif

/* "13.0", or "" in a build without CUDA. */
const char *backend_cuda_version(void);
/* "sm_90 sm_120f compute_90", or "": compute_NN is PTX, which the driver compiles for devices that
 * are newer than NN and have no target of their own here. */
const char *backend_cuda_targets(void);

#ifdef __cplusplus
}
#endif
#endif
