/* Whole steps on every backend and kernel, through the pool as the program uses it: several groups,
 * recorded where the backend records, the same bytes and outputs however often; and batches of more
 * sequences than one dimension of a grid of blocks takes. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "conformance_devices.h"
#include "pool.h"
#include "step.h"
#include "verify.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* Above 65,535. Sanitizers ask for less. */
#ifndef CONFORMANCE_SEQS
#define CONFORMANCE_SEQS 66000
#endif

/* Full with sinks, read by more layers than own a cache; a window; many heads over few. */
static const struct model groups_model = {
    .name = "three groups",
    .group_count = 3,
    .groups = {{.kind = MODEL_FULL,
                .layers = 3,
                .read_by_layers = 4,
                .kv_heads = 2,
                .query_heads = 10,
                .k_dim = 128,
                .v_dim = 128,
                .sinks = true},
               {.kind = MODEL_WINDOW,
                .layers = 2,
                .read_by_layers = 2,
                .kv_heads = 1,
                .query_heads = 8,
                .k_dim = 128,
                .v_dim = 128,
                .window_tokens = 40},
               {.kind = MODEL_FULL,
                .layers = 1,
                .read_by_layers = 1,
                .kv_heads = 1,
                .query_heads = 16,
                .k_dim = 256,
                .v_dim = 256}},
};

static const struct model latent_model = {
    .name = "latent",
    .group_count = 1,
    .groups = {{.kind = MODEL_LATENT,
                .layers = 2,
                .read_by_layers = 2,
                .query_heads = 24,
                .latent_dim = 512,
                .rope_dim = 64}},
};

/* Sparse attention over latents and over entries, a window beside; every reader of the entries, and
 * all but the first of the latents, read what an index chose. */
static const struct model sparse_model = {
    .name = "sparse",
    .group_count = 5,
    .groups = {{.kind = MODEL_LATENT,
                .layers = 3,
                .read_by_layers = 3,
                .query_heads = 16,
                .latent_dim = 512,
                .rope_dim = 64},
               {.kind = MODEL_INDEX,
                .layers = 2,
                .read_by_layers = 2,
                .query_heads = 32,
                .key_dim = 128,
                .tokens_per_entry = 1,
                .top_k = 40},
               {.kind = MODEL_COMPRESSED,
                .layers = 1,
                .read_by_layers = 2,
                .query_heads = 24,
                .entry_dim = 512,
                .tokens_per_entry = 4},
               {.kind = MODEL_INDEX,
                .layers = 1,
                .read_by_layers = 1,
                .query_heads = 8,
                .key_dim = 128,
                .tokens_per_entry = 4,
                .top_k = 20},
               {.kind = MODEL_WINDOW,
                .layers = 2,
                .read_by_layers = 2,
                .query_heads = 24,
                .kv_heads = 1,
                .k_dim = 512,
                .v_dim = 0,
                .window_tokens = 40}},
};

/* The three recurrences and a convolution alone, beside attention. */
static const struct model state_model = {
    .name = "state",
    .group_count = 5,
    .groups = {{.kind = MODEL_FULL,
                .layers = 1,
                .read_by_layers = 1,
                .kv_heads = 2,
                .query_heads = 8,
                .k_dim = 128,
                .v_dim = 128},
               {.kind = MODEL_STATE,
                .family = "gated_delta_net",
                .layers = 2,
                .read_by_layers = 2,
                .heads = 4,
                .state_rows = 32,
                .state_cols = 64,
                .conv_channels = 96,
                .conv_taps = 3},
               {.kind = MODEL_STATE,
                .family = "kda",
                .layers = 1,
                .read_by_layers = 1,
                .heads = 3,
                .state_rows = 16,
                .state_cols = 24},
               {.kind = MODEL_STATE,
                .family = "mamba2",
                .layers = 2,
                .read_by_layers = 2,
                .heads = 5,
                .state_rows = 64,
                .state_cols = 16,
                .conv_channels = 33,
                .conv_taps = 1},
               {.kind = MODEL_STATE,
                .family = "short_conv",
                .layers = 1,
                .read_by_layers = 1,
                .conv_channels = 40,
                .conv_taps = 2}},
};

