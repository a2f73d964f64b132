/* --weights-read: how bytes become matrices, products through the CPU's BLAS, a device that
 * multiplies wrongly, and where a step's bytes and time go. What needs a BLAS library is skipped,
 * and says so, without one. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "product_exact.h"
#include "step_share.h"
#include "weights_read.h"

static const struct memory_budget budget = {.budget_bytes = (uint64_t)256 << 20, .source = "told"};
static struct status_text text;

static void assert_said(const char *words) {
    if (strstr(text.line, words) == NULL)
        fail_msg("'%s' is not in '%s'", words, text.line);
}

static void assert_ok(enum status status) {
    if (status != STATUS_OK)
        fail_msg("%s", text.line);
}

static void test_plan(void **state) {
    (void)state;
    struct model model = {.name = "test", .hidden_size = 4096};
    struct weights_read_shape shape;
    assert_ok(weights_read_plan(&model, 1, (uint64_t)200 << 20, BACKEND_WEIGHTS_F32, 3, 512, &shape,
                                &text));
    assert_int_equal(shape.read_bytes, (uint64_t)200 << 20);
    assert_int_equal(shape.hidden, 4096);
    assert_false(shape.hidden_taken);
    /* 64 MiB each, and 8 MiB left */
    assert_int_equal(shape.matrices, 4);
    assert_int_equal(shape.rows, 4096);
    assert_int_equal(shape.last_rows, 512);
    assert_int_equal(shape.total_bytes, ((uint64_t)200 << 20) + 3 * 4 * (4096 + 4096) + 512 + 768);
    /* less than 16 rows are left out */
    assert_ok(weights_read_plan(&model, 1, ((uint64_t)64 << 20) + 16 * 16384 - 1,
                                BACKEND_WEIGHTS_F32, 3, 0, &shape, &text));
    assert_int_equal(shape.read_bytes, (uint64_t)64 << 20);
    assert_int_equal(shape.matrices, 1);
    assert_int_equal(shape.last_rows, 4096);
    assert_int_equal(
        weights_read_plan(&model, 1, 16 * 8192 - 1, BACKEND_WEIGHTS_BF16, 1, 0, &shape, &text),
        STATUS_BAD_INPUT);
    assert_said(
        "--weights-read 131071: less than 16 rows of 4096 values in bf16, which are 131072");
    /* small hidden sizes: matrices of 16 MiB all the same; hidden sizes in whole 16 */
    model.hidden_size = 100;
    assert_ok(weights_read_plan(&model, 1, (uint64_t)40 << 20, BACKEND_WEIGHTS_FP8_E4M3, 1, 0,
                                &shape, &text));
    assert_int_equal(shape.hidden, 112);
    assert_true((uint64_t)shape.rows * shape.hidden >= (uint64_t)16 << 20);
    assert_int_equal(shape.rows % 16, 0);
    assert_int_equal(shape.matrices, 3);
    /* whatever is asked, what is taken is counted in 64 bits, not modulo them */
    model.hidden_size = 1 << 20;
    assert_ok(
        weights_read_plan(&model, 1, UINT64_MAX / 2, BACKEND_WEIGHTS_F32, 64, 0, &shape, &text));
    assert_true(shape.total_bytes > shape.read_bytes);
    assert_int_equal(
        weights_read_plan(&model, 1, UINT64_MAX, BACKEND_WEIGHTS_F32, 64, 0, &shape, &text),
        STATUS_OVERFLOW);
    assert_said("more than 64 bits count");
}

/* Heads times dim, over all ranks; a latent's are wide. */
static void test_hidden_taken(void **state) {
    (void)state;
    struct model model = {.group_count = 2,
                          .groups = {{.kind = MODEL_STATE, .layers = 1, .heads = 3},
                                     {.kind = MODEL_FULL, .query_heads = 16, .k_dim = 128}}};
    struct weights_read_shape shape;
    assert_ok(weights_read_plan(&model, 2, 1 << 20, BACKEND_WEIGHTS_BF16, 1, 0, &shape, &text));
    assert_true(shape.hidden_taken);
    assert_int_equal(shape.hidden, 4096);
    model.groups[1] = (struct model_group){
        .kind = MODEL_LATENT, .query_heads = 128, .latent_dim = 512, .rope_dim = 64};
    assert_ok(weights_read_plan(&model, 1, 1 << 20, BACKEND_WEIGHTS_BF16, 1, 0, &shape, &text));
    assert_int_equal(shape.hidden, 16384);
    model.group_count = 1;
    model.groups[0].state_rows = 64;
    assert_ok(weights_read_plan(&model, 2, 1 << 20, BACKEND_WEIGHTS_BF16, 1, 0, &shape, &text));
    assert_int_equal(shape.hidden, 2 * 3 * 64);
}

