/* Fits of made-up times with a known fixed part and slope, and crossings of such lines. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "fit.h"
#include "fit_rows.h"

enum { LENGTHS = 7 };

static bool near(double a, double b) {
    return fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b)) + 1e-9;
}

/* 4k, 8k ... 256k; the interval `noise` of the time to both sides. */
static void make_points(double fixed_ns, double per_token_ns, double noise,
                        struct fit_point points[LENGTHS]) {
    for (int i = 0; i < LENGTHS; i++) {
        const double tokens = 4096.0 * (double)(1u << i);
        const double ns = fixed_ns + per_token_ns * tokens;
        points[i] = (struct fit_point){.tokens = tokens,
                                       .ns = ns,
                                       .low_ns = noise > 0 ? ns * (1 - noise) : 0,
                                       .high_ns = noise > 0 ? ns * (1 + noise) : 0};
    }
}

static struct fit fit_of(double fixed_ns, double per_token_ns, double noise) {
    struct fit_point points[LENGTHS];
    struct fit fit;
    make_points(fixed_ns, per_token_ns, noise, points);
    assert_true(fit_make(points, LENGTHS, &fit));
    return fit;
}

static void test_a_line_is_found(void **state) {
    (void)state;
    const struct fit fit = fit_of(250000, 12.5, 0.02);
    assert_true(near(fit.line.fixed_ns, 250000));
    assert_true(near(fit.line.per_token_ns, 12.5));
    assert_true(fit.worst_percent < 1e-9);
    assert_int_equal(fit.lengths, LENGTHS);
    assert_true(fit.has_interval);
    assert_true(near(fit.low.fixed_ns, 245000));
    assert_true(near(fit.high.per_token_ns, 12.75));
    char words[FIT_WORDS_BYTES];
    fit_words(&fit, words);
    assert_string_equal(
        words, "250.0 us + 12.500 ns per token (7 lengths, 4k to 256k; off by 0.0 % at most)");
    assert_false(fit_of(1, 1, 0).has_interval);
    /* one row without an interval: the line has none */
    struct fit_point points[LENGTHS];
    struct fit without;
    make_points(250000, 12.5, 0.02, points);
    points[1].low_ns = points[1].high_ns = 0;
    assert_true(fit_make(points, LENGTHS, &without));
    assert_false(without.has_interval);
}

static void test_three_lengths_at_least(void **state) {
    (void)state;
    struct fit_point points[LENGTHS];
    struct fit fit;
    make_points(1000, 1, 0.01, points);
    assert_false(fit_make(points, 2, &fit));
    assert_false(fit_make(points, 0, &fit));
    assert_true(fit_make(points, 3, &fit));
    points[2] = points[1]; /* the same length twice is one */
    assert_false(fit_make(points, 3, &fit));
}

/* Two points 10 % off, one short and one long: relative errors, so both count alike. By hand for
 * times 1, 2, 4 at 1, 2, 4 with the last 10 % larger: weights 1, 1/4, 1/19.36. */
static void test_weights_are_relative(void **state) {
    (void)state;
    const struct fit_point points[] = {
        {.tokens = 1, .ns = 1}, {.tokens = 2, .ns = 2}, {.tokens = 4, .ns = 4.4}};
    struct fit fit;
    assert_true(fit_make(points, 3, &fit));
    const double w[] = {1, 0.25, 1 / 19.36};
    const double sum = w[0] + w[1] + w[2];
    const double x = (1 * w[0] + 2 * w[1] + 4 * w[2]) / sum;
    const double t = (1 * w[0] + 2 * w[1] + 4.4 * w[2]) / sum;
    const double slope =
        (w[0] * (1 - x) * (1 - t) + w[1] * (2 - x) * (2 - t) + w[2] * (4 - x) * (4.4 - t)) /
        (w[0] * (1 - x) * (1 - x) + w[1] * (2 - x) * (2 - x) + w[2] * (4 - x) * (4 - x));
    assert_true(near(fit.line.per_token_ns, slope));
    assert_true(near(fit.line.fixed_ns, t - slope * x));
    assert_true(fit.worst_percent > 1 && fit.worst_percent < 10);
    double worst = 0;
    for (int i = 0; i < 3; i++)
        worst =
            fmax(worst, fabs((fit.line.fixed_ns + slope * points[i].tokens) / points[i].ns - 1));
    assert_true(near(fit.worst_percent, worst * 100));
}

