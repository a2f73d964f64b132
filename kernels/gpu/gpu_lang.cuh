/* The few words of CUDA that kernels are written in, besides the instructions of gpu_ptx.cuh.
 * Under nvcc they are CUDA's own; any other compiler finds them in <simt_lang.h>, where each thread
 * is a fiber (tests/simt). Kernels take one struct by value, have one dimension of blocks and of
 * threads, get all shared memory from GPU_SHARED, and never rely on how warps are scheduled
 * between barriers. Warp operations always name all 32 lanes. */
#ifndef GPU_LANG_CUH
#define GPU_LANG_CUH

#include <stdint.h>

enum { GPU_WARP_LANES = 32 };

#if defined(__CUDACC__)

#define GPU_DEVICE __device__ __forceinline__
#define GPU_CONSTEXPR __host__ __device__ constexpr
/* A kernel of at most `threads` threads, with registers for `blocks` blocks per multiprocessor. */
#define GPU_KERNEL(threads, blocks) __global__ void __launch_bounds__(threads, blocks)
/* The block's shared memory, as many bytes as the launch asked for, on 128 bytes. */
#define GPU_SHARED(name) extern __shared__ __align__(128) unsigned char name[]
/* What a table of kernels holds: GPU_ENTRY(struct arguments, kernel<...>). */
#define GPU_ENTRY(arguments, ...) (reinterpret_cast<const void *>(&__VA_ARGS__))

/* Before a loop whose trip count is known: arrays it indexes then stay in registers. */
#define GPU_UNROLL _Pragma("unroll")

GPU_DEVICE uint32_t gpu_thread() {
    return threadIdx.x;
}
GPU_DEVICE uint32_t gpu_threads() {
    return blockDim.x;
}
GPU_DEVICE uint32_t gpu_block() {
    return blockIdx.x;
}
GPU_DEVICE uint32_t gpu_blocks() {
    return gridDim.x;
}

GPU_DEVICE void gpu_sync_block() {
    __syncthreads();
}
GPU_DEVICE void gpu_sync_warp() {
    __syncwarp();
}
/* The value of lane `own lane ^ bits`. */
template <class T> GPU_DEVICE T gpu_shuffle_xor(T value, uint32_t bits) {
    return __shfl_xor_sync(0xFFFFFFFFu, value, (int)bits);
}
/* The value of lane `from`. */
template <class T> GPU_DEVICE T gpu_shuffle(T value, uint32_t from) {
    return __shfl_sync(0xFFFFFFFFu, value, (int)from);
}
/* The value itself, held in a register: what comes out of a shuffle is not computed again in every
 * trip of a loop, as compilers like to do with all that follows from the thread's number. */
template <class T> GPU_DEVICE T gpu_keep(T value) {
    return __shfl_sync(0xFFFFFFFFu, value, (int)(threadIdx.x % GPU_WARP_LANES));
}
GPU_DEVICE bool gpu_any(bool value) {
    return __any_sync(0xFFFFFFFFu, value) != 0;
}
GPU_DEVICE void gpu_atomic_add(uint64_t *to, uint64_t value) {
    atomicAdd(reinterpret_cast<unsigned long long *>(to), (unsigned long long)value);
}
GPU_DEVICE void gpu_atomic_add(uint32_t *to, uint32_t value) {
    atomicAdd(to, value);
}
/* Neither fused nor reordered: what a codec's rounding rule needs. */
GPU_DEVICE float gpu_multiply(float a, float b) {
    return __fmul_rn(a, b);
}

#else
#define GPU_UNROLL
#include <simt_lang.h>
#endif

#endif
