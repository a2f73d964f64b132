/* What a warp or a block does together, and where control goes. Operations of the whole warp name
 * all 32 lanes and want them here. */
#include "gpu_model.h"
#include "ptx_counter.h"
#include "ptx_lanes.h"
#include "ptx_run.h"

namespace {

void want_all_lanes(const ptx_warp &warp) {
    if (warp.now != PTX_ALL_LANES)
        ptx_fail("under divergence: lanes 0x%08x are here, of 0x%08x", warp.now, warp.live);
}

/* The mask is the same in all lanes. */
void want_full_mask(const ptx_warp &warp, const ptx_operand &mask) {
    want_all_lanes(warp);
    const uint32_t *const lanes = ptx_lanes<uint32_t>(warp, mask);
    for (uint32_t i = 0; i < PTX_LANES; i++)
        if (lanes[i] != PTX_ALL_LANES)
            ptx_fail("names lanes 0x%08x, not all", lanes[i]);
}

enum shuffle { BY_INDEX, BY_XOR, UP, DOWN };

/* c: in bits 8 to 12 which lane bits stay within a segment, in bits 0 to 4 the clamp. */
template <shuffle how> bool shuffle_source(uint32_t lane, uint32_t b, uint32_t c, uint32_t &from) {
    const uint32_t clamp = c & 31, segment = c >> 8 & 31;
    const uint32_t least = lane & segment, most = least | (clamp & ~segment);
    b &= 31;
    from = how == BY_INDEX ? (least | (b & ~segment))
           : how == BY_XOR ? (lane ^ b)
           : how == UP     ? (lane - b)
                           : (lane + b);
    const bool inside = how == UP ? (int32_t)from >= (int32_t)most : from <= most;
    if (!inside)
        from = lane;
    return inside;
}

template <shuffle how> void execute_shuffle(ptx_warp &warp, const ptx_instruction &in) {
    want_full_mask(warp, in.sources[3]);
    uint32_t values[PTX_LANES], inside = 0;
    memcpy(values, ptx_lanes<uint32_t>(warp, in.sources[0]), sizeof values);
    const uint32_t *const b = ptx_lanes<uint32_t>(warp, in.sources[1]);
    const uint32_t *const c = ptx_lanes<uint32_t>(warp, in.sources[2]);
    uint32_t out[PTX_LANES];
    for (uint32_t i = 0; i < PTX_LANES; i++) {
        uint32_t from;
        inside |= (uint32_t)shuffle_source<how>(i, b[i], c[i], from) << i;
        out[i] = values[from];
    }
    memcpy(ptx_lanes<uint32_t>(warp, in.targets[0]), out, sizeof out);
    if (in.target_count == 2)
        warp.predicates[in.targets[1].number] = inside;
}

void execute_vote_any(ptx_warp &warp, const ptx_instruction &in) {
    want_full_mask(warp, in.sources[1]);
    const bool any = warp.predicates[in.sources[0].number] != 0;
    warp.predicates[in.targets[0].number] = any ? UINT32_MAX : 0;
}
void execute_vote_all(ptx_warp &warp, const ptx_instruction &in) {
    want_full_mask(warp, in.sources[1]);
    const bool all = warp.predicates[in.sources[0].number] == PTX_ALL_LANES;
    warp.predicates[in.targets[0].number] = all ? UINT32_MAX : 0;
}

void execute_sync_warp(ptx_warp &warp, const ptx_instruction &in) {
    want_full_mask(warp, in.sources[0]);
    warp.block->shared.sync_warp(warp.number);
}

/* The block's other warps are waited for by ptx_run. */
void execute_sync_block(ptx_warp &warp, const ptx_instruction &in) {
    want_all_lanes(warp);
    if (in.number != 0)
        ptx_fail("barrier %u: only number 0 is known here", in.number);
    warp.state = PTX_AT_BARRIER;
}

template <bool bf16> void execute_mma(ptx_warp &warp, const ptx_instruction &in) {
    want_all_lanes(warp);
    struct gpu_model_mma mma;
    for (uint32_t r = 0; r < 4; r++) {
        const uint32_t *const a = ptx_lanes<uint32_t>(warp, in.sources[r]);
        const uint32_t *const c = ptx_lanes<uint32_t>(warp, in.sources[6 + r]);
        for (uint32_t lane = 0; lane < PTX_LANES; lane++) {
            mma.a[lane][r] = a[lane];
            mma.d[lane][r] = ptx_from_slot<float>(c[lane]);
        }
    }
    for (uint32_t r = 0; r < 2; r++) {
        const uint32_t *const b = ptx_lanes<uint32_t>(warp, in.sources[4 + r]);
        for (uint32_t lane = 0; lane < PTX_LANES; lane++)
            mma.b[lane][r] = b[lane];
    }
    gpu_model_mma(&mma, bf16);
    for (uint32_t r = 0; r < 4; r++) {
        uint32_t *const d = ptx_lanes<uint32_t>(warp, in.targets[r]);
        for (uint32_t lane = 0; lane < PTX_LANES; lane++)
            d[lane] = ptx_to_slot<float>(mma.d[lane][r]);
    }
}

template <bool trans> void execute_ldmatrix(ptx_warp &warp, const ptx_instruction &in) {
    want_all_lanes(warp);
    uint8_t rows[GPU_MODEL_LANES][GPU_MODEL_ROW_BYTES];
    uint64_t addresses[PTX_LANES];
    for (uint32_t lane = 0; lane < PTX_LANES; lane++) {
        warp.lane = lane;
        addresses[lane] =
            (uint32_t)(ptx_lane_bits(warp, in.sources[0], lane) + (uint64_t)in.offsets[0]);
        warp.block->shared.read<GPU_MODEL_ROW_BYTES>(ptx_thread(warp, lane),
                                                     (uint32_t)addresses[lane], rows[lane]);
    }
    if (warp.block->counter != nullptr)
        ptx_count_shared(warp, in, addresses, GPU_MODEL_ROW_BYTES);
    uint32_t out[GPU_MODEL_LANES][4];
    gpu_model_ldmatrix_x4(rows, trans, out);
    for (uint32_t r = 0; r < 4; r++) {
        uint32_t *const d = ptx_lanes<uint32_t>(warp, in.targets[r]);
        for (uint32_t lane = 0; lane < PTX_LANES; lane++)
            d[lane] = out[lane][r];
    }
}

void execute_movmatrix(ptx_warp &warp, const ptx_instruction &in) {
    want_all_lanes(warp);
    uint32_t values[PTX_LANES];
    memcpy(values, ptx_lanes<uint32_t>(warp, in.sources[0]), sizeof values);
    gpu_model_movmatrix_trans(values, ptx_lanes<uint32_t>(warp, in.targets[0]));
}

void execute_branch(ptx_warp &warp, const ptx_instruction &in) {
    ptx_warp_branch(warp, in.number);
}

void execute_return(ptx_warp &warp, const ptx_instruction &) {
    for (const ptx_copy &copy : warp.copies)
        if ((warp.now >> copy.lane & 1) != 0) {
            warp.lane = copy.lane;
            ptx_fail("the thread ends with copies (cp.async) on their way");
        }
    ptx_warp_end(warp);
}

} // namespace