/* A cpu device with `threads` threads and its library open; NULL, and said, where there is none. */
static struct backend_device *open_cpu(const struct backend_ops *ops, uint32_t threads) {
    struct backend_device *device;
    assert_ok(ops->open(&(struct backend_options){.threads = threads}, &device, &text));
    if (ops->libraries_open(device, NULL, BACKEND_WEIGHTS_F32, &text) == STATUS_OK)
        return device;
    print_message("skipped: %s\n", text.line);
    ops->close(device);
    return NULL;
}

/* Rows that do not divide by the threads, fewer rows than threads, one sequence and several. */
static void test_products(void **state) {
    (void)state;
    const struct backend_ops *ops = backend_find("cpu");
    static const uint32_t shapes[][4] = {
        {1, 16, 16, 1}, {1, 208, 112, 3}, {3, 208, 112, 3}, {17, 48, 2880, 5}, {2, 16, 64, 32}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        struct backend_device *device = open_cpu(ops, shapes[i][3]);
        if (device == NULL)
            skip();
        product_exact(ops, device, shapes[i][0], shapes[i][1], shapes[i][2]);
        ops->close(device);
    }
}

static void test_libraries(void **state) {
    (void)state;
    const struct backend_ops *ops = backend_find("cpu");
    struct backend_device *device;
    struct backend_facts facts;
    assert_ok(ops->open(&(struct backend_options){0}, &device, &text));
    assert_int_equal(setenv("KVGAUGE_BLAS", "/nowhere/libblas.so", 1), 0);
    assert_ok(ops->libraries_open(device, "tiled", BACKEND_WEIGHTS_NONE, &text));
    assert_int_equal(ops->libraries_open(device, NULL, BACKEND_WEIGHTS_F32, &text), STATUS_MISSING);
    assert_said("there is no /nowhere/libblas.so");
    assert_said("package libopenblas0");
    assert_int_equal(setenv("KVGAUGE_BLAS", "libm.so.6", 1), 0);
    assert_int_equal(ops->libraries_open(device, NULL, BACKEND_WEIGHTS_F32, &text), STATUS_MISSING);
    assert_said("libm.so.6 has no sgemm_");
    ops->facts(device, &facts);
    assert_string_equal(facts.blas, "");
    const struct backend_product work = {.format = BACKEND_WEIGHTS_F32, .batch = 1};
    assert_int_equal(ops->product(device, &work, &text), STATUS_REFUSED);
    assert_int_equal(unsetenv("KVGAUGE_BLAS"), 0);
    assert_int_equal(ops->libraries_open(device, NULL, BACKEND_WEIGHTS_BF16, &text),
                     STATUS_REFUSED);
    ops->close(device);
    enum backend_weights format;
    assert_ok(weights_read_format(ops, BACKEND_WEIGHTS_NONE, &format, &text));
    assert_int_equal(format, BACKEND_WEIGHTS_F32);
    assert_int_equal(weights_read_format(ops, BACKEND_WEIGHTS_BF16, &format, &text),
                     STATUS_REFUSED);
    assert_said("--weights-format bf16: the cpu backend multiplies f32");
}

/* The cpu's products, with one thing wrong. */
static struct {
    enum lie_kind { HONEST, ROW_LEFT_OUT, NEIGHBOUR_READ, LAST_SEQ_WRONG } how;
    uint32_t from_call, calls; /* products before `from_call` are right */
    uint64_t product_bytes;
    bool wiped; /* outputs before each product */
} lie;

