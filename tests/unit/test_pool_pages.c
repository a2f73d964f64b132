/* The page allocator under random operations, checked against a model of its own after each. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "generate.h"
#include "pool_pages.h"

enum { SEQS = 6, OPERATIONS = 3000 };

static uint64_t held(const struct pool_pages *pages, uint32_t seq) {
    uint64_t entries = 0;
    for (uint32_t c = 0; c < pages->columns; c++)
        entries += pages->table[(uint64_t)seq * pages->columns + c] >= 0;
    return entries;
}

static void assert_checks(const struct pool_pages *pages) {
    struct status_text text = {{0}};
    if (pool_pages_check(pages, &text) != STATUS_OK)
        fail_msg("%s", text.line);
}

/* Every token a sequence must hold has a page, and the pages of one sequence are distinct. */
static void assert_holds(const struct pool_pages *pages, uint32_t seq) {
    const uint64_t length = pages->lengths[seq];
    const uint64_t first = pages->window_tokens > 0 && length > pages->window_tokens
                               ? length - pages->window_tokens
                               : 0;
    for (uint64_t t = first; t < length; t++) {
        const int32_t page = pool_pages_find(pages, seq, t);
        assert_in_range(page, 0, pages->page_count - 1);
        if (t > first && t % pages->page_tokens == 0)
            assert_int_not_equal(page, pool_pages_find(pages, seq, t - 1));
    }
    assert_int_equal(held(pages, seq),
                     pool_pages_needed(length, pages->page_tokens, pages->window_tokens));
}

static struct pool_pages *copy(const struct pool_pages *pages) {
    struct pool_pages *twin = malloc(sizeof *twin);
    assert_non_null(twin);
    struct status_text text;
    assert_int_equal(pool_pages_create(pages->seqs, pages->columns, pages->page_count,
                                       pages->page_tokens, pages->window_tokens, true, 0, twin,
                                       &text),
                     STATUS_OK);
    twin->free_count = pages->free_count;
    memcpy(twin->free_ids, pages->free_ids, pages->page_count * sizeof *twin->free_ids);
    memcpy(twin->references, pages->references, pages->page_count * sizeof *twin->references);
    memcpy(twin->table, pages->table, (uint64_t)pages->seqs * pages->columns * sizeof *twin->table);
    memcpy(twin->lengths, pages->lengths, pages->seqs * sizeof *twin->lengths);
    return twin;
}

static void assert_same_and_free(struct pool_pages *twin, const struct pool_pages *pages) {
    assert_int_equal(twin->free_count, pages->free_count);
    assert_memory_equal(twin->free_ids, pages->free_ids,
                        pages->page_count * sizeof *twin->free_ids);
    assert_memory_equal(twin->references, pages->references,
                        pages->page_count * sizeof *twin->references);
    assert_memory_equal(twin->table, pages->table,
                        (uint64_t)pages->seqs * pages->columns * sizeof *twin->table);
    assert_memory_equal(twin->lengths, pages->lengths, pages->seqs * sizeof *twin->lengths);
    pool_pages_destroy(twin);
    free(twin);
}

static void random_operations(uint64_t seed, uint32_t page_tokens, uint64_t window) {
    struct generate_random random;
    generate_random_seed(&random, seed);
    struct pool_pages pages;
    struct status_text text = {{0}};
    const uint32_t columns =
        window > 0 ? (uint32_t)pool_pages_peak(UINT32_MAX, page_tokens, window) : 24;
    assert_int_equal(
        pool_pages_create(SEQS, columns, 60, page_tokens, window, false, seed, &pages, &text),
        STATUS_OK);
    unsigned refused = 0, shared = 0;
    for (int i = 0; i < OPERATIONS; i++) {
        const uint32_t seq = (uint32_t)generate_random_below(&random, SEQS);
        const uint32_t other = (uint32_t)generate_random_below(&random, SEQS);
        const uint64_t tokens = generate_random_below(&random, 6 * (uint64_t)page_tokens + 2);
        const uint64_t before = pages.lengths[seq];
        switch (generate_random_below(&random, 8)) {
        case 0:
            pool_pages_release(&pages, seq);
            assert_int_equal(pages.lengths[seq], 0);
            break;
        case 1: {
            const uint64_t common = pool_pages_share(&pages, other, seq, tokens);
            assert_int_equal(common % page_tokens, 0);
            assert_true(common <= tokens && common <= pages.lengths[other]);
            if (window > 0 || before > 0 || other == seq)
                assert_int_equal(common, 0);
            for (uint64_t t = 0; t < common; t++)
                assert_int_equal(pool_pages_find(&pages, seq, t),
                                 pool_pages_find(&pages, other, t));
            shared += common > 0;
            break;
        }
        default: {
            struct pool_pages *twin = copy(&pages);
            const enum status status = pool_pages_append(&pages, seq, tokens, &text);
            if (status == STATUS_OK) {
                assert_int_equal(pages.lengths[seq], before + tokens);
                pool_pages_destroy(twin);
                free(twin);
            } else {
                assert_int_equal(status, STATUS_OUT_OF_MEMORY);
                assert_same_and_free(twin, &pages);
                refused++;
            }
        }
        }
        assert_checks(&pages);
        for (uint32_t s = 0; s < SEQS; s++)
            assert_holds(&pages, s);
    }
    /* The run must have met what it is for. */
    if (window == 0)
        assert_true(refused > 0 && shared > 0);
    for (uint32_t s = 0; s < SEQS; s++)
        pool_pages_release(&pages, s);
    assert_int_equal(pages.free_count, pages.page_count);
    assert_checks(&pages);
    pool_pages_destroy(&pages);
}

