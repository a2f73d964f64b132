/* What the cuda backend does through cuBLAS, on a fake one: products with weights, the dense
 * baseline under the conformance suite's judge, and what is said when the library is missing or
 * fails. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "conformance.h"
#include "conformance_devices.h"
#include "cuda_backend.h"
#include "fake_runtime.h"
#include "product_exact.h"
#include "weights_read.h"

static const struct backend_ops *const ops = &cuda_backend_ops;
static struct backend_device *device;
static struct status_text text;
static const struct memory_budget budget = {.budget_bytes = (uint64_t)512 << 20, .source = "told"};

static void assert_said(const char *words) {
    if (strstr(text.line, words) == NULL)
        fail_msg("'%s' is not in '%s'", words, text.line);
}

static void assert_ok(enum status status) {
    if (status != STATUS_OK)
        fail_msg("%s", text.line);
}

static int setup(void **state) {
    (void)state;
    fake_runtime_reset();
    text.line[0] = '\0';
    return ops->open(&(struct backend_options){0}, &device, &text) == STATUS_OK ? 0 : -1;
}

static int teardown(void **state) {
    (void)state;
    ops->close(device);
    return fake_runtime.blas_handles == 0 && fake_runtime.blas_objects == 0 &&
                   fake_runtime.allocations == 0 && fake_runtime.graph_execs == 0
               ? 0
               : -1;
}

static struct weights_read_shape shape_of(enum backend_weights format, uint32_t batch) {
    const struct model model = {.name = "test", .hidden_size = 208};
    struct weights_read_shape shape;
    assert_ok(weights_read_plan(&model, 1, (uint64_t)60 * 208 * 4, format, batch,
                                ops->product_workspace_bytes(device), &shape, &text));
    return shape;
}

/* The harness' own judge, in every format, for one sequence and several; then replayed. */
static void test_products(void **state) {
    (void)state;
    for (const enum backend_weights *format = ops->weights_formats; *format != BACKEND_WEIGHTS_NONE;
         format++) {
        assert_ok(ops->libraries_open(device, NULL, *format, &text));
        static const uint32_t batches[] = {1, 3, 17};
        for (size_t b = 0; b < sizeof batches / sizeof batches[0]; b++) {
            const struct weights_read_shape shape = shape_of(*format, batches[b]);
            struct weights_read *weights;
            double error = NAN;
            assert_ok(weights_read_create(ops, device, &shape, 5, &budget, NULL, &weights, &error,
                                          &text));
            assert_true(error < 1e-6);
            const uint32_t before = fake_runtime.products;
            assert_ok(weights_read_run(weights, &text));
            assert_ok(ops->synchronize(device, &text));
            assert_int_equal(fake_runtime.products - before, shape.matrices);
            weights_read_destroy(weights);
        }
    }
}

/* A product by itself against sums of our own: the judge above is the harness'. */
static void test_product_exactly(void **state) {
    (void)state;
    assert_ok(ops->libraries_open(device, NULL, BACKEND_WEIGHTS_F32, &text));
    product_exact(ops, device, 1, 16, 16);
    product_exact(ops, device, 3, 208, 112);
}

static void test_missing(void **state) {
    (void)state;
    char *told = getenv("KVGAUGE_CUBLAS");
    assert_non_null(told);
    char *kept = strdup(told);
    assert_int_equal(setenv("KVGAUGE_CUBLAS", "/nowhere/libcublas.so", 1), 0);
    assert_int_equal(ops->libraries_open(device, NULL, BACKEND_WEIGHTS_BF16, &text),
                     STATUS_MISSING);
    assert_said("weights are read through cuBLAS: there is no libcublas.so.");
    assert_said("/nowhere/libcublas.so: cannot open");
    assert_said("package libcublas-");
    assert_int_equal(ops->libraries_open(device, "cublas", BACKEND_WEIGHTS_NONE, &text),
                     STATUS_MISSING);
    assert_said("--kernel cublas: there is no libcublas.so.");
    /* what needs none is not asked for one */
    assert_ok(ops->libraries_open(device, "mma", BACKEND_WEIGHTS_NONE, &text));
    struct page_layout page;
    const struct page_shape shape = {.kv_heads = 2,
                                     .page_tokens = 64,
                                     .k_dim = 64,
                                     .v_dim = 64,
                                     .k_format = FORMAT_BF16,
                                     .v_format = FORMAT_BF16};
    assert_ok(page_plan(&shape, &page, &text));
    assert_int_equal(ops->attend_check(device, "cublas", &page, 8, false, &text), STATUS_REFUSED);
    assert_int_equal(setenv("KVGAUGE_CUBLAS", kept, 1), 0);
    assert_ok(ops->libraries_open(device, "cublas", BACKEND_WEIGHTS_NONE, &text));
    struct backend_facts facts;
    ops->facts(device, &facts);
    assert_non_null(strstr(facts.blas, "libfake_cublas.so "));
    free(kept);
}

