/* What a device gives in one piece and in small ones, and weights that are really taken: devices
 * with less than the budget says, within the budget always. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "counting_ops.h"
#include "overhead.h"
#include "weights.h"

#define MIB ((uint64_t)1 << 20)

static struct backend_device *device;
static uint64_t largest_piece_bytes; /* a device cut into pieces of this size; 0: it is not */
static uint64_t step_bytes;          /* of its driver; 0: nobody counts */

static enum status (*plain_allocate)(struct backend_device *, uint64_t, const char *,
                                     struct backend_memory *, struct status_text *);

static enum status allocate(struct backend_device *of, uint64_t bytes, const char *what,
                            struct backend_memory *out, struct status_text *text) {
    *out = (struct backend_memory){0};
    if (largest_piece_bytes > 0 && bytes > largest_piece_bytes)
        return status_set(text, STATUS_OUT_OF_MEMORY, "in pieces");
    return plain_allocate(of, bytes, what, out, text);
}

static void facts(struct backend_device *of, struct backend_facts *out) {
    (void)of;
    *out = (struct backend_facts){.memory_total_bytes = 100 * MIB, .memory_free_bytes = 88 * MIB};
    /* every request of these tests but the last is a whole number of steps less one byte */
    if (step_bytes > 0)
        out->memory_taken_bytes = 1000 + counting.held_bytes + counting.requests * step_bytes;
}

static void start(uint64_t limit_bytes, uint64_t piece_bytes) {
    counting_reset(limit_bytes);
    plain_allocate = counting.ops.memory_allocate;
    counting.ops.memory_allocate = allocate;
    counting.ops.facts = facts;
    largest_piece_bytes = piece_bytes;
    step_bytes = 0;
    if (device == NULL)
        assert_int_equal(counting.ops.open(&(struct backend_options){.threads = 1}, &device, NULL),
                         STATUS_OK);
}

static struct overhead probe(uint64_t budget_bytes) {
    struct overhead overhead;
    assert_int_equal(overhead_probe(&counting.ops, device, budget_bytes, NULL, &overhead, NULL),
                     STATUS_OK);
    assert_int_equal(counting.held_bytes, 0);
    assert_true(counting.peak_bytes <= budget_bytes);
    assert_int_equal(overhead.in_use_bytes, 12 * MIB);
    return overhead;
}

static void test_all_of_it(void **state) {
    (void)state;
    static const uint64_t budgets[] = {1, 4095, 2 * MIB, 2 * MIB + 1, 100 * MIB + 5, 5000 * MIB};
    for (size_t i = 0; i < sizeof budgets / sizeof budgets[0]; i++) {
        start(0, 0);
        const struct overhead overhead = probe(budgets[i]);
        assert_int_equal(overhead.largest_bytes, budgets[i]);
        assert_int_equal(overhead.pieces_bytes, budgets[i]);
        assert_int_equal(counting.peak_bytes, budgets[i]);
        assert_true(overhead.piece_bytes % (2 * MIB) == 0 || overhead.piece_bytes == budgets[i]);
        assert_true(counting.requests <= 1 + 1024);
        assert_false(overhead.has_rounding);
    }
    start(0, 0);
    assert_int_equal(probe(0).pieces_bytes, 0);
}

static void test_less_than_the_budget(void **state) {
    (void)state;
    start(77 * MIB, 30 * MIB); /* in pieces of 30, and 77 in all */
    const struct overhead overhead = probe(100 * MIB);
    assert_true(overhead.largest_bytes <= 30 * MIB && overhead.largest_bytes >= 29 * MIB);
    assert_int_equal(overhead.pieces_bytes, 76 * MIB);
    start(0, 1); /* not even one small piece */
    assert_int_equal(probe(100 * MIB).pieces_bytes, 0);
}

static void test_driver_steps(void **state) {
    (void)state;
    start(0, 0);
    step_bytes = 512;
    const struct overhead overhead = probe(20 * MIB);
    assert_true(overhead.has_rounding);
    assert_int_equal(overhead.rounding_bytes, 10 * 512);
}

static bool stop_at_once(void) {
    return true;
}

static void test_weights(void **state) {
    (void)state;
    const struct memory_budget budget = {.budget_bytes = 10 * MIB, .source = "a test's budget"};
    struct backend_memory memory;
    struct status_text text = {""};
    start(10 * MIB, 0);
    assert_int_equal(weights_take(&counting.ops, device, 0, &budget, NULL, &memory, &text),
                     STATUS_OK);
    assert_int_equal(counting.requests, 0);
    assert_int_equal(weights_take(&counting.ops, device, 10 * MIB, &budget, NULL, &memory, &text),
                     STATUS_OK);
    assert_int_equal(counting.held_bytes, 10 * MIB);
    const uint8_t *bytes = memory.dev_address;
    assert_true(bytes[0] != 0 && bytes[10 * MIB - 1] != 0); /* touched */
    counting.ops.memory_free(device, &memory);
    assert_int_equal(
        weights_take(&counting.ops, device, 10 * MIB + 1, &budget, NULL, &memory, &text),
        STATUS_OUT_OF_MEMORY);
    assert_non_null(strstr(text.line, "--weights 10485761: the budget is 10485760"));
    assert_int_equal(
        weights_take(&counting.ops, device, 5 * MIB, &budget, stop_at_once, &memory, &text),
        STATUS_INTERRUPTED);
    counting.limit_bytes = MIB;
    assert_int_equal(weights_take(&counting.ops, device, 5 * MIB, &budget, NULL, &memory, &text),
                     STATUS_OUT_OF_MEMORY);
    assert_non_null(strstr(text.line, "--weights 5242880: "));
    assert_int_equal(counting.held_bytes, 0);
    counting.ops.close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_of_it),
        cmocka_unit_test(test_less_than_the_budget),
        cmocka_unit_test(test_driver_steps),
        cmocka_unit_test(test_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
