/* Rotated test data: the transform against its matrix, whose rows it takes, and what it does to the
 * error of a format. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "rotate.h"
#include "step_setup.h"
#include "verify.h"

enum { MOST = 512 };

static void random_values(float *out, uint64_t count, uint64_t seed) {
    struct generate_random random;
    generate_random_seed(&random, seed);
    for (uint64_t i = 0; i < count; i++)
        out[i] = generate_random_normal(&random);
}

/* Row i, column j of the Walsh-Hadamard matrix, from its definition. */
static double matrix(uint32_t points, uint32_t i, uint32_t j) {
    uint32_t common = i & j, odd = 0;
    for (; common != 0; common >>= 1)
        odd ^= common & 1;
    return (odd ? -1.0 : 1.0) / sqrt((double)points);
}

static void test_matrix(void **state) {
    (void)state;
    for (uint32_t points = 64; points <= MOST; points *= 2) {
        float values[2 * MOST], turned[2 * MOST];
        random_values(values, 2 * points, points);
        memcpy(turned, values, sizeof turned);
        rotate_values(turned, 2 * points, points);
        for (uint32_t row = 0; row < 2; row++) {
            double before = 0, after = 0;
            for (uint32_t i = 0; i < points; i++) {
                double sum = 0;
                for (uint32_t j = 0; j < points; j++)
                    sum += matrix(points, i, j) * (double)values[row * points + j];
                assert_true(fabs(sum - (double)turned[row * points + i]) < 1e-5);
                before += pow((double)values[row * points + i], 2);
                after += pow((double)turned[row * points + i], 2);
            }
            assert_true(fabs(after / before - 1) < 1e-6); /* orthonormal */
        }
        rotate_values(turned, 2 * points, points);
        for (uint32_t i = 0; i < 2 * points; i++) /* its own inverse */
            assert_true(fabsf(turned[i] - values[i]) < 1e-5f);
    }
}

static void test_scores_stay(void **state) {
    (void)state;
    for (uint32_t points = 64; points <= MOST; points *= 2) {
        float query[MOST], key[MOST];
        random_values(query, MOST, 1);
        random_values(key, MOST, 2);
        double before = 0, after = 0, length = 0;
        for (uint32_t i = 0; i < MOST; i++)
            before += (double)query[i] * (double)key[i];
        rotate_values(query, MOST, points);
        rotate_values(key, MOST, points);
        for (uint32_t i = 0; i < MOST; i++) {
            after += (double)query[i] * (double)key[i];
            length += fabs((double)query[i] * (double)key[i]);
        }
        assert_true(fabs(after - before) < 1e-6 * length);
    }
}

/* llama.cpp's rule, side by side. */
static void test_rule(void **state) {
    (void)state;
    static const struct {
        enum model_kind kind;
        struct page_shape shape;
        struct rotate_points points;
    } rules[] = {
        {MODEL_FULL, {2, 16, 64, 64, false, FORMAT_Q8_0, FORMAT_Q8_0}, {64, 64}},
        {MODEL_FULL, {2, 16, 128, 128, false, FORMAT_Q4_0, FORMAT_Q4_0}, {128, 64}},
        {MODEL_WINDOW, {2, 16, 256, 256, false, FORMAT_NVFP4, FORMAT_NVFP4}, {256, 64}},
        {MODEL_FULL, {2, 16, 192, 128, false, FORMAT_Q8_0, FORMAT_Q8_0}, {64, 64}},
        {MODEL_FULL, {2, 16, 320, 320, false, FORMAT_FP8_E4M3, FORMAT_FP8_E4M3}, {64, 64}},
        {MODEL_LATENT, {1, 16, 576, 512, true, FORMAT_Q8_0, FORMAT_Q8_0}, {64, 0}},
        {MODEL_LATENT, {1, 16, 512, 512, true, FORMAT_Q8_0, FORMAT_Q8_0}, {512, 0}},
        {MODEL_FULL, {2, 16, 96, 64, false, FORMAT_Q4_0, FORMAT_Q4_0}, {0, 64}},
        {MODEL_FULL, {2, 16, 80, 80, false, FORMAT_Q4_0, FORMAT_Q4_0}, {0, 0}},
        {MODEL_FULL, {2, 16, 128, 128, false, FORMAT_BF16, FORMAT_F16}, {0, 0}},
        {MODEL_FULL, {2, 16, 128, 128, false, FORMAT_BF16, FORMAT_Q8_0}, {0, 64}},
        {MODEL_FULL, {2, 16, 128, 128, false, FORMAT_Q8_0, FORMAT_BF16}, {128, 0}},
        {MODEL_INDEX, {1, 16, 128, 128, true, FORMAT_FP8_E4M3, FORMAT_FP8_E4M3}, {128, 0}},
        {MODEL_STATE, {1, 16, 128, 128, false, FORMAT_Q8_0, FORMAT_Q8_0}, {0, 0}},
    };
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        const struct rotate_points points = rotate_points_of(rules[i].kind, &rules[i].shape);
        assert_int_equal(points.k, rules[i].points.k);
        assert_int_equal(points.v, rules[i].points.v);
    }
}

