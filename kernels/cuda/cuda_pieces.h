/* Private to the cuda backend: one address range of device memory, taken from the driver piece by
 * piece, so that somebody can look between two of them. For GPUs that share the host's memory;
 * plain requests are cuda_memory.c's. The driver's own functions are asked for through the runtime:
 * the program links no libcuda and starts where there is none. */
#ifndef CUDA_PIECES_H
#define CUDA_PIECES_H

#include <cuda.h>
#include <cudaTypedefs.h>
#include <stdint.h>

#include "status.h"

struct backend_device;

/* What was found when the device was opened; all zero: the driver cannot do it. */
struct cuda_pieces {
    PFN_cuMemAddressReserve_v10020 reserve;
    PFN_cuMemCreate_v10020 create;
    PFN_cuMemMap_v10020 map;
    PFN_cuMemSetAccess_v10020 set_access;
    PFN_cuMemUnmap_v10020 unmap;
    PFN_cuMemRelease_v10020 release;
    PFN_cuMemAddressFree_v10020 free_range;
    PFN_cuMemGetAllocationGranularity_v10020 granularity;
    CUdevice driver_id;
    uint64_t step;    /* granularity: every piece is a multiple of it */
    uint64_t largest; /* bytes of a piece; the last one of a range may be smaller */
};

/* 1 GiB, or what the driver's granularity makes of it. Not being able to is no error: then
 * out->step is 0. */
void cuda_pieces_open(struct backend_device *device, struct cuda_pieces *out);

/* The bytes a range of this size takes. */
uint64_t cuda_pieces_bytes(const struct cuda_pieces *pieces, uint64_t bytes);

/* A range of at least `bytes` that the device reads and writes; cuda_memory_look is asked before
 * each piece and once more behind the last. On failure everything taken so far is given back:
 * STATUS_OUT_OF_MEMORY, otherwise STATUS_IO. */
enum status cuda_pieces_take(struct backend_device *device, uint64_t bytes, const char *what,
                             void **out, struct status_text *text);

/* Waits for the device's work, as cudaFree would, then gives the range back. */
void cuda_pieces_free(struct backend_device *device, void *dev_address, uint64_t bytes);

#endif
