/* The instructions of kernels/gpu/gpu_ptx.cuh for a compiler that is not nvcc, with the meaning
 * that tests/gpu_model gives them. Alignment and bounds of shared addresses are checked as the
 * hardware would; whether conversions exist comes from the compile line, so that every decoder path
 * can be run. */
#ifndef SIMT_PTX_H
#define SIMT_PTX_H

#include <cstring>

#include "gpu_model.h"
#include "simt_lang.h"

#ifndef PTX_HAS_FP8_CONVERT
#define PTX_HAS_FP8_CONVERT 1
#endif
#ifndef PTX_HAS_FP4_CONVERT
#define PTX_HAS_FP4_CONVERT 1
#endif

extern struct gpu_model_clock simt_clock; /* as at GPU_MODEL_CLOCK, until a test sets it */
/* Out of line: kernels with hooks for races would take the clock for memory of theirs. */
uint64_t simt_globaltimer();
uint64_t simt_clock64();
uint32_t simt_shared_address(const void *pointer, simt_place place);
/* The bytes at a shared address, which must lie in the block's memory and be aligned to `bytes`. */
unsigned char *simt_shared_at(uint32_t address, uint32_t bytes, const char *what, simt_place place);
void simt_check_global(const void *address, uint32_t bytes, const char *what, simt_place place);
void simt_cp_async(uint32_t shared_to, const void *from, uint32_t bytes, bool real,
                   simt_place place);
void simt_cp_async_commit();
void simt_cp_async_wait(uint32_t newest);
void simt_ldmatrix_x4(uint32_t (&out)[4], uint32_t shared_row, bool trans, simt_place place);
uint32_t simt_movmatrix_trans(uint32_t value, simt_place place);
void simt_mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, bool bf16,
              simt_place place);

GPU_DEVICE uint32_t ptx_shared_address(const void *pointer, simt_place place = simt_here()) {
    return simt_shared_address(pointer, place);
}

GPU_DEVICE void ptx_cp_async_16(uint32_t shared_to, const void *from, bool real,
                                simt_place place = simt_here()) {
    simt_cp_async(shared_to, from, 16, real, place);
}
GPU_DEVICE void ptx_cp_async_8(uint32_t shared_to, const void *from, bool real,
                               simt_place place = simt_here()) {
    simt_cp_async(shared_to, from, 8, real, place);
}
GPU_DEVICE void ptx_cp_async_4(uint32_t shared_to, const void *from, bool real,
                               simt_place place = simt_here()) {
    simt_cp_async(shared_to, from, 4, real, place);
}
GPU_DEVICE void ptx_cp_async_commit() {
    simt_cp_async_commit();
}
template <int newest> GPU_DEVICE void ptx_cp_async_wait() {
    static_assert(newest >= 0, "groups that may still be on their way");
    simt_cp_async_wait((uint32_t)newest);
}

GPU_DEVICE uint32_t ptx_load_shared_u16(uint32_t shared_from, simt_place place = simt_here()) {
    uint16_t value;
    memcpy(&value, simt_shared_at(shared_from, sizeof value, "ld.shared.u16", place), sizeof value);
    return value;
}
GPU_DEVICE uint32_t ptx_load_shared_u32(uint32_t shared_from, simt_place place = simt_here()) {
    uint32_t value;
    memcpy(&value, simt_shared_at(shared_from, sizeof value, "ld.shared.u32", place), sizeof value);
    return value;
}
GPU_DEVICE void ptx_load_shared_v2(uint32_t (&out)[2], uint32_t shared_from,
                                   simt_place place = simt_here()) {
    memcpy(out, simt_shared_at(shared_from, sizeof out, "ld.shared.v2", place), sizeof out);
}
GPU_DEVICE void ptx_load_shared_v4(uint32_t (&out)[4], uint32_t shared_from,
                                   simt_place place = simt_here()) {
    memcpy(out, simt_shared_at(shared_from, sizeof out, "ld.shared.v4", place), sizeof out);
}
GPU_DEVICE void ptx_store_shared_u16(uint32_t shared_to, uint32_t value,
                                     simt_place place = simt_here()) {
    const uint16_t stored = (uint16_t)(value & 0xFFFFu);
    memcpy(simt_shared_at(shared_to, sizeof stored, "st.shared.u16", place), &stored,
           sizeof stored);
}
GPU_DEVICE void ptx_store_shared_u32(uint32_t shared_to, uint32_t value,
                                     simt_place place = simt_here()) {
    memcpy(simt_shared_at(shared_to, sizeof value, "st.shared.u32", place), &value, sizeof value);
}
GPU_DEVICE void ptx_store_shared_v4(uint32_t shared_to, const uint32_t (&value)[4],
                                    simt_place place = simt_here()) {
    memcpy(simt_shared_at(shared_to, sizeof value, "st.shared.v4", place), value, sizeof value);
}

