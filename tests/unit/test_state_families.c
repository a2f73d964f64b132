/* Which recurrence a family of state is stepped by. The verification takes it from where the step
 * does, so that only this says it is the right one. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>

#include "step_setup.h"

enum { SEQS = 2, HEADS = 2, COLS = 8 };

/* Below 1 by an eighth at most; another for every head, and for every column where the family asks.
 */
static void check_decays(const float *decays, bool per_column) {
    for (uint32_t head = 0; head < SEQS * HEADS; head++) {
        const float *row = decays + (size_t)head * COLS;
        for (uint32_t c = 0; c < COLS; c++) {
            assert_true(row[c] >= 0.875f && row[c] <= 1.0f);
            if (c > 0)
                assert_true((row[c] != row[c - 1]) == per_column);
        }
        if (head > 0)
            assert_true(row[0] != row[-1]);
    }
}

static void test_families(void **state) {
    (void)state;
    static const struct {
        const char *family;
        bool delta, decay_per_column;
    } families[] = {{"gated_delta_net", true, false},
                    {"kda", true, true},
                    {"mamba2", false, false},
                    {"lightning", false, false}};
    static const uint64_t lengths[SEQS] = {3, 5};
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        struct model model = {.name = "state",
                              .group_count = 1,
                              .groups = {{.kind = MODEL_STATE,
                                          .layers = 1,
                                          .read_by_layers = 1,
                                          .heads = HEADS,
                                          .state_rows = 4,
                                          .state_cols = COLS}}};
        (void)snprintf(model.groups[0].family, sizeof model.groups[0].family, "%s",
                       families[i].family);
        const struct pool_request request = {.model = &model,
                                             .storage = {.state_value_bytes = 4},
                                             .lengths = lengths,
                                             .seqs = SEQS,
                                             .page_tokens = 16};
        struct pool *pool = step_setup_pool(cpu, &request);
        struct step *step = step_setup_step(cpu, pool, 1, OPTIONS_DATA_NORMAL);
        assert_true(pool_group_slots(pool, 0)->shape.delta == families[i].delta);
        const struct step_slots_inputs *in = step_slots_inputs_get(step, 0);
        check_decays(in->decays, families[i].decay_per_column);
        for (uint32_t head = 0; head < SEQS * HEADS; head++)
            assert_true(in->gains[head] >= 0.25f && in->gains[head] <= 1.0f);
        step_destroy(step);
        pool_destroy(pool);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_families)};
    return cmocka_run_group_tests(tests, step_setup_open, step_setup_close);
}
