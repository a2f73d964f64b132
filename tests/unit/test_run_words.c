/* What a run says when its rows are out, of rows made here: which sentence for which row, what is
 * fitted together, and what is left unsaid. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "run_words.h"

enum { SAID_BYTES = 8000 };

static struct options options;
static struct run_case one;
static struct result_run run;
static struct options_format bf16 = {
    .name = "bf16", .k_format = FORMAT_BF16, .v_format = FORMAT_BF16};
static struct options_format q8_0 = {
    .name = "q8_0", .k_format = FORMAT_Q8_0, .v_format = FORMAT_Q8_0};
static struct options_format pair = {
    .name = "q8_0/q4_0", .k_format = FORMAT_Q8_0, .v_format = FORMAT_Q4_0};
static struct run_words words;

static int set_up(void **state) {
    (void)state;
    static uint64_t lengths[2] = {1, 1};
    options = (struct options){.seed = 1, .tp = 1, .state_value_bytes = 4, .baseline = bf16};
    run = (struct result_run){.options = &options, .cold_bytes = 1000000};
    one = (struct run_case){
        .options = &options,
        .model = {.name = "m",
                  .group_count = 1,
                  .groups = {{.kind = MODEL_FULL,
                              .layers = 1,
                              .read_by_layers = 1,
                              .kv_heads = 1,
                              .query_heads = 1,
                              .k_dim = 64,
                              .v_dim = 64}}},
        .seqs = 1,
        .page_tokens = 16,
        .lengths = lengths,
    };
    words = (struct run_words){0};
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    run_words_free(&words);
    return 0;
}

/* A cold row of `tokens`, a step of `us`, which reads 1,000 bytes a token in all of that time, half
 * as fast as the ceiling. */
static struct result row(const struct options_format *format, uint64_t tokens, double us) {
    one.tokens = tokens;
    struct result result = {
        .which = &one,
        .format = format,
        .has_speed = true,
        .step = {.median = us * 1000},
        .kv = {.median = us * 1000},
        .parts = {[MEASURE_ATTEND] = {.median = us * 1000}},
        .has_work = true,
        .read_bytes = tokens * 1000,
        .groups = {.count = 1, .groups = {{.kind = "full", .words = "1 full", .ns = 5}}},
        .canary = {.gb_per_s = 2 * (double)tokens / us},
        .seen = {.launch_ns = 1000},
        .has_baseline = true,
        .kv_speed_vs_baseline = 1.5,
        .step_speed_vs_baseline = 1.25,
        .tokens_vs_baseline = 1.88,
    };
    return result;
}

static void add(const struct result *result) {
    static struct result_row values;
    result_values(&run, result, &values);
    run_words_add(&words, &run, result, values.values);
}

static const char *said(void) {
    static char text[SAID_BYTES];
    FILE *file = tmpfile();
    assert_non_null(file);
    run_words_print(&words, file);
    rewind(file);
    const size_t bytes = fread(text, 1, sizeof text - 1, file);
    text[bytes] = '\0';
    (void)fclose(file);
    return text;
}

static void test_a_sentence_each(void **state) {
    (void)state;
    struct result result = row(&bf16, 2000, 100); /* 2 MB in 100 us */
    add(&result);
    result = row(&q8_0, 2000, 100);
    add(&result);
    result.has_baseline = false; /* it did not run */
    add(&result);
    result.has_speed = false;
    add(&result);
    assert_string_equal(
        said(),
        "m bf16: KV read at 20.0 GB/s, 50 % of the read ceiling\n"
        "m q8_0: 1.88x the tokens, KV read 1.50x as fast as bf16, 50 % of the read ceiling\n"
        "m q8_0: KV read at 20.0 GB/s, 50 % of the read ceiling\n"
        "kvgauge: giving the device next to nothing to do takes 1.0 us\n");
}

static void test_nothing_to_say(void **state) {
    (void)state;
    assert_string_equal(said(), "");
    struct result result = row(&bf16, 2000, 100);
    result.has_speed = false;
    add(&result);
    assert_string_equal(said(), "");
}

/* One byte more would be cold; one launch more would be enough of them. */
static void test_hot_and_short(void **state) {
    (void)state;
    struct result result = row(&bf16, 1000, 20);
    result.read_bytes--;
    add(&result);
    result.step.median--;
    result.seen.launch_ns = 1000;
    add(&result);
    result.read_bytes++;
    result.step.median = 2500;
    result.seen.launch_ns = 800; /* the least of all is told */
    add(&result);
    assert_string_equal(
        said(), "m bf16: KV read at 50.0 GB/s, hot in the cache: no share of the ceiling\n"
                "m bf16: KV read at 50.0 GB/s, hot in the cache: no share of the ceiling; the step "
                "is only 20.0 launches long: overhead counts\n"
                "m bf16: KV read at 50.0 GB/s, 50 % of the read ceiling; the step is only 3.1 "
                "launches long: overhead counts\n"
                "kvgauge: giving the device next to nothing to do takes 0.8 us\n");
}

static void add_interval(struct result *result) {
    result->seen.interval.low = (uint64_t)(result->step.median * 0.99);
    result->seen.interval.high = (uint64_t)(result->step.median * 1.01);
}

/* 250 us and 10 ns a token against 50 us and 20: equal at 20,000. Whole steps are fitted. */
static void add_lengths(uint32_t lengths, bool intervals) {
    for (uint32_t i = 0; i < lengths; i++) {
        const uint64_t tokens = (uint64_t)4096 << i;
        struct result result = row(&bf16, tokens, 50 + 0.02 * (double)tokens);
        result.kv.median = result.parts[MEASURE_ATTEND].median = 7;
        if (intervals)
            add_interval(&result);
        add(&result);
        result = row(&q8_0, tokens, 250 + 0.01 * (double)tokens);
        result.kv.median = result.parts[MEASURE_ATTEND].median = 7;
        add_interval(&result);
        add(&result);
    }
}

