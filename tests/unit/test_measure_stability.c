/* What is said of series made here: steady noise of several kinds, drifts, two speeds, outliers.
 * The noise is a seeded generator's, so that every run sees the same. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "generate.h"
#include "measure_order.h"
#include "measure_stability.h"

enum { MOST = 600 };
static uint64_t series[MOST], readings[MOST];
static struct generate_random randomness;

static double uniform(void) { /* 0 < u < 1 */
    return ((double)generate_random_below(&randomness, 1000000) + 0.5) / 1000000;
}

static double normal(void) {
    return sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform());
}

enum noise { NORMAL, UNIFORM, EXPONENTIAL, LOGNORMAL, PARETO, NOISES };

/* Around 1; normal with 3 % of deviation, the others as wide or wider. */
static double noise_of(enum noise noise) {
    switch (noise) {
    case NORMAL:
        return 1 + 0.03 * normal();
    case UNIFORM:
        return 0.9 + 0.2 * uniform();
    case EXPONENTIAL:
        return 1 - 0.1 * log(uniform());
    case LOGNORMAL:
        return 1 + 0.05 * exp(normal());
    case PARETO:
        return 1 + 0.05 * pow(uniform(), -1 / 1.5);
    case NOISES:
        break;
    }
    return 1;
}

static void fill(uint64_t count, enum noise noise) {
    for (uint64_t i = 0; i < count; i++)
        series[i] = (uint64_t)(1e6 * noise_of(noise));
}

/* As judged beside a canary that never moves. */
static struct measure_verdict judge(uint64_t count) {
    for (uint64_t i = 0; i < MOST; i++)
        readings[i] = 50000000 + i % 7 * 10000;
    struct measure_verdict verdict;
    assert_int_equal(measure_stability_judge(series, count, readings, count, &verdict, NULL),
                     STATUS_OK);
    return verdict;
}

/* Chance may call a few of many something else; more than stated in widest() it must not. */
static void test_noise_is_steady(void **state) {
    (void)state;
    static const uint64_t counts[] = {9, 20, 30, 50, 100, MOST};
    enum { TRIES = 400 };
    for (int noise = 0; noise < NOISES; noise++)
        for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
            unsigned drifts = 0, two = 0;
            generate_random_seed(&randomness, 17 + (uint64_t)noise);
            for (int attempt = 0; attempt < TRIES; attempt++) {
                fill(counts[c], (enum noise)noise);
                const struct measure_verdict verdict = judge(counts[c]);
                drifts += verdict.stability == MEASURE_DRIFTS;
                two += verdict.stability == MEASURE_TWO_SPEEDS;
                assert_int_not_equal(verdict.stability, MEASURE_STABILITY_UNKNOWN);
                assert_int_equal(verdict.words[0] == '\0', verdict.stability == MEASURE_STEADY);
            }
            assert_true(drifts <= TRIES / 33);
            assert_true(two <= TRIES / 33);
        }
}

static void test_too_few_to_tell(void **state) {
    (void)state;
    for (uint64_t i = 0; i < MEASURE_TREND_LEAST; i++)
        series[i] = 1000 * (i + 1);
    assert_int_equal(judge(0).stability, MEASURE_STABILITY_UNKNOWN);
    assert_int_equal(judge(MEASURE_TREND_LEAST - 1).stability, MEASURE_STABILITY_UNKNOWN);
    assert_null(measure_stability_name(MEASURE_STABILITY_UNKNOWN));
    assert_int_equal(judge(MEASURE_TREND_LEAST).stability, MEASURE_DRIFTS);
}

static void test_drift(void **state) {
    (void)state;
    generate_random_seed(&randomness, 3);
    for (uint64_t count = 12; count <= MOST; count *= 2) {
        fill(count, NORMAL);
        for (uint64_t i = 0; i < count; i++) /* 30 % from start to end: 20 % between the thirds */
            series[i] += series[i] * i * 3 / (count * 10);
        struct measure_verdict verdict = judge(count);
        assert_int_equal(verdict.stability, MEASURE_DRIFTS);
        assert_non_null(strstr(verdict.words, "drifts: steps of the last third took"));
        assert_non_null(strstr(verdict.words, "% longer"));
        for (uint64_t i = 0; i < count / 2; i++) {
            const uint64_t kept = series[i];
            series[i] = series[count - 1 - i];
            series[count - 1 - i] = kept;
        }
        verdict = judge(count);
        assert_int_equal(verdict.stability, MEASURE_DRIFTS);
        assert_non_null(strstr(verdict.words, "% less"));
    }
    /* in order beyond doubt, but by too little to matter */
    for (uint64_t i = 0; i < 100; i++)
        series[i] = 1000000 + 500 * i;
    assert_int_equal(judge(100).stability, MEASURE_STEADY);
}

