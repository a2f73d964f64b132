/* --expect: figures as people write them, agreement within the last digit, and every mistake named
 * from the figure that the mistake gives. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "expect.h"
#include "expect_size.h"
#include "model_source.h"

static struct model load(const char *name) {
    struct model model;
    struct status_text text = {""};
    if (model_source_load(name, &model, NULL, NULL, NULL, &text) != STATUS_OK)
        fail_msg("%s", text.line);
    return model;
}

static struct expect_figure figure_of(const char *text) {
    struct expect_figure figure;
    struct status_text message = {""};
    if (expect_parse("--expect", text, &figure, &message) != STATUS_OK)
        fail_msg("%s", message.line);
    return figure;
}

static void figures_are_read_with_their_last_digit(void **state) {
    (void)state;
    struct expect_figure figure = figure_of("5GiB");
    assert_int_equal(figure.unit, EXPECT_BYTES);
    assert_true(figure.value == 5368709120.0 && figure.half_unit == 536870912.0);
    figure = figure_of("2.50 GB");
    assert_true(figure.value == 2.5e9 && figure.half_unit > 4.999e6 && figure.half_unit < 5.001e6);
    figure = figure_of("320kB/token");
    assert_int_equal(figure.unit, EXPECT_RATE);
    assert_true(figure.value == 320000 && figure.half_unit == 500);
    figure = figure_of("207120tokens");
    assert_int_equal(figure.unit, EXPECT_TOKENS);
    assert_true(figure.value == 207120 && figure.half_unit == 0.5);
    figure = figure_of("1.64x");
    assert_int_equal(figure.unit, EXPECT_RATIO);
    static const char *const wrong[] = {"",
                                        "5",
                                        "GiB",
                                        "5 Gib",
                                        "-5GiB",
                                        "5GiB/s",
                                        "1..5x",
                                        "0GiB",
                                        "1e3B",
                                        "nan",
                                        "5XB/token",
                                        "x",
                                        "12345678901234567890123456789012345678901234567890B"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct status_text text = {""};
        assert_int_equal(expect_parse("--expect", wrong[i], &figure, &text), STATUS_BAD_INPUT);
        assert_non_null(strstr(text.line, "a figure is expected"));
    }
}

/* The right view is the formula, for every built-in model and format. */
static void without_a_mistake_it_is_the_formula(void **state) {
    (void)state;
    static const uint64_t lengths[] = {128, 8192, 131072};
    for (size_t m = 0; m < model_source_count(); m++) {
        const struct model model = load(model_source_name(m));
        for (int format = 0; format < FORMAT_COUNT; format++) {
            const struct formula_storage storage = {
                .k_format = (enum format_id)format,
                .v_format = (enum format_id)format,
                .index = formula_index_default((enum format_id)format),
                .state_value_bytes = 4};
            for (size_t i = 0; i < 3; i++) {
                struct formula_result formula;
                if (formula_compute(&model, &storage, lengths[i], 1, &formula, NULL) != STATUS_OK)
                    continue;
                const struct expect_size size =
                    expect_size(&model, &storage, lengths[i], &(struct expect_view){0});
                const double exact = (double)formula.seq_bytes;
                if (size.bytes < exact * (1 - 1e-12) || size.bytes > exact * (1 + 1e-12))
                    fail_msg("%s: %f, not %f", model.name, size.bytes, exact);
                const double rate = formula_rate_value(formula.rate);
                assert_true(size.rate >= rate * (1 - 1e-12) && size.rate <= rate * (1 + 1e-12));
            }
        }
    }
}

struct trial {
    const char *model;
    enum format_id format;
    uint64_t seqs;
    uint32_t ranks;
    const char *figure; /* what somebody's calculator said */
    const char *verdict;
};

static void judge(const struct trial *trial) {
    const struct model whole = load(trial->model);
    struct model rank;
    assert_int_equal(model_shard(&whole, trial->ranks, &rank, NULL), STATUS_OK);
    const struct formula_storage storage = {.k_format = trial->format,
                                            .v_format = trial->format,
                                            .index = formula_index_default(trial->format),
                                            .state_value_bytes = 4};
    struct formula_storage bf16 = storage;
    bf16.k_format = bf16.v_format = FORMAT_BF16;
    struct formula_result formula, of_baseline;
    assert_int_equal(formula_compute(&rank, &storage, 8192, trial->seqs, &formula, NULL),
                     STATUS_OK);
    assert_int_equal(formula_compute(&rank, &bf16, 8192, 1, &of_baseline, NULL), STATUS_OK);
    const struct expect_figure figure = figure_of(trial->figure);
    struct expect_case one = {.whole = &whole,
                              .model = &rank,
                              .storage = storage,
                              .baseline = bf16,
                              .tokens = 8192,
                              .seqs = trial->seqs,
                              .ranks = trial->ranks,
                              .budget_bytes = 32e9};
    const double rate = formula_rate_value(formula.rate);
    one.ours = figure.unit == EXPECT_BYTES  ? (double)formula.total_bytes
               : figure.unit == EXPECT_RATE ? rate
               : figure.unit == EXPECT_RATIO
                   ? formula_rate_value(of_baseline.rate) / rate
                   : (one.budget_bytes - (double)formula.fixed_bytes_per_seq) / rate;
    char verdict[EXPECT_VERDICT_BYTES];
    const bool agrees = expect_judge(&one, &figure, verdict);
    if (strstr(verdict, trial->verdict) == NULL || agrees != (strcmp(verdict, "agrees") == 0))
        fail_msg("%s %s: \"%s\" does not say \"%s\"", trial->model, trial->figure, verdict,
                 trial->verdict);
}

