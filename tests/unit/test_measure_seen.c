/* What the sampling loop keeps, over tests/support/measure_world: the parts of each sample, the
 * ceiling of its own time, and what is left when somebody interrupts, something fails, or the clock
 * does not go on. Whose turn it is: test_measure. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "measure_world.h"

static void test_parts_add_up(void **state) {
    (void)state;
    const struct measure_limits limits = {.samples = 7};
    world_start();
    world_run_well(1, &limits);
    const struct measure_series *series = &world_contenders[0].series;
    for (uint64_t i = 0; i < 7; i++) {
        assert_int_equal(series->part_ns[MEASURE_APPEND][i], WORLD_APPEND_NS);
        assert_int_equal(series->part_ns[MEASURE_ATTEND][i], WORLD_ATTEND_NS);
        assert_int_equal(series->part_ns[MEASURE_REDUCE][i],
                         WORLD_STEP_NS - WORLD_APPEND_NS - WORLD_ATTEND_NS);
        assert_int_equal(series->part_ns[MEASURE_WEIGHTS][i], 0);
        assert_int_equal(series->step_ns[i], WORLD_STEP_NS);
    }
    assert_int_equal(world_contenders[0].seen.interval.low, WORLD_STEP_NS);
    assert_int_equal(world_contenders[0].seen.interval.high, WORLD_STEP_NS);
    assert_true(fabs(world_contenders[0].seen.launch_ns - WORLD_LAUNCH_NS) < 1e-9);
}

/* Each row has the ceiling of its own time: B has had its last sample before the machine becomes
 * faster, A has not. */
static void test_what_each_saw(void **state) {
    (void)state;
    const struct measure_limits limits = {.samples = 2};
    world_start();
    world.canary_faster_from = 4;
    world.canary_faster_ns = WORLD_STEP_NS / 2;
    world_run_well(2, &limits);
    assert_string_equal(world_rounds(2), "sAsBsBsAs");
    const double slow = (double)world_pool_bytes / WORLD_STEP_NS;
    const struct measure_contender *a = &world_contenders[0], *b = &world_contenders[1];
    assert_true(a->canary.drift_percent > 99);
    assert_int_equal(a->series.canary_mb_per_s[0], (uint64_t)(slow * 1000));
    assert_int_equal(a->series.canary_mb_per_s[1], (uint64_t)(1.5 * slow * 1000));
    assert_true(fabs(b->canary.drift_percent) < 1e-5);
    assert_true(fabs(b->canary.gb_per_s - slow) < 1e-5);
    for (int i = 0; i < 2; i++)
        assert_int_equal(b->series.canary_mb_per_s[i], (uint64_t)(slow * 1000));
}

/* The first sample lies between readings 0 and 1, and so on; those from the third on are fast. */
static void test_readings_around_each_sample(void **state) {
    (void)state;
    const struct measure_limits limits = {.samples = 5};
    world_start();
    world.canary_faster_from = 3;
    world.canary_faster_ns = WORLD_STEP_NS / 2;
    world_run_well(1, &limits);
    assert_string_equal(world_rounds(1), "sAsAsAsAsAs");
    const double slow = (double)world_pool_bytes / WORLD_STEP_NS;
    assert_true(fabs(world_contenders[0].canary.gb_per_s - 1.5 * slow) < 1e-5);
    assert_true(fabs(world_contenders[0].canary.drift_percent - 100) < 1e-2); /* of the first two */
    static const double expected[5] = {1, 1, 1.5, 2, 2};
    for (int i = 0; i < 5; i++)
        assert_int_equal(world_contenders[0].series.canary_mb_per_s[i],
                         (uint64_t)(expected[i] * (double)world_pool_bytes));
}

static uint64_t long_steps(char who, uint64_t nth) {
    (void)who, (void)nth;
    return (uint64_t)1 << 27; /* as long as 32 goes at pace */
}

/* Pace belongs to samples as plain reading does; a device that has none gives zeros. */
static void test_pace_around_each_sample(void **state) {
    (void)state;
    const struct measure_limits limits = {.samples = 3};
    world_start();
    world_run_well(1, &limits);
    for (int i = 0; i < 3; i++)
        assert_int_equal(world_contenders[0].series.pace_mops[i], 0);
    world_start();
    world.step_ns = long_steps;
    world_ops.pace = world_pace;
    world_run_well(1, &limits);
    world_ops.pace = NULL;
    assert_string_equal(world_rounds(1), "spAspAspAsp");
    static const double expected[3] = {1, 0.75, 0.5};
    for (int i = 0; i < 3; i++)
        assert_int_equal(world_contenders[0].series.pace_mops[i],
                         (uint64_t)(expected[i] * 1000 * BACKEND_PACE_OPERATIONS));
}

/* What the ceiling was before a contender's first step is not its own: steps and readings take as
 * long, so that B begins behind the second one. */
static void test_ceiling_of_ones_own_time(void **state) {
    (void)state;
    const struct measure_limits limits = {.samples = 1};
    world_start();
    world.canary_faster_from = 1;
    world.canary_faster_ns = WORLD_STEP_NS / 2;
    world_run_well(2, &limits);
    assert_string_equal(world_rounds(2), "sAsBs");
    const double slow = (double)world_pool_bytes / WORLD_STEP_NS;
    assert_true(fabs(world_contenders[0].canary.gb_per_s - 1.5 * slow) < 1e-5);
    assert_true(fabs(world_contenders[1].canary.gb_per_s - 2 * slow) < 1e-5);
    assert_true(fabs(world_contenders[1].canary.drift_percent) < 1e-5);
}