static enum status lying_product(struct backend_device *device, const struct backend_product *work,
                                 struct status_text *message) {
    struct backend_product wrong = *work;
    const bool now = lie.calls++ >= lie.from_call;
    lie.wiped = lie.wiped && isnan(work->dev_outputs[0]) &&
                isnan(work->dev_outputs[(uint64_t)work->rows * work->batch - 1]);
    lie.product_bytes += (uint64_t)work->rows * work->cols * sizeof(float);
    if (now && lie.how == NEIGHBOUR_READ)
        wrong.dev_weights = (const float *)work->dev_weights + work->cols;
    const float kept = work->dev_outputs[work->rows - 1];
    const enum status status = backend_find("cpu")->product(device, &wrong, message);
    if (now && lie.how == ROW_LEFT_OUT)
        work->dev_outputs[work->rows - 1] = kept;
    if (now && lie.how == LAST_SEQ_WRONG)
        work->dev_outputs[(uint64_t)work->rows * work->batch - 1] += 0.1f;
    return status;
}

static void test_wrong_products(void **state) {
    (void)state;
    struct backend_ops ops = *backend_find("cpu");
    ops.product = lying_product;
    struct backend_device *device = open_cpu(&ops, 2);
    if (device == NULL)
        skip();
    const struct model model = {.hidden_size = 256};
    struct weights_read_shape shape;
    struct weights_read *weights;
    double error;
    assert_ok(
        weights_read_plan(&model, 1, (uint64_t)40 << 20, BACKEND_WEIGHTS_F32, 3, 0, &shape, &text));
    assert_int_equal(shape.matrices, 3);
    for (int how = HONEST; how <= LAST_SEQ_WRONG; how++) {
        lie.how = (enum lie_kind)how;
        lie.calls = 0;
        lie.wiped = true;
        lie.from_call = 2;
        const enum status status =
            weights_read_create(&ops, device, &shape, 3, &budget, NULL, &weights, &error, &text);
        if (how == HONEST) {
            assert_ok(status);
            assert_true(lie.wiped);
            lie.product_bytes = 0;
            assert_ok(weights_read_run(weights, &text));
            assert_int_equal(lie.product_bytes, shape.read_bytes);
            weights_read_destroy(weights);
            continue;
        }
        assert_int_equal(status, STATUS_WRONG);
        assert_null(weights);
        assert_said("matrix 2 of 3 is off by");
    }
    ops.close(device);
}

static bool stop(void) {
    return true;
}

static void test_too_large_and_interrupted(void **state) {
    (void)state;
    const struct backend_ops *ops = backend_find("cpu");
    struct backend_device *device = open_cpu(ops, 1);
    if (device == NULL)
        skip();
    const struct model model = {.hidden_size = 1024};
    const struct memory_budget small = {.budget_bytes = (32 << 20) + 1000, .source = "--budget"};
    struct weights_read_shape shape;
    struct weights_read *weights;
    double error;
    assert_ok(weights_read_plan(&model, 1, 32 << 20, BACKEND_WEIGHTS_F32, 2, 0, &shape, &text));
    assert_int_equal(
        weights_read_create(ops, device, &shape, 3, &small, NULL, &weights, &error, &text),
        STATUS_OUT_OF_MEMORY);
    assert_said("--weights-read 33554432: with inputs, outputs and workspace");
    assert_said("the budget is 33555432 (--budget)");
    assert_int_equal(
        weights_read_create(ops, device, &shape, 3, &budget, stop, &weights, &error, &text),
        STATUS_INTERRUPTED);
    assert_null(weights);
    ops->close(device);
}

static uint64_t overtakes(const struct model *model, const struct formula_storage *storage,
                          uint64_t seqs, uint64_t weights_bytes) {
    uint64_t tokens;
    return step_share_overtakes(model, storage, seqs, weights_bytes, &tokens) ? tokens : 0;
}

