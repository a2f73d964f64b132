/* One wrapper for every PTX instruction the kernels use; no other file holds asm. Under another
 * compiler than nvcc the same functions come from <simt_ptx.h>, with the meaning that
 * tests/gpu_model gives each instruction. Shared memory is named by 32-bit addresses.
 * Fragment layouts: PTX ISA, "Matrix Fragments for mma.m16n8k16". */
#ifndef GPU_PTX_CUH
#define GPU_PTX_CUH

#include "gpu_lang.cuh"

#if defined(__CUDACC__)

/* Which conversions the target has. The order of values differs with them, so every decoder asks
 * here and nowhere else. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
#define PTX_HAS_FP8_CONVERT 1
#else
#define PTX_HAS_FP8_CONVERT 0
#endif
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000 &&                                             \
    (defined(__CUDA_ARCH_FEAT_SM100_ALL) || defined(__CUDA_ARCH_FEAT_SM103_ALL) ||                 \
     defined(__CUDA_ARCH_FEAT_SM120_ALL) || defined(__CUDA_ARCH_FEAT_SM121_ALL) ||                 \
     defined(__CUDA_ARCH_SPECIFIC__) || defined(__CUDA_ARCH_FAMILY_SPECIFIC__))
#define PTX_HAS_FP4_CONVERT 1
#else
#define PTX_HAS_FP4_CONVERT 0
#endif

GPU_DEVICE uint32_t ptx_shared_address(const void *pointer) {
    return (uint32_t)__cvta_generic_to_shared(pointer);
}

/* Asynchronous copies of 16, 8 and 4 bytes, both addresses so aligned. `real` false: zeros are
 * written and the source is not touched. They land when ptx_cp_async_wait covers their group. */
GPU_DEVICE void ptx_cp_async_16(uint32_t shared_to, const void *from, bool real) {
    asm volatile("{ .reg .pred p; setp.eq.s32 p, %2, 0;\n"
                 "  cp.async.cg.shared.global.L2::128B [%0], [%1], 16, p; }\n" ::"r"(shared_to),
                 "l"(from), "r"((int)real)
                 : "memory");
}
GPU_DEVICE void ptx_cp_async_8(uint32_t shared_to, const void *from, bool real) {
    asm volatile("{ .reg .pred p; setp.eq.s32 p, %2, 0;\n"
                 "  cp.async.ca.shared.global [%0], [%1], 8, p; }\n" ::"r"(shared_to),
                 "l"(from), "r"((int)real)
                 : "memory");
}
GPU_DEVICE void ptx_cp_async_4(uint32_t shared_to, const void *from, bool real) {
    asm volatile("{ .reg .pred p; setp.eq.s32 p, %2, 0;\n"
                 "  cp.async.ca.shared.global [%0], [%1], 4, p; }\n" ::"r"(shared_to),
                 "l"(from), "r"((int)real)
                 : "memory");
}
/* Closes the group of copies issued since the last commit; it may be empty. */
GPU_DEVICE void ptx_cp_async_commit() {
    asm volatile("cp.async.commit_group;\n" ::: "memory");
}
/* Waits until at most the `newest` youngest groups of this thread are still on their way. */
template <int newest> GPU_DEVICE void ptx_cp_async_wait() {
    asm volatile("cp.async.wait_group %0;\n" ::"n"(newest) : "memory");
}

GPU_DEVICE uint32_t ptx_load_shared_u16(uint32_t shared_from) {
    unsigned short value;
    asm volatile("ld.shared.u16 %0, [%1];" : "=h"(value) : "r"(shared_from) : "memory");
    return value;
}
GPU_DEVICE uint32_t ptx_load_shared_u32(uint32_t shared_from) {
    uint32_t value;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(value) : "r"(shared_from) : "memory");
    return value;
}
GPU_DEVICE void ptx_load_shared_v2(uint32_t (&out)[2], uint32_t shared_from) {
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];"
                 : "=r"(out[0]), "=r"(out[1])
                 : "r"(shared_from)
                 : "memory");
}
GPU_DEVICE void ptx_load_shared_v4(uint32_t (&out)[4], uint32_t shared_from) {
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(shared_from)
                 : "memory");
}
GPU_DEVICE void ptx_store_shared_u16(uint32_t shared_to, uint32_t value) {
    asm volatile("st.shared.u16 [%0], %1;" ::"r"(shared_to), "h"((unsigned short)value) : "memory");
}
GPU_DEVICE void ptx_store_shared_u32(uint32_t shared_to, uint32_t value) {
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(shared_to), "r"(value) : "memory");
}
GPU_DEVICE void ptx_store_shared_v4(uint32_t shared_to, const uint32_t (&value)[4]) {
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(shared_to), "r"(value[0]),
                 "r"(value[1]), "r"(value[2]), "r"(value[3])
                 : "memory");
}

