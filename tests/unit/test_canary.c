/* The canary over a device of the test's making: what it keeps, how long it goes on, where it
 * stops. And the pace of the cpu itself: that it comes by every piece, and that its work is what it
 * says. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "canary.h"
#include "cpu/cpu_device.h"
#include "made_clock.h"

enum { READ_NS = 1000, BYTES = 5000, GO_ROUNDS = 1 << 22 };

/* By the made clock reading takes READ_NS, and a round of pace a nanosecond. */
static struct {
    uint64_t rounds; /* of the last pace */
    uint64_t paces;
    bool no_pace;
} fake;

static enum status synchronize(struct backend_device *on, struct status_text *text) {
    (void)on, (void)text;
    return STATUS_OK;
}

static enum status stream_read(struct backend_device *on, const void *dev_from, uint64_t bytes,
                               struct status_text *text) {
    (void)on, (void)dev_from, (void)bytes, (void)text;
    made_clock.now_ns += READ_NS;
    return STATUS_OK;
}

static enum status pace(struct backend_device *on, uint64_t rounds, struct status_text *text) {
    (void)on;
    if (fake.no_pace)
        return status_set(text, STATUS_IO, "no pace");
    fake.rounds = rounds;
    fake.paces++;
    made_clock.now_ns += rounds;
    return STATUS_OK;
}

static const struct backend_ops ops = {
    .mark = made_clock_mark,
    .synchronize = synchronize,
    .elapsed_ns = made_clock_elapsed_ns,
    .stream_read = stream_read,
    .pace = pace,
};

static struct canary start(void) {
    memset(&fake, 0, sizeof fake);
    made_clock_start();
    return (struct canary){.ops = &ops, .bytes = BYTES};
}

static void sing(struct canary *canary, double since_ns) {
    struct status_text text = {""};
    if (canary_sing(canary, since_ns, &text) != STATUS_OK)
        fail_msg("%s", text.line);
}

static bool near(double a, double b) {
    return fabs(a - b) <= 1e-3 * fabs(b);
}

static void test_both_speeds(void **state) {
    (void)state;
    struct canary canary = start();
    for (int i = 0; i < 200; i++) /* past what is allocated at first */
        sing(&canary, 0);
    assert_int_equal(canary.count, 200);
    assert_int_equal(fake.paces, 200);
    for (int i = 0; i < 200; i++) {
        assert_true(near((double)canary.read_kb_per_s[i], (double)BYTES / READ_NS * 1e6));
        assert_true(near((double)canary.pace_kops[i], BACKEND_PACE_OPERATIONS * 1e6));
    }
    assert_true(near(canary.took_ns, READ_NS + GO_ROUNDS));
    assert_int_equal(canary_mean(canary.pace_kops, 0, 199), BACKEND_PACE_OPERATIONS * 1000);
    canary_free(&canary);
}

/* A fifth of the steps behind it, in whole goes, one at least and 64 at most. */
static void test_long_steps_get_more(void **state) {
    (void)state;
    struct canary canary = start();
    const double go_ns = GO_ROUNDS;
    sing(&canary, 100 * go_ns); /* how long one takes is not known yet */
    assert_int_equal(fake.rounds, GO_ROUNDS);
    sing(&canary, 5.1 * go_ns);
    assert_int_equal(fake.rounds, GO_ROUNDS);
    sing(&canary, 15.1 * go_ns);
    assert_int_equal(fake.rounds, 3 * GO_ROUNDS);
    assert_true(near(canary.took_ns, READ_NS + 3 * go_ns));
    sing(&canary, 1e6 * go_ns);
    assert_int_equal(fake.rounds, 64 * GO_ROUNDS);
    assert_true(near((double)canary.pace_kops[3], BACKEND_PACE_OPERATIONS * 1e6));
    canary_free(&canary);
}

static void test_without_pace(void **state) {
    (void)state;
    struct backend_ops plain = ops;
    plain.pace = NULL;
    struct canary canary = start();
    canary.ops = &plain;
    sing(&canary, 0);
    assert_int_equal(canary.count, 1);
    assert_int_equal(canary.pace_kops[0], 0);
    assert_true(near(canary.took_ns, READ_NS));
    canary_free(&canary);
}

/* A reading without its pace is none. */
static void test_pace_that_fails(void **state) {
    (void)state;
    struct canary canary = start();
    sing(&canary, 0);
    fake.no_pace = true;
    struct status_text text = {""};
    assert_int_equal(canary_sing(&canary, 0, &text), STATUS_IO);
    assert_string_equal(text.line, "no pace");
    assert_int_equal(canary.count, 1);
    canary_free(&canary);
}

/* What rounds come to, by hand, one chain after the other. */
static uint64_t by_hand(uint64_t rounds) {
    uint64_t chain[6] = {1, 2, 3, 4, 5, 6};
    for (uint64_t k = 0; k < rounds; k++) {
        chain[0] = 2 * chain[0] ^ k;
        chain[1] = (chain[1] + chain[0]) | 1;
        chain[2] ^= k;
        chain[3] += chain[2];
        chain[4] = chain[4] / 2 + k;
        chain[5] ^= chain[4];
    }
    return chain[0] ^ chain[1] ^ chain[2] ^ chain[3] ^ chain[4] ^ chain[5];
}

/* All rounds that are asked for, on however many threads, and all of each. */
static void test_pace_of_the_cpu(void **state) {
    (void)state;
    struct status_text text = {""};
    const struct backend_ops *cpu = backend_find("cpu");
    for (uint32_t threads = 1; threads <= 3; threads++) {
        struct backend_device *device;
        if (cpu->open(&(struct backend_options){.threads = threads}, &device, &text) != STATUS_OK)
            fail_msg("%s", text.line);
        assert_int_equal(cpu->pace(device, 1000, &text), STATUS_OK);
        assert_int_equal(device->pace_result, by_hand(1000));
        assert_int_equal(cpu->pace(device, 3 * 65536 + 7, &text), STATUS_OK);
        assert_int_equal(device->pace_result, 3 * by_hand(65536) + by_hand(7));
        cpu->close(device);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_speeds),     cmocka_unit_test(test_long_steps_get_more),
        cmocka_unit_test(test_without_pace),    cmocka_unit_test(test_pace_that_fails),
        cmocka_unit_test(test_pace_of_the_cpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
