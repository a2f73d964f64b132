/* The sampling loop's turns, over tests/support/measure_world: who is measured when, where the
 * canary reads, what stops a contender. What is kept of samples: test_measure_seen. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "measure_world.h"

static void test_order(void **state) {
    (void)state;
    const struct measure_limits limits = {.samples = 4};
    world_start();
    world_run_well(3, &limits);
    assert_string_equal(world_rounds(3), "sAsBsCsCsBsAsAsBsCsCsBsAs");
    world_start();
    world_run_well(1, &limits);
    assert_string_equal(world_rounds(1), "sAsAsAsAs");
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(world_contenders[i].series.count, i == 0 ? 4 : 0);
    assert_int_equal(world_contenders[0].seen.stop, MEASURE_STOP_SAMPLES);
    assert_int_equal(world_contenders[1].seen.stop, MEASURE_STOP_NOT);
}

/* It has half of the time at most: short steps are several between two readings. */
static void test_canary_of_short_steps(void **state) {
    (void)state;
    const struct measure_limits limits = {.samples = 4};
    world_start();
    world.canary_ns = 5 * WORLD_STEP_NS / 2;
    world_run_well(2, &limits);
    assert_string_equal(world_rounds(2), "sABBsAABsBAs");
}

/* Whoever looks at the device does so where nothing is timed, as often as the canary sings. */
static void test_looks_between_samples(void **state) {
    (void)state;
    const struct measure_limits limits = {.samples = 4, .look = world_look, .look_context = &world};
    world_start();
    world.canary_ns = 5 * WORLD_STEP_NS / 2;
    world_run_well(2, &limits);
    assert_string_equal(world_rounds(2), "s.ABBs.AABs.BAs");
}

/* Exactly as many as asked, whatever they are like and however long it takes. */
static void test_samples_are_exact(void **state) {
    (void)state;
    static const uint64_t counts[] = {1, 2, 5, 64, 65, 20000};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        const struct measure_limits limits = {
            .samples = counts[i], .max_noise_percent = 100, .min_time_s = 0, .max_time_s = 0};
        world_start();
        world_run_well(2, &limits);
        for (int c = 0; c < 2; c++) {
            assert_int_equal(world_contenders[c].series.count, counts[i]);
            assert_int_equal(world_contenders[c].seen.stop, MEASURE_STOP_SAMPLES);
            assert_int_equal(world_contenders[c].seen.interval.high,
                             counts[i] < 6 ? 0 : WORLD_STEP_NS);
        }
    }
}

static void test_stops_where_the_interval_is_narrow(void **state) {
    (void)state;
    struct measure_limits limits = {.max_noise_percent = 1, .max_time_s = 1e9};
    world_start();
    world_run_well(1, &limits);
    assert_int_equal(world_contenders[0].series.count, MEASURE_ORDER_LEAST);
    assert_int_equal(world_contenders[0].seen.stop, MEASURE_STOP_INTERVAL);
    assert_string_equal(measure_stop_name(world_contenders[0].seen.stop), "interval");
    /* narrow at once, but there have to be so many seconds of steps */
    limits.min_time_s = 20.5 * WORLD_STEP_NS * 1e-9;
    world_start();
    world_run_well(1, &limits);
    assert_int_equal(world_contenders[0].series.count, 21);
    assert_int_equal(world_contenders[0].seen.stop, MEASURE_STOP_INTERVAL);
}

static double noise_of_first(uint64_t count) {
    static uint64_t sorted[MEASURE_MOST_SAMPLES];
    memcpy(sorted, world_contenders[0].series.step_ns, count * sizeof *sorted);
    measure_order_sort(sorted, count);
    const double median = measure_order_quantile(sorted, count, 0.5);
    return measure_order_noise_percent(
        sorted, count,
        measure_order_independent(world_contenders[0].series.step_ns, count, median));
}

static void test_goes_on_until_it_is_narrow(void **state) {
    (void)state;
    const struct measure_limits limits = {.max_noise_percent = 4, .max_time_s = 1e9};
    world_start();
    world.step_ns = world_scattered;
    world_run_well(1, &limits);
    const uint64_t count = world_contenders[0].series.count;
    assert_int_equal(world_contenders[0].seen.stop, MEASURE_STOP_INTERVAL);
    assert_true(noise_of_first(count) <= 4);
    uint64_t first = MEASURE_ORDER_LEAST; /* where a look at every sample had stopped */
    while (noise_of_first(first) > 4)
        first++;
    assert_true(first > 20);
    assert_true(count >= first && count <= first + 1 + first / 8);
}

/* Of up to 8 samples the interval is all of them, of 9 it leaves the slowest out. */
static uint64_t one_slow(char who, uint64_t nth) {
    (void)who;
    return nth == 3 ? 2 * WORLD_STEP_NS : WORLD_STEP_NS;
}