static const char *words_of(const struct fit *mine, const struct fit *baseline,
                            struct fit_crossing *crossing) {
    static char words[FIT_WORDS_BYTES];
    fit_cross(mine, baseline, crossing);
    fit_crossing_words(crossing, "q8_0", "bf16", words);
    return words;
}

static void test_crossings_in_words(void **state) {
    (void)state;
    static const struct {
        double fixed, slope; /* q8_0's; bf16: 100 us and 20 ns */
        enum fit_order order;
        const char *words;
    } cases[] = {
        /* 100 + 20 x = 300 + 10 x at 20,000 */
        {300000, 10, FIT_PASSES, "q8_0 passes bf16 at 19.5k tokens"},
        {50000, 25, FIT_FALLS_BACK, "q8_0 is faster than bf16 up to 9.8k tokens"},
        {100000, 10, FIT_ALWAYS, "q8_0 is faster than bf16 at every length between 4k and 256k"},
        /* at 1,000 and at 500,000 */
        {110000, 10, FIT_ALWAYS,
         "q8_0 is faster than bf16 at every length between 4k and 256k; extrapolated: faster from "
         "1000 tokens"},
        {5100000, 10, FIT_NEVER,
         "q8_0 never passes bf16 between 4k and 256k; extrapolated: faster from 488k tokens"},
        {90000, 30, FIT_NEVER,
         "q8_0 never passes bf16 between 4k and 256k; extrapolated: faster up to 1000 tokens"},
        {200000, 20, FIT_NEVER, "q8_0 never passes bf16 between 4k and 256k"},
        /* at 10 and at 100 million: further out than is told */
        {100100, 10, FIT_ALWAYS, "q8_0 is faster than bf16 at every length between 4k and 256k"},
        {1e9, 10, FIT_NEVER, "q8_0 never passes bf16 between 4k and 256k"},
    };
    const struct fit baseline = fit_of(100000, 20, 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct fit mine = fit_of(cases[i].fixed, cases[i].slope, 0);
        struct fit_crossing crossing;
        assert_string_equal(words_of(&mine, &baseline, &crossing), cases[i].words);
        assert_int_equal(crossing.order, cases[i].order);
        assert_false(crossing.has_interval);
    }
}

/* Ends by hand: with one in a hundred to both sides, 297 + 9.9 x = 101 + 20.2 x and
 * 303 + 10.1 x = 99 + 19.8 x. */
static void test_interval_of_a_crossing(void **state) {
    (void)state;
    const struct fit mine = fit_of(300000, 10, 0.01), baseline = fit_of(100000, 20, 0.01);
    struct fit_crossing crossing;
    assert_string_equal(words_of(&mine, &baseline, &crossing),
                        "q8_0 passes bf16 at 19.5k tokens (18.6k to 20.5k)");
    assert_true(near(crossing.at, 20000));
    assert_true(near(crossing.early, 196000 / 10.3));
    assert_true(near(crossing.late, 204000 / 9.7));
    /* the other way round it is the same place */
    assert_string_equal(words_of(&baseline, &mine, &crossing),
                        "q8_0 is faster than bf16 up to 19.5k tokens (18.6k to 20.5k)");
    assert_true(near(crossing.early, 196000 / 10.3));
    /* slopes 1 % apart and 4 % of noise: 36,600 / 1.208, and at the other ends no crossing */
    const struct fit close = fit_of(60000, 20.2, 0.04);
    const char *words = words_of(&close, &baseline, &crossing);
    assert_int_equal(crossing.order, FIT_FALLS_BACK);
    assert_string_equal(
        words, "q8_0 is faster than bf16 up to 195k tokens (29.6k at the earliest, or never)");
    const struct fit above = fit_of(400000, 19.5, 0.02);
    words = words_of(&above, &baseline, &crossing);
    assert_int_equal(crossing.order, FIT_NEVER);
    assert_true(isinf(crossing.late) && crossing.early > 0);
    assert_non_null(strstr(words, "; extrapolated: faster from 586k tokens ("));
    assert_non_null(strstr(words, " at the earliest, or never)"));
    /* before the first length, where the ends' lines lie the other way round: 10 k is no earliest
     */
    struct fit apart = fit_of(100000, 19, 0), wide = baseline;
    apart.line.fixed_ns = 102000;
    apart.has_interval = true;
    apart.low = (struct fit_line){.fixed_ns = 110000, .per_token_ns = 19};
    apart.high = (struct fit_line){.fixed_ns = 90000, .per_token_ns = 21};
    wide.low = wide.high = wide.line;
    words = words_of(&apart, &wide, &crossing);
    assert_int_equal(crossing.order, FIT_ALWAYS);
    assert_true(near(crossing.at, 2000));
    assert_true(crossing.early == 0 && isinf(crossing.late));
    assert_non_null(strstr(words, "faster from 2k tokens (anywhere, by the noise)"));
    /* alike at the first length and not at the last */
    const struct fit fans_out = fit_of(100000, 21, 0.03);
    assert_string_equal(words_of(&fans_out, &baseline, &crossing),
                        "q8_0 never passes bf16 between 4k and 256k");
    const struct fit same = fit_of(101000, 20.1, 0.03);
    assert_string_equal(words_of(&same, &baseline, &crossing),
                        "q8_0 and bf16 differ by no more than their noise between 4k and 256k");
}