static void test_drift_of_the_ceiling_alone(void **state) {
    (void)state;
    generate_random_seed(&randomness, 4);
    fill(40, NORMAL);
    for (uint64_t i = 0; i < 40; i++)
        readings[i] = 60000000 - i * 300000;
    struct measure_verdict verdict;
    assert_int_equal(measure_stability_judge(series, 40, readings, 40, &verdict, NULL), STATUS_OK);
    assert_int_equal(verdict.stability, MEASURE_DRIFTS);
    /* thirds of 13: medians of readings 6 and 33 */
    const double percent = ((60 - 33 * 0.3) / (60 - 6 * 0.3) - 1) * 100;
    assert_string_equal(verdict.words, percent < -13.5 && percent > -14.5
                                           ? "drifts: the read ceiling moved by -14 %"
                                           : "?");
}

static void test_trend_in_numbers(void **state) {
    (void)state;
    uint64_t scratch[MOST];
    struct measure_trend trend;
    for (uint64_t i = 0; i < 12; i++)
        series[i] = 100 + i;
    measure_trend_find(series, 12, scratch, &trend);
    assert_true(trend.known);
    assert_true(fabs(trend.percent - (109.5 / 101.5 - 1) * 100) < 1e-9);
    assert_true(fabs(trend.strength - sqrt(11)) < 1e-9); /* a correlation of 1 */
    static const uint64_t tied[9] = {1, 1, 2, 2, 2, 1, 3, 3, 3};
    measure_trend_find(tied, 9, scratch, &trend);
    /* ranks 1 1 4 4 4 1 7 7 7 about 4, places 0 to 8 about 4: 12 + 9 - 3 + 6 + 9 + 12 */
    assert_true(fabs(trend.strength - 45 / sqrt(54.0 * 60.0) * sqrt(8)) < 1e-9);
    /* the middle of the last third is above that of the first, and all of it goes down */
    static const uint64_t apart[30] = {200, 201, 202, 203, 100, 100, 100, 100, 100, 100,
                                       190, 180, 170, 160, 150, 140, 130, 120, 110, 100,
                                       110, 110, 110, 110, 110, 110, 50,  49,  48,  47};
    measure_trend_find(apart, 30, scratch, &trend);
    assert_true(trend.percent > MEASURE_DRIFT_PERCENT && trend.strength < -MEASURE_DRIFT_STRENGTH);
    assert_false(measure_trend_is_drift(&trend));
    static const uint64_t equal[10] = {5, 5, 5, 5, 5, 5, 5, 5, 5, 5};
    measure_trend_find(equal, 10, scratch, &trend);
    assert_true(trend.strength <= 0 && trend.strength >= 0);
}

/* `slow_of` ten samples are slower by 40 %, in stretches of `stretch`. */
static void flip(uint64_t count, unsigned slow_of_ten, uint64_t stretch) {
    fill(count, NORMAL);
    for (uint64_t i = 0; i < count; i++)
        if (i / stretch % 10 < slow_of_ten)
            series[i] = series[i] * 7 / 5;
}

static void test_two_speeds(void **state) {
    (void)state;
    generate_random_seed(&randomness, 5);
    static const uint64_t counts[] = {40, 100, MOST};
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++)
        for (unsigned slow = 3; slow <= 7; slow++) {
            flip(counts[c], slow, 1);
            const struct measure_verdict verdict = judge(counts[c]);
            assert_int_equal(verdict.stability, MEASURE_TWO_SPEEDS);
            assert_non_null(strstr(verdict.words, "two speeds: "));
        }
    /* once, in the middle: two speeds say more of it than a drift */
    flip(100, 5, 10);
    assert_int_equal(judge(100).stability, MEASURE_TWO_SPEEDS);
    flip(100, 1, 1); /* one in ten is not another speed */
    assert_int_equal(judge(100).stability, MEASURE_STEADY);
    for (uint64_t i = 0; i < 100; i++) /* two, but next to each other */
        series[i] = i % 2 == 0 ? 1000000 : 1080000;
    assert_int_equal(judge(100).stability, MEASURE_STEADY);
}

static void test_two_speeds_in_words(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 40; i++)
        series[i] = i % 4 == 0 ? 15000000 : 12350000;
    const struct measure_verdict verdict = judge(40);
    assert_string_equal(verdict.words,
                        "two speeds: 75 % of the steps took about 12.35 ms, the others 15 ms");
    assert_string_equal(measure_stability_name(verdict.stability), "two speeds");
}

static void test_far_outliers(void **state) {
    (void)state;
    generate_random_seed(&randomness, 6);
    fill(60, NORMAL);
    series[30] = series[30] * 100;
    assert_int_equal(judge(60).stability, MEASURE_STEADY);
    /* nor do they hide two speeds */
    flip(60, 5, 1);
    series[3] = series[7] = series[10] * 1000;
    assert_int_equal(judge(60).stability, MEASURE_TWO_SPEEDS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_noise_is_steady),
        cmocka_unit_test(test_too_few_to_tell),
        cmocka_unit_test(test_drift),
        cmocka_unit_test(test_drift_of_the_ceiling_alone),
        cmocka_unit_test(test_trend_in_numbers),
        cmocka_unit_test(test_two_speeds),
        cmocka_unit_test(test_two_speeds_in_words),
        cmocka_unit_test(test_far_outliers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
