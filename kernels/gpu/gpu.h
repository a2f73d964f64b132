/* The device code's only face to C: backend.h's operations, expressed as launches. Whoever can
 * launch a kernel (kernels/cuda with the CUDA runtime, tests/simt with fibers) gives a gpu_machine
 * and gets append, attend, state steps and the ceilings. No CUDA header here, and no CUDA runtime
 * call below. */
#ifndef GPU_H
#define GPU_H

#include "backend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One launch. A kernel takes one struct by value; `arguments` points to it. */
struct gpu_launch {
    const char *name;  /* for messages: "attend_mma nvfp4 128" */
    const void *entry; /* from a table of kernels (GPU_ENTRY) */
    uint32_t blocks;   /* 1 to 2^31 - 1 */
    uint32_t threads;  /* a multiple of 32, at most 1024 */
    uint32_t shared_bytes;
    const void *arguments;
    uint32_t arguments_bytes;
};

/* What the kernels' host side must know about a device, and how it launches. */
struct gpu_machine {
    void *self;
    uint32_t units;                  /* multiprocessors */
    uint32_t shared_bytes_per_block; /* the opt-in limit */
    uint32_t shared_bytes_per_unit;  /* what a multiprocessor shares between its blocks */
    uint32_t shared_reserved_bytes;  /* taken by the system from each block's share */
    enum status (*launch)(void *self, const struct gpu_launch *launch, struct status_text *text);
    /* Blocks of this kernel that fit on one multiprocessor at once; 0 when it cannot run. */
    uint32_t (*blocks_per_unit)(void *self, const void *entry, uint32_t threads,
                                uint32_t shared_bytes);
};

/* The attend kernels, the default first, NULL-terminated: mma, simple, expand. */
extern const char *const gpu_attend_kernels[];

/* STATUS_REFUSED, naming what is not supported and what is. Launches nothing. */
enum status gpu_attend_check(const struct gpu_machine *machine, const char *kernel,
                             const struct page_layout *page, uint32_t query_heads, bool selected,
                             struct status_text *text);
/* How many equal parts a step is best cut into: as many blocks as run at once. */
uint32_t gpu_attend_workers(const struct gpu_machine *machine, const char *kernel,
                            const struct page_layout *page, uint32_t query_heads);
uint64_t gpu_attend_workspace_bytes(const char *kernel, const struct page_layout *page,
                                    uint32_t query_heads, uint32_t segment_count,
                                    uint32_t page_count);

/* Launches; nothing is checked that backend_check.h checks. */
enum status gpu_attend(const struct gpu_machine *machine, const struct backend_attend *work,
                       struct status_text *text);
enum status gpu_index_score(const struct gpu_machine *machine,
                            const struct backend_index_score *work, struct status_text *text);
enum status gpu_index_select(const struct gpu_machine *machine,
                             const struct backend_index_select *work, struct status_text *text);
/* dev_replaced: two uint64_t (NaN, infinite values) that are added to, or NULL. */
enum status gpu_append(const struct gpu_machine *machine, const struct backend_append *work,
                       uint64_t *dev_replaced, struct status_text *text);
/* Refuses, by name, values of another size than there are. */
enum status gpu_state(const struct gpu_machine *machine, const struct backend_state_step *work,
                      struct status_text *text);
/* dev_sink: 4 bytes that are written only in theory, so that the reads are not dropped. */
enum status gpu_stream_read(const struct gpu_machine *machine, const void *dev_from, uint64_t bytes,
                            uint32_t *dev_sink, struct status_text *text);
enum status gpu_stream_copy(const struct gpu_machine *machine, void *dev_to, const void *dev_from,
                            uint64_t bytes, struct status_text *text);

/* Lets one thread count its multiprocessor's cycles for 10 ms and a tick of the device's timer.
 * dev_counts: two uint64_t, cycles and nanoseconds; both 0 where the timer stood still too long. */
enum status gpu_clock(const struct gpu_machine *machine, uint64_t *dev_counts,
                      struct status_text *text);
/* What such counts say; 0 where they say nothing. */
static inline double gpu_clock_mhz(const uint64_t *counts) {
    const double mhz = counts[1] > 0 ? (double)counts[0] * 1e3 / (double)counts[1] : 0;
    return mhz >= 1 && mhz <= 10000 ? mhz : 0;
}

#ifdef __cplusplus
}
#endif
#endif
