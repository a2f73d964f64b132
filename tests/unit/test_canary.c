/* The canary over a device of the test's making: what it keeps, how long it goes on, where it
 * stops. And the pace of the cpu itself: that it comes by every piece, and that its work is what it
 * says. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "canary.h"
#include "cpu/cpu_device.h"

enum { READ_NS = 1000, PIECE_NS = 2, PIECES = 20000, LEAST_PIECES = 16384 };

/* A clock of the test's own: reading takes READ_NS, and a piece of pace PIECE_NS. */
static struct {
    uint64_t now_ns, marks[BACKEND_MARKS];
    uint64_t first, pieces; /* of the last pace */
    uint64_t paces;
    bool no_pace;
} fake;

static enum status mark(struct backend_device *on, uint32_t which, struct status_text *text) {
    (void)on, (void)text;
    fake.marks[which] = fake.now_ns;
    return STATUS_OK;
}

static enum status synchronize(struct backend_device *on, struct status_text *text) {
    (void)on, (void)text;
    return STATUS_OK;
}

static uint64_t elapsed_ns(struct backend_device *on, uint32_t from, uint32_t to) {
    (void)on;
    return fake.marks[to] - fake.marks[from];
}

static enum status stream_read(struct backend_device *on, const void *dev_from, uint64_t bytes,
                               struct status_text *text) {
    (void)on, (void)dev_from, (void)bytes, (void)text;
    fake.now_ns += READ_NS;
    return STATUS_OK;
}

static enum status pace(struct backend_device *on, const void *dev_from, uint64_t bytes,
                        uint64_t first, uint64_t pieces, struct status_text *text) {
    (void)on, (void)dev_from, (void)bytes;
    if (fake.no_pace)
        return status_set(text, STATUS_IO, "no pace");
    fake.first = first;
    fake.pieces = pieces;
    fake.paces++;
    fake.now_ns += PIECE_NS * pieces;
    return STATUS_OK;
}

static const struct backend_ops ops = {
    .mark = mark,
    .synchronize = synchronize,
    .elapsed_ns = elapsed_ns,
    .stream_read = stream_read,
    .pace = pace,
};

static struct canary start(uint64_t bytes) {
    memset(&fake, 0, sizeof fake);
    return (struct canary){.ops = &ops, .bytes = bytes};
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
    const uint64_t bytes = (uint64_t)PIECES * BACKEND_PACE_BYTES;
    struct canary canary = start(bytes);
    for (int i = 0; i < 200; i++) /* past what is allocated at first */
        sing(&canary, 0);
    assert_int_equal(canary.count, 200);
    assert_int_equal(fake.paces, 200);
    for (int i = 0; i < 200; i++) {
        assert_true(near((double)canary.read_kb_per_s[i], (double)bytes / READ_NS * 1e6));
        assert_true(near((double)canary.pace_kb_per_s[i], BACKEND_PACE_BYTES / 2.0 * 1e6));
    }
    assert_true(near(canary.took_ns, READ_NS + PIECE_NS * LEAST_PIECES));
    assert_int_equal(canary_mean_mb_per_s(canary.pace_kb_per_s, 0, 199), 2048000);
    canary_free(&canary);
}

/* Each goes on where the last one ended. */
static void test_takes_turns(void **state) {
    (void)state;
    struct canary canary = start((uint64_t)PIECES * BACKEND_PACE_BYTES);
    sing(&canary, 0);
    assert_int_equal(fake.first, 0);
    assert_int_equal(fake.pieces, LEAST_PIECES);
    sing(&canary, 0);
    assert_int_equal(fake.first, LEAST_PIECES);
    canary_free(&canary);
}

/* A fifth of the steps behind it, in whole goes, one at least and 64 at most. */
static void test_long_steps_get_more(void **state) {
    (void)state;
    struct canary canary = start((uint64_t)PIECES * BACKEND_PACE_BYTES);
    const double go_ns = PIECE_NS * LEAST_PIECES;
    sing(&canary, 100 * go_ns); /* how long one takes is not known yet */
    assert_int_equal(fake.pieces, LEAST_PIECES);
    sing(&canary, 5.1 * go_ns);
    assert_int_equal(fake.pieces, LEAST_PIECES);
    sing(&canary, 15.1 * go_ns);
    assert_int_equal(fake.pieces, 3 * LEAST_PIECES);
    sing(&canary, 1e6 * go_ns);
    assert_int_equal(fake.pieces, 64 * LEAST_PIECES);
    assert_true(near((double)canary.pace_kb_per_s[3], BACKEND_PACE_BYTES / 2.0 * 1e6));
    canary_free(&canary);
}