static void test_lengths_in_common(void **state) {
    (void)state;
    struct fit_point points[LENGTHS];
    struct fit mine, baseline;
    make_points(300000, 10, 0, points);
    assert_true(fit_make(points, 3, &mine)); /* 4k to 16k */
    make_points(100000, 20, 0, points);
    assert_true(fit_make(points + 1, 4, &baseline)); /* 8k to 64k */
    struct fit_crossing crossing;
    assert_string_equal(words_of(&mine, &baseline, &crossing),
                        "q8_0 never passes bf16 between 8k and 16k; extrapolated: faster from "
                        "19.5k tokens");
    assert_true(fit_make(points + 2, 3, &baseline)); /* 16k alone */
    assert_string_equal(words_of(&mine, &baseline, &crossing), "");
    assert_int_equal(crossing.order, FIT_NO_ORDER);
}

static void test_rows_are_gathered(void **state) {
    (void)state;
    struct fit_rows rows = {0};
    struct fit_point bf16[LENGTHS], q8_0[LENGTHS];
    make_points(100000, 20, 0, bf16);
    make_points(300000, 10, 0, q8_0);
    for (int i = 0; i < LENGTHS; i++) {
        struct fit_point before = q8_0[i];
        before.ns *= 3; /* measured again: the later one counts */
        assert_true(fit_rows_add(&rows, "m", "q8_0", false, &before));
        assert_true(fit_rows_add(&rows, "m", "bf16", true, &bf16[i]));
        assert_true(fit_rows_add(&rows, "m", "q8_0", false, &q8_0[i]));
        assert_true(fit_rows_add(&rows, "m, seqs 2", "q8_0", false, &q8_0[i]));
        if (i < 2)
            assert_true(fit_rows_add(&rows, "m", "q4_0", false, &q8_0[i]));
    }
    FILE *file = tmpfile();
    assert_non_null(file);
    fit_rows_say(&rows, file);
    rewind(file);
    char said[2000] = "";
    assert_true(fread(said, 1, sizeof said - 1, file) > 0);
    assert_string_equal(said,
                        "m q8_0: 300.0 us + 10.000 ns per token (7 lengths, 4k to 256k; off by "
                        "0.0 % at most)\n"
                        "m: q8_0 passes bf16 at 19.5k tokens\n"
                        "m bf16: 100.0 us + 20.000 ns per token (7 lengths, 4k to 256k; off by "
                        "0.0 % at most)\n"
                        "m, seqs 2 q8_0: 300.0 us + 10.000 ns per token (7 lengths, 4k to 256k; "
                        "off by 0.0 % at most)\n");
    (void)fclose(file);
    fit_rows_free(&rows);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_line_is_found),
        cmocka_unit_test(test_three_lengths_at_least),
        cmocka_unit_test(test_weights_are_relative),
        cmocka_unit_test(test_crossings_in_words),
        cmocka_unit_test(test_interval_of_a_crossing),
        cmocka_unit_test(test_lengths_in_common),
        cmocka_unit_test(test_rows_are_gathered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
