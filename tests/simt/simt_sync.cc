/* Rendezvous: the block's barrier, the warp's operations, and whose turn it is. */
#include "simt_block.h"
#include "simt_race.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

struct simt_position simt_position;

/* ---- who runs next ---- */

static uint64_t next_random() { /* xorshift64 */
    uint64_t x = simt_block.random;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    simt_block.random = x;
    return x;
}

static uint32_t lowest(uint32_t mask) {
    return (uint32_t)__builtin_ctz(mask);
}
static uint32_t highest(uint32_t mask) {
    return 31u - (uint32_t)__builtin_clz(mask);
}
static uint32_t any_of(uint32_t mask) {
    for (uint64_t skip = next_random() % (uint32_t)__builtin_popcount(mask); skip > 0; skip--)
        mask &= mask - 1;
    return lowest(mask);
}

/* A warp goes on as long as it can. Besides being one legal schedule, its stacks stay in the cache.
 */
static uint32_t pick_warp() {
    const uint32_t ready = simt_block.ready_warps;
    if (simt_block.order == SIMT_RANDOM)
        return any_of(ready);
    if (simt_block.now != nullptr && (ready >> simt_block.now->warp & 1u) != 0)
        return simt_block.now->warp;
    return simt_block.order == SIMT_FORWARD ? lowest(ready) : highest(ready);
}

struct simt_thread *simt_pick() {
    if (simt_block.ready_warps == 0)
        return nullptr;
    const uint32_t number = pick_warp();
    struct simt_warp *warp = &simt_block.warps[number];
    const uint32_t lane = simt_block.order == SIMT_RANDOM    ? any_of(warp->ready)
                          : simt_block.order == SIMT_REVERSE ? highest(warp->ready)
                                                             : lowest(warp->ready);
    warp->ready &= ~(1u << lane);
    if (warp->ready == 0)
        simt_block.ready_warps &= ~(1u << number);
    return &simt_block.threads[number * GPU_WARP_LANES + lane];
}

void simt_run(struct simt_thread *next) {
    struct simt_fiber *from = simt_block.now != nullptr ? &simt_block.now->fiber : nullptr;
    simt_block.now = next;
    simt_position.thread = next->thread;
    simt_counts.switches++;
    simt_fiber_switch(from != nullptr ? from : &simt_block.caller, &next->fiber, false);
}

void simt_wait() {
    struct simt_thread *next = simt_pick();
    if (next == nullptr)
        simt_fail("deadlock: no thread can go on");
    if (next != simt_block.now)
        simt_run(next);
}

void simt_ready_warp(struct simt_warp *warp) {
    warp->ready = simt_all_lanes;
    simt_block.ready_warps |= 1u << (warp - simt_block.warps);
}

void simt_ready_all() {
    for (uint32_t i = 0; i < simt_block.warp_count; i++) {
        simt_block.warps[i].at_barrier = 0;
        simt_ready_warp(&simt_block.warps[i]);
    }
}

/* ---- rendezvous ---- */

static bool same_place(simt_place a, simt_place b) {
    return a.line == b.line && (a.file == b.file || strcmp(a.file, b.file) == 0);
}

void simt_sync_block(simt_place place) {
    struct simt_thread *me = simt_block.now;
    struct simt_warp *warp = &simt_block.warps[me->warp];
    me->waits_in = "gpu_sync_block";
    me->place = place;
    if (simt_block.alive < simt_block.thread_count)
        simt_fail("divergent barrier (gpu_sync_block) at %s:%d: some threads have exited",
                  simt_file_name(place.file), place.line);
    if (warp->arrived != 0)
        simt_fail("divergent barrier (gpu_sync_block) at %s:%d: other lanes of the warp are in %s",
                  simt_file_name(place.file), place.line, warp->operation);
    if (simt_block.at_barrier == 0)
        simt_block.barrier_place = place;
    else if (!same_place(simt_block.barrier_place, place))
        simt_fail("divergent barrier (gpu_sync_block) at %s:%d: other threads wait in another one",
                  simt_file_name(place.file), place.line);
    warp->at_barrier |= 1u << me->lane;
    simt_block.at_barrier++;
    if (simt_block.at_barrier == simt_block.thread_count) {
        simt_block.at_barrier = 0;
        simt_counts.barriers++;
        simt_race_barrier();
        simt_ready_all();
    }
    simt_wait();
}

