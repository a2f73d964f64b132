/* cp.async. What a copy brings is taken when it is issued and lands when a wait covers it. */
#include "ptx_counter.h"
#include "ptx_lanes.h"
#include "ptx_memory.h"

namespace {

/* The third source, where there is one, says that zeros are wanted and the source is not read. */
void execute_copy(ptx_warp &warp, const ptx_instruction &in) {
    const uint32_t bytes = in.number;
    if (bytes != 4 && bytes != 8 && bytes != 16)
        ptx_fail("a copy of %u bytes", bytes);
    const uint32_t ignore = in.source_count == 3 ? warp.predicates[in.sources[2].number] : 0;
    uint64_t to[PTX_LANES] = {}, from[PTX_LANES] = {};
    ptx_each_lane(warp, [&](uint32_t i) {
        to[i] = (uint32_t)(ptx_lane_bits(warp, in.sources[0], i) + (uint64_t)in.offsets[0]);
        from[i] = ptx_lane_bits(warp, in.sources[1], i) + (uint64_t)in.offsets[1];
    });
    if (warp.block->counter != nullptr)
        ptx_count_global(warp, in, from, warp.now & ~ignore, bytes);
    ptx_each_lane(warp, [&](uint32_t lane) {
        warp.lane = lane;
        ptx_copy copy = {(uint32_t)to[lane], bytes, lane, warp.groups[lane], {}};
        if ((ignore >> lane & 1) == 0) {
            ptx_memory_check(from[lane], bytes, "copy");
            memcpy(copy.data, reinterpret_cast<const void *>(from[lane]), bytes);
        }
        warp.block->shared.copy_starts(ptx_thread(warp, lane), copy.to, bytes);
        warp.copies.push_back(copy);
    });
}

/* Past the first-level cache there are copies of 16 bytes only. */
void execute_copy_16(ptx_warp &warp, const ptx_instruction &in) {
    if (in.number != 16)
        ptx_fail("a copy (cg) of %u bytes", in.number);
    execute_copy(warp, in);
}

void execute_commit(ptx_warp &warp, const ptx_instruction &) {
    ptx_each_lane(warp, [&](uint32_t lane) { warp.groups[lane]++; });
}

/* All but the `number` youngest groups of each lane land. */
void execute_wait(ptx_warp &warp, const ptx_instruction &in) {
    size_t kept = 0;
    for (const ptx_copy &copy : warp.copies) {
        const bool lands = (warp.now >> copy.lane & 1) != 0 &&
                           (uint64_t)copy.group + in.number < warp.groups[copy.lane];
        if (lands)
            warp.block->shared.copy_lands(ptx_thread(warp, copy.lane), copy.to, copy.bytes,
                                          copy.data);
        else
            warp.copies[kept++] = copy;
    }
    warp.copies.resize(kept);
}

} // namespace

void ptx_add_copy(ptx_opcodes &table) {
    for (const char *prefetch : {"", ".L2::64B", ".L2::128B", ".L2::256B"}) {
        table[std::string("cp.async.cg.shared.global") + prefetch] = {execute_copy_16, "AAN?p",
                                                                      PTX_COPY};
        table[std::string("cp.async.ca.shared.global") + prefetch] = {execute_copy, "AAN?p",
                                                                      PTX_COPY};
    }
    table["cp.async.commit_group"] = {execute_commit, "", PTX_COPY};
    table["cp.async.wait_group"] = {execute_wait, "N", PTX_COPY};
}
