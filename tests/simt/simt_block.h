/* The block that is running: its threads, its warps, its shared memory, and who may go on. Private
 * to tests/simt. */
#ifndef SIMT_BLOCK_H
#define SIMT_BLOCK_H

#include <vector>

#include "gpu_lang.cuh"
#include "simt.h"
#include "simt_fiber.h"

constexpr uint32_t simt_all_lanes = 0xFFFFFFFFu;
constexpr uint32_t simt_max_warps = SIMT_MAX_THREADS / GPU_WARP_LANES;
constexpr uint8_t simt_poison = 0xFF; /* NaN in fp16, bf16 and fp32 */

/* A copy under way: what it will write is fixed when it is issued. */
struct simt_copy {
    unsigned char *to;
    uint32_t bytes;
    uint8_t data[16];
};

struct simt_thread {
    struct simt_fiber fiber;
    uint32_t thread, warp, lane;
    const char *waits_in; /* the operation it called last, and from where */
    simt_place place;
    /* cp.async: copies in the order of issue; group i ends before copies[group_ends[i]] */
    std::vector<simt_copy> copies;
    std::vector<size_t> group_ends;
    size_t copies_landed, groups_landed;
};

/* Lanes as bit masks. A lane is in one of them, or running. */
struct simt_warp {
    uint32_t ready, arrived, at_barrier, done;
    const char *operation; /* of those that arrived */
    simt_place place;
    const void *in[GPU_WARP_LANES];
    void *out[GPU_WARP_LANES];
};

struct simt_block {
    const struct gpu_launch *launch;
    const struct simt_kernel *kernel;
    enum simt_order order; /* of this launch */
    uint64_t seed, random;
    struct simt_thread threads[SIMT_MAX_THREADS];
    struct simt_warp warps[simt_max_warps];
    uint32_t thread_count, warp_count;
    uint32_t alive, at_barrier;
    uint32_t ready_warps; /* those with a ready lane */
    simt_place barrier_place;
    unsigned char *shared;    /* shared_bytes up to the arena's end, on 128 */
    struct simt_fiber caller; /* who launched */
    struct simt_thread *now;  /* the running thread; NULL outside of a block */
    bool failed;
    struct status_text failure;
};
extern struct simt_block simt_block;

/* Ends the launch: STATUS_WRONG with this text, where it happened and what all threads wait for.
 * From a fiber only. */
[[noreturn]] void simt_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
const char *simt_file_name(const char *path);

/* All 32 lanes of a warp meet; the last to come calls `complete` with what each brought. */
typedef void (*simt_complete)(const void *const *in, void *const *out);
void simt_meet(const char *operation, const void *in, void *out, simt_complete complete,
               simt_place place);

/* The running thread does not go on before it is made ready. */
void simt_wait();
/* Makes all lanes of a warp ready; of all warps. */
void simt_ready_warp(struct simt_warp *warp);
void simt_ready_all();
/* Who runs next; NULL when nobody can. */
struct simt_thread *simt_pick();
void simt_run(struct simt_thread *next);

/* In the memory that blocks' shared memory lies in? */
bool simt_shared_holds(const void *address);

void simt_copies_reset(struct simt_thread *thread);
bool simt_copies_pending(const struct simt_thread *thread);

#endif