static void test_queries_are_exact(void **state) {
    (void)state;
    enum { COUNT = 8 * 2 * 128 };
    static float plain[COUNT], turned[COUNT];
    generate_queries(1, 0, OPTIONS_DATA_SINK, 2, 8, 128, plain);
    memcpy(turned, plain, sizeof turned);
    rotate_queries(turned, COUNT, 0);
    assert_memory_equal(turned, plain, sizeof plain);
    rotate_queries(turned, COUNT, 128);
    double apart = 0, length = 0;
    for (uint32_t i = 0; i < COUNT; i++) {
        const float sixteenths = turned[i] * 16;
        assert_true(sixteenths == truncf(sixteenths) && fabsf(sixteenths) <= 127);
    }
    rotate_values(turned, COUNT, 128);
    for (uint32_t i = 0; i < COUNT; i++) {
        apart += pow((double)turned[i] - (double)plain[i], 2);
        length += pow((double)plain[i], 2);
    }
    assert_true(sqrt(apart / length) < 0.05); /* the rounding, no more */
}

static void test_bank(void **state) {
    (void)state;
    struct generate_bank bank;
    assert_int_equal(generate_bank_create(1, 1, OPTIONS_DATA_BIAS, 50, 2, 128, 64, &bank, NULL),
                     STATUS_OK);
    const float k_amax = bank.k_amax, v_amax = bank.v_amax;
    rotate_bank(&bank, (struct rotate_points){128, 0});
    assert_true(bank.k_amax < k_amax / 2); /* a constant of one channel is spread over all */
    assert_true(bank.k_amax == generate_largest(bank.k, 50 * 2 * 128));
    assert_true(bank.v_amax == v_amax);
    rotate_bank(&bank, (struct rotate_points){0, 64});
    assert_true(bank.v_amax == generate_largest(bank.v, 50 * 2 * 64) && bank.v_amax != v_amax);
    generate_bank_destroy(&bank);
}

static const struct model plain_model = {
    .name = "plain",
    .group_count = 1,
    .groups = {{.kind = MODEL_FULL,
                .layers = 2,
                .read_by_layers = 2,
                .kv_heads = 2,
                .query_heads = 8,
                .k_dim = 128,
                .v_dim = 128}},
};
static const struct model latent_model = {
    .name = "latent",
    .group_count = 1,
    .groups = {{.kind = MODEL_LATENT,
                .layers = 1,
                .read_by_layers = 1,
                .query_heads = 4,
                .latent_dim = 512,
                .rope_dim = 64}},
};

/* A pool, filled, attended and verified; what the verification found. */
static struct verify_result run(const struct model *model, enum format_id format,
                                enum options_data data, bool rotate) {
    static const uint64_t lengths[] = {300, 77};
    const struct pool_request request = {
        .model = model,
        .storage = {.k_format = format,
                    .v_format = format,
                    .index = FORMULA_INDEX_NONE,
                    .state_value_bytes = 4},
        .lengths = lengths,
        .seqs = 2,
        .page_tokens = 16,
        .seed = 1,
        .data = data,
        .rotate = rotate,
    };
    struct pool *pool = step_setup_pool(cpu, &request);
    struct step *step = step_setup_step(cpu, pool, 1, data);
    struct status_text text = {""};
    struct verify_result result = {0};
    if (verify_pool(cpu, device, pool, step, 1, UINT64_MAX, &result, &text) != STATUS_OK)
        fail_msg("%s", text.line);
    step_destroy(step);
    pool_destroy(pool);
    return result;
}

