/* The clock kernel on timers that count in other steps, and on one that stands still: exact where
 * it can be, unknown where it cannot, and never without an end. */
#include <cmath>
#include <cstdio>

#include "gpu.h"
#include "gpu_ptx.cuh"
#include "simt.h"

namespace {

enum status launch(void *, const struct gpu_launch *given, struct status_text *text) {
    return simt_launch(given, text);
}

struct test_case {
    struct gpu_model_clock clock;
    double mhz;
};
/* now, a read, a tick, cycles per microsecond */
const test_case cases[] = {
    {{400005, 40, 1000000, 1500}, 1500}, /* a timer of 1 ms: 10 of them and no part of one */
    {{999999, 40, 1000000, 2}, 2},       /* just before a tick */
    {{12345, 30, 1024, 1980}, 1980},     /* 1.024 us */
    {{12345, 30, 32, 2410}, 2410},       /* 32 ns: every reading another one */
    {{12345, 30, 3000000, 345}, 345},
    {{12345, 30, 0, 1980}, 0},                /* it stands still */
    {{12345, 1, (uint64_t)1 << 40, 1980}, 0}, /* the next tick does not come */
    {{12345, 2, 1000000, 1980}, 0},           /* nor enough of them */
    {{12345, 40, 1000000, 0}, 0},             /* no cycles */
    {{12345, 40, 1000000, 4000000000}, 0},    /* more than any device has */
};

} // namespace

int main() {
    uint64_t *const dev_counts =
        static_cast<uint64_t *>(simt_memory_allocate(2 * sizeof(uint64_t), "counts"));
    struct gpu_machine machine = {};
    machine.launch = launch;
    int failed = 0;
    for (const test_case &one : cases) {
        struct status_text text = {};
        dev_counts[0] = dev_counts[1] = 12345;
        simt_clock = one.clock;
        const enum status status = gpu_clock(&machine, dev_counts, &text);
        const double mhz = gpu_clock_mhz(dev_counts);
        if (status == STATUS_OK && std::fabs(mhz - one.mhz) <= 1e-4 * one.mhz)
            continue;
        (void)printf("tick %llu ns: %.4f MHz, not %.4f %s\n", (unsigned long long)one.clock.tick_ns,
                     mhz, one.mhz, text.line);
        failed++;
    }
    struct status_text text = {};
    if (simt_memory_check(&text) != STATUS_OK) {
        (void)printf("%s\n", text.line);
        failed++;
    }
    simt_memory_free(dev_counts);
    return failed > 0;
}
