/* Warps, the lanes that wait in them, and blocks. */
#include "ptx_run.h"

#include "ptx_counter.h"
#include "ptx_lanes.h"
#include "ptx_parse.h"

#include <algorithm>

namespace {

void find_merge(ptx_warp &warp) {
    warp.merge_at = UINT32_MAX;
    for (uint32_t i = 0; i < warp.waiting_count; i++)
        warp.merge_at = std::min(warp.merge_at, warp.waiting[i].pc);
}

void wait_at(ptx_warp &warp, uint32_t pc, uint32_t lanes) {
    for (uint32_t i = 0; i < warp.waiting_count; i++)
        if (warp.waiting[i].pc == pc) {
            warp.waiting[i].lanes |= lanes;
            return;
        }
    warp.waiting[warp.waiting_count++] = {pc, lanes};
    find_merge(warp);
}

/* Lanes that wait at or before pc go first, or join. */
void merge(ptx_warp &warp) {
    while (warp.merge_at <= warp.pc) {
        uint32_t i = 0;
        while (warp.waiting[i].pc != warp.merge_at)
            i++;
        const ptx_waiting found = warp.waiting[i];
        warp.waiting[i] = warp.waiting[--warp.waiting_count];
        find_merge(warp);
        if (found.pc < warp.pc) {
            wait_at(warp, warp.pc, warp.active);
            warp.pc = found.pc;
            warp.active = 0;
        }
        warp.active |= found.lanes;
    }
}

[[noreturn]] void fail_unset(ptx_warp &warp, uint32_t number) {
    warp.lane = (uint32_t)__builtin_ctz(warp.now & ~warp.set[number]);
    ptx_fail("reads a register that has no value yet");
}

void step(ptx_warp &warp, const ptx_instruction &in) {
    warp.now = warp.active;
    warp.lane = PTX_LANES;
    if (in.guard != PTX_ALWAYS) {
        if ((warp.now & ~warp.set[in.guard_number]) != 0)
            fail_unset(warp, in.guard_number);
        const uint32_t guard = warp.predicates[in.guard_number];
        warp.now &= in.guard == PTX_IF ? guard : ~guard;
    }
    warp.pc++;
    if (warp.now == 0)
        return;
    for (uint32_t i = 0; i < in.source_count; i++)
        if ((warp.now & ~warp.set[in.sources[i].number]) != 0)
            fail_unset(warp, in.sources[i].number);
    if (warp.block->counter != nullptr)
        warp.block->counter->issued[in.kind]++;
    in.execute(warp, in);
    for (uint32_t i = 0; i < in.target_count; i++)
        warp.set[in.targets[i].number] |= warp.now;
}

[[noreturn]] void fail_at(const ptx_warp &warp, const ptx_instruction &in, const char *what) {
    const ptx_kernel &kernel = *warp.block->kernel;
    const uint32_t lane =
        warp.lane < PTX_LANES ? warp.lane : (uint32_t)__builtin_ctz(warp.now | 1u << 31);
    ptx_fail("block %u thread %u, %s: `%s`: %s", warp.block->number, ptx_thread(warp, lane),
             ptx_instruction_place(kernel, in).c_str(), ptx_instruction_text(kernel, in).c_str(),
             what);
}

void run_warp(ptx_warp &warp) {
    const ptx_instruction *const code = warp.block->kernel->code.data();
    while (warp.state == PTX_RUNNING) {
        if (warp.merge_at <= warp.pc)
            merge(warp);
        const ptx_instruction &in = code[warp.pc];
        try {
            step(warp, in);
        } catch (const ptx_failure &failure) {
            fail_at(warp, in, failure.what());
        }
    }
}

void fill_special(ptx_warp &warp, ptx_special number, uint32_t first, uint32_t step) {
    uint32_t *const lanes =
        reinterpret_cast<uint32_t *>(warp.bases[PTX_BASE_REGISTERS]) + (size_t)number * PTX_LANES;
    for (uint32_t i = 0; i < PTX_LANES; i++)
        lanes[i] = first + i * step;
}

/* Before a block's first instruction. */
void prepare_warp(ptx_warp &warp, ptx_block &block, const ptx_grid &grid, uint32_t number) {
    const ptx_kernel &kernel = *block.kernel;
    warp.file.resize(std::max<size_t>(warp.file.size(), kernel.register_bytes));
    warp.masks.assign((size_t)kernel.register_count * 2, 0);
    warp.set = warp.masks.data();
    warp.predicates = warp.set + kernel.register_count;
    std::fill_n(warp.set, (size_t)PTX_SPECIALS, PTX_ALL_LANES);
    warp.bases[PTX_BASE_REGISTERS] = warp.file.data();
    warp.bases[PTX_BASE_CONSTANTS] = const_cast<uint8_t *>(kernel.constants.data());
    warp.block = &block;
    warp.number = number;
    warp.pc = warp.waiting_count = 0;
    warp.merge_at = UINT32_MAX;
    warp.active = warp.live = PTX_ALL_LANES;
    warp.state = PTX_RUNNING;
    warp.copies.clear();
    std::fill_n(warp.groups, (size_t)PTX_LANES, 0u);
    fill_special(warp, PTX_TID_X, number * PTX_LANES, 1);
    fill_special(warp, PTX_NTID_X, grid.threads, 0);
    fill_special(warp, PTX_CTAID_X, block.number, 0);
    fill_special(warp, PTX_NCTAID_X, grid.blocks, 0);
    fill_special(warp, PTX_LANEID, 0, 1);
    fill_special(warp, PTX_ONE, 1, 0);
    fill_special(warp, PTX_ZERO, 0, 0);
}

/* All warps have stopped: at the barrier, the same for all, or at the end. */
bool barrier_opens(ptx_block &block, std::vector<ptx_warp> &warps, uint32_t count) {
    const ptx_warp &first = warps[0];
    for (uint32_t i = 0; i < count; i++)
        if (warps[i].state != first.state ||
            (first.state == PTX_AT_BARRIER && warps[i].pc != first.pc)) {
            const ptx_warp &at = warps[i].state == PTX_AT_BARRIER ? warps[i] : first;
            fail_at(at, block.kernel->code[at.pc - 1],
                    "divergent barrier: other warps have ended or wait elsewhere");
        }
    if (first.state == PTX_DONE)
        return false;
    block.shared.sync_block();
    for (uint32_t i = 0; i < count; i++)
        warps[i].state = PTX_RUNNING;
    return true;
}

/* Kept between launches: their memory is worth reusing. */
std::vector<ptx_warp> all_warps;
ptx_block the_block;

void run_block(ptx_block &block, const ptx_grid &grid) {
    const uint32_t count = grid.threads / PTX_LANES;
    if (all_warps.size() < count)
        all_warps.resize(count);
    block.shared.open(ptx_dynamic_shared_at(*block.kernel) + grid.shared_bytes, grid.threads);
    for (uint32_t i = 0; i < count; i++)
        prepare_warp(all_warps[i], block, grid, i);
    do
        for (uint32_t i = 0; i < count; i++)
            run_warp(all_warps[grid.backwards ? count - 1 - i : i]);
    while (barrier_opens(block, all_warps, count));
}

} // namespace

void ptx_warp_branch(ptx_warp &warp, uint32_t pc) {
    const uint32_t rest = warp.active & ~warp.now;
    if (rest != 0)
        wait_at(warp, warp.pc, rest);
    warp.active = warp.now;
    warp.pc = pc;
}

void ptx_warp_end(ptx_warp &warp) {
    warp.live &= ~warp.now;
    warp.active &= ~warp.now;
    if (warp.active != 0)
        return;
    if (warp.live == 0) {
        warp.state = PTX_DONE;
        return;
    }
    warp.pc = UINT32_MAX; /* the lanes that wait are before that */
}

void ptx_run(const ptx_kernel &kernel, const ptx_grid &grid, const void *arguments,
             ptx_counter *counter) {
    ptx_block &block = the_block;
    block.kernel = &kernel;
    block.arguments = static_cast<const uint8_t *>(arguments);
    block.counter = counter;
    for (uint32_t i = 0; i < grid.blocks; i++) {
        block.number = grid.backwards ? grid.blocks - 1 - i : i;
        run_block(block, grid);
    }
}
