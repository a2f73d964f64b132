/* Runs the project's CUDA kernels on the host: every CUDA thread is a fiber, barriers and warp
 * operations are rendezvous of fibers, and whatever a kernel does wrong on the way (a barrier that
 * not all threads reach, bytes that never arrive, two threads that race) ends the launch with a
 * message. This is the C face, for the backend and for tests; kernels see simt_lang.h and
 * simt_ptx.h. One launch at a time, one block after the other, always in the caller's thread; never
 * used for a timing. */
#ifndef SIMT_H
#define SIMT_H

#include "gpu.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SIMT_MAX_THREADS = 1024, SIMT_ARENA_BYTES = 256 * 1024 };

/* Which fiber runs next where several could. A warp runs until all its lanes wait, except in random
 * order, where any lane of any warp may be next. */
enum simt_order {
    SIMT_FORWARD,
    SIMT_REVERSE,      /* blocks, warps and lanes from the last to the first */
    SIMT_RANDOM,       /* seeded */
    SIMT_WARP_REVERSE, /* warps from the last to the first, lanes forward */
    SIMT_ORDERS,
    SIMT_ROTATE = SIMT_ORDERS /* each launch takes the next of the four */
};
/* Without a call: KVGAUGE_SIMT_ORDER (forward, reverse, random, warp_reverse, rotate), or rotate.
 */
void simt_set_order(enum simt_order order, uint64_t seed);

/* Runs all blocks. STATUS_WRONG with what, where and who waits for what when a block went wrong;
 * nothing of it goes on then, and the next launch is as good as the first. */
enum status simt_launch(const struct gpu_launch *launch, struct status_text *text);

/* Device memory: 0xFF, with guard bytes on both sides that simt_memory_check looks at (under
 * AddressSanitizer nobody may even read them). The race detector knows these ranges and no others.
 */
void *simt_memory_allocate(uint64_t bytes, const char *what); /* NULL: no memory */
void simt_memory_free(void *memory);                          /* NULL is fine */
/* The host has given these bytes a value. */
void simt_memory_written(const void *from, uint64_t bytes);
/* STATUS_WRONG naming the first allocation whose guard bytes were written. */
enum status simt_memory_check(struct status_text *text);

/* True when the kernels were compiled with the race detector's hooks. */
bool simt_race_enabled(void);

/* Since the program started. */
struct simt_counts {
    uint64_t launches, blocks, threads, switches, warp_operations, barriers;
};
extern struct simt_counts simt_counts;

#ifdef __cplusplus
}
#endif
#endif
