/* What a step takes for itself, and the values that the slots it works on start with. On the cpu,
 * whose memory is looked at in place. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "format.h"
#include "step_setup.h"

enum { SEQS = STEP_SETUP_SEQS };
static const struct model *const model = &step_setup_model;

/* What was asked for by that name. */
static uint64_t workspace_bytes, plan_bytes;

static enum status noted_allocate(struct backend_device *on, uint64_t bytes, const char *what,
                                  struct backend_memory *out, struct status_text *text) {
    workspace_bytes += strcmp(what, "the attention workspace") == 0 ? bytes : 0;
    plan_bytes += strcmp(what, "the attention plan") == 0 ? bytes : 0;
    return cpu->memory_allocate(on, bytes, what, out, text);
}

/* Attention's partial results and plans, and of each index the scores of one layer (whole cache
 * lines of 4 bytes) and its choice. */
static void test_bytes_of_workspace(void **state) {
    (void)state;
    struct backend_ops ops = *cpu;
    ops.memory_allocate = noted_allocate;
    struct pool *pool = step_setup_mixed_pool(cpu, 2);
    workspace_bytes = plan_bytes = 0;
    struct step *step = step_setup_step(&ops, pool, 5, OPTIONS_DATA_NORMAL);
    const uint64_t tokens = 96, keys_of_7 = 16, top_k = 8; /* of 90 tokens, and of 12 keys */
    const uint64_t index_bytes = SEQS * (tokens + top_k + keys_of_7 + top_k) * 4;
    assert_true(workspace_bytes > 0 && plan_bytes > 0);
    assert_int_equal(step_workspace_bytes(step), workspace_bytes + plan_bytes + index_bytes);
    step_destroy(step);
    pool_destroy(pool);
}

static float value_at(const uint8_t *from, uint32_t value_bytes) {
    float value;
    if (value_bytes == sizeof value)
        memcpy(&value, from, sizeof value);
    else
        format_decode_row(FORMAT_BF16, from, NULL, 1, 1.0f, &value);
    return value;
}

/* Normal values up to the last byte, the same in every slot. */
static void check_start(const uint8_t *slots, uint64_t slot_bytes, uint32_t value_bytes) {
    double squares = 0;
    const uint64_t values = slot_bytes / value_bytes;
    for (uint64_t i = 0; i < values; i++) {
        const float value = value_at(slots + i * value_bytes, value_bytes);
        assert_true(value != 0 && value > -8 && value < 8);
        squares += (double)value * (double)value;
    }
    assert_true(squares > 0.2 * (double)values && squares < 5 * (double)values);
    for (uint32_t s = 1; s < SEQS; s++)
        assert_memory_equal(slots, slots + s * slot_bytes, slot_bytes);
}

/* A state that starts at 0 would hide whatever a step forgets to decay. */
static void test_slots_start_full(void **state) {
    (void)state;
    for (uint32_t value_bytes = 2; value_bytes <= 4; value_bytes += 2) {
        struct pool *pool = step_setup_mixed_pool(cpu, value_bytes);
        size_t checked = 0;
        for (uint32_t g = 0; g < model->group_count; g++) {
            const struct pool_slots *slots = pool_group_slots(pool, g);
            for (uint32_t layer = 0; slots != NULL && layer < model->groups[g].layers; layer++) {
                const uint8_t *conv = (const uint8_t *)pool_dev_conv(pool, g, layer);
                check_start(pool_dev_state(pool, g, layer), slots->slot_bytes,
                            slots->shape.value_bytes);
                if (conv != NULL)
                    check_start(conv, slots->conv_slot_bytes, 2);
                checked++;
            }
        }
        assert_int_equal(checked, 2 + 3); /* layers of partial entries, of states */
        pool_destroy(pool);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes_of_workspace),
        cmocka_unit_test(test_slots_start_full),
    };
    return cmocka_run_group_tests(tests, step_setup_open, step_setup_close);
}
