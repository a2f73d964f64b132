/* Which recurrence a family of state is stepped by. The verification takes it from where the step
 * does, so that only this says it is the right one. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>

#include "pool.h"
#include "step.h"

enum { HEADS = 2, COLS = 8 };

static void test_families(void **state) {
    (void)state;
    static const struct {
        const char *family;
        bool delta, decay_per_column;
    } families[] = {{"gated_delta_net", true, false},
                    {"kda", true, true},
                    {"mamba2", false, false},
                    {"lightning", false, false}};
    static const uint64_t lengths[] = {3};
    const struct backend_ops *cpu = backend_find("cpu");
    struct backend_device *device;
    assert_int_equal(cpu->open(&(struct backend_options){0}, &device, NULL), STATUS_OK);
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
                                             .seqs = 1,
                                             .page_tokens = 16};
        struct pool *pool;
        struct step *step;
        assert_int_equal(pool_create(cpu, device, &request, NULL, &pool, NULL), STATUS_OK);
        assert_int_equal(pool_fill(pool, NULL, NULL), STATUS_OK);
        assert_int_equal(step_create(cpu, device, pool, NULL, 1, OPTIONS_DATA_NORMAL, &step, NULL),
                         STATUS_OK);
        assert_true(pool_group_slots(pool, 0)->shape.delta == families[i].delta);
        const struct step_slots_inputs *in = step_slots_inputs_get(step, 0);
        assert_true((in->decays[0] != in->decays[COLS - 1]) == families[i].decay_per_column);
        for (uint32_t head = 0; head < HEADS; head++)
            assert_true(in->gains[head] >= 0.25f && in->gains[head] <= 1.0f);
        step_destroy(step);
        pool_destroy(pool);
    }
    cpu->close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_families)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
