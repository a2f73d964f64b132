/* Plain streaming over a device of the test's making, which has a speed for each size and no
 * memory: what a launch costs, where reads reach their plateau, and clocks that do not tell the
 * time. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "made_clock.h"
#include "measure.h"

#define MIB ((uint64_t)1 << 20)
#define DEV_MEMORY ((void *)(uintptr_t)4096) /* an address nobody reads at */

static struct {
    uint64_t free_bytes, held_bytes, filled_bytes, read_bytes;
    const double *gb_per_s;        /* [log2 of MiB]; NULL: one of everything */
    uint64_t windows;              /* marks at a window's end */
    uint64_t slow_windows;         /* of every five the first so many take twice as long */
    uint64_t stuck_from, stuck_to; /* windows over which the clock stands */
    bool no_memory, no_read;
} fake;

static void facts(struct backend_device *on, struct backend_facts *out) {
    (void)on;
    *out = (struct backend_facts){.memory_free_bytes = fake.free_bytes};
}

static enum status allocate(struct backend_device *on, uint64_t bytes, const char *what,
                            struct backend_memory *out, struct status_text *text) {
    (void)on;
    if (fake.no_memory)
        return status_set(text, STATUS_OUT_OF_MEMORY, "%s: none", what);
    fake.held_bytes += bytes;
    *out = (struct backend_memory){.dev_address = DEV_MEMORY, .bytes = bytes};
    return STATUS_OK;
}

static void release(struct backend_device *on, struct backend_memory *memory) {
    (void)on;
    fake.held_bytes -= memory->bytes;
}

static enum status fill(struct backend_device *on, void *dev_to, uint8_t byte, uint64_t bytes,
                        struct status_text *text) {
    (void)on, (void)byte, (void)text;
    assert_ptr_equal(dev_to, DEV_MEMORY);
    fake.filled_bytes += bytes;
    return STATUS_OK;
}

static enum status mark(struct backend_device *on, uint32_t which, struct status_text *text) {
    const enum status status = made_clock_mark(on, which, text);
    if (which == 1 && ++fake.windows >= fake.stuck_from && fake.windows < fake.stuck_to)
        made_clock.marks[1] = made_clock.marks[0];
    return status;
}

static enum status synchronize(struct backend_device *on, struct status_text *text) {
    (void)on, (void)text;
    return STATUS_OK;
}

static enum status stream_read(struct backend_device *on, const void *dev_from, uint64_t bytes,
                               struct status_text *text) {
    (void)on;
    if (fake.no_read)
        return status_set(text, STATUS_IO, "no read");
    assert_ptr_equal(dev_from, DEV_MEMORY);
    uint32_t size = 0;
    while (MIB << size < bytes)
        size++;
    const double ns = (double)bytes / (fake.gb_per_s != NULL ? fake.gb_per_s[size] : 1);
    made_clock.now_ns += (uint64_t)(fake.windows % 5 < fake.slow_windows ? 2 * ns : ns);
    fake.read_bytes += bytes;
    return STATUS_OK;
}

static const struct backend_ops ops = {
    .facts = facts,
    .memory_allocate = allocate,
    .memory_free = release,
    .memory_fill = fill,
    .mark = mark,
    .synchronize = synchronize,
    .elapsed_ns = made_clock_elapsed_ns,
    .stream_read = stream_read,
};

static void start(void) {
    memset(&fake, 0, sizeof fake);
    fake.free_bytes = (uint64_t)8 << 30;
    made_clock_start();
}

static struct measure_sweep sweep(void) {
    struct measure_sweep out;
    struct status_text text = {""};
    if (measure_sweep_run(&ops, NULL, &out, &text) != STATUS_OK)
        fail_msg("%s", text.line);
    assert_int_equal(fake.held_bytes, 0);
    return out;
}

