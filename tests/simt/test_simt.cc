/* Does the shim see what is wrong? Each planted fault against what this build must say of it: the
 * plain one, the one under AddressSanitizer, and the one with the race detector's hooks. */
#include "planted.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <sys/wait.h>
#include <unistd.h>

#include "simt.h"
#include "simt_fiber.h"

namespace {

enum { BLOCKS = 3, ROUNDS = 5, IN_WORDS = 256, OUT_WORDS = BLOCKS * PLANTED_THREADS };
/* Besides a piece of the launch's message. */
const char *const fine = "";             /* STATUS_OK and the right values */
const char *const silent = "silent";     /* STATUS_OK, whatever the values: not this build's */
const char *const stopped = "stopped";   /* AddressSanitizer ended the program */
const char *const poisoned = "poisoned"; /* STATUS_OK, and 0xFF among the values */

struct test_case {
    const char *name;
    enum planted which;
    const char *plain, *asan, *race;
    uint32_t (*expected)(uint32_t thread); /* for `fine` */
};

uint32_t zero(uint32_t) {
    return 0;
}
uint32_t sum_of_threads(uint32_t) {
    return PLANTED_THREADS * (PLANTED_THREADS + 1) / 2;
}
uint32_t sum_of_rounds(uint32_t) {
    return ROUNDS * (ROUNDS + 1) / 2;
}
uint32_t swapped(uint32_t thread) {
    return (thread + PLANTED_THREADS / 2) % PLANTED_THREADS + 1; /* after an odd number of swaps */
}

const test_case cases[] = {
    {"reduce", PLANTED_NOTHING_REDUCE, fine, fine, fine, sum_of_threads},
    {"ring", PLANTED_NOTHING_RING, fine, fine, fine, sum_of_rounds},
    {"unreal copy", PLANTED_NOTHING_UNREAL_COPY, fine, fine, fine, zero},
    {"exchange", PLANTED_NOTHING_EXCHANGE, fine, fine, fine, swapped},
    {"no barrier", PLANTED_NO_BARRIER, silent, silent, "race detector: ", zero},
    {"two barriers", PLANTED_TWO_BARRIERS, "divergent barrier", "divergent barrier",
     "divergent barrier", zero},
    {"exit before barrier", PLANTED_EXIT_BEFORE_BARRIER, "divergent barrier", "divergent barrier",
     "divergent barrier", zero},
    {"half warp", PLANTED_HALF_WARP, "gpu_shuffle", "gpu_shuffle", "gpu_shuffle", zero},
    {"two shuffles", PLANTED_TWO_SHUFFLES, "other lanes of the warp are in gpu_shuffle",
     "other lanes of the warp are in gpu_shuffle", "other lanes of the warp are in gpu_shuffle",
     zero},
    {"barrier in warp", PLANTED_BARRIER_IN_WARP, "gpu_sync_block", "gpu_sync_block",
     "gpu_sync_block", zero},
    {"write past shared", PLANTED_WRITE_PAST_SHARED, "wrote beyond", stopped, "outside", zero},
    {"read past shared", PLANTED_READ_PAST_SHARED, silent, stopped, "outside", zero},
    {"load past shared", PLANTED_LOAD_PAST_SHARED, "byte 1040 of 1040", "byte 1040 of 1040",
     "byte 1040 of 1040", zero},
    {"no wait", PLANTED_NO_WAIT, poisoned, poisoned, "not yet brought", zero},
    {"wait for older", PLANTED_WAIT_FOR_OLDER, poisoned, poisoned, "not yet brought", zero},
    {"exit with copy", PLANTED_EXIT_WITH_COPY, "still on their way", "still on their way",
     "still on their way", zero},
    {"live refill", PLANTED_LIVE_REFILL, silent, silent, "race detector: ", zero},
    {"no warp sync", PLANTED_NO_WARP_SYNC, silent, silent, "unordered write", zero},
    {"nobody wrote", PLANTED_NOBODY_WROTE, poisoned, poisoned, "nobody wrote", zero},
    {"nobody wrote global", PLANTED_NOBODY_WROTE_GLOBAL, silent, silent, "nobody wrote", zero},
    {"blocks collide", PLANTED_BLOCKS_COLLIDE, silent, silent, "two unordered writes", zero},
    {"write past global", PLANTED_WRITE_PAST_GLOBAL, "behind the out", stopped,
     "outside of the allocation", zero},
    {"read past global", PLANTED_READ_PAST_GLOBAL, silent, stopped, "outside of the allocation",
     zero},
    {"odd copy", PLANTED_ODD_COPY, "not aligned to 16", "not aligned to 16", "not aligned to 16",
     zero},
    {"odd load", PLANTED_ODD_LOAD, "not aligned to 4", "not aligned to 4", "not aligned to 4",
     zero},
};

const char *expectation(const test_case &test) {
    if (simt_race_enabled())
        return test.race;
#ifdef SIMT_ASAN
    return test.asan;
#else
    return test.plain;
#endif
}

struct memory {
    uint32_t *dev_in, *dev_out;
};

memory make_memory() {
    const memory made = {
        static_cast<uint32_t *>(simt_memory_allocate(IN_WORDS * sizeof(uint32_t), "in")),
        static_cast<uint32_t *>(simt_memory_allocate(OUT_WORDS * sizeof(uint32_t), "out"))};
    if (made.dev_in == nullptr || made.dev_out == nullptr)
        std::abort();
    for (uint32_t i = 0; i < IN_WORDS; i++)
        made.dev_in[i] = i + 1;
    simt_memory_written(made.dev_in, IN_WORDS * sizeof(uint32_t));
    return made;
}

enum status launch(const test_case &test, const memory &on, struct status_text *text) {
    const planted_arguments arguments = {on.dev_in, on.dev_out, ROUNDS};
    const struct gpu_launch what = {test.name,       planted_kernel(test.which), BLOCKS,
                                    PLANTED_THREADS, PLANTED_SHARED_BYTES,       &arguments,
                                    sizeof arguments};
    return simt_launch(&what, text);
}

/* In a child, whose complaint nobody needs to read. */
bool is_stopped(const test_case &test, const memory &on) {
    const pid_t child = fork();
    if (child == 0) {
        (void)!freopen("/dev/null", "w", stderr);
        struct status_text text;
        (void)launch(test, on, &text);
        _exit(0);
    }
    int result = 0;
    (void)waitpid(child, &result, 0);
    return !WIFEXITED(result) || WEXITSTATUS(result) != 0;
}

bool has_poison(const memory &on) {
    for (uint32_t i = 0; i < OUT_WORDS; i++)
        if (on.dev_out[i] == 0xFFFFFFFFu)
            return true;
    return false;
}

bool has_values(const test_case &test, const memory &on) {
    for (uint32_t i = 0; i < OUT_WORDS; i++)
        if (on.dev_out[i] != test.expected(i % PLANTED_THREADS)) {
            (void)printf("  word %u is %u\n", i, on.dev_out[i]);
            return false;
        }
    return true;
}

bool is_as_expected(const test_case &test, const char *expected) {
    const memory on = make_memory();
    struct status_text text = {{0}};
    bool good;
    if (expected == stopped) {
        good = is_stopped(test, on);
    } else {
        const enum status status = launch(test, on, &text);
        if (expected == silent)
            good = status == STATUS_OK;
        else if (expected == poisoned)
            good = status == STATUS_OK && has_poison(on);
        else if (expected == fine)
            good = status == STATUS_OK && has_values(test, on);
        else
            good = status == STATUS_WRONG && strstr(text.line, expected) != nullptr;
    }
    if (!good || getenv("SIMT_TEST_VERBOSE") != nullptr)
        (void)printf("%s %s: expected \"%s\": %s\n", good ? "passed" : "FAILED", test.name,
                     expected, text.line);
    simt_memory_free(on.dev_in);
    simt_memory_free(on.dev_out);
    return good;
}

/* For whoever makes the shim slower without noticing; asserts nothing. */
void print_speed() {
    const memory on = make_memory();
    const planted_arguments arguments = {on.dev_in, on.dev_out, 100};
    const struct gpu_launch what = {"exchange",
                                    planted_kernel(PLANTED_NOTHING_EXCHANGE),
                                    BLOCKS,
                                    PLANTED_THREADS,
                                    PLANTED_SHARED_BYTES,
                                    &arguments,
                                    sizeof arguments};
    const struct simt_counts before = simt_counts;
    struct status_text text;
    struct timespec start, end;
    (void)clock_gettime(CLOCK_MONOTONIC, &start);
    for (int i = 0; i < 20; i++)
        (void)simt_launch(&what, &text);
    (void)clock_gettime(CLOCK_MONOTONIC, &end);
    const double ns =
        (double)(end.tv_sec - start.tv_sec) * 1e9 + (double)(end.tv_nsec - start.tv_nsec);
    (void)printf("%.1f ns per switch of fibers\n",
                 ns / (double)(simt_counts.switches - before.switches));
    simt_memory_free(on.dev_in);
    simt_memory_free(on.dev_out);
}

} // namespace

int main() {
    unsigned failures = 0, runs = 0;
    for (int order = 0; order < SIMT_ORDERS; order++) {
        for (const test_case &test : cases) {
            simt_set_order((enum simt_order)order, 7);
            runs++;
            if (!is_as_expected(test, expectation(test)))
                failures++;
        }
    }
    print_speed();
    (void)printf("%u runs, %u not as expected\n", runs, failures);
    return failures == 0 ? 0 : 1;
}
