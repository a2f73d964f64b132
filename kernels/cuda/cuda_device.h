/* Private to the cuda backend: the open device and what its files share. Host code in C on top of
 * cuda_runtime_api.h; kernels are launched through gpu.h. A device is used by one thread at a time,
 * the one that opened it. */
#ifndef CUDA_DEVICE_H
#define CUDA_DEVICE_H

#include <cuda_runtime_api.h>

#include "backend.h"
#include "cuda_blas.h"
#include "cuda_meminfo.h"
#include "cuda_pieces.h"
#include "gpu.h"

enum { CUDA_PREPARED_KERNELS = 64 };

/* A kernel that was told to expect more shared memory than it may have unasked. */
struct cuda_prepared {
    const void *entry;
    uint32_t shared_bytes;
};

struct backend_device {
    int ordinal;
    cudaStream_t stream;
    cudaEvent_t marks[BACKEND_MARKS];
    struct gpu_machine machine;

    char name[96];
    char driver[32];
    char pci_bus_id[32];
    char instruction_set[64];
    int capability; /* in tenths: 90 */
    uint64_t l2_bytes;
    uint64_t llc_told_bytes; /* --llc, or 0 */
    bool integrated;         /* by attribute: device memory is host memory */

    uint64_t step_bytes;  /* what the smallest allocation takes from free memory; 0: not seen */
    uint64_t taken_bytes; /* by memory_allocate and not yet freed, in whole steps */

    /* of a device that shares the host's memory */
    const char *meminfo_path;     /* /proc/meminfo */
    uint64_t before_taking_bytes; /* what was available when nothing was taken; 0: not looked */
    struct cuda_pieces pieces;

    uint64_t *dev_replaced; /* [2]: NaN and infinite values that append replaced */
    uint32_t *dev_sink;     /* what stream_read would write */

    struct cuda_blas blas;

    bool recording;
    char last_name[64]; /* the kernel given last: its errors are seen later */
    struct cuda_prepared prepared[CUDA_PREPARED_KERNELS];
    uint32_t prepared_count;
};

/* Every call of the runtime passes through here. The message has the call, the bytes (unless 0),
 * the error's name and what it means; errors that stay are told apart from those that pass.
 * `device` may be NULL. STATUS_OUT_OF_MEMORY for cudaErrorMemoryAllocation, STATUS_IO for the
 * others. */
enum status cuda_check(struct backend_device *device, cudaError_t error, const char *call,
                       uint64_t bytes, struct status_text *text);

/* Waits for all work given; not while recording. */
enum status cuda_wait(struct backend_device *device, struct status_text *text);

/* cuda_facts.c */
/* STATUS_MISSING with what is not there and the driver's and runtime's versions. */
enum status cuda_missing(cudaError_t error, const char *call, const struct backend_options *options,
                         struct status_text *text);
/* Name, versions, limits: what does not change while the device is open. */
enum status cuda_facts_open(struct backend_device *device, struct status_text *text);
void cuda_facts(struct backend_device *device, struct backend_facts *out);
/* Free memory and which number that is. False when there is no such number. */
bool cuda_free_bytes(struct backend_device *device, uint64_t *free_bytes, uint64_t *total_bytes,
                     const char **source);

/* cuda_image.c: whether this program holds code for the device, tried with a kernel. */
enum status cuda_image_check(struct backend_device *device, struct status_text *text);
/* The same refusal for a call that failed for want of an image. */
bool cuda_image_is_missing(cudaError_t error);
enum status cuda_image_missing(int ordinal, struct status_text *text);
const void *cuda_probe_entry(void); /* takes struct cuda_probe_arguments */

/* cuda_memory.c */
enum status cuda_memory_allocate(struct backend_device *device, uint64_t bytes, const char *what,
                                 struct backend_memory *out, struct status_text *text);
void cuda_memory_free(struct backend_device *device, struct backend_memory *memory);
enum status cuda_memory_write(struct backend_device *device, void *dev_to, const void *from,
                              uint64_t bytes, struct status_text *text);
enum status cuda_memory_read(struct backend_device *device, void *to, const void *dev_from,
                             uint64_t bytes, struct status_text *text);
enum status cuda_memory_fill(struct backend_device *device, void *dev_to, uint8_t byte,
                             uint64_t bytes, struct status_text *text);
/* On a device that shares the host's memory: whether the rest of the machine keeps its share when
 * `more_bytes` are taken beside the `taken_bytes` of the same request. STATUS_OUT_OF_MEMORY with
 * what was asked, taken and is there; STATUS_OK where the system tells nothing. */
enum status cuda_memory_look(struct backend_device *device, const char *what, uint64_t asked_bytes,
                             uint64_t taken_bytes, uint64_t more_bytes, struct status_text *text);
/* Finds step_bytes: allocates one byte, looks at free memory, frees it. */
enum status cuda_memory_measure_step(struct backend_device *device, struct status_text *text);

/* cuda_launch.c */
enum status cuda_launch(void *self, const struct gpu_launch *launch, struct status_text *text);
uint32_t cuda_blocks_per_unit(void *self, const void *entry, uint32_t threads,
                              uint32_t shared_bytes);
enum status cuda_mark(struct backend_device *device, uint32_t mark, struct status_text *text);
uint64_t cuda_elapsed_ns(struct backend_device *device, uint32_t from_mark, uint32_t to_mark);

/* cuda_record.c */
enum status cuda_record_begin(struct backend_device *device, struct status_text *text);
enum status cuda_record_end(struct backend_device *device, struct backend_recording **out,
                            struct status_text *text);
enum status cuda_replay(struct backend_device *device, struct backend_recording *recording,
                        struct status_text *text);
void cuda_record_free(struct backend_device *device, struct backend_recording *recording);

#endif