void ptx_add_warp(ptx_opcodes &table) {
    table["shfl.sync.idx.b32"] = {execute_shuffle<BY_INDEX>, "=w|pwwww", PTX_WARP};
    table["shfl.sync.bfly.b32"] = {execute_shuffle<BY_XOR>, "=w|pwwww", PTX_WARP};
    table["shfl.sync.up.b32"] = {execute_shuffle<UP>, "=w|pwwww", PTX_WARP};
    table["shfl.sync.down.b32"] = {execute_shuffle<DOWN>, "=w|pwwww", PTX_WARP};
    table["vote.sync.any.pred"] = {execute_vote_any, "=ppw", PTX_WARP};
    table["vote.sync.all.pred"] = {execute_vote_all, "=ppw", PTX_WARP};
    table["bar.warp.sync"] = {execute_sync_warp, "w", PTX_WARP};
    table["bar.sync"] = {execute_sync_block, "N", PTX_WARP};
    table["movmatrix.sync.aligned.m8n8.trans.b16"] = {execute_movmatrix, "=ww", PTX_WARP};
    table["ldmatrix.sync.aligned.m8n8.x4.shared.b16"] = {execute_ldmatrix<false>, "={wwww}A",
                                                         PTX_LDMATRIX};
    table["ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16"] = {execute_ldmatrix<true>, "={wwww}A",
                                                               PTX_LDMATRIX};
    const char *const registers = "={wwww}{wwww}{ww}{wwww}";
    table["mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"] = {execute_mma<false>, registers,
                                                                  PTX_MMA};
    table["mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"] = {execute_mma<true>, registers,
                                                                    PTX_MMA};
    table["bra"] = table["bra.uni"] = {execute_branch, "T", PTX_CONTROL};
    table["ret"] = table["exit"] = {execute_return, "", PTX_CONTROL};
}
