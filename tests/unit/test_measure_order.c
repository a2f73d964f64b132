/* Order statistics of samples against what is known of them: the sign test's published critical
 * values, quantiles by hand. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "measure_order.h"

/* Two-sided critical values of the sign test at 5 % from tables; the rank is one more. */
static void test_ranks_of_the_sign_test(void **state) {
    (void)state;
    static const struct {
        uint64_t count, critical;
    } table[] = {{6, 0},  {7, 0},  {8, 0},  {9, 1},   {10, 1},  {11, 1},  {12, 2},
                 {13, 2}, {14, 2}, {15, 3}, {16, 3},  {17, 4},  {18, 4},  {19, 4},
                 {20, 5}, {25, 7}, {30, 9}, {40, 13}, {50, 17}, {75, 28}, {100, 39}};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        assert_int_equal(measure_order_rank(table[i].count), table[i].critical + 1);
    for (uint64_t count = 0; count < 6; count++)
        assert_int_equal(measure_order_rank(count), 0);
}

/* Past the counts whose 2^-n is a double, the normal approximation says the rank within one. */
static void test_ranks_of_many_samples(void **state) {
    (void)state;
    for (uint64_t count = 1000; count <= 1000000; count = count * 3 + 1) {
        const double about = (double)count / 2 - 1.959964 * sqrt((double)count) / 2;
        const double rank = (double)measure_order_rank(count);
        assert_true(fabs(rank - about) <= 1.0);
    }
}

static void test_interval_and_noise(void **state) {
    (void)state;
    uint64_t sorted[20];
    for (uint64_t i = 0; i < 20; i++)
        sorted[i] = 1000 + 10 * i;
    /* rank 6 of 20: the sixth from below and from above */
    const struct measure_interval interval = measure_order_interval(sorted, 20, 20);
    assert_int_equal(interval.low, 1050);
    assert_int_equal(interval.high, 1140);
    const double expected = 100.0 * 45 / 1095;
    assert_true(fabs(measure_order_noise_percent(sorted, 20, 20) - expected) < 1e-9);
    assert_int_equal(measure_order_interval(sorted, 6, 6).low, 1000);
    assert_int_equal(measure_order_interval(sorted, 6, 6).high, 1050);
    assert_int_equal(measure_order_interval(sorted, 5, 5).high, 0);
    assert_true(isinf(measure_order_noise_percent(sorted, 5, 5)));
    assert_true(isinf(measure_order_noise_percent(sorted, 0, 0)));
    static const uint64_t equal[8] = {7, 7, 7, 7, 7, 7, 7, 7}, zeros[8] = {0};
    assert_true(measure_order_noise_percent(equal, 8, 8) <= 0);
    assert_true(isinf(measure_order_noise_percent(zeros, 8, 8)));
}

/* By hand: sides of 18 pairs are alike and of one not, r = 17 / 20, so 20 * 0.15 / 1.85 = 1.6. Of
 * six samples the interval is all; so it is of these 20, which tell as much as one. */
static void test_samples_like_their_neighbours(void **state) {
    (void)state;
    uint64_t steps[20], changing[20], sorted[20];
    for (uint64_t i = 0; i < 20; i++) {
        steps[i] = sorted[i] = i < 10 ? 1000 + i : 1100 + i;
        changing[i] = i % 2 == 0 ? 1000 + i : 1100 + i;
    }
    const double median = measure_order_quantile(sorted, 20, 0.5);
    assert_int_equal(measure_order_independent(steps, 20, median), 1);
    assert_int_equal(measure_order_independent(changing, 20, median), 20);
    const struct measure_interval one = measure_order_interval(sorted, 20, 1);
    assert_int_equal(one.low, sorted[0]);
    assert_int_equal(one.high, sorted[19]);
    /* Eight tell as much as eight: rank 1 of 8 is 2.5 of 20, so the second from either end. */
    const struct measure_interval eight = measure_order_interval(sorted, 20, 8);
    assert_int_equal(eight.low, sorted[1]);
    assert_int_equal(eight.high, sorted[18]);
    assert_true(measure_order_noise_percent(sorted, 20, 8) >
                measure_order_noise_percent(sorted, 20, 20));
    /* Pairs of them: + + - - ..., r = 1 / 20. */
    for (uint64_t i = 0; i < 20; i++)
        changing[i] = i / 2 % 2 == 0 ? 1000 : 1100;
    assert_int_equal(measure_order_independent(changing, 20, 1050), 18);
    static const uint64_t equal[8] = {7, 7, 7, 7, 7, 7, 7, 7};
    assert_int_equal(measure_order_independent(equal, 8, 7), 8);
    assert_int_equal(measure_order_independent(equal, 1, 7), 1);
}

static void test_quantiles(void **state) {
    (void)state;
    uint64_t values[] = {40, 10, 30, 20};
    measure_order_sort(values, 4);
    assert_int_equal(values[0], 10);
    assert_int_equal(values[3], 40);
    assert_true(fabs(measure_order_quantile(values, 4, 0.5) - 25) < 1e-9);
    assert_true(fabs(measure_order_quantile(values, 4, 0.25) - 17.5) < 1e-9);
    assert_true(fabs(measure_order_quantile(values, 4, 1) - 40) < 1e-9);
    assert_true(fabs(measure_order_quantile(values, 1, 0.75) - 10) < 1e-9);
}

static void test_outliers_on_both_sides(void **state) {
    (void)state;
    /* quartiles 20 and 40: 30 outside them on either side, the edges themselves not */
    static const uint64_t at_edge[] = {0, 20, 20, 30, 40, 40, 70};
    static const uint64_t inside[] = {10, 20, 20, 30, 40, 40, 70};
    static const uint64_t above[] = {10, 20, 20, 30, 40, 40, 71};
    assert_int_equal(measure_order_outliers(inside, 7), 0);
    assert_int_equal(measure_order_outliers(at_edge, 7), 0);
    assert_int_equal(measure_order_outliers(above, 7), 1);
    static const uint64_t both[] = {1, 100, 100, 100, 100, 100, 900};
    assert_int_equal(measure_order_outliers(both, 7), 2);
    assert_int_equal(measure_order_outliers(both, 0), 0);
    assert_int_equal(measure_order_outliers(both, 1), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranks_of_the_sign_test),
        cmocka_unit_test(test_ranks_of_many_samples),
        cmocka_unit_test(test_interval_and_noise),
        cmocka_unit_test(test_samples_like_their_neighbours),
        cmocka_unit_test(test_quantiles),
        cmocka_unit_test(test_outliers_on_both_sides),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
