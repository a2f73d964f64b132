// One call of one wrapper by each lane of a warp. Compiled by nvcc for the recorder and by the
// host's compiler for the replay.
#include "gpu_ptx.cuh"
#include "vectors.h"

namespace {

GPU_DEVICE float as_float(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
GPU_DEVICE uint32_t as_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Each lane's four words in its 16 bytes of shared memory, seen by all. */
GPU_DEVICE void share(uint32_t base, const uint32_t *in) {
    const uint32_t words[4] = {in[0], in[1], in[2], in[3]};
    ptx_store_shared_v4(base + 16 * gpu_thread(), words);
    gpu_sync_warp();
}

GPU_DEVICE void copies(uint32_t op, uint32_t own, const uint32_t *in, uint32_t (&out)[4]) {
    const uint32_t before[4] = {0xA5A5A5A5u, 0xA5A5A5A5u, 0xA5A5A5A5u, 0xA5A5A5A5u};
    ptx_store_shared_v4(own, before);
    if (op == VECTORS_cp_async_16)
        ptx_cp_async_16(own, in, true);
    if (op == VECTORS_cp_async_8)
        ptx_cp_async_8(own, in, true);
    if (op == VECTORS_cp_async_4)
        ptx_cp_async_4(own, in, true);
    if (op == VECTORS_cp_async_zero) {
        ptx_cp_async_8(own, in, false);
        ptx_cp_async_4(own + 8, in + 2, false);
    }
    ptx_cp_async_commit();
    /* A second group, that may stay on its way while the first is waited for. */
    if (op == VECTORS_cp_async_zero)
        ptx_cp_async_16(own + 1024, in, false);
    ptx_cp_async_commit();
    ptx_cp_async_wait<1>();
    ptx_load_shared_v4(out, own);
    ptx_cp_async_wait<0>();
    if (op == VECTORS_cp_async_zero)
        out[3] = ptx_load_shared_u32(own + 1024 + 12);
}

GPU_DEVICE void shared_memory(uint32_t op, uint32_t base, uint32_t own, const uint32_t *in,
                              uint32_t (&out)[4]) {
    const uint32_t words[4] = {in[0], in[1], in[2], in[3]};
    if (op == VECTORS_shared_address)
        out[0] = own - base;
    if (op == VECTORS_load_shared_u16) {
        share(base, in);
        out[0] = ptx_load_shared_u16(own);
        out[1] = ptx_load_shared_u16(own + 6);
    }
    if (op == VECTORS_load_shared_u32) {
        share(base, in);
        out[0] = ptx_load_shared_u32(own + 12);
    }
    if (op == VECTORS_load_shared_v2) {
        share(base, in);
        uint32_t two[2];
        ptx_load_shared_v2(two, own + 8);
        out[0] = two[0];
        out[1] = two[1];
    }
    if (op == VECTORS_load_shared_v4) {
        share(base, in);
        ptx_load_shared_v4(out, own);
    }
    if (op == VECTORS_store_shared_u16) {
        ptx_store_shared_u16(own + 2, in[0]);
        ptx_store_shared_u16(own, in[1]);
        out[0] = ptx_load_shared_u32(own);
    }
    if (op == VECTORS_store_shared_u32) {
        ptx_store_shared_u32(own + 4, in[0]);
        out[0] = ptx_load_shared_u32(own + 4);
    }
    if (op == VECTORS_store_shared_v4) {
        ptx_store_shared_v4(own, words);
        ptx_load_shared_v4(out, own);
    }
}

GPU_DEVICE void matrices(uint32_t op, uint32_t base, uint32_t own, const uint32_t *in,
                         uint32_t (&out)[4]) {
    if (op == VECTORS_ldmatrix_x4 || op == VECTORS_ldmatrix_x4_trans) {
        share(base, in);
        if (op == VECTORS_ldmatrix_x4)
            ptx_ldmatrix_x4(out, own);
        else
            ptx_ldmatrix_x4_trans(out, own);
    }
    if (op == VECTORS_movmatrix_trans)
        out[0] = ptx_movmatrix_trans(in[0]);
    if (op == VECTORS_mma_f16 || op == VECTORS_mma_bf16) {
        const uint32_t a[4] = {in[0], in[1], in[2], in[3]};
        float d[4] = {as_float(in[8]), as_float(in[9]), as_float(in[10]), as_float(in[11])};
        if (op == VECTORS_mma_f16)
            ptx_mma_f16(d, a, in[4], in[5]);
        else
            ptx_mma_bf16(d, a, in[4], in[5]);
        for (int i = 0; i < 4; i++)
            out[i] = as_bits(d[i]);
    }
}

/* False where the target lacks the instruction. */
GPU_DEVICE bool numbers(uint32_t op, const uint32_t *in, uint32_t (&out)[4]) {
    if (op == VECTORS_pack_f16x2)
        out[0] = ptx_pack_f16x2(as_float(in[0]), as_float(in[1]));
    if (op == VECTORS_pack_bf16x2)
        out[0] = ptx_pack_bf16x2(as_float(in[0]), as_float(in[1]));
    if (op == VECTORS_mul_f16x2)
        out[0] = ptx_mul_f16x2(in[0], in[1]);
    if (op == VECTORS_mul_bf16x2)
        out[0] = ptx_mul_bf16x2(in[0], in[1]);
    if (op == VECTORS_f16_to_f32)
        out[0] = as_bits(ptx_f16_to_f32(in[0]));
    if (op == VECTORS_permute_bytes)
        out[0] = ptx_permute_bytes(in[0], in[1], in[2]);
    if (op == VECTORS_multiply_high)
        out[0] = ptx_multiply_high(in[0], in[1]);
    if (op == VECTORS_exp2)
        out[0] = as_bits(ptx_exp2(as_float(in[0])));
#if PTX_HAS_FP8_CONVERT
    if (op == VECTORS_e4m3x2_to_f16x2)
        out[0] = ptx_e4m3x2_to_f16x2(in[0]);
#else
    if (op == VECTORS_e4m3x2_to_f16x2)
        return false;
#endif
#if PTX_HAS_FP4_CONVERT
    if (op == VECTORS_e2m1x2_to_f16x2)
        out[0] = ptx_e2m1x2_to_f16x2(in[0]);
#else
    if (op == VECTORS_e2m1x2_to_f16x2)
        return false;
#endif
    return true;
}

GPU_KERNEL(VECTORS_LANES, 1) vectors_kernel(struct vectors_arguments arguments) {
    GPU_SHARED(shared);
    const uint32_t lane = gpu_thread(), op = arguments.op;
    const uint32_t *in = arguments.dev_in + VECTORS_IN_WORDS * lane;
    const uint32_t base = ptx_shared_address(shared);
    const uint32_t own = ptx_shared_address(shared + 16 * lane);
    uint32_t out[4] = {0, 0, 0, 0};
    if (op >= VECTORS_cp_async_16 && op <= VECTORS_cp_async_zero)
        copies(op, own, in, out);
    shared_memory(op, base, own, in, out);
    if (op == VECTORS_load_global_once_v4)
        ptx_load_global_once_v4(out, in);
    if (op == VECTORS_load_global_u32)
        out[0] = ptx_load_global_u32(in + 3);
    matrices(op, base, own, in, out);
    const bool done = numbers(op, in, out);
    for (int i = 0; i < 4; i++)
        arguments.dev_out[VECTORS_OUT_WORDS * lane + i] = out[i];
    if (lane == 0)
        arguments.dev_out[VECTORS_LANES * VECTORS_OUT_WORDS] = done ? 1 : 0;
}

} // namespace

extern "C" const void *vectors_entry(void) {
    return GPU_ENTRY(vectors_arguments, vectors_kernel);
}