/* Another library under its name. */
static void test_not_cublas(void **state) {
    (void)state;
    char *kept = strdup(getenv("KVGAUGE_CUBLAS"));
    assert_int_equal(setenv("KVGAUGE_CUBLAS", "libm.so.6", 1), 0);
    assert_int_equal(ops->libraries_open(device, NULL, BACKEND_WEIGHTS_BF16, &text),
                     STATUS_MISSING);
    assert_said("libm.so.6 has no cublasCreate_v2");
    assert_int_equal(setenv("KVGAUGE_CUBLAS", kept, 1), 0);
    free(kept);
}

static void test_fp8_refused(void **state) {
    (void)state;
    assert_ok(ops->libraries_open(device, NULL, BACKEND_WEIGHTS_FP8_E4M3, &text));
    fake_runtime.no_fp8_product = true;
    const struct weights_read_shape shape = shape_of(BACKEND_WEIGHTS_FP8_E4M3, 2);
    struct weights_read *weights;
    double error;
    assert_int_equal(
        weights_read_create(ops, device, &shape, 5, &budget, NULL, &weights, &error, &text),
        STATUS_REFUSED);
    assert_said("cublasLt has no fp8 product of");
    ops->close(device);
    fake_runtime_reset();
    fake_runtime.major = 8;
    fake_runtime.minor = 6;
    assert_ok(ops->open(&(struct backend_options){0}, &device, &text));
    assert_int_equal(ops->libraries_open(device, NULL, BACKEND_WEIGHTS_FP8_E4M3, &text),
                     STATUS_REFUSED);
    assert_said("compute capability 8.6, and products of fp8 need 8.9");
    assert_ok(ops->libraries_open(device, NULL, BACKEND_WEIGHTS_BF16, &text));
}

/* Every call fails in turn: a sentence that names it, and nothing left behind. */
static void test_calls_fail(void **state) {
    (void)state;
    static const struct {
        const char *call, *said;
        enum backend_weights format;
    } calls[] = {
        {"cublasCreate_v2", "cublasCreate", BACKEND_WEIGHTS_BF16},
        {"cublasGetVersion_v2", "cublasGetVersion", BACKEND_WEIGHTS_BF16},
        {"cublasSetStream_v2", "cublasSetStream", BACKEND_WEIGHTS_BF16},
        {"cublasSetWorkspace_v2", "cublasSetWorkspace", BACKEND_WEIGHTS_BF16},
        {"cublasGemmEx", "cublasGemmEx", BACKEND_WEIGHTS_BF16},
        {"cublasLtCreate", "cublasLtCreate", BACKEND_WEIGHTS_FP8_E4M3},
        {"cublasLtMatmulDescCreate", "cublasLtMatmulDescCreate", BACKEND_WEIGHTS_FP8_E4M3},
        {"cublasLtMatmulDescSetAttribute", "cublasLtMatmulDescSet", BACKEND_WEIGHTS_FP8_E4M3},
        {"cublasLtMatrixLayoutCreate", "cublasLtMatrixLayout", BACKEND_WEIGHTS_FP8_E4M3},
        {"cublasLtMatmulPreferenceCreate", "cublasLtMatmulPref", BACKEND_WEIGHTS_FP8_E4M3},
        {"cublasLtMatmulPreferenceSetAttribute", "cublasLtMatmulPref", BACKEND_WEIGHTS_FP8_E4M3},
        {"cublasLtMatmulAlgoGetHeuristic", "no fp8 product", BACKEND_WEIGHTS_FP8_E4M3},
        {"cublasLtMatmul", "cublasLtMatmul:", BACKEND_WEIGHTS_FP8_E4M3},
    };
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        ops->close(device);
        assert_int_equal(setup(NULL), 0);
        const struct weights_read_shape shape = shape_of(calls[i].format, 2);
        struct weights_read *weights = NULL;
        double error;
        fake_runtime.fail_in = calls[i].call;
        fake_runtime.fail_error = cudaErrorInvalidValue;
        enum status status = ops->libraries_open(device, NULL, calls[i].format, &text);
        if (status == STATUS_OK)
            status =
                weights_read_create(ops, device, &shape, 5, &budget, NULL, &weights, &error, &text);
        assert_true(status == STATUS_IO || status == STATUS_REFUSED);
        assert_null(weights);
        assert_said(calls[i].said);
        assert_int_equal(fake_runtime.blas_objects, 0);
        /* the call failed once: the next try works */
        assert_ok(ops->libraries_open(device, NULL, calls[i].format, &text));
        assert_ok(
            weights_read_create(ops, device, &shape, 5, &budget, NULL, &weights, &error, &text));
        weights_read_destroy(weights);
    }
}