static void test_overtakes(void **state) {
    (void)state;
    struct formula_storage storage = {.k_format = FORMAT_BF16,
                                      .v_format = FORMAT_BF16,
                                      .index = FORMULA_INDEX_BF16,
                                      .state_value_bytes = 4};
    const struct model_group full = {.kind = MODEL_FULL,
                                     .layers = 8,
                                     .read_by_layers = 8,
                                     .query_heads = 8,
                                     .kv_heads = 8,
                                     .k_dim = 128,
                                     .v_dim = 128};
    struct model model = {.group_count = 1, .groups = {full}};
    /* 32,768 bytes a token */
    assert_int_equal(overtakes(&model, &storage, 4, (uint64_t)512 << 20), 4096);
    assert_int_equal(overtakes(&model, &storage, 4, ((uint64_t)512 << 20) + 1), 4097);
    storage.k_format = storage.v_format = FORMAT_NVFP4;
    assert_int_equal(overtakes(&model, &storage, 4, (uint64_t)512 << 20), 14564); /* 9,216 */
    storage.k_format = storage.v_format = FORMAT_BF16;
    /* read twice over */
    model.groups[0].read_by_layers = 16;
    assert_int_equal(overtakes(&model, &storage, 4, (uint64_t)512 << 20), 2048);
    /* a window is all there is from 100 tokens on */
    model.groups[0] = full;
    model.groups[0].kind = MODEL_WINDOW;
    model.groups[0].window_tokens = 100;
    assert_int_equal(overtakes(&model, &storage, 1, 3276800), 100);
    assert_int_equal(overtakes(&model, &storage, 1, 3276801), 0);
    /* beside it, what grows need only make up for the rest */
    model.groups[1] = full;
    model.group_count = 2;
    assert_int_equal(overtakes(&model, &storage, 1, 3276800 + 32768 * 5000), 5000);
    /* chosen rows: 16 of them, and the keys of all */
    model.groups[0] = (struct model_group){.kind = MODEL_LATENT,
                                           .layers = 2,
                                           .read_by_layers = 2,
                                           .query_heads = 16,
                                           .latent_dim = 512,
                                           .rope_dim = 64};
    model.groups[1] = (struct model_group){.kind = MODEL_INDEX,
                                           .layers = 2,
                                           .read_by_layers = 2,
                                           .key_dim = 128,
                                           .tokens_per_entry = 1,
                                           .top_k = 16};
    const uint64_t chosen = 16 * 2 * 576 * 2, key = 2 * 128 * 2;
    assert_int_equal(overtakes(&model, &storage, 1, chosen + 1000 * key), 1000);
    storage.index = FORMULA_INDEX_NONE; /* all rows are read */
    assert_int_equal(overtakes(&model, &storage, 1, 1000 * 2 * 576 * 2), 1000);
}

static void test_shares(void **state) {
    (void)state;
    const struct result_groups groups = {
        .count = 3,
        .groups = {{.kind = "full", .read_bytes = 300, .ns = 30},
                   {.kind = "window", .read_bytes = 100, .ns = 10},
                   {.kind = "state", .read_bytes = 200, .ns = 60}}};
    struct step_share share;
    char words[256];
    step_share_take(&groups, 1000, 400, 3000, &share);
    assert_int_equal(share.bytes[STEP_SHARE_KV], 400);
    assert_true(fabs(share.ns[STEP_SHARE_KV] - 400) < 1e-9);
    assert_true(fabs(share.ns[STEP_SHARE_STATE] - 600) < 1e-9);
    step_share_words(&share, words, sizeof words);
    assert_string_equal(
        words, "weights 40 % of the bytes, 75 % of the time; KV 40 %, 10 %; state 20 %, 15 %");
    struct writer_value values[STEP_SHARE_PARTS * STEP_SHARE_FIELD_COUNT];
    assert_int_equal(step_share_values(&share, values), 3); /* no index */
    assert_string_equal(values[2 * STEP_SHARE_FIELD_COUNT].as.text, "state");

    /* an index takes its part, and the parts are all there is */
    const struct result_groups indexed = {
        .count = 2,
        .groups = {{.kind = "latent", .read_bytes = 300, .ns = 30},
                   {.kind = "index", .read_bytes = 100, .ns = 10}}};
    step_share_take(&indexed, 400, 600, 1600, &share);
    assert_int_equal(step_share_values(&share, values), 3);
    static const double percent[][2] = {{60, 80}, {30, 15}, {10, 5}};
    for (size_t i = 0; i < 3; i++) {
        const struct writer_value *row = values + i * STEP_SHARE_FIELD_COUNT;
        assert_true(fabs(row[STEP_SHARE_FIELD_BYTES_PERCENT].as.real - percent[i][0]) < 1e-9);
        assert_true(fabs(row[STEP_SHARE_FIELD_TIME_PERCENT].as.real - percent[i][1]) < 1e-9);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plan),           cmocka_unit_test(test_hidden_taken),
        cmocka_unit_test(test_products),       cmocka_unit_test(test_libraries),
        cmocka_unit_test(test_wrong_products), cmocka_unit_test(test_too_large_and_interrupted),
        cmocka_unit_test(test_overtakes),      cmocka_unit_test(test_shares),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