static uint64_t growing(char who, uint64_t nth) {
    (void)who;
    return WORLD_STEP_NS + 20 * nth;
}

static uint64_t one_far_out(char who, uint64_t nth) {
    return nth == 10 ? 50 * WORLD_STEP_NS : world_scattered(who, nth);
}

static void test_what_is_seen_of_samples(void **state) {
    (void)state;
    const struct measure_limits limits = {.samples = 40};
    world_start();
    world.step_ns = growing;
    world_run_well(1, &limits);
    assert_int_equal(world_contenders[0].seen.verdict.stability, MEASURE_DRIFTS);
    world_start();
    world.step_ns = one_far_out;
    world_run_well(1, &limits);
    assert_int_equal(world_contenders[0].seen.verdict.stability, MEASURE_STEADY);
    assert_int_equal(world_contenders[0].seen.outliers, 1);
    assert_int_equal(world_contenders[0].series.count, 40);
    assert_int_equal(world_contenders[0].series.step_ns[9],
                     50 * WORLD_STEP_NS); /* warm-up was the first */
}

static void test_interrupt_keeps_samples(void **state) {
    (void)state;
    const struct measure_limits limits = {.samples = 100};
    struct status_text text = {{0}};
    world_start();
    world.interrupt_at = 2 + 15; /* warm-up and 15 more */
    assert_int_equal(world_run(2, &limits, &text), STATUS_INTERRUPTED);
    assert_int_equal(world_contenders[0].series.count + world_contenders[1].series.count, 15);
    assert_int_equal(world_contenders[0].seen.stop, MEASURE_STOP_NOT);
    assert_null(measure_stop_name(world_contenders[0].seen.stop));
    assert_true(world_contenders[0].canary.gb_per_s > 0);
    assert_int_equal(world_contenders[0].seen.interval.low, WORLD_STEP_NS);
    assert_true(world_contenders[0].series.canary_mb_per_s[0] > 0);
    world_start();
    world.interrupt_at = 1; /* before any sample */
    assert_int_equal(world_run(2, &limits, &text), STATUS_INTERRUPTED);
    assert_int_equal(world_contenders[0].series.count, 0);
}

static void test_failures_are_told(void **state) {
    (void)state;
    static const char *const what[] = {"mark", "sync", "step", "canary", "canary sync"};
    static const char *const words[] = {"mark fails", "sync fails", "step fails", "canary fails",
                                        "canary sync fails"};
    const struct measure_limits limits = {.samples = 50};
    for (size_t w = 0; w < 5; w++)
        for (uint64_t at = 0; at < 30; at += 7) {
            struct status_text text = {{0}};
            world_start();
            world.fail_what = what[w];
            world.fail_at = at;
            assert_int_equal(world_run(2, &limits, &text), STATUS_IO);
            assert_string_equal(text.line, words[w]);
            assert_true(world_contenders[0].series.count + world_contenders[1].series.count < 30);
        }
}

/* Steps that the clock did not see are no samples, and are counted. */
static void test_clock_that_stands_or_goes_back(void **state) {
    (void)state;
    const struct measure_limits limits = {.samples = 20};
    world_start();
    world.stuck_from = 5;
    world.stuck_to = 8;
    world.back_at = 11;
    world_run_well(1, &limits);
    assert_int_equal(world_contenders[0].series.count, 20);
    assert_int_equal(world_contenders[0].series.clockless, 4);
    for (uint64_t i = 0; i < 20; i++)
        assert_int_equal(world_contenders[0].series.step_ns[i], WORLD_STEP_NS);
    /* over one part alone, while the step as a whole went forward */
    world_start();
    world.append_back_at = 4;
    world.attend_still_at = 6;
    world_run_well(1, &limits);
    assert_int_equal(world_contenders[0].series.count, 20);
    assert_int_equal(world_contenders[0].series.clockless, 2);
    for (uint64_t i = 0; i < 20; i++)
        assert_int_equal(world_contenders[0].series.part_ns[MEASURE_ATTEND][i], WORLD_ATTEND_NS);
    struct status_text text = {{0}};
    world_start();
    world.stuck_from = 5;
    world.stuck_to = UINT64_MAX;
    assert_int_equal(world_run(1, &limits, &text), STATUS_REFUSED);
    assert_non_null(strstr(text.line, "clock stood still or went backwards"));
    assert_int_equal(world_contenders[0].series.count, 3);
    /* no reading of the canary either: no speed, and not an infinite one */
    world_start();
    world.canary_ns = 0;
    assert_int_equal(world_run(1, &limits, &text), STATUS_REFUSED);
    double gb_per_s = -1;
    assert_int_equal(
        measure_stream(&world_ops, world_device, NULL, world_pool_bytes, &gb_per_s, &text),
        STATUS_REFUSED);
    assert_true(gb_per_s < 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts_add_up),
        cmocka_unit_test(test_what_each_saw),
        cmocka_unit_test(test_readings_around_each_sample),
        cmocka_unit_test(test_pace_around_each_sample),
        cmocka_unit_test(test_ceiling_of_ones_own_time),
        cmocka_unit_test(test_what_is_seen_of_samples),
        cmocka_unit_test(test_interrupt_keeps_samples),
        cmocka_unit_test(test_failures_are_told),
        cmocka_unit_test(test_clock_that_stands_or_goes_back),
    };
    return cmocka_run_group_tests(tests, world_make, world_free);
}