static void every_mistake_is_named(void **state) {
    (void)state;
    static const struct trial trials[] = {
        {"llama-3.3-70b", FORMAT_BF16, 1, 1, "2.5GiB", "agrees"},
        {"llama-3.3-70b", FORMAT_BF16, 1, 1, "2.50GiB", "agrees"},
        {"llama-3.3-70b", FORMAT_BF16, 1, 1, "327680B/token", "agrees"},
        {"llama-3.3-70b", FORMAT_BF16, 1, 1, "320KiB/token", "agrees"},
        {"llama-3.3-70b", FORMAT_NVFP4, 1, 1, "3.56x", "agrees"},
        {"llama-3.3-70b", FORMAT_BF16, 1, 1, "1.25GiB", "only K, or only V, is counted"},
        {"mimo-v2.6-flash", FORMAT_BF16, 1, 1, "13824B/token", "only K is counted"},
        {"mimo-v2.6-flash", FORMAT_BF16, 1, 1, "9216B/token", "only V is counted"},
        {"llama-3.3-70b", FORMAT_BF16, 1, 1, "20GiB", "MHA instead of GQA, 8x here"},
        {"gpt-oss-20b", FORMAT_BF16, 1, 1, "0.375GiB", "window layers are counted as full"},
        {"gpt-oss-20b", FORMAT_BF16, 1, 1, "0.1875GiB", "window layers are left out"},
        {"qwen3.8-27b", FORMAT_BF16, 1, 1, "2GiB", "recurrent layers are counted as full"},
        {"qwen3.8-27b", FORMAT_BF16, 1, 1, "0.500GiB", "the recurrent state is left out"},
        {"deepseek-v3.2", FORMAT_BF16, 1, 1, "70272B/token", "index keys are left out"},
        {"glm-4.7-flash", FORMAT_BF16, 1, 1, "108288B/token", "counted as K and as V"},
        {"llama-3.3-70b", FORMAT_Q8_0, 1, 1, "42.5GiB", "34 bytes of a group of q8_0"},
        {"llama-3.3-70b", FORMAT_Q8_0, 1, 1, "163840B/token", "q8_0 is taken as 1.0 bytes"},
        {"llama-3.3-70b", FORMAT_Q4_0, 1, 1, "81920B/token", "q4_0 is taken as 0.5 bytes"},
        {"llama-3.3-70b", FORMAT_NVFP4, 1, 1, "4.00x", "nvfp4 is taken as 0.5 bytes"},
        {"llama-3.3-70b", FORMAT_FP8_E4M3, 1, 1, "2.500GiB", "16 bits a value are counted"},
        {"llama-3.3-70b", FORMAT_BF16, 1, 1, "2.50GB", "binary units (GiB, not GB)"},
        {"llama-3.3-70b", FORMAT_BF16, 1, 1, "2.684GiB", "decimal units (GB, not GiB)"},
        {"llama-3.3-70b", FORMAT_BF16, 1, 1, "104857tokens", "GB are taken for GiB"},
        {"llama-3.3-70b", FORMAT_BF16, 1, 1, "90949tokens", "GiB are taken for GB"},
        {"llama-3.3-70b", FORMAT_BF16, 32, 1, "2.5GiB", "one sequence is counted, not all 32"},
        {"llama-3.3-70b", FORMAT_BF16, 1, 8, "2.5GiB", "all 8 ranks together"},
        {"llama-3.3-70b", FORMAT_BF16, 1, 1, "0.3125GiB", "one rank of 8 is counted"},
        {"llama-3.3-70b", FORMAT_BF16, 1, 1, "1.5625GiB", "head dim 80 is taken, not 128"},
        {"llama-3.3-70b", FORMAT_BF16, 1, 1, "3.333GiB", "differs"},
    };
    for (size_t i = 0; i < sizeof trials / sizeof trials[0]; i++)
        judge(&trials[i]);
}

static void what_the_caller_knows_is_offered_too(void **state) {
    (void)state;
    const struct model model = load("llama-3.3-70b");
    const struct formula_storage bf16 = {.k_format = FORMAT_BF16,
                                         .v_format = FORMAT_BF16,
                                         .index = FORMULA_INDEX_NONE,
                                         .state_value_bytes = 4};
    struct expect_case one = {.whole = &model,
                              .model = &model,
                              .storage = bf16,
                              .baseline = bf16,
                              .tokens = 1000,
                              .seqs = 1,
                              .ranks = 1,
                              .ours = 327680000,
                              .paged = 63 * 16 * 327680.0};
    char verdict[EXPECT_VERDICT_BYTES];
    struct expect_figure figure = figure_of("330301440B");
    assert_false(expect_judge(&one, &figure, verdict));
    assert_string_equal(verdict, "differs: whole pages are counted, unused slots too");
    one.ours = 400e6;
    one.formula = 327680000;
    one.paged = 0;
    figure = figure_of("327680000B");
    assert_false(expect_judge(&one, &figure, verdict));
    assert_non_null(strstr(verdict, "without what the engine adds"));
    /* --tolerance 25 %. */
    one.tolerance = 0.25;
    assert_true(expect_judge(&one, &figure, verdict));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures_are_read_with_their_last_digit),
        cmocka_unit_test(without_a_mistake_it_is_the_formula),
        cmocka_unit_test(every_mistake_is_named),
        cmocka_unit_test(what_the_caller_knows_is_offered_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