static const char *fits(void) {
    const char *at = strstr(said(), "m bf16: 50.0 us");
    return at != NULL ? at : "";
}

static void test_lengths_are_fitted(void **state) {
    (void)state;
    add_lengths(2, false);
    assert_string_equal(fits(), "");
    struct result result = row(&bf16, 16384, 50 + 0.02 * 16384);
    result.read_bytes = 10; /* hot: a cache's speed is not of that line */
    add(&result);
    assert_string_equal(fits(), "");
    run_words_free(&words);
    add_lengths(4, false);
    assert_string_equal(
        fits(),
        "m bf16: 50.0 us + 20.000 ns per token (4 lengths, 4k to 32k; off by 0.0 % at most)\n"
        "m q8_0: 250.0 us + 10.000 ns per token (4 lengths, 4k to 32k; off by 0.0 % at "
        "most)\n"
        "m: q8_0 passes bf16 at 19.5k tokens\n"
        "kvgauge: giving the device next to nothing to do takes 1.0 us\n");
}

/* Intervals reach the fit: 247.5 + 9.9 x = 50.5 + 20.2 x and 252.5 + 10.1 x = 49.5 + 19.8 x. */
static void test_intervals_reach_the_fit(void **state) {
    (void)state;
    add_lengths(4, true);
    assert_non_null(strstr(said(), "\nm: q8_0 passes bf16 at 19.5k tokens (18.7k to 20.4k)\n"));
}

/* What differs in more than length is not of one line. */
static void test_settings_are_told_apart(void **state) {
    (void)state;
    for (int setting = 0; setting < 7; setting++) {
        one.seqs = setting == 1 ? 2 : 1;
        options.tp = setting == 2 ? 4 : 1;
        one.page_tokens = setting == 3 ? 64 : 16;
        options.page_order_sequential = setting == 4;
        options.data = setting == 5 ? OPTIONS_DATA_BIAS : OPTIONS_DATA_NORMAL;
        options.rotate = setting == 6;
        for (uint32_t i = 0; i < 3; i++) {
            const struct result result = row(&pair, (uint64_t)4096 << i, 100);
            add(&result);
        }
    }
    static const char *const lines[] = {
        "\nm q8_0/q4_0: 100.0 us + ",
        "\nm, seqs 2 q8_0/q4_0: 100.0 us + ",
        "\nm, tp 4 q8_0/q4_0: 100.0 us + ",
        "\nm, page tokens 64 q8_0/q4_0: 100.0 us + ",
        "\nm, page order sequential q8_0/q4_0: 100.0 us + ",
        "\nm, data bias q8_0/q4_0: 100.0 us + ",
        "\nm q8_0/q4_0 rotated: 100.0 us + ",
    };
    const char *all = said();
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        if (strstr(all, lines[i]) == NULL)
            fail_msg("'%s' is not in %s", lines[i], all);
}

/* 2 MB of KV in 100 us beside 6 MB of weights in 300: of 400 us. */
static void test_whole_steps(void **state) {
    (void)state;
    struct result result = row(&q8_0, 2000, 400);
    result.kv.median = result.parts[MEASURE_ATTEND].median = 100000;
    result.parts[MEASURE_WEIGHTS].median = 300000;
    result.canary.gb_per_s = 40;
    result.weights.shape.read_bytes = 6 << 20;
    result.groups.groups[0].read_bytes = 2 << 20;
    result.has_overtakes = true;
    result.overtakes_tokens = 12345;
    add(&result);
    result.has_overtakes = false;
    result.format = &bf16;
    one.seqs = 2;
    add(&result);
    assert_string_equal(
        said(),
        "m q8_0: 1.88x the tokens, KV read 1.50x as fast as bf16, 50 % of the read ceiling\n"
        "  with 6.00 MiB of weights a step is 1.25x as fast as bf16 (KV alone 1.50x), 2.5e+03 "
        "tokens/s: weights 75 % of the bytes, 75 % of the time; KV 25 %, 25 %; the cache is read "
        "more than they are from 12,345 tokens on\n"
        "m bf16: KV read at 20.0 GB/s, 50 % of the read ceiling\n"
        "  with 6.00 MiB of weights a step is 5e+03 tokens/s: weights 75 % of the bytes, 75 % of "
        "the "
        "time; KV 25 %, 25 %; the cache is read more than they are at no length\n"
        "kvgauge: giving the device next to nothing to do takes 1.0 us\n");
}

/* Where the step goes, of several groups, and of several ranks. */
static void test_groups_and_ranks(void **state) {
    (void)state;
    struct result result = row(&bf16, 2000, 100);
    result.groups.count = 2;
    result.groups.groups[0].read_bytes = 1 << 20;
    result.groups.groups[1].ns = 15;
    (void)strcpy(result.groups.groups[1].words, "2 window");
    result.groups.groups[1].read_bytes = 3 << 20;
    result.ranks = (struct result_ranks){
        .count = 2,
        .has_times = true,
        .slowest = 1,
        .each = {{.step_ns = 1, .reduce_ns = 1}, {.step_ns = 100, .reduce_ns = 12}}};
    add(&result);
    assert_non_null(strstr(said(),
                           "\n  of a step: 1 full 25 % (1.00 MiB read), 2 window 75 % "
                           "(3.00 MiB read)\n  2 ranks, the slowest is rank 1; the sum over "
                           "them takes 12 % of its step\n"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_sentence_each, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_nothing_to_say, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_hot_and_short, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_lengths_are_fitted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_intervals_reach_the_fit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_settings_are_told_apart, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_whole_steps, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_groups_and_ranks, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