static const struct model small_model = {
    .name = "small",
    .group_count = 1,
    .groups = {{.kind = MODEL_FULL,
                .layers = 1,
                .read_by_layers = 1,
                .kv_heads = 1,
                .query_heads = 2,
                .k_dim = 128,
                .v_dim = 128}},
};

struct pool_case {
    const struct model *model;
    enum format_id k_format, v_format;
    const uint64_t *lengths;
    uint32_t seqs;
    uint32_t page_tokens;
    uint64_t share_prefix_tokens;
    uint64_t effort_values; /* of the references */
    enum formula_index_format index;
    uint32_t state_value_bytes;
};

static bool has_state(const struct pool *pool) {
    for (uint32_t g = 0; g < pool_group_count(pool); g++)
        if (pool_group_slots(pool, g) != NULL)
            return true;
    return false;
}

static void check(enum status status, const struct status_text *text, const char *what) {
    if (status != STATUS_OK)
        fail_msg("%s: %s: %s", what, status_name(status), text->line);
}

static uint8_t *read_pool(const struct conformance_device *on, const struct pool *pool,
                          uint64_t *bytes) {
    struct status_text text = {{0}};
    const void *dev_from = pool_dev_memory(pool, bytes);
    uint8_t *image = malloc(*bytes);
    assert_non_null(image);
    check(on->ops->memory_read(on->device, image, dev_from, *bytes, &text), &text, "read");
    return image;
}

/* Steps leave every byte of a pool without state as it is: what they append is there already. */
static void repeat_steps(const struct conformance_device *on, struct pool *pool,
                         struct step *step) {
    struct status_text text = {{0}};
    uint64_t bytes;
    uint8_t *before = read_pool(on, pool, &bytes);
    for (int i = 0; i < 3; i++) {
        check(step_append(step, &text), &text, "append");
        check(step_attend(step, &text), &text, "attend");
    }
    check(on->ops->synchronize(on->device, &text), &text, "synchronize");
    uint8_t *after = read_pool(on, pool, &bytes);
    if (!has_state(pool))
        assert_memory_equal(before, after, bytes);
    free(before);
    free(after);
}

static void run(const struct conformance_device *on, const char *kernel,
                const struct pool_case *which) {
    struct status_text text = {{0}};
    const struct pool_request request = {
        .model = which->model,
        .storage = {.k_format = which->k_format,
                    .v_format = which->v_format,
                    .index = which->index,
                    .state_value_bytes = which->state_value_bytes},
        .lengths = which->lengths,
        .seqs = which->seqs,
        .page_tokens = which->page_tokens,
        .share_prefix_tokens = which->share_prefix_tokens,
        .seed = 11,
    };
    struct pool *pool;
    struct step *step = NULL;
    check(pool_create(on->ops, on->device, &request, NULL, &pool, &text), &text, "pool");
    check(pool_fill(pool, NULL, &text), &text, "fill");
    const enum status status =
        step_create(on->ops, on->device, pool, kernel, 11, OPTIONS_DATA_NORMAL, &step, &text);
    if (status == STATUS_REFUSED) {
        print_message("skipped: %s %s: %s\n", on->ops->name, kernel != NULL ? kernel : "default",
                      text.line);
    } else {
        struct verify_result result;
        check(status, &text, "step");
        check(verify_pool(on->ops, on->device, pool, step, 5, which->effort_values, &result, &text),
              &text, "verify");
        repeat_steps(on, pool, step);
        check(verify_pool(on->ops, on->device, pool, step, 6, which->effort_values, &result, &text),
              &text, "verify after steps");
    }
    step_destroy(step);
    pool_destroy(pool);
}

static void run_everywhere(const struct pool_case *cases, size_t count) {
    for (size_t b = 0; b < conformance_devices_count; b++)
        for (const char *const *kernel = conformance_devices[b].ops->kernels; *kernel != NULL;
             kernel++)
            for (size_t i = 0; i < count; i++)
                run(&conformance_devices[b], *kernel, &cases[i]);
}

