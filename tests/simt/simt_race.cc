/* Happens-before over every byte that kernels touch. Kernels are compiled with -fsanitize=thread
 * but not linked with its runtime: the calls that the compiler puts before each load and store come
 * to simt_hooks.cc and from there here. Only gpu_sync_block and gpu_sync_warp order memory between
 * threads; shuffles, ldmatrix and mma, rendezvous though they are, do not. The first finding ends
 * the launch. */
#include "simt_race.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "simt_block.h"
#include "simt_memory.h"
#include "simt_symbol.h"

bool simt_race_on;

bool simt_race_enabled(void) {
    return simt_race_on;
}

namespace {

enum write_flags : uint16_t { WRITE_ATOMIC = 1, WRITE_ON_ITS_WAY = 2, WRITE_BY_HOST = 4 };
/* A read stamp is the latest reader's; these say that it was not alone. */
enum read_flags : uint16_t { READ_MANY_LANES = 1, READ_MANY_WARPS = 2, READ_MANY_BLOCKS = 4 };

uint32_t epoch = 1, launch_epoch = 1, block_epoch = 1; /* now, and when they began */
uint32_t warp_epochs[simt_max_warps];
simt_race_cell shared_cells[SIMT_ARENA_BYTES];

/* One access, byte after byte. */
struct access {
    enum simt_race_kind kind;
    const void *pc;
    const char *memory; /* its name */
    size_t offset;
    uint32_t thread, warp;
};

void next_epoch() {
    epoch++;
    memset(warp_epochs, 0, sizeof warp_epochs);
}

[[noreturn]] void report(const access &a, const char *what, const simt_race_stamp *other) {
    char here[160], there[160] = "";
    simt_symbol_place(simt_symbol_offset(a.pc), here, sizeof here);
    if (other == nullptr)
        simt_fail("race detector: %s, %s byte %zu, at %s", what, a.memory, a.offset, here);
    simt_symbol_place(other->pc, there, sizeof there);
    simt_fail("race detector: %s, %s byte %zu, at %s against thread %u%s at %s", what, a.memory,
              a.offset, here, other->thread, other->epoch < block_epoch ? " of another block" : "",
              there);
}

/* Does everything that `stamp` stands for happen before this access? */
bool is_ordered(const access &a, const simt_race_stamp &stamp, bool many_lanes, bool many_warps) {
    if (stamp.epoch < launch_epoch)
        return true;
    if (stamp.epoch < block_epoch)
        return false; /* another block of this launch */
    if (stamp.epoch < epoch)
        return true;
    if (many_warps || (uint32_t)stamp.thread / GPU_WARP_LANES != a.warp)
        return false;
    if (stamp.warp_epoch < warp_epochs[a.warp])
        return true;
    return stamp.thread == a.thread && !many_lanes && a.kind != SIMT_RACE_WARP_READ;
}

simt_race_stamp stamp_now(const access &a) {
    return {epoch, warp_epochs[a.warp], simt_symbol_offset(a.pc), (uint16_t)a.thread, 0};
}

void read_byte(const access &a, simt_race_cell &cell) {
    simt_race_stamp &write = cell.write;
    if (write.epoch == 0)
        report(a, "read of bytes that nobody wrote", nullptr);
    if ((write.flags & WRITE_ON_ITS_WAY) != 0)
        report(a, "read of bytes that a copy (cp.async) has not yet brought", &write);
    if (!is_ordered(a, write, false, false))
        report(a, "read of another thread's unordered write", &write);

    simt_race_stamp now = stamp_now(a);
    const simt_race_stamp &before = cell.read;
    if (a.kind == SIMT_RACE_WARP_READ)
        now.flags |= READ_MANY_LANES;
    if (before.epoch >= launch_epoch)
        now.flags |=
            before.epoch < block_epoch ? READ_MANY_BLOCKS : before.flags & READ_MANY_BLOCKS;
    if (before.epoch == epoch) {
        if ((uint32_t)before.thread / GPU_WARP_LANES != a.warp)
            now.flags |= READ_MANY_WARPS;
        now.flags |= before.flags & READ_MANY_WARPS;
        if (before.warp_epoch == now.warp_epoch) {
            if (before.thread != a.thread)
                now.flags |= READ_MANY_LANES;
            now.flags |= before.flags & READ_MANY_LANES;
        }
    }
    cell.read = now;
}

void write_byte(const access &a, simt_race_cell &cell) {
    simt_race_stamp &write = cell.write, &read = cell.read;
    const bool both_atomic = a.kind == SIMT_RACE_ATOMIC && (write.flags & WRITE_ATOMIC) != 0;
    if (a.kind == SIMT_RACE_ATOMIC && write.epoch == 0)
        report(a, "atomic operation on bytes that nobody wrote", nullptr);
    if (a.kind != SIMT_RACE_LAND && write.epoch >= block_epoch &&
        (write.flags & WRITE_ON_ITS_WAY) != 0)
        report(a, "write over the target of a copy (cp.async) on its way", &write);
    if (!both_atomic && !is_ordered(a, write, false, false))
        report(a, "two unordered writes", &write);
    if (read.epoch >= launch_epoch && ((read.flags & READ_MANY_BLOCKS) != 0 ||
                                       !is_ordered(a, read, (read.flags & READ_MANY_LANES) != 0,
                                                   (read.flags & READ_MANY_WARPS) != 0)))
        report(a, "write over what another thread reads unordered", &read);
    write = stamp_now(a);
    write.flags = a.kind == SIMT_RACE_ATOMIC  ? WRITE_ATOMIC
                  : a.kind == SIMT_RACE_ISSUE ? WRITE_ON_ITS_WAY
                                              : 0;
    read.epoch = 0;
}

void access_bytes(access &a, simt_race_cell *cells, size_t bytes) {
    const bool reads = a.kind == SIMT_RACE_READ || a.kind == SIMT_RACE_WARP_READ;
    for (size_t i = 0; i < bytes; i++, a.offset++) {
        if (reads)
            read_byte(a, cells[i]);
        else
            write_byte(a, cells[i]);
    }
}

/* Cells of an earlier block know nothing of this one. */
void access_shared(access &a, size_t bytes) {
    simt_race_cell *cells =
        shared_cells + SIMT_ARENA_BYTES - (simt_block.launch->shared_bytes + 127) / 128 * 128;
    for (size_t i = a.offset; i < a.offset + bytes; i++)
        if (cells[i].write.epoch < block_epoch)
            cells[i] = {};
    access_bytes(a, cells + a.offset, bytes);
}

} // namespace