/* What rotation is for: with outliers a block of q4_0 has few codes left for its other values. */
static void test_error_falls(void **state) {
    (void)state;
    static const enum format_id formats[] = {FORMAT_Q4_0, FORMAT_Q4_0_GGML, FORMAT_Q8_0};
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        const struct verify_result as_is = run(&plain_model, formats[i], OPTIONS_DATA_OUTLIER, 0);
        const struct verify_result turned = run(&plain_model, formats[i], OPTIONS_DATA_OUTLIER, 1);
        print_message("%s: %g, rotated %g; K %g, %g; V %g, %g\n", format_get(formats[i])->name,
                      as_is.format_error, turned.format_error, as_is.k_error, turned.k_error,
                      as_is.v_error, turned.v_error);
        assert_true(turned.format_error < 0.6 * as_is.format_error);
        assert_true(turned.v_error < 0.6 * as_is.v_error);
    }
}

/* 16-bit rows are left alone, to the last bit; latents are turned and still right. */
static void test_other_rows(void **state) {
    (void)state;
    const struct verify_result as_is = run(&plain_model, FORMAT_BF16, OPTIONS_DATA_NORMAL, false);
    const struct verify_result turned = run(&plain_model, FORMAT_BF16, OPTIONS_DATA_NORMAL, true);
    assert_memory_equal(&as_is, &turned, sizeof as_is);
    assert_true(run(&latent_model, FORMAT_Q4_0, OPTIONS_DATA_NORMAL, false).k_error !=
                run(&latent_model, FORMAT_Q4_0, OPTIONS_DATA_NORMAL, true).k_error);
    struct formula_storage storage = {
        .k_format = FORMAT_Q4_0, .v_format = FORMAT_Q4_0, .index = FORMULA_INDEX_BF16};
    assert_true(rotate_any(&latent_model, &storage));
    storage.k_format = storage.v_format = FORMAT_F16;
    assert_false(rotate_any(&latent_model, &storage));
    /* keys in a format of their own */
    struct model keys = latent_model;
    keys.groups[keys.group_count++] =
        (struct model_group){.kind = MODEL_INDEX, .layers = 1, .key_dim = 128};
    assert_false(rotate_any(&keys, &storage));
    storage.index = FORMULA_INDEX_MXFP4;
    assert_true(rotate_any(&keys, &storage));
    assert_false(rotate_unfit(&latent_model.groups[0]));
    struct model_group odd = plain_model.groups[0];
    odd.v_dim = 96;
    assert_true(rotate_unfit(&odd));
}

/* A step's queries are turned as the rows they meet, those of an index too: left as they are,
 * kernels and reference would agree on the wrong thing. */
static void test_a_step_turns_its_queries(void **state) {
    (void)state;
    static const uint64_t lengths[] = {40};
    struct model model = plain_model;
    model.groups[model.group_count++] = (struct model_group){.kind = MODEL_INDEX,
                                                             .layers = 2,
                                                             .read_by_layers = 2,
                                                             .query_heads = 3,
                                                             .key_dim = 64,
                                                             .tokens_per_entry = 1,
                                                             .top_k = 8};
    enum { QUERIES = 8 * 128, KEYS = 3 * 64 };
    float queries[2][QUERIES], keys[2][KEYS];
    for (int rotate = 0; rotate < 2; rotate++) {
        const struct pool_request request = {.model = &model,
                                             .storage = {.k_format = FORMAT_Q8_0,
                                                         .v_format = FORMAT_Q8_0,
                                                         .index = FORMULA_INDEX_MXFP4,
                                                         .state_value_bytes = 4},
                                             .lengths = lengths,
                                             .seqs = 1,
                                             .page_tokens = 16,
                                             .seed = 1,
                                             .rotate = rotate == 1};
        struct pool *pool = step_setup_pool(cpu, &request);
        struct step *step = step_setup_step(cpu, pool, 1, OPTIONS_DATA_NORMAL);
        struct step_choice choice;
        step_choice_get(step, 1, 0, &choice);
        memcpy(queries[rotate], step_queries(step, 0), sizeof queries[0]);
        memcpy(keys[rotate], choice.queries, sizeof keys[0]);
        step_destroy(step);
        pool_destroy(pool);
    }
    rotate_queries(queries[0], QUERIES, 128);
    rotate_queries(keys[0], KEYS, 64);
    assert_memory_equal(queries[0], queries[1], sizeof queries[0]);
    assert_memory_equal(keys[0], keys[1], sizeof keys[0]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_matrix),     cmocka_unit_test(test_scores_stay),
        cmocka_unit_test(test_rule),       cmocka_unit_test(test_queries_are_exact),
        cmocka_unit_test(test_bank),       cmocka_unit_test(test_error_falls),
        cmocka_unit_test(test_other_rows), cmocka_unit_test(test_a_step_turns_its_queries),
    };
    return cmocka_run_group_tests(tests, step_setup_open, step_setup_close);
}
