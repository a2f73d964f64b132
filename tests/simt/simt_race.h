/* The race detector's side towards the shim. Off, and free, unless kernels were compiled with its
 * hooks. */
#ifndef SIMT_RACE_H
#define SIMT_RACE_H

#include <cstddef>
#include <cstdint>

enum simt_race_kind {
    SIMT_RACE_READ,
    SIMT_RACE_WARP_READ, /* by all lanes at once */
    SIMT_RACE_WRITE,
    SIMT_RACE_ATOMIC, /* read and write; not in conflict with its like */
    SIMT_RACE_ISSUE,  /* a write that will have happened when the copy lands */
    SIMT_RACE_LAND
};

/* When and by whom a byte was touched; epoch 0: not yet. */
struct simt_race_stamp {
    uint32_t epoch;      /* counts barriers and blocks since the program started */
    uint32_t warp_epoch; /* counts gpu_sync_warp of the thread's warp since the epoch began */
    uint32_t pc;         /* from the program's load address */
    uint16_t thread;
    uint16_t flags;
};
struct simt_race_cell {
    struct simt_race_stamp write, read;
};

/* True once code with the hooks was loaded: before main. */
extern bool simt_race_on;

/* All blocks of a launch are unordered to each other, and ordered after all earlier launches. */
void simt_race_launch();
void simt_race_block();
/* All threads of the block, or all lanes of the warp, see what the others did before. */
void simt_race_barrier_passed();
void simt_race_warp_passed(uint32_t warp);
void simt_race_access(const void *at, size_t bytes, enum simt_race_kind kind, const void *pc);

static inline void simt_race_barrier() {
    if (simt_race_on)
        simt_race_barrier_passed();
}
static inline void simt_race_warp(uint32_t warp) {
    if (simt_race_on)
        simt_race_warp_passed(warp);
}
static inline void simt_race_touch(const void *at, size_t bytes, enum simt_race_kind kind,
                                   const void *pc) {
    if (simt_race_on)
        simt_race_access(at, bytes, kind, pc);
}

#endif
