/* The state of a warp and of its block while they run. */
#ifndef PTX_WARP_H
#define PTX_WARP_H

#include "ptx_program.h"
#include "ptx_shared.h"

struct ptx_counter;

/* Lanes that wait at an instruction further on. */
struct ptx_waiting {
    uint32_t pc, lanes;
};

/* cp.async: bytes that are on their way to shared memory. */
struct ptx_copy {
    uint32_t to, bytes, lane;
    uint32_t group; /* how many groups the lane had closed before */
    uint8_t data[16];
};

enum ptx_warp_state : uint8_t { PTX_RUNNING, PTX_AT_BARRIER, PTX_DONE };

struct ptx_block {
    const ptx_kernel *kernel;
    const uint8_t *arguments;
    ptx_shared shared;
    ptx_counter *counter; /* or null */
    uint32_t number;
};

struct ptx_warp {
    uint8_t *bases[PTX_BASES];
    uint32_t *set;        /* for each register: lanes that have a value */
    uint32_t *predicates; /* for each register: its value, where it is a predicate */
    uint32_t now;         /* lanes that execute the present instruction */
    uint32_t pc;          /* already the next one's while an instruction executes */
    uint32_t active;      /* lanes at pc */
    uint32_t live;        /* lanes that have not ended */
    uint32_t merge_at;    /* the lowest of waiting[].pc, or UINT32_MAX */
    uint32_t waiting_count;
    ptx_waiting waiting[PTX_LANES];
    uint32_t lane; /* that a failure is about */
    uint32_t number;
    ptx_warp_state state;
    ptx_block *block;
    uint32_t groups[PTX_LANES]; /* of copies, that the lane has closed */
    std::vector<ptx_copy> copies;
    std::vector<uint8_t> file;
    std::vector<uint32_t> masks;
};

inline uint32_t ptx_thread(const ptx_warp &warp, uint32_t lane) {
    return warp.number * PTX_LANES + lane;
}

#endif
