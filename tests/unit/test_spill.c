/* What tells spilled memory from the device's own: a clock and a memory of the test's making. No
 * real time is looked at. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <sys/mman.h>
#include <unistd.h>

#include "counting_ops.h"
#include "spill.h"

#define REGION SPILL_REGION_BYTES
#define FAKE_BASE ((uintptr_t)1 << 40) /* an address nobody reads at */

/* The last read and the clock that follows from it: 1 byte a nanosecond, `slow_factor` times
 * longer in [slow_from, slow_end), and for the first slow_reads readings anywhere. */
static struct {
    uintptr_t from;
    uint64_t bytes;
    uint64_t reads;
    uintptr_t slow_from, slow_end;
    uint64_t slow_reads;
    uint64_t slow_factor;
    uint8_t seen[64]; /* readings of each region */
} fake;

static enum status fake_stream(struct backend_device *device, const void *dev_from, uint64_t bytes,
                               struct status_text *text) {
    (void)device, (void)text;
    fake.from = (uintptr_t)dev_from;
    fake.bytes = bytes;
    fake.reads++;
    if (fake.from >= FAKE_BASE && fake.from - FAKE_BASE < sizeof fake.seen * REGION)
        fake.seen[(fake.from - FAKE_BASE) / REGION]++;
    return STATUS_OK;
}

static uint64_t fake_elapsed(struct backend_device *device, uint32_t from, uint32_t to) {
    (void)device, (void)from, (void)to;
    const bool slow =
        (fake.from >= fake.slow_from && fake.from < fake.slow_end) || fake.reads <= fake.slow_reads;
    return slow ? fake.bytes * fake.slow_factor : fake.bytes;
}

static const void *nowhere(struct backend_device *device, const void *dev_from) {
    (void)device, (void)dev_from;
    return NULL;
}

static struct backend_device *device;

static void start(uint64_t slow_factor) {
    counting_reset(0);
    counting.ops.stream_read = fake_stream;
    counting.ops.elapsed_ns = fake_elapsed;
    counting.ops.memory_host = nowhere;
    fake.reads = fake.slow_reads = 0;
    fake.slow_from = fake.slow_end = 0;
    fake.slow_factor = slow_factor;
    for (size_t i = 0; i < sizeof fake.seen; i++)
        fake.seen[i] = 0;
    if (device == NULL)
        assert_int_equal(counting.ops.open(&(struct backend_options){.threads = 1}, &device, NULL),
                         STATUS_OK);
}

static struct spill_report read_fake(uint64_t bytes, double ceiling) {
    struct spill_report report;
    assert_int_equal(spill_read(&counting.ops, device, (const void *)FAKE_BASE, bytes, ceiling,
                                NULL, &report, NULL),
                     STATUS_OK);
    assert_int_equal(report.read_bytes, bytes);
    return report;
}

static void test_everything_is_read_once(void **state) {
    (void)state;
    static const struct {
        uint64_t bytes, regions;
    } cases[] = {{1, 1},          {REGION, 1},         {2 * REGION - 1, 1},
                 {2 * REGION, 2}, {5 * REGION + 7, 5}, {6 * REGION, 6}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        start(1);
        const struct spill_report report = read_fake(cases[i].bytes, 1.0);
        assert_int_equal(report.region_count, cases[i].regions);
        assert_int_equal(report.spilled_bytes, 0);
        for (uint64_t r = 0; r < cases[i].regions; r++)
            assert_int_equal(fake.seen[r], 1);
        assert_int_equal(fake.reads, cases[i].regions);
        assert_false(report.busy);
    }
}

static void test_a_slow_region_is_spilled(void **state) {
    (void)state;
    start(SPILL_FACTOR + 1);
    fake.slow_from = FAKE_BASE + 2 * REGION;
    fake.slow_end = FAKE_BASE + 4 * REGION;
    const struct spill_report report = read_fake(7 * REGION, 1.0);
    assert_int_equal(report.spilled_bytes, 2 * REGION);
    assert_int_equal(report.spilled_offset_bytes, 2 * REGION);
    assert_int_equal(report.missing_bytes, 0);
    assert_true(report.slowest_gb_per_s < 1.0 / SPILL_FACTOR);
    assert_int_equal(fake.seen[1], 1);
    assert_int_equal(fake.seen[2], SPILL_READS);
    /* all of it slow, against a ceiling that was measured elsewhere */
    start(SPILL_FACTOR + 1);
    fake.slow_from = FAKE_BASE;
    fake.slow_end = FAKE_BASE + 7 * REGION;
    assert_int_equal(read_fake(7 * REGION, 1.0).spilled_bytes, 7 * REGION);
    /* slower, but not far */
    start(SPILL_FACTOR - 1);
    fake.slow_from = FAKE_BASE;
    fake.slow_end = FAKE_BASE + 7 * REGION;
    assert_int_equal(read_fake(7 * REGION, 1.0).spilled_bytes, 0);
}