/* A quarter of what is free at most, 1 MiB at least; all of it is written before it is read. */
static void test_sizes_of_a_sweep(void **state) {
    (void)state;
    static const struct {
        uint64_t free_bytes;
        uint32_t points;
    } cases[] = {{(uint64_t)8 << 30, 10}, {2048 * MIB, 10}, {2048 * MIB - 1, 9},
                 {100 * MIB, 5},          {4 * MIB, 1},     {0, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        start();
        fake.free_bytes = cases[i].free_bytes;
        const struct measure_sweep out = sweep();
        assert_int_equal(out.count, cases[i].points);
        for (uint32_t point = 0; point < out.count; point++) {
            assert_int_equal(out.bytes[point], MIB << point);
            assert_true(fabs(out.gb_per_s[point] - 1) < 1e-9);
        }
        assert_int_equal(out.plateau_bytes, MIB); /* it is as fast from there on */
        assert_int_equal(fake.filled_bytes, MIB << (out.count - 1));
        /* small ones are read so often that a window is as long as a large one's */
        assert_true(fake.read_bytes >= out.count * 5 * MEASURE_STREAM_BYTES / 2);
    }
}

/* The first size from which on all are within a quarter of the last, whatever a smaller one did. */
static void test_plateau(void **state) {
    (void)state;
    static const double falling[] = {100, 20, 100, 60, 40, 25.1, 24.9, 21, 19, 20};
    start();
    fake.gb_per_s = falling;
    const struct measure_sweep out = sweep();
    for (uint32_t point = 0; point < out.count; point++)
        assert_true(fabs(out.gb_per_s[point] / falling[point] - 1) < 1e-4);
    assert_int_equal(out.plateau_bytes, 64 * MIB);
    static const double until_the_end[] = {100, 90, 80, 70, 60, 50, 40, 30, 26, 20};
    start();
    fake.gb_per_s = until_the_end;
    assert_int_equal(sweep().plateau_bytes, 512 * MIB);
}

/* Somebody else was busy during four windows of five. */
static void test_fastest_window(void **state) {
    (void)state;
    start();
    fake.slow_windows = 4;
    const struct measure_sweep out = sweep();
    for (uint32_t point = 0; point < out.count; point++)
        assert_true(fabs(out.gb_per_s[point] - 1) < 1e-9);
}

static void test_launch(void **state) {
    (void)state;
    double ns = -1;
    start();
    assert_int_equal(measure_launch(&ops, NULL, DEV_MEMORY, &ns, NULL), STATUS_OK);
    assert_true(fabs(ns - 64) < 1e-9); /* 64 bytes at a GB/s */
    start();
    fake.slow_windows = 2; /* in 26 of 65 windows twice as long: not in the middle one */
    assert_int_equal(measure_launch(&ops, NULL, DEV_MEMORY, &ns, NULL), STATUS_OK);
    assert_true(fabs(ns - 64) < 1e-9);
    fake.slow_windows = 3;
    assert_int_equal(measure_launch(&ops, NULL, DEV_MEMORY, &ns, NULL), STATUS_OK);
    assert_true(fabs(ns - 128) < 1e-9);
}

/* Asked again so often, and no speed then; a sweep holds nothing behind a failure. */
static void test_failures(void **state) {
    (void)state;
    struct status_text text = {""};
    double gb_per_s = -1;
    start();
    fake.stuck_from = 1;
    fake.stuck_to = MEASURE_BAD_READINGS;
    assert_int_equal(measure_stream(&ops, NULL, DEV_MEMORY, 3 * MIB, &gb_per_s, &text), STATUS_OK);
    assert_true(fabs(gb_per_s - 1) < 1e-9);
    assert_int_equal(fake.windows, MEASURE_BAD_READINGS);
    start();
    fake.stuck_from = 1;
    fake.stuck_to = MEASURE_BAD_READINGS + 1;
    gb_per_s = -1;
    assert_int_equal(measure_stream(&ops, NULL, DEV_MEMORY, 3 * MIB, &gb_per_s, &text),
                     STATUS_REFUSED);
    assert_true(gb_per_s < 0);
    struct measure_sweep out;
    start();
    fake.stuck_from = 12;
    fake.stuck_to = UINT64_MAX;
    assert_int_equal(measure_sweep_run(&ops, NULL, &out, &text), STATUS_REFUSED);
    assert_int_equal(fake.held_bytes, 0);
    start();
    fake.no_read = true;
    assert_int_equal(measure_sweep_run(&ops, NULL, &out, &text), STATUS_IO);
    assert_string_equal(text.line, "no read");
    assert_int_equal(fake.held_bytes, 0);
    start();
    fake.no_memory = true;
    assert_int_equal(measure_sweep_run(&ops, NULL, &out, &text), STATUS_OUT_OF_MEMORY);
    assert_string_equal(text.line, "the read sweep's buffer: none");
    assert_int_equal(fake.filled_bytes + fake.windows, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes_of_a_sweep), cmocka_unit_test(test_plateau),
        cmocka_unit_test(test_fastest_window),   cmocka_unit_test(test_launch),
        cmocka_unit_test(test_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