static void test_small_ranges(void **state) {
    (void)state;
    struct canary canary = start(3 * BACKEND_PACE_BYTES + 5);
    sing(&canary, 0);
    assert_int_equal(fake.pieces, 3);
    canary_free(&canary);
    canary = start(BACKEND_PACE_BYTES - 1);
    sing(&canary, 0);
    assert_int_equal(fake.paces, 0);
    assert_int_equal(canary.count, 1);
    assert_int_equal(canary.pace_kb_per_s[0], 0);
    canary_free(&canary);
}

static void test_without_pace(void **state) {
    (void)state;
    struct backend_ops plain = ops;
    plain.pace = NULL;
    struct canary canary = start((uint64_t)PIECES * BACKEND_PACE_BYTES);
    canary.ops = &plain;
    sing(&canary, 0);
    assert_int_equal(canary.count, 1);
    assert_int_equal(canary.pace_kb_per_s[0], 0);
    assert_true(near(canary.took_ns, READ_NS));
    canary_free(&canary);
}

/* A reading without its pace is none. */
static void test_pace_that_fails(void **state) {
    (void)state;
    struct canary canary = start((uint64_t)PIECES * BACKEND_PACE_BYTES);
    sing(&canary, 0);
    fake.no_pace = true;
    struct status_text text = {""};
    assert_int_equal(canary_sing(&canary, 0, &text), STATUS_IO);
    assert_string_equal(text.line, "no pace");
    assert_int_equal(canary.count, 1);
    canary_free(&canary);
}

/* What one piece gives: numbers from 1 to 2 by the low seven bits of every second byte pair, times
 * an eighth of 1 to 8 and of 2 to 9. */
static double by_hand(const uint8_t *piece) {
    double sum = 0;
    for (uint32_t i = 0; i < BACKEND_PACE_BYTES; i += 2)
        sum += 1 + (piece[i] & 0x7F) / 128.0;
    return sum * (36 + 44) / 8;
}

/* Every byte counts whatever it is, NaN and subnormal numbers too. Each piece has numbers of its
 * own, so that one left out, or taken twice, is seen. */
static void test_pace_of_the_cpu(void **state) {
    (void)state;
    enum { COUNT = 60 };
    struct backend_device *device;
    struct status_text text = {""};
    const struct backend_ops *cpu = backend_find("cpu");
    if (cpu->open(&(struct backend_options){.threads = 2}, &device, &text) != STATUS_OK)
        fail_msg("%s", text.line);
    uint8_t *bytes = malloc((size_t)COUNT * BACKEND_PACE_BYTES + 7);
    assert_non_null(bytes);
    double all = 0;
    for (uint32_t p = 0; p < COUNT; p++) {
        uint8_t *piece = bytes + (size_t)p * BACKEND_PACE_BYTES;
        for (uint32_t i = 0; i < BACKEND_PACE_BYTES; i += 2) {
            piece[i] = (uint8_t)((p * p + i / 2 % 3) % 128 | (i % 4 == 0 ? 0x80 : 0));
            piece[i + 1] = (uint8_t)(i % 8 == 0 ? 0xFF : i % 8 == 2 ? 0x00 : i);
        }
        all += by_hand(piece);
    }
    for (uint64_t first = 0; first < 200; first += 59) {
        assert_int_equal(
            cpu->pace(device, bytes, (uint64_t)COUNT * BACKEND_PACE_BYTES + 7, first, COUNT, &text),
            STATUS_OK);
        assert_true(fabs(device->pace_result - all) < 1e-5 * all);
    }
    /* Neighbours in time are not neighbours in place. */
    double one[2];
    for (uint64_t i = 0; i < 2; i++) {
        assert_int_equal(
            cpu->pace(device, bytes, (uint64_t)COUNT * BACKEND_PACE_BYTES, i, 1, &text), STATUS_OK);
        one[i] = (double)device->pace_result;
    }
    assert_true(fabs(one[0] - by_hand(bytes)) < 1e-5 * one[0]);
    assert_true(fabs(one[1] - by_hand(bytes + BACKEND_PACE_BYTES)) > 1e-5 * one[1]);
    assert_int_equal(cpu->pace(device, bytes, 7, 0, 4, &text), STATUS_OK);
    assert_true(device->pace_result == 0);
    free(bytes);
    cpu->close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_speeds),         cmocka_unit_test(test_takes_turns),
        cmocka_unit_test(test_long_steps_get_more), cmocka_unit_test(test_small_ranges),
        cmocka_unit_test(test_without_pace),        cmocka_unit_test(test_pace_that_fails),
        cmocka_unit_test(test_pace_of_the_cpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