void simt_race_launch() {
    next_epoch();
    launch_epoch = epoch;
}

void simt_race_block() {
    next_epoch();
    block_epoch = epoch;
}

void simt_race_barrier_passed() {
    next_epoch();
}

void simt_race_warp_passed(uint32_t warp) {
    warp_epochs[warp]++;
}

void simt_race_access(const void *at, size_t bytes, enum simt_race_kind kind, const void *pc) {
    const struct simt_thread *me = simt_block.now;
    if (me == nullptr || simt_fiber_owns(at))
        return;
    const unsigned char *byte = static_cast<const unsigned char *>(at);
    access a = {kind, pc, "shared memory", 0, me->thread, me->warp};
    if (simt_shared_holds(at)) {
        const int64_t offset = byte - simt_block.shared;
        a.offset = (size_t)offset;
        if (offset < 0 || (uint64_t)offset + bytes > simt_block.launch->shared_bytes)
            report(a, "access outside of the block's bytes", nullptr);
        access_shared(a, bytes);
        return;
    }
    bool guard = false;
    struct simt_range *range = simt_memory_find(at, &guard);
    if (range == nullptr) {
        a.memory = "host memory";
        if (kind != SIMT_RACE_READ) /* reads: constants and arguments */
            report(a, "write outside of device memory", nullptr);
        return;
    }
    a.memory = range->what.c_str();
    a.offset = (size_t)(byte - range->start);
    if (guard || byte + bytes > range->end)
        report(a, "access outside of the allocation", nullptr);
    access_bytes(a, range->cells.data() + a.offset, bytes);
}

void simt_memory_written(const void *from, uint64_t bytes) {
    bool guard = false;
    struct simt_range *range = simt_race_on ? simt_memory_find(from, &guard) : nullptr;
    if (range == nullptr || guard)
        return;
    const size_t start = (size_t)(static_cast<const unsigned char *>(from) - range->start);
    for (size_t i = start; i < start + bytes && i < range->cells.size(); i++) {
        /* before the next launch, whose epoch is larger */
        range->cells[i].write = {epoch, 0, 0, 0, WRITE_BY_HOST};
        range->cells[i].read = {};
    }
}
