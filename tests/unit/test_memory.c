/* Budgets: what is kept back, what is taken off, and what the sentence says. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memory.h"

#define GIB ((uint64_t)1 << 30)
#define MIB ((uint64_t)1 << 20)

static struct memory_budget make(uint64_t free_bytes, bool asked, uint64_t asked_bytes,
                                 uint64_t weights_bytes) {
    const struct backend_facts facts = {.memory_free_bytes = free_bytes,
                                        .memory_source = "MemAvailable"};
    struct memory_budget budget;
    memory_budget_make(&facts, asked, asked_bytes, weights_bytes, &budget);
    assert_int_equal(budget.free_bytes, free_bytes);
    return budget;
}

static void test_margin(void **state) {
    (void)state;
    struct memory_budget budget = make(100 * GIB, false, 0, 0);
    assert_int_equal(budget.margin_bytes, 5 * GIB);
    assert_int_equal(budget.budget_bytes, 95 * GIB);
    assert_string_equal(budget.source, "MemAvailable 100.00 GiB less a margin of 5.00 GiB");
    budget = make(4 * GIB, false, 0, 0);
    assert_int_equal(budget.margin_bytes, 512 * MIB);
    budget = make(100 * MIB, false, 0, 0);
    assert_int_equal(budget.budget_bytes, 0);
    assert_int_equal(make(0, false, 0, 0).budget_bytes, 0);
}

static void test_asked(void **state) {
    (void)state;
    struct memory_budget budget = make(100 * GIB, true, 10 * GIB, 0);
    assert_int_equal(budget.budget_bytes, 10 * GIB);
    assert_string_equal(budget.source, "--budget");
    /* more than there is: what there is */
    budget = make(100 * GIB, true, 200 * GIB, 0);
    assert_int_equal(budget.budget_bytes, 95 * GIB);
    assert_non_null(strstr(budget.source, "MemAvailable"));
}

static void test_weights(void **state) {
    (void)state;
    assert_int_equal(make(100 * GIB, false, 0, 30 * GIB).budget_bytes, 65 * GIB);
    assert_int_equal(make(100 * GIB, true, 40 * GIB, 30 * GIB).budget_bytes, 10 * GIB);
    assert_int_equal(make(100 * GIB, true, 30 * GIB, 30 * GIB).budget_bytes, 0);
    assert_int_equal(make(100 * GIB, false, 0, UINT64_MAX).budget_bytes, 0);
}

/* Weights that are there already come off the budget, not off the margin a second time. */
static void test_left(void **state) {
    (void)state;
    struct backend_facts facts = {.memory_free_bytes = 50 * GIB, .memory_source = "MemAvailable"};
    struct memory_budget left;
    const struct memory_budget whole = make(100 * GIB, false, 0, 0);
    memory_budget_left(&whole, &facts, 50 * GIB, &left);
    assert_int_equal(left.budget_bytes, 45 * GIB); /* 95 less 50, not 50 less 2.5 */
    assert_string_equal(left.source, whole.source);
    memory_budget_left(&whole, &facts, 96 * GIB, &left);
    assert_int_equal(left.budget_bytes, 0);
    const struct memory_budget asked = make(100 * GIB, true, 60 * GIB, 0);
    memory_budget_left(&asked, &facts, 20 * GIB, &left);
    assert_int_equal(left.budget_bytes, 40 * GIB);
    assert_string_equal(left.source, "--budget");
    facts.memory_free_bytes = 30 * GIB; /* somebody else took some */
    memory_budget_left(&asked, &facts, 20 * GIB, &left);
    assert_int_equal(left.budget_bytes, 30 * GIB - 30 * GIB / 20);
    assert_non_null(strstr(left.source, "30.00 GiB"));
}

/* A GPU that shares the host's memory leaves a sixteenth of all of it, not of what is free. */
static void test_integrated(void **state) {
    (void)state;
    struct backend_facts facts = {.memory_total_bytes = 128 * GIB,
                                  .memory_free_bytes = 100 * GIB,
                                  .memory_source = "MemAvailable",
                                  .integrated = true};
    struct memory_budget budget;
    memory_budget_make(&facts, false, 0, 0, &budget);
    assert_int_equal(budget.margin_bytes, 8 * GIB);
    assert_int_equal(budget.budget_bytes, 92 * GIB);
    memory_budget_make(&facts, true, 99 * GIB, 0, &budget); /* not past the margin when asked */
    assert_int_equal(budget.budget_bytes, 92 * GIB);
    facts.memory_free_bytes = 6 * GIB;
    memory_budget_make(&facts, false, 0, 0, &budget);
    assert_int_equal(budget.budget_bytes, 0);
    facts.integrated = false;
    memory_budget_make(&facts, false, 0, 0, &budget);
    assert_int_equal(budget.margin_bytes, 512 * MIB);
}

static void test_resident(void **state) {
    (void)state;
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    const uint64_t bytes = 300 * page;
    uint8_t *address =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(address, MAP_FAILED);
    (void)madvise(address, bytes, MADV_NOHUGEPAGE);
    uint64_t resident;
    if (!memory_resident_bytes(address, bytes, &resident)) {
        (void)munmap(address, bytes);
        print_message("skipped: this system does not tell what is resident\n");
        skip();
    }
    assert_int_equal(resident, 0);
    memset(address, 1, bytes);
    assert_true(memory_resident_bytes(address, bytes, &resident));
    assert_int_equal(resident, bytes);
    /* a range that starts and ends inside pages counts them whole */
    assert_true(memory_resident_bytes(address + 5, page, &resident));
    assert_int_equal(resident, 2 * page);
    assert_int_equal(munmap(address, bytes), 0);
    assert_false(memory_resident_bytes(address, bytes, &resident));
    assert_false(memory_resident_bytes(&resident, 0, &resident));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_margin),     cmocka_unit_test(test_asked),
        cmocka_unit_test(test_weights),    cmocka_unit_test(test_left),
        cmocka_unit_test(test_integrated), cmocka_unit_test(test_resident),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
