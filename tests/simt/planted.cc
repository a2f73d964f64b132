/* Tiny kernels, some right and most with one fault planted. Compiled with the race detector's hooks
 * in one build of the test, without in the others. */
#include "planted.h"

#include "gpu_ptx.cuh"

namespace {

GPU_DEVICE uint32_t lane() {
    return gpu_thread() % GPU_WARP_LANES;
}
GPU_DEVICE uint32_t *out_of(const planted_arguments &arguments) {
    return arguments.dev_out + gpu_block() * gpu_threads() + gpu_thread();
}
GPU_DEVICE uint32_t *words(unsigned char *shared) {
    return reinterpret_cast<uint32_t *>(shared);
}
GPU_DEVICE uint32_t warp_sum(uint32_t value) {
    for (uint32_t bits = 1; bits < GPU_WARP_LANES; bits *= 2)
        value += gpu_shuffle_xor(value, bits);
    return value;
}

/* All threads get the sum of what all brought. */
GPU_KERNEL(PLANTED_THREADS, 1) reduce(planted_arguments arguments) {
    GPU_SHARED(shared);
    const uint32_t mine = arguments.dev_in[gpu_thread()];
    const uint32_t sum = warp_sum(mine);
    if (lane() == 0)
        words(shared)[gpu_thread() / GPU_WARP_LANES] = sum;
    gpu_sync_block();
    uint32_t all = 0;
    for (uint32_t warp = 0; warp < gpu_threads() / GPU_WARP_LANES; warp++)
        all += words(shared)[warp];
    *out_of(arguments) = all;
}

/* A ring of two stages of one word a lane for each warp; a lane reads its neighbour's words. */
GPU_KERNEL(PLANTED_THREADS, 1) ring(planted_arguments arguments) {
    GPU_SHARED(shared);
    const uint32_t warp_at = gpu_thread() / GPU_WARP_LANES * 2 * GPU_WARP_LANES;
    uint32_t *const stages = words(shared) + warp_at;
    const auto issue = [&](uint32_t round) {
        ptx_cp_async_4(ptx_shared_address(stages + round % 2 * GPU_WARP_LANES + lane()),
                       arguments.dev_in + round, round < arguments.rounds);
        ptx_cp_async_commit();
    };
    uint32_t sum = 0;
    issue(0);
    issue(1);
    for (uint32_t round = 0; round < arguments.rounds; round++) {
        ptx_cp_async_wait<1>();
        gpu_sync_warp();
        sum += stages[round % 2 * GPU_WARP_LANES + (lane() + 1) % GPU_WARP_LANES];
        gpu_sync_warp();
        issue(round + 2);
    }
    ptx_cp_async_wait<0>();
    *out_of(arguments) = sum;
}

GPU_KERNEL(PLANTED_THREADS, 1) unreal_copy(planted_arguments arguments) {
    GPU_SHARED(shared);
    const uint32_t at = ptx_shared_address(shared + gpu_thread() * 16);
    ptx_cp_async_16(at, nullptr, false);
    ptx_cp_async_commit();
    ptx_cp_async_wait<0>();
    uint32_t got[4];
    ptx_load_shared_v4(got, at);
    *out_of(arguments) = got[0] | got[1] | got[2] | got[3];
}

/* Barriers in a loop; a thread of the other warp reads what this one wrote. */
GPU_KERNEL(PLANTED_THREADS, 1) exchange(planted_arguments arguments) {
    GPU_SHARED(shared);
    uint32_t value = arguments.dev_in[gpu_thread()];
    for (uint32_t round = 0; round < arguments.rounds; round++) {
        ptx_store_shared_u32(ptx_shared_address(words(shared) + gpu_thread()), value);
        gpu_sync_block();
        value = ptx_load_shared_u32(
            ptx_shared_address(words(shared) + (gpu_thread() + GPU_WARP_LANES) % gpu_threads()));
        gpu_sync_block();
    }
    *out_of(arguments) = gpu_any(value != 0) ? value : 0;
}

GPU_KERNEL(PLANTED_THREADS, 1) no_barrier(planted_arguments arguments) {
    GPU_SHARED(shared);
    words(shared)[gpu_thread()] = arguments.dev_in[gpu_thread()];
    *out_of(arguments) = words(shared)[(gpu_thread() + GPU_WARP_LANES) % gpu_threads()];
}

GPU_KERNEL(PLANTED_THREADS, 1) two_barriers(planted_arguments arguments) {
    if (gpu_thread() < GPU_WARP_LANES)
        gpu_sync_block();
    else
        gpu_sync_block();
    *out_of(arguments) = 0;
}

GPU_KERNEL(PLANTED_THREADS, 1) exit_before_barrier(planted_arguments arguments) {
    *out_of(arguments) = 0;
    if (gpu_thread() == 17)
        return;
    gpu_sync_block();
}

GPU_KERNEL(PLANTED_THREADS, 1) half_warp(planted_arguments arguments) {
    uint32_t value = lane();
    if (lane() < 16)
        value = gpu_shuffle_xor(value, 1);
    *out_of(arguments) = value;
}

GPU_KERNEL(PLANTED_THREADS, 1) two_shuffles(planted_arguments arguments) {
    uint32_t value = lane();
    if (lane() < 16)
        value = gpu_shuffle(value, 3);
    else
        value = gpu_shuffle(value, 4);
    *out_of(arguments) = value;
}

GPU_KERNEL(PLANTED_THREADS, 1) barrier_in_warp(planted_arguments arguments) {
    if (lane() == 5)
        gpu_sync_block();
    else
        gpu_sync_warp();
    *out_of(arguments) = 0;
}

GPU_KERNEL(PLANTED_THREADS, 1) write_past_shared(planted_arguments arguments) {
    GPU_SHARED(shared);
    if (gpu_thread() == 40)
        shared[PLANTED_SHARED_BYTES] = (unsigned char)arguments.rounds;
    *out_of(arguments) = 0;
}

GPU_KERNEL(PLANTED_THREADS, 1) read_past_shared(planted_arguments arguments) {
    GPU_SHARED(shared);
    *out_of(arguments) = gpu_thread() == 40 ? shared[PLANTED_SHARED_BYTES] : 0;
}

GPU_KERNEL(PLANTED_THREADS, 1) load_past_shared(planted_arguments arguments) {
    GPU_SHARED(shared);
    const uint32_t at = ptx_shared_address(shared);
    *out_of(arguments) = gpu_thread() == 40 ? ptx_load_shared_u32(at + PLANTED_SHARED_BYTES) : 0;
}

GPU_KERNEL(PLANTED_THREADS, 1) no_wait(planted_arguments arguments) {
    GPU_SHARED(shared);
    const uint32_t at = ptx_shared_address(words(shared) + gpu_thread());
    ptx_cp_async_4(at, arguments.dev_in + gpu_thread(), true);
    ptx_cp_async_commit();
    *out_of(arguments) = ptx_load_shared_u32(at);
    ptx_cp_async_wait<0>();
}

GPU_KERNEL(PLANTED_THREADS, 1) wait_for_older(planted_arguments arguments) {
    GPU_SHARED(shared);
    const uint32_t at = ptx_shared_address(words(shared) + gpu_thread());
    ptx_cp_async_4(at + PLANTED_THREADS * 4, arguments.dev_in, true);
    ptx_cp_async_commit();
    ptx_cp_async_4(at, arguments.dev_in + gpu_thread(), true);
    ptx_cp_async_commit();
    ptx_cp_async_wait<1>();
    *out_of(arguments) = ptx_load_shared_u32(at);
    ptx_cp_async_wait<0>();
}

GPU_KERNEL(PLANTED_THREADS, 1) exit_with_copy(planted_arguments arguments) {
    GPU_SHARED(shared);
    ptx_cp_async_8(ptx_shared_address(shared + gpu_thread() * 8), arguments.dev_in, true);
    ptx_cp_async_commit();
    *out_of(arguments) = 0;
}

/* Each lane refills its word while its neighbour may still read it. */
GPU_KERNEL(PLANTED_THREADS, 1) live_refill(planted_arguments arguments) {
    GPU_SHARED(shared);
    uint32_t *const stage = words(shared) + gpu_thread() / GPU_WARP_LANES * GPU_WARP_LANES;
    const uint32_t at = ptx_shared_address(stage + lane());
    ptx_cp_async_4(at, arguments.dev_in, true);
    ptx_cp_async_commit();
    ptx_cp_async_wait<0>();
    gpu_sync_warp();
    *out_of(arguments) = stage[(lane() + GPU_WARP_LANES - 1) % GPU_WARP_LANES];
    ptx_cp_async_4(at, arguments.dev_in + 1, true);
    ptx_cp_async_commit();
    ptx_cp_async_wait<0>();
}

/* ldmatrix is a rendezvous of fibers, but orders no memory. */
GPU_KERNEL(PLANTED_THREADS, 1) no_warp_sync(planted_arguments arguments) {
    GPU_SHARED(shared);
    unsigned char *const rows = shared + gpu_thread() / GPU_WARP_LANES * 16 * GPU_WARP_LANES;
    const uint32_t row = ptx_shared_address(rows + 16 * lane());
    ptx_cp_async_16(row, arguments.dev_in, true);
    ptx_cp_async_commit();
    ptx_cp_async_wait<0>();
    uint32_t matrices[4];
    ptx_ldmatrix_x4(matrices, row);
    *out_of(arguments) = matrices[0];
}

GPU_KERNEL(PLANTED_THREADS, 1) nobody_wrote(planted_arguments arguments) {
    GPU_SHARED(shared);
    if (gpu_thread() != 9)
        words(shared)[gpu_thread()] = 1;
    gpu_sync_block();
    *out_of(arguments) = words(shared)[gpu_thread()];
}

GPU_KERNEL(PLANTED_THREADS, 1) nobody_wrote_global(planted_arguments arguments) {
    *out_of(arguments) += 1;
}

GPU_KERNEL(PLANTED_THREADS, 1) blocks_collide(planted_arguments arguments) {
    arguments.dev_out[gpu_thread() + gpu_block() * (gpu_threads() - 1)] = 0;
}

GPU_KERNEL(PLANTED_THREADS, 1) write_past_global(planted_arguments arguments) {
    out_of(arguments)[gpu_blocks() * gpu_threads() - gpu_block() * gpu_threads()] = 0;
}

GPU_KERNEL(PLANTED_THREADS, 1) read_past_global(planted_arguments arguments) {
    *out_of(arguments) = out_of(arguments)[gpu_blocks() * gpu_threads()] == 7;
}

GPU_KERNEL(PLANTED_THREADS, 1) odd_copy(planted_arguments arguments) {
    GPU_SHARED(shared);
    ptx_cp_async_16(ptx_shared_address(shared), arguments.dev_in + 1, true);
    ptx_cp_async_commit();
    ptx_cp_async_wait<0>();
    *out_of(arguments) = 0;
}

GPU_KERNEL(PLANTED_THREADS, 1) odd_load(planted_arguments arguments) {
    GPU_SHARED(shared);
    *out_of(arguments) = ptx_load_shared_u32(ptx_shared_address(shared) + 2);
}

} // namespace