/* 16 bytes that are read once: past the first-level cache. */
GPU_DEVICE void ptx_load_global_once_v4(uint32_t (&out)[4], const void *from) {
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "l"(from));
}

/* Of an address that no compiler can follow to its array: it would not know it to be global. */
GPU_DEVICE uint32_t ptx_load_global_u32(const void *from) {
    uint32_t value;
    asm volatile("ld.global.nc.u32 %0, [%1];" : "=r"(value) : "l"(from));
    return value;
}

/* Four 8 x 8 matrices of 16-bit units; lane 8 m + i gives the address of row i of matrix m, on 16
 * bytes. Lane 4 g + t gets units 2 t and 2 t + 1 of row g; _trans: of column g. */
GPU_DEVICE void ptx_ldmatrix_x4(uint32_t (&out)[4], uint32_t shared_row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(shared_row)
                 : "memory");
}
GPU_DEVICE void ptx_ldmatrix_x4_trans(uint32_t (&out)[4], uint32_t shared_row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(shared_row)
                 : "memory");
}
/* An 8 x 8 matrix of 16-bit units over the warp, transposed. */
GPU_DEVICE uint32_t ptx_movmatrix_trans(uint32_t value) {
    uint32_t out;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(out) : "r"(value));
    return out;
}

/* d += a b: a 16 x 16, b 16 x 8, fp32 sums. */
GPU_DEVICE void ptx_mma_f16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
GPU_DEVICE void ptx_mma_bf16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* Pairs of 16-bit numbers; the first is in the low half. */
GPU_DEVICE uint32_t ptx_pack_f16x2(float low, float high) {
    uint32_t out;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(high), "f"(low));
    return out;
}
GPU_DEVICE uint32_t ptx_pack_bf16x2(float low, float high) {
    uint32_t out;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(high), "f"(low));
    return out;
}
GPU_DEVICE uint32_t ptx_mul_f16x2(uint32_t a, uint32_t b) {
    uint32_t out;
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(out) : "r"(a), "r"(b));
    return out;
}
/* a b + -0: the form of a product that every target has. */
GPU_DEVICE uint32_t ptx_mul_bf16x2(uint32_t a, uint32_t b) {
    uint32_t out;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(out) : "r"(a), "r"(b), "r"(0x80008000u));
    return out;
}
/* The f16 in the low half. */
GPU_DEVICE float ptx_f16_to_f32(uint32_t half) {
    float out;
    asm("cvt.f32.f16 %0, %1;" : "=f"(out) : "h"((unsigned short)half));
    return out;
}

/* Two codes in the low half, the first in the low byte; e2m1: in byte `byte` of four, the first in
 * its low nibble. Only where PTX_HAS_FP8_CONVERT and PTX_HAS_FP4_CONVERT say so. */
#if PTX_HAS_FP8_CONVERT
GPU_DEVICE uint32_t ptx_e4m3x2_to_f16x2(uint32_t codes) {
    uint32_t out;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(out) : "h"((unsigned short)codes));
    return out;
}
#endif
#if PTX_HAS_FP4_CONVERT
template <uint32_t byte = 0> GPU_DEVICE uint32_t ptx_e2m1x2_to_f16x2(uint32_t codes) {
    uint32_t out;
    asm("{ .reg .b8 byte<4>;\n"
        "  mov.b32 {byte0, byte1, byte2, byte3}, %1;\n"
        "  cvt.rn.f16x2.e2m1x2 %0, byte%2; }"
        : "=r"(out)
        : "r"(codes), "n"(byte));
    return out;
}
#endif

/* Nanoseconds on the device's timer, which counts in steps of its own; cycles of the multiprocessor
 * this thread runs on. In the order of the program. */
GPU_DEVICE uint64_t ptx_globaltimer() {
    uint64_t ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns)::"memory");
    return ns;
}
GPU_DEVICE uint64_t ptx_clock64() {
    uint64_t cycles;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(cycles)::"memory");
    return cycles;
}

/* Byte i of the result is byte (selector >> 4 i) & 7 of the eight bytes a, b (a's first). */
GPU_DEVICE uint32_t ptx_permute_bytes(uint32_t a, uint32_t b, uint32_t selector) {
    return __byte_perm(a, b, selector);
}
/* The upper half of the 64-bit product. */
GPU_DEVICE uint32_t ptx_multiply_high(uint32_t a, uint32_t b) {
    return __umulhi(a, b);
}
/* 2^x, about 2 ulp; subnormal results are 0; 2^-inf = 0. */
GPU_DEVICE float ptx_exp2(float x) {
    float out;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(out) : "f"(x));
    return out;
}

#else
#include <simt_ptx.h>
#endif

#endif
