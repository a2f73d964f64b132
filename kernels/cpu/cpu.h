/* The host as a device. */
#ifndef CPU_H
#define CPU_H

#include "backend.h"

extern const struct backend_ops cpu_backend_ops;

#endif
