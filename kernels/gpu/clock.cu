/* How fast a multiprocessor's clock runs, with no library asked: its own counter of cycles against
 * the timer that counts nanoseconds, in one thread that does nothing else. */
#include "gpu.h"
#include "gpu_ptx.cuh"

enum : uint32_t {
    CLOCK_THREADS = 32,
    /* Tens of nanoseconds each: a timer that stands still holds the device for a fifth of a second
     * at most. */
    CLOCK_MOST_READS = 1u << 22,
};
enum : uint64_t { CLOCK_WINDOW_NS = 10 * 1000 * 1000 };

struct clock_arguments {
    uint64_t *dev_counts; /* [2]: cycles, nanoseconds */
};

/* From one tick of the timer to another one: it counts in steps, of a microsecond on some GPUs, of
 * a millisecond on others. */
GPU_KERNEL(CLOCK_THREADS, 1) clock_kernel(const struct clock_arguments a) {
    if (gpu_thread() != 0)
        return;
    uint32_t left = CLOCK_MOST_READS;
    const uint64_t before_ns = ptx_globaltimer();
    uint64_t from_ns = before_ns;
    for (; from_ns == before_ns && left > 0; left--)
        from_ns = ptx_globaltimer();
    const uint64_t from_cycles = ptx_clock64();
    uint64_t to_ns = from_ns;
    for (; to_ns - from_ns < CLOCK_WINDOW_NS && left > 0; left--)
        to_ns = ptx_globaltimer();
    const uint64_t cycles = ptx_clock64() - from_cycles;
    const bool whole = to_ns - from_ns >= CLOCK_WINDOW_NS;
    a.dev_counts[0] = whole ? cycles : 0;
    a.dev_counts[1] = whole ? to_ns - from_ns : 0;
}

extern "C" enum status gpu_clock(const struct gpu_machine *machine, uint64_t *dev_counts,
                                 struct status_text *text) {
    struct clock_arguments a = {};
    a.dev_counts = dev_counts;
    struct gpu_launch launch = {};
    launch.name = "clock";
    launch.entry = GPU_ENTRY(struct clock_arguments, clock_kernel);
    launch.blocks = 1;
    launch.threads = CLOCK_THREADS;
    launch.arguments = &a;
    launch.arguments_bytes = sizeof a;
    return machine->launch(machine->self, &launch, text);
}