static void test_stops_at_the_time(void **state) {
    (void)state;
    /* looks: one of the start, then one before each round that may be */
    struct measure_limits limits = {.max_noise_percent = 1, .max_time_s = 30e-9};
    world_start();
    world.step_ns = world_never_narrow;
    world_run_well(1, &limits);
    assert_int_equal(world_contenders[0].seen.stop, MEASURE_STOP_TIME);
    assert_string_equal(measure_stop_name(world_contenders[0].seen.stop), "max-time");
    assert_int_equal(world_contenders[0].series.count, 29);
    /* two have twice the time together, and there is a look at each round */
    world_start();
    world.step_ns = world_never_narrow;
    world_run_well(2, &limits);
    assert_int_equal(world_contenders[0].series.count, 59);
    assert_int_equal(world_contenders[1].series.count, 59);
    /* not fewer than an interval needs */
    limits.max_time_s = 0;
    world_start();
    world.step_ns = world_never_narrow;
    world_run_well(2, &limits);
    assert_int_equal(world_contenders[1].series.count, MEASURE_LEAST_SAMPLES);
    assert_int_equal(world_contenders[1].seen.stop, MEASURE_STOP_TIME);
    /* narrow when time is up: that is why */
    world_start();
    world_run_well(1, &limits);
    assert_int_equal(world_contenders[0].seen.stop, MEASURE_STOP_INTERVAL);
    /* narrow with the ninth sample, between two looks, when time is up */
    limits.max_time_s = 10e-9;
    world_start();
    world.step_ns = one_slow;
    world_run_well(1, &limits);
    assert_int_equal(world_contenders[0].series.count, 9);
    assert_int_equal(world_contenders[0].seen.stop, MEASURE_STOP_INTERVAL);
    /* narrow, but never for long enough */
    limits.min_time_s = 1;
    world_start();
    world_run_well(1, &limits);
    assert_int_equal(world_contenders[0].seen.stop, MEASURE_STOP_TIME);
}

static void test_stops_at_the_most(void **state) {
    (void)state;
    const struct measure_limits limits = {.max_noise_percent = 1, .max_time_s = 1e9};
    world_start();
    world.step_ns = world_never_narrow;
    world_run_well(1, &limits);
    assert_int_equal(world_contenders[0].series.count, MEASURE_MOST_SAMPLES);
    assert_int_equal(world_contenders[0].seen.stop, MEASURE_STOP_MOST);
    assert_string_equal(measure_stop_name(world_contenders[0].seen.stop), "most samples");
}

/* Who has enough goes on as long as another has not: a machine that changes is the same for all. */
static void test_all_go_on(void **state) {
    (void)state;
    const struct measure_limits limits = {.max_noise_percent = 1, .max_time_s = 3e-9};
    world_start();
    world.step_ns = world_b_never_narrow;
    world_run_well(3, &limits);
    assert_int_equal(world_contenders[0].seen.stop, MEASURE_STOP_INTERVAL);
    assert_int_equal(world_contenders[1].seen.stop, MEASURE_STOP_TIME);
    assert_int_equal(world_contenders[2].seen.stop, MEASURE_STOP_INTERVAL);
    /* B's steps of 1,000 and 2,000 do not change where the canary reads: it is as short as any */
    assert_string_equal(world_rounds(3), "sAsBsCsCsBsAsAsBsCsCsBsAsAsBsCsCsBsAsAsBsCsCsBsAs");
}

/* A for its first ten samples, and the rest as B: narrow, and then not. */
static uint64_t a_narrow_at_first(char who, uint64_t nth) {
    return who == 'A' && nth < 10 ? WORLD_STEP_NS : world_never_narrow(who, nth);
}

/* What counts is how narrow it is when the run ends. */
static void test_narrow_once_is_not_narrow(void **state) {
    (void)state;
    const struct measure_limits limits = {.max_noise_percent = 1, .max_time_s = 50e-9};
    world_start();
    world.step_ns = a_narrow_at_first;
    world_run_well(2, &limits);
    assert_true(noise_of_first(8) <= 1);
    assert_int_equal(world_contenders[0].series.count, 99);
    assert_int_equal(world_contenders[0].seen.stop, MEASURE_STOP_TIME);
}

static void test_wall_that_goes_back(void **state) {
    (void)state;
    const struct measure_limits limits = {
        .max_noise_percent = 1, .min_time_s = 50 * WORLD_STEP_NS * 1e-9, .max_time_s = 1};
    world_start();
    world.wall_ns = 1000000;
    world.wall_back = true;
    world_run_well(1, &limits);
    assert_int_equal(world_contenders[0].series.count, 50);
    assert_int_equal(world_contenders[0].seen.stop, MEASURE_STOP_INTERVAL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_canary_of_short_steps),
        cmocka_unit_test(test_looks_between_samples),
        cmocka_unit_test(test_samples_are_exact),
        cmocka_unit_test(test_stops_where_the_interval_is_narrow),
        cmocka_unit_test(test_goes_on_until_it_is_narrow),
        cmocka_unit_test(test_stops_at_the_time),
        cmocka_unit_test(test_stops_at_the_most),
        cmocka_unit_test(test_all_go_on),
        cmocka_unit_test(test_narrow_once_is_not_narrow),
        cmocka_unit_test(test_wall_that_goes_back),
    };
    return cmocka_run_group_tests(tests, world_make, world_free);
}