GPU_DEVICE void ptx_load_global_once_v4(uint32_t (&out)[4], const void *from,
                                        simt_place place = simt_here()) {
    simt_check_global(from, sizeof out, "ld.global.v4", place);
    memcpy(out, from, sizeof out);
}

GPU_DEVICE uint32_t ptx_load_global_u32(const void *from, simt_place place = simt_here()) {
    uint32_t value;
    simt_check_global(from, sizeof value, "ld.global.u32", place);
    memcpy(&value, from, sizeof value);
    return value;
}

GPU_DEVICE void ptx_ldmatrix_x4(uint32_t (&out)[4], uint32_t shared_row,
                                simt_place place = simt_here()) {
    simt_ldmatrix_x4(out, shared_row, false, place);
}
GPU_DEVICE void ptx_ldmatrix_x4_trans(uint32_t (&out)[4], uint32_t shared_row,
                                      simt_place place = simt_here()) {
    simt_ldmatrix_x4(out, shared_row, true, place);
}
GPU_DEVICE uint32_t ptx_movmatrix_trans(uint32_t value, simt_place place = simt_here()) {
    return simt_movmatrix_trans(value, place);
}

GPU_DEVICE void ptx_mma_f16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
                            simt_place place = simt_here()) {
    simt_mma(d, a, b0, b1, false, place);
}
GPU_DEVICE void ptx_mma_bf16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
                             simt_place place = simt_here()) {
    simt_mma(d, a, b0, b1, true, place);
}

GPU_DEVICE uint32_t ptx_pack_f16x2(float low, float high) {
    return gpu_model_pack_f16x2(low, high);
}
GPU_DEVICE uint32_t ptx_pack_bf16x2(float low, float high) {
    return gpu_model_pack_bf16x2(low, high);
}
GPU_DEVICE uint32_t ptx_mul_f16x2(uint32_t a, uint32_t b) {
    return gpu_model_mul_f16x2(a, b);
}
GPU_DEVICE uint32_t ptx_mul_bf16x2(uint32_t a, uint32_t b) {
    return gpu_model_mul_bf16x2(a, b);
}
GPU_DEVICE float ptx_f16_to_f32(uint32_t half) {
    return gpu_model_f16_to_f32(half);
}
#if PTX_HAS_FP8_CONVERT
GPU_DEVICE uint32_t ptx_e4m3x2_to_f16x2(uint32_t codes) {
    return gpu_model_e4m3x2_to_f16x2(codes);
}
#endif
#if PTX_HAS_FP4_CONVERT
template <uint32_t byte = 0> GPU_DEVICE uint32_t ptx_e2m1x2_to_f16x2(uint32_t codes) {
    return gpu_model_e2m1x2_to_f16x2(codes >> (8 * byte));
}
#endif
GPU_DEVICE uint64_t ptx_globaltimer() {
    return simt_globaltimer();
}
GPU_DEVICE uint64_t ptx_clock64() {
    return simt_clock64();
}
GPU_DEVICE uint32_t ptx_permute_bytes(uint32_t a, uint32_t b, uint32_t selector) {
    return gpu_model_permute_bytes(a, b, selector);
}
GPU_DEVICE uint32_t ptx_multiply_high(uint32_t a, uint32_t b) {
    return gpu_model_multiply_high(a, b);
}
GPU_DEVICE float ptx_exp2(float x) {
    return gpu_model_exp2(x);
}

#endif
