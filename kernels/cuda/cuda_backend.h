/* NVIDIA GPUs through the CUDA runtime. No CUDA header here: the runtime stays inside this folder,
 * linked statically, so that a program built with it starts on a machine without a driver. */
#ifndef CUDA_BACKEND_H
#define CUDA_BACKEND_H

#include "backend.h"

extern const struct backend_ops cuda_backend_ops;

#endif