void simt_meet(const char *operation, const void *in, void *out, simt_complete complete,
               simt_place place) {
    struct simt_thread *me = simt_block.now;
    struct simt_warp *warp = &simt_block.warps[me->warp];
    me->waits_in = operation;
    me->place = place;
    if (warp->done != 0)
        simt_fail("%s at %s:%d: not all lanes of the warp are there, some have exited", operation,
                  simt_file_name(place.file), place.line);
    if (warp->at_barrier != 0)
        simt_fail("%s at %s:%d: not all lanes of the warp are there, some wait in gpu_sync_block",
                  operation, simt_file_name(place.file), place.line);
    if (warp->arrived == 0) {
        warp->operation = operation;
        warp->place = place;
    } else if (warp->operation != operation || !same_place(warp->place, place)) {
        simt_fail("%s at %s:%d: other lanes of the warp are in %s at %s:%d", operation,
                  simt_file_name(place.file), place.line, warp->operation,
                  simt_file_name(warp->place.file), warp->place.line);
    }
    warp->in[me->lane] = in;
    warp->out[me->lane] = out;
    warp->arrived |= 1u << me->lane;
    if (warp->arrived == simt_all_lanes) {
        simt_counts.warp_operations++;
        complete(warp->in, warp->out); /* `arrived` still set: it may fail */
        warp->arrived = 0;
        simt_ready_warp(warp);
    }
    simt_wait();
}

/* ---- the operations without registers of their own kind ---- */

void simt_sync_warp(simt_place place) {
    simt_meet(
        "gpu_sync_warp", nullptr, nullptr,
        [](const void *const *, void *const *) { simt_race_warp(simt_block.now->warp); }, place);
}

namespace {
struct shuffle {
    const void *value;
    uint32_t bytes, from_lane;
};
} // namespace

void simt_shuffle(const void *value, void *out, uint32_t bytes, uint32_t from_lane,
                  simt_place place) {
    const struct shuffle mine = {value, bytes, from_lane};
    simt_meet(
        "gpu_shuffle", &mine, out,
        [](const void *const *in, void *const *to) {
            for (uint32_t lane = 0; lane < GPU_WARP_LANES; lane++) {
                const auto *own = static_cast<const struct shuffle *>(in[lane]);
                const auto *from = static_cast<const struct shuffle *>(in[own->from_lane]);
                if (from->bytes != own->bytes)
                    simt_fail("gpu_shuffle: lanes bring values of different sizes");
                memcpy(to[lane], from->value, own->bytes);
            }
        },
        place);
}

bool simt_any(bool value, simt_place place) {
    bool out = false;
    simt_meet(
        "gpu_any", &value, &out,
        [](const void *const *in, void *const *to) {
            bool any = false;
            for (uint32_t lane = 0; lane < GPU_WARP_LANES; lane++)
                any |= *static_cast<const bool *>(in[lane]);
            for (uint32_t lane = 0; lane < GPU_WARP_LANES; lane++)
                *static_cast<bool *>(to[lane]) = any;
        },
        place);
    return out;
}

void simt_atomic_add(uint64_t *to, uint64_t value) {
    simt_race_touch(to, sizeof *to, SIMT_RACE_ATOMIC, __builtin_return_address(0));
    *to += value;
}

void simt_atomic_add(uint32_t *to, uint32_t value) {
    simt_race_touch(to, sizeof *to, SIMT_RACE_ATOMIC, __builtin_return_address(0));
    *to += value;
}