/* All that the dense kernel does, each against double precision. */
static void test_dense_conforms(void **state) {
    (void)state;
    static const uint32_t dims[][2] = {{64, 64}, {128, 128}, {192, 128}, {100, 36}};
    static const enum conformance_lengths lengths[] = {
        CONFORMANCE_EMPTY, CONFORMANCE_ONE, CONFORMANCE_PAGE, CONFORMANCE_LONG, CONFORMANCE_WITHIN};
    unsigned number = 0;
    for (size_t d = 0; d < sizeof dims / sizeof dims[0]; d++)
        for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++)
            for (uint32_t window = 0; window < 2; window++, number++) {
                struct conformance_case which =
                    conformance_plain(FORMAT_BF16, dims[d][0], dims[d][1], false);
                which.page_tokens = lengths[l] == CONFORMANCE_LONG ? 744 : 121;
                which.lengths = lengths[l];
                which.group_size = 1 + number % 5;
                which.kv_heads = 1 + number % 3;
                which.window_tokens = window * 29;
                which.sinks = number % 2 == 1;
                which.share_prefix = number % 7 == 3;
                which.far = number % 4 == 2;
                which.data = (enum options_data)(number % (OPTIONS_DATA_SINK + 1));
                which.workers = 1 + number % 4;
                if (conformance_run(ops, device, "cublas", &which, &text) != STATUS_OK) {
                    char words[256];
                    conformance_describe(&which, words, sizeof words);
                    fail_msg("%s: %s", words, text.line);
                }
            }
}

/* What it cannot do it refuses, with what would help. */
static void test_dense_refuses(void **state) {
    (void)state;
    struct conformance_case which = conformance_plain(FORMAT_BF16, 64, 64, false);
    assert_int_equal(conformance_run(ops, device, "cublas", &which, &text), STATUS_REFUSED);
    assert_said("pages have 16 of up to 130 tokens (--page-tokens 130)");
    which.page_tokens = 64;
    which.lengths = CONFORMANCE_WITHIN;
    which.v_format = FORMAT_Q8_0;
    assert_int_equal(conformance_run(ops, device, "cublas", &which, &text), STATUS_REFUSED);
    assert_said("bf16, not bf16 and q8_0");
    which = conformance_plain(FORMAT_BF16, 576, 512, true);
    assert_int_equal(conformance_run(ops, device, "cublas", &which, &text), STATUS_REFUSED);
    assert_said("one row for both");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_products, setup, teardown),
        cmocka_unit_test_setup_teardown(test_product_exactly, setup, teardown),
        cmocka_unit_test_setup_teardown(test_missing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_not_cublas, setup, teardown),
        cmocka_unit_test_setup_teardown(test_fp8_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_calls_fail, setup, teardown),
        cmocka_unit_test_setup_teardown(test_dense_conforms, setup, teardown),
        cmocka_unit_test_setup_teardown(test_dense_refuses, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