static void test_random_operations(void **state) {
    (void)state;
    static const uint32_t page_tokens[] = {1, 2, 3, 16, 17, 64};
    static const uint64_t windows[] = {0, 1, 2, 7, 31, 128};
    for (size_t p = 0; p < sizeof page_tokens / sizeof page_tokens[0]; p++)
        for (size_t w = 0; w < sizeof windows / sizeof windows[0]; w++)
            random_operations(7 * p + w, page_tokens[p], windows[w]);
}

/* The two counts against growing token by token. */
static void test_needed_and_peak(void **state) {
    (void)state;
    for (uint32_t page = 1; page < 10; page++) {
        for (uint64_t window = 0; window < 30; window++) {
            uint64_t peak = 0;
            for (uint64_t tokens = 0; tokens < 90; tokens++) {
                uint64_t pages = 0;
                for (uint64_t p = 0; p * page < tokens; p++)
                    pages +=
                        window == 0 || (p + 1) * page > (tokens > window ? tokens - window : 0);
                peak = pages > peak ? pages : peak;
                assert_int_equal(pool_pages_needed(tokens, page, window), pages);
                assert_int_equal(pool_pages_peak(tokens, page, window), peak);
            }
        }
    }
}

static void test_order(void **state) {
    (void)state;
    enum { PAGES = 200 };
    struct pool_pages pages, again, other;
    assert_int_equal(pool_pages_create(1, PAGES, PAGES, 4, 0, true, 1, &pages, NULL), STATUS_OK);
    assert_int_equal(pool_pages_append(&pages, 0, PAGES * 4, NULL), STATUS_OK);
    for (int32_t p = 0; p < PAGES; p++)
        assert_int_equal(pages.table[p], p);
    pool_pages_destroy(&pages);

    assert_int_equal(pool_pages_create(1, PAGES, PAGES, 4, 0, false, 1, &pages, NULL), STATUS_OK);
    assert_int_equal(pool_pages_create(1, PAGES, PAGES, 4, 0, false, 1, &again, NULL), STATUS_OK);
    assert_int_equal(pool_pages_create(1, PAGES, PAGES, 4, 0, false, 2, &other, NULL), STATUS_OK);
    assert_memory_equal(pages.free_ids, again.free_ids, PAGES * sizeof *pages.free_ids);
    assert_memory_not_equal(pages.free_ids, other.free_ids, PAGES * sizeof *pages.free_ids);
    /* a permutation, and one that leaves few pages beside their neighbours */
    assert_int_equal(pool_pages_append(&pages, 0, PAGES * 4, NULL), STATUS_OK);
    assert_checks(&pages);
    int neighbours = 0;
    for (int p = 1; p < PAGES; p++)
        neighbours += pages.table[p] == pages.table[p - 1] + 1;
    assert_true(neighbours < 10);
    pool_pages_destroy(&pages);
    pool_pages_destroy(&again);
    pool_pages_destroy(&other);
}

/* The check itself: each kind of contradiction is seen. */
static void test_check_notices(void **state) {
    (void)state;
    struct pool_pages pages;
    struct status_text text = {{0}};
    assert_int_equal(pool_pages_create(2, 8, 12, 4, 0, true, 1, &pages, &text), STATUS_OK);
    assert_int_equal(pool_pages_append(&pages, 0, 20, &text), STATUS_OK);
    assert_int_equal(pool_pages_append(&pages, 1, 9, &text), STATUS_OK);
    assert_checks(&pages);
    const int32_t kept = pages.table[8];
    pages.table[8] = pages.table[0];
    assert_int_equal(pool_pages_check(&pages, &text), STATUS_WRONG);
    pages.table[8] = -1;
    assert_int_equal(pool_pages_check(&pages, &text), STATUS_WRONG);
    pages.table[8] = 12;
    assert_int_equal(pool_pages_check(&pages, &text), STATUS_WRONG);
    pages.table[8] = kept;
    pages.references[kept]++;
    assert_int_equal(pool_pages_check(&pages, &text), STATUS_WRONG);
    pages.references[kept]--;
    const int32_t spare = pages.free_ids[0];
    pages.free_ids[0] = kept;
    assert_int_equal(pool_pages_check(&pages, &text), STATUS_WRONG);
    pages.free_ids[0] = pages.free_ids[1];
    assert_int_equal(pool_pages_check(&pages, &text), STATUS_WRONG);
    pages.free_ids[0] = spare;
    pages.lengths[1] += 4;
    assert_int_equal(pool_pages_check(&pages, &text), STATUS_WRONG);
    pages.lengths[1] -= 4;
    pages.free_count--;
    assert_int_equal(pool_pages_check(&pages, &text), STATUS_WRONG);
    pages.free_count++;
    assert_checks(&pages);
    pool_pages_destroy(&pages);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_operations),
        cmocka_unit_test(test_needed_and_peak),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_check_notices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
