/* The words of kernels/gpu/gpu_lang.cuh for a compiler that is not nvcc. Each CUDA thread is a
 * fiber; operations of a block or a warp carry the place they were called from, and fail with it.
 */
#ifndef SIMT_LANG_H
#define SIMT_LANG_H

#include <cstdint>
#include <type_traits>

#define GPU_DEVICE inline
#define GPU_CONSTEXPR constexpr
#define GPU_KERNEL(threads, blocks) void
#define GPU_SHARED(name) unsigned char *const name = simt_shared()
#define GPU_ENTRY(arguments, ...)                                                                  \
    (static_cast<const void *>(&simt_kernel_of<arguments, __VA_ARGS__>))

/* A line of a kernel. As the last argument's default it is the caller's. */
struct simt_place {
    const char *file;
    int line;
};
constexpr simt_place simt_here(const char *file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
}

/* What GPU_ENTRY points to. */
struct simt_kernel {
    void (*run)(const void *arguments);
    uint32_t arguments_bytes;
};
template <class Arguments, void (*kernel)(Arguments)> void simt_call(const void *arguments) {
    kernel(*static_cast<const Arguments *>(arguments));
}
template <class Arguments, void (*kernel)(Arguments)>
inline constexpr simt_kernel simt_kernel_of = {simt_call<Arguments, kernel>, sizeof(Arguments)};

/* Of the running fiber. */
struct simt_position {
    uint32_t thread, threads, block, blocks;
};
extern struct simt_position simt_position;

unsigned char *simt_shared();
void simt_sync_block(simt_place place);
void simt_sync_warp(simt_place place);
void simt_shuffle(const void *value, void *out, uint32_t bytes, uint32_t from_lane,
                  simt_place place);
bool simt_any(bool value, simt_place place);
void simt_atomic_add(uint64_t *to, uint64_t value);
void simt_atomic_add(uint32_t *to, uint32_t value);

GPU_DEVICE uint32_t gpu_thread() {
    return simt_position.thread;
}
GPU_DEVICE uint32_t gpu_threads() {
    return simt_position.threads;
}
GPU_DEVICE uint32_t gpu_block() {
    return simt_position.block;
}
GPU_DEVICE uint32_t gpu_blocks() {
    return simt_position.blocks;
}

GPU_DEVICE void gpu_sync_block(simt_place place = simt_here()) {
    simt_sync_block(place);
}
GPU_DEVICE void gpu_sync_warp(simt_place place = simt_here()) {
    simt_sync_warp(place);
}
template <class T>
GPU_DEVICE T gpu_shuffle(T value, uint32_t from, simt_place place = simt_here()) {
    static_assert(std::is_trivially_copyable<T>::value, "registers only");
    T out;
    simt_shuffle(&value, &out, sizeof value, from % GPU_WARP_LANES, place);
    return out;
}
template <class T>
GPU_DEVICE T gpu_shuffle_xor(T value, uint32_t bits, simt_place place = simt_here()) {
    return gpu_shuffle(value, (simt_position.thread ^ bits) % GPU_WARP_LANES, place);
}
/* A shuffle too: all lanes must be there. */
template <class T> GPU_DEVICE T gpu_keep(T value, simt_place place = simt_here()) {
    return gpu_shuffle(value, simt_position.thread, place);
}
GPU_DEVICE bool gpu_any(bool value, simt_place place = simt_here()) {
    return simt_any(value, place);
}
GPU_DEVICE void gpu_atomic_add(uint64_t *to, uint64_t value) {
    simt_atomic_add(to, value);
}
GPU_DEVICE void gpu_atomic_add(uint32_t *to, uint32_t value) {
    simt_atomic_add(to, value);
}
/* Neither fused (the build says -ffp-contract=off) nor reordered. */
GPU_DEVICE float gpu_multiply(float a, float b) {
    return a * b;
}

#endif