const void *planted_kernel(enum planted which) {
    static const void *const kernels[PLANTED_COUNT] = {
        GPU_ENTRY(planted_arguments, reduce),
        GPU_ENTRY(planted_arguments, ring),
        GPU_ENTRY(planted_arguments, unreal_copy),
        GPU_ENTRY(planted_arguments, exchange),
        GPU_ENTRY(planted_arguments, no_barrier),
        GPU_ENTRY(planted_arguments, two_barriers),
        GPU_ENTRY(planted_arguments, exit_before_barrier),
        GPU_ENTRY(planted_arguments, half_warp),
        GPU_ENTRY(planted_arguments, two_shuffles),
        GPU_ENTRY(planted_arguments, barrier_in_warp),
        GPU_ENTRY(planted_arguments, write_past_shared),
        GPU_ENTRY(planted_arguments, read_past_shared),
        GPU_ENTRY(planted_arguments, load_past_shared),
        GPU_ENTRY(planted_arguments, no_wait),
        GPU_ENTRY(planted_arguments, wait_for_older),
        GPU_ENTRY(planted_arguments, exit_with_copy),
        GPU_ENTRY(planted_arguments, live_refill),
        GPU_ENTRY(planted_arguments, no_warp_sync),
        GPU_ENTRY(planted_arguments, nobody_wrote),
        GPU_ENTRY(planted_arguments, nobody_wrote_global),
        GPU_ENTRY(planted_arguments, blocks_collide),
        GPU_ENTRY(planted_arguments, write_past_global),
        GPU_ENTRY(planted_arguments, read_past_global),
        GPU_ENTRY(planted_arguments, odd_copy),
        GPU_ENTRY(planted_arguments, odd_load),
    };
    return kernels[which];
}
