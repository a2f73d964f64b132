/* Shared memory with a cell of history for every two bytes. */
#include "ptx_shared.h"

#include "ptx_program.h"

#include <algorithm>
#include <cstring>

namespace {
enum : uint8_t { EMPTY, COMING, VALUE, SUM /* by atomic additions */ };
enum : uint16_t {
    SEVERAL = 0xFFFF /* writers of a sum: only a barrier of the block orders them */
};
/* Since the last barrier of the block: */
enum : uint8_t { NO_READER, ONE_READER, READERS_OF_ONE_WARP, MANY_READERS };
} // namespace

void ptx_shared::open(uint32_t wanted_bytes, uint32_t threads) {
    size = wanted_bytes;
    bytes.resize(std::max<size_t>(bytes.size(), size));
    cells.resize(std::max<size_t>(cells.size(), size / cell_bytes + 1));
    memset(bytes.data(), 0xFF, size);
    std::fill_n(cells.begin(), size / cell_bytes + 1, cell{});
    warp_times.assign((threads + PTX_LANES - 1) / PTX_LANES, 0);
    time = block_time = 0;
}

void ptx_shared::sync_block() {
    block_time = ++time;
    std::fill(warp_times.begin(), warp_times.end(), time);
}

void ptx_shared::sync_warp(uint32_t warp) {
    warp_times[warp] = ++time;
}

ptx_shared::cell *ptx_shared::cells_at(uint32_t address, uint32_t count, const char *what) {
    const uint32_t offset = address - PTX_SHARED_BASE;
    if (address < PTX_SHARED_BASE || offset >= size || count > size - offset)
        ptx_fail("%s of %u bytes at byte %lld of %u bytes of shared memory: out of bounds", what,
                 count, (long long)address - PTX_SHARED_BASE, size);
    if (address % count != 0)
        ptx_fail("%s of %u bytes at byte %u of shared memory: misaligned", what, count, offset);
    return &cells[offset / cell_bytes];
}

/* Whether a barrier that both threads took stands between then and now. */
bool ptx_shared::ordered(uint32_t earlier_thread, uint32_t thread, uint32_t then) const {
    const uint32_t warp = thread / PTX_LANES;
    return earlier_thread == thread || block_time > then ||
           (earlier_thread / PTX_LANES == warp && warp_times[warp] > then);
}

void ptx_shared::note_read(cell &at, uint32_t thread, uint32_t offset) {
    if (at.state != VALUE && at.state != SUM)
        ptx_fail(at.state == EMPTY ? "reads byte %u of shared memory, which nobody wrote"
                                   : "reads byte %u of shared memory, to which thread %u has a "
                                     "copy (cp.async) on its way",
                 offset, at.writer);
    if (!ordered(at.writer, thread, at.write_time))
        ptx_fail("race: reads byte %u of shared memory, which thread %u wrote with no barrier "
                 "since",
                 offset, at.writer);
    const uint32_t warp = thread / PTX_LANES;
    if (at.readers == NO_READER || block_time > at.read_time)
        at.readers = ONE_READER;
    else if (at.reader / PTX_LANES != warp)
        at.readers = MANY_READERS;
    else if (at.readers != MANY_READERS && warp_times[warp] > at.read_time)
        at.readers = ONE_READER;
    else if (at.readers == ONE_READER && at.reader != thread)
        at.readers = READERS_OF_ONE_WARP;
    at.reader = (uint16_t)thread;
    at.read_time = time;
}