static void test_steps(void **state) {
    (void)state;
    static const uint64_t lengths[] = {300, 0, 1, 77};
    const struct pool_case cases[] = {
        {&groups_model, FORMAT_BF16, FORMAT_BF16, lengths, COUNT(lengths), 16, 0, UINT64_MAX,
         FORMULA_INDEX_NONE, 4},
        {&groups_model, FORMAT_Q8_0, FORMAT_Q4_0, lengths, COUNT(lengths), 17, 50, UINT64_MAX,
         FORMULA_INDEX_NONE, 4},
        {&groups_model, FORMAT_FP8_E4M3, FORMAT_NVFP4, lengths, COUNT(lengths), 1, 0, UINT64_MAX,
         FORMULA_INDEX_NONE, 4},
        {&groups_model, FORMAT_MXFP4, FORMAT_MXFP4, lengths, COUNT(lengths), 64, 0, UINT64_MAX,
         FORMULA_INDEX_NONE, 4},
        {&latent_model, FORMAT_NVFP4, FORMAT_NVFP4, lengths, COUNT(lengths), 16, 0, UINT64_MAX,
         FORMULA_INDEX_NONE, 4},
        {&latent_model, FORMAT_F16, FORMAT_F16, lengths, COUNT(lengths), 5, 60, UINT64_MAX,
         FORMULA_INDEX_NONE, 4},
    };
    run_everywhere(cases, COUNT(cases));
}

/* The kernel of each group being the backend's choice: not every one does every group. */
static void test_steps_of_all_kinds(void **state) {
    (void)state;
    static const uint64_t lengths[] = {150, 3, 90};
    const struct pool_case cases[] = {
        {&sparse_model, FORMAT_BF16, FORMAT_BF16, lengths, COUNT(lengths), 16, 0, 300000,
         FORMULA_INDEX_BF16, 4},
        {&sparse_model, FORMAT_Q8_0, FORMAT_Q8_0, lengths, COUNT(lengths), 5, 0, 300000,
         FORMULA_INDEX_FP8_132, 4},
        {&sparse_model, FORMAT_NVFP4, FORMAT_NVFP4, lengths, COUNT(lengths), 64, 0, 300000,
         FORMULA_INDEX_MXFP4, 4},
        {&sparse_model, FORMAT_FP8_E4M3, FORMAT_FP8_E4M3, lengths, COUNT(lengths), 16, 0, 300000,
         FORMULA_INDEX_NONE, 4},
        {&state_model, FORMAT_Q8_0, FORMAT_Q8_0, lengths, COUNT(lengths), 16, 0, 300000,
         FORMULA_INDEX_NONE, 4},
        {&state_model, FORMAT_Q4_0, FORMAT_Q4_0, lengths, COUNT(lengths), 16, 20, 300000,
         FORMULA_INDEX_NONE, 2},
    };
    for (size_t b = 0; b < conformance_devices_count; b++)
        for (size_t i = 0; i < COUNT(cases); i++)
            run(&conformance_devices[b], NULL, &cases[i]);
}

static void test_large_batch(void **state) {
    (void)state;
    uint64_t *lengths = malloc(CONFORMANCE_SEQS * sizeof *lengths);
    assert_non_null(lengths);
    for (uint32_t s = 0; s < CONFORMANCE_SEQS; s++)
        lengths[s] = s % 4;
    lengths[CONFORMANCE_SEQS - 1] = 3;
    const struct pool_case batch = {&small_model,
                                    FORMAT_Q8_0,
                                    FORMAT_Q8_0,
                                    lengths,
                                    CONFORMANCE_SEQS,
                                    1,
                                    0,
                                    2000000,
                                    FORMULA_INDEX_NONE,
                                    4};
    run_everywhere(&batch, 1);
    free(lengths);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_steps_of_all_kinds),
        cmocka_unit_test(test_large_batch),
    };
    return cmocka_run_group_tests(tests, conformance_devices_open, conformance_devices_close);
}