/* Somebody else was busy during the first readings. */
static void test_one_good_reading_is_enough(void **state) {
    (void)state;
    start(50);
    fake.slow_reads = SPILL_READS - 1;
    assert_int_equal(read_fake(3 * REGION, 1.0).spilled_bytes, 0);
    assert_int_equal(fake.seen[0], SPILL_READS);
    assert_int_equal(fake.seen[1], 1);
}

static void test_too_little_to_judge(void **state) {
    (void)state;
    start(100);
    fake.slow_from = FAKE_BASE;
    fake.slow_end = FAKE_BASE + REGION;
    struct spill_report report = read_fake(SPILL_LEAST_BYTES - 1, 1.0);
    assert_true(report.ceiling_gb_per_s == 0);
    assert_int_equal(report.spilled_bytes, 0);
    assert_int_equal(fake.reads, 1);
    assert_int_equal(read_fake(SPILL_LEAST_BYTES, 1.0).spilled_bytes, SPILL_LEAST_BYTES);
    assert_int_equal(read_fake(REGION, 0).spilled_bytes, 0);
}

/* Where the system tells, time does not decide. */
static void test_what_is_in_memory(void **state) {
    (void)state;
    const uint64_t bytes = SPILL_LEAST_BYTES, page = (uint64_t)sysconf(_SC_PAGESIZE);
    start(100);
    fake.slow_reads = UINT64_MAX;
    counting.ops.memory_host = backend_find("cpu")->memory_host;
    uint8_t *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    (void)madvise(memory, bytes, MADV_NOHUGEPAGE);
    for (uint64_t i = 0; i < bytes; i += page)
        if (i != 5 * page)
            memory[i] = 1;
    struct spill_report report;
    assert_int_equal(spill_read(&counting.ops, device, memory, bytes, 1.0, NULL, &report, NULL),
                     STATUS_OK);
    assert_int_equal(report.spilled_bytes, bytes);
    assert_int_equal(report.missing_bytes, page);
    memory[5 * page] = 1;
    assert_int_equal(spill_read(&counting.ops, device, memory, bytes, 1.0, NULL, &report, NULL),
                     STATUS_OK);
    assert_int_equal(report.spilled_bytes, 0);
    assert_true(report.busy);
    assert_int_equal(munmap(memory, bytes), 0);
}

static bool stop_at_once(void) {
    return true;
}

static void test_ceiling_and_interrupt(void **state) {
    (void)state;
    start(1);
    double speed;
    assert_int_equal(spill_ceiling(&counting.ops, device, (uint64_t)1 << 40, 5 << 20, &speed, NULL),
                     STATUS_OK);
    assert_true(speed > 0.99 && speed < 1.01);
    assert_int_equal(counting.peak_bytes, 5 << 20); /* what may be taken, no more */
    assert_int_equal(counting.held_bytes, 0);
    assert_int_equal(spill_ceiling(&counting.ops, device, 100, (uint64_t)1 << 40, &speed, NULL),
                     STATUS_OK);
    assert_true(speed == 0);
    struct spill_report report;
    assert_int_equal(spill_read(&counting.ops, device, (const void *)FAKE_BASE, REGION, 1.0,
                                stop_at_once, &report, NULL),
                     STATUS_INTERRUPTED);
    counting.limit_bytes = 1 << 20;
    assert_int_equal(spill_ceiling(&counting.ops, device, REGION, REGION, &speed, NULL),
                     STATUS_OUT_OF_MEMORY);
    assert_int_equal(counting.held_bytes, 0);
    counting.ops.close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_everything_is_read_once),
        cmocka_unit_test(test_a_slow_region_is_spilled),
        cmocka_unit_test(test_one_good_reading_is_enough),
        cmocka_unit_test(test_too_little_to_judge),
        cmocka_unit_test(test_what_is_in_memory),
        cmocka_unit_test(test_ceiling_and_interrupt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