void ptx_shared::note_write(cell &at, uint32_t thread, uint32_t offset, bool by_copy) {
    if (at.state != EMPTY && !ordered(at.writer, thread, at.write_time))
        ptx_fail("race: writes byte %u of shared memory, which thread %u wrote with no barrier "
                 "since",
                 offset, at.writer);
    if (at.state == COMING)
        ptx_fail("writes byte %u of shared memory, to which thread %u has a copy (cp.async) on "
                 "its way",
                 offset, at.writer);
    const uint32_t warp = thread / PTX_LANES;
    const bool read_by_others =
        block_time <= at.read_time &&
        (at.readers == MANY_READERS ||
         (at.readers == READERS_OF_ONE_WARP &&
          (at.reader / PTX_LANES != warp || warp_times[warp] <= at.read_time)) ||
         (at.readers == ONE_READER && !ordered(at.reader, thread, at.read_time)));
    if (read_by_others)
        ptx_fail("race: writes byte %u of shared memory, which thread %u read with no barrier "
                 "since",
                 offset, at.reader);
    at = {time, 0, (uint16_t)thread, 0, by_copy ? COMING : VALUE, NO_READER};
}

void ptx_shared::note_sum(cell &at, uint32_t thread, uint32_t offset) {
    if (at.state == EMPTY)
        ptx_fail("adds to byte %u of shared memory, which nobody wrote", offset);
    const bool beside_others =
        at.state == SUM && !ordered(at.writer, thread, at.write_time) && at.readers == NO_READER;
    if (beside_others)
        at.writer = SEVERAL;
    else
        note_write(at, thread, offset, false);
    at.write_time = time;
    at.state = SUM;
}

void ptx_shared::add(uint32_t thread, uint32_t address, uint32_t value, uint32_t *before) {
    cell *const first = cells_at(address, sizeof value, "atomic addition");
    const uint32_t offset = address - PTX_SHARED_BASE;
    for (uint32_t i = 0; i < sizeof value / cell_bytes; i++)
        note_sum(first[i], thread, offset + i * cell_bytes);
    memcpy(before, &bytes[offset], sizeof *before);
    value += *before;
    memcpy(&bytes[offset], &value, sizeof value);
}

template <uint32_t count> void ptx_shared::read(uint32_t thread, uint32_t address, void *to) {
    cell *const first = cells_at(address, count, "read");
    const uint32_t offset = address - PTX_SHARED_BASE;
    for (uint32_t i = 0; i < count / cell_bytes; i++)
        note_read(first[i], thread, offset + i * cell_bytes);
    memcpy(to, &bytes[offset], count);
}

template <uint32_t count>
void ptx_shared::write(uint32_t thread, uint32_t address, const void *from) {
    cell *const first = cells_at(address, count, "write");
    const uint32_t offset = address - PTX_SHARED_BASE;
    for (uint32_t i = 0; i < count / cell_bytes; i++)
        note_write(first[i], thread, offset + i * cell_bytes, false);
    memcpy(&bytes[offset], from, count);
}

template void ptx_shared::read<2>(uint32_t thread, uint32_t address, void *to);
template void ptx_shared::read<4>(uint32_t thread, uint32_t address, void *to);
template void ptx_shared::read<8>(uint32_t thread, uint32_t address, void *to);
template void ptx_shared::read<16>(uint32_t thread, uint32_t address, void *to);
template void ptx_shared::write<2>(uint32_t thread, uint32_t address, const void *from);
template void ptx_shared::write<4>(uint32_t thread, uint32_t address, const void *from);
template void ptx_shared::write<8>(uint32_t thread, uint32_t address, const void *from);
template void ptx_shared::write<16>(uint32_t thread, uint32_t address, const void *from);

void ptx_shared::copy_starts(uint32_t thread, uint32_t address, uint32_t count) {
    cell *const first = cells_at(address, count, "copy");
    for (uint32_t i = 0; i < count / cell_bytes; i++)
        note_write(first[i], thread, address - PTX_SHARED_BASE + i * cell_bytes, true);
}

/* The thread's own from now on, and others' after the next barrier. */
void ptx_shared::copy_lands(uint32_t thread, uint32_t address, uint32_t count, const void *from) {
    cell *const first = cells_at(address, count, "copy");
    for (uint32_t i = 0; i < count / cell_bytes; i++)
        first[i] = {time, 0, (uint16_t)thread, 0, VALUE, NO_READER};
    memcpy(&bytes[address - PTX_SHARED_BASE], from, count);
}
