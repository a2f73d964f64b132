/* The set-up of tests of steps. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "step_setup.h"

const struct backend_ops *cpu;
struct backend_device *device;

int step_setup_open(void **state) {
    (void)state;
    cpu = backend_find("cpu");
    return cpu != NULL &&
                   cpu->open(&(struct backend_options){.threads = 2}, &device, NULL) == STATUS_OK
               ? 0
               : -1;
}

int step_setup_close(void **state) {
    (void)state;
    cpu->close(device);
    device = NULL;
    return 0;
}

struct pool *step_setup_pool(const struct backend_ops *ops, const struct pool_request *request) {
    struct pool *pool = NULL;
    struct status_text text = {{0}};
    if (pool_create(ops, device, request, NULL, &pool, &text) != STATUS_OK ||
        pool_fill(pool, NULL, &text) != STATUS_OK)
        fail_msg("%s", text.line);
    return pool;
}

struct step *step_setup_step(const struct backend_ops *ops, struct pool *pool, uint64_t seed,
                             enum options_data data) {
    struct step *step = NULL;
    struct status_text text = {{0}};
    if (step_create(ops, device, pool, NULL, seed, data, &step, &text) != STATUS_OK)
        fail_msg("%s", text.line);
    return step;
}

const uint64_t step_setup_lengths[STEP_SETUP_SEQS] = {41, 3, 0, 90};

const struct model step_setup_model = {
    .name = "a step's work",
    .group_count = 6,
    .groups = {{.kind = MODEL_FULL,
                .layers = 3,
                .read_by_layers = 3,
                .query_heads = 4,
                .kv_heads = 2,
                .k_dim = 32,
                .v_dim = 64},
               {.kind = MODEL_COMPRESSED,
                .layers = 2,
                .read_by_layers = 3,
                .query_heads = 2,
                .entry_dim = 32,
                .tokens_per_entry = 4},
               {.kind = MODEL_WINDOW,
                .layers = 2,
                .read_by_layers = 2,
                .query_heads = 2,
                .kv_heads = 1,
                .k_dim = 32,
                .window_tokens = 20},
               {.kind = MODEL_STATE,
                .family = "kda",
                .layers = 3,
                .read_by_layers = 3,
                .heads = 1,
                .state_rows = 3,
                .state_cols = 5,
                .conv_channels = 5,
                .conv_taps = 1},
               {.kind = MODEL_INDEX,
                .layers = 3,
                .read_by_layers = 3,
                .query_heads = 2,
                .key_dim = 32,
                .tokens_per_entry = 1,
                .top_k = 8},
               {.kind = MODEL_INDEX,
                .layers = 3,
                .read_by_layers = 3,
                .query_heads = 2,
                .key_dim = 32,
                .tokens_per_entry = 7,
                .top_k = 8}},
};

struct pool *step_setup_mixed_pool(const struct backend_ops *ops, uint32_t state_value_bytes) {
    const struct pool_request request = {
        .model = &step_setup_model,
        .storage = {.k_format = FORMAT_Q8_0,
                    .v_format = FORMAT_Q8_0,
                    .index = FORMULA_INDEX_MXFP4,
                    .state_value_bytes = state_value_bytes},
        .lengths = step_setup_lengths,
        .seqs = STEP_SETUP_SEQS,
        .page_tokens = STEP_SETUP_PAGE_TOKENS,
        .seed = 3,
    };
    return step_setup_pool(ops, &request);
}
