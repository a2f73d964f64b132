/* Plans: every token of every row exactly once, in order, in ranges as equal as tiles allow. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "generate.h"
#include "plan.h"

enum { MAX_SEQS = 12 };

struct asked {
    uint64_t lengths[MAX_SEQS];
    uint32_t seqs, kv_heads, tile_tokens, workers;
    uint64_t window_tokens;
};

/* Tiles of the whole, and that each row is covered. */
static uint64_t check_rows(const struct plan *plan, const struct asked *asked) {
    uint64_t tiles = 0;
    assert_int_equal(plan->row_count, asked->seqs * asked->kv_heads);
    assert_int_equal(plan->row_first[0], 0);
    assert_int_equal(plan->row_first[plan->row_count], plan->segment_count);
    for (uint32_t row = 0; row < plan->row_count; row++) {
        const uint64_t length = asked->lengths[row / asked->kv_heads];
        const uint64_t first = asked->window_tokens > 0 && length > asked->window_tokens
                                   ? length - asked->window_tokens
                                   : 0;
        uint64_t next = first;
        assert_true(plan->row_first[row] < plan->row_first[row + 1]);
        for (uint32_t i = plan->row_first[row]; i < plan->row_first[row + 1]; i++) {
            const struct backend_segment *segment = &plan->segments[i];
            assert_int_equal(segment->seq, row / asked->kv_heads);
            assert_int_equal(segment->kv_head, row % asked->kv_heads);
            assert_int_equal(segment->first_token, next);
            assert_int_equal((segment->first_token - first) % asked->tile_tokens, 0);
            if (length > 0)
                assert_true(segment->token_count > 0);
            next += segment->token_count;
            tiles += (segment->token_count + asked->tile_tokens - 1) / asked->tile_tokens;
        }
        assert_int_equal(next, length);
    }
    return tiles;
}

static void check_workers(const struct plan *plan, const struct asked *asked, uint64_t tiles) {
    assert_int_equal(plan->worker_count, asked->workers);
    assert_true(plan->segment_count <= plan->row_count + plan->worker_count);
    assert_int_equal(plan->worker_first[0], 0);
    assert_int_equal(plan->worker_first[plan->worker_count], plan->segment_count);
    for (uint32_t w = 0; w < plan->worker_count; w++) {
        assert_true(plan->worker_first[w] <= plan->worker_first[w + 1]);
        uint64_t mine = 0;
        for (uint32_t i = plan->worker_first[w]; i < plan->worker_first[w + 1]; i++)
            mine += (plan->segments[i].token_count + asked->tile_tokens - 1) / asked->tile_tokens;
        assert_true(mine <= (tiles + plan->worker_count - 1) / plan->worker_count);
        assert_true(mine >= tiles / plan->worker_count);
    }
}

static void check(const struct asked *asked) {
    struct plan plan, again;
    struct status_text text = {{0}};
    assert_int_equal(plan_create(asked->lengths, asked->seqs, asked->kv_heads, asked->window_tokens,
                                 asked->tile_tokens, asked->workers, &plan, &text),
                     STATUS_OK);
    check_workers(&plan, asked, check_rows(&plan, asked));
    assert_int_equal(plan_create(asked->lengths, asked->seqs, asked->kv_heads, asked->window_tokens,
                                 asked->tile_tokens, asked->workers, &again, &text),
                     STATUS_OK);
    assert_int_equal(plan.segment_count, again.segment_count);
    assert_memory_equal(plan.segments, again.segments, plan.segment_count * sizeof *plan.segments);
    plan_destroy(&plan);
    plan_destroy(&again);
}

static void test_random_plans(void **state) {
    (void)state;
    struct generate_random random;
    generate_random_seed(&random, 5);
    for (int i = 0; i < 4000; i++) {
        struct asked asked = {.seqs = 1 + (uint32_t)generate_random_below(&random, MAX_SEQS),
                              .kv_heads = 1 + (uint32_t)generate_random_below(&random, 9),
                              .tile_tokens = 1 + (uint32_t)generate_random_below(&random, 70),
                              .workers = 1 + (uint32_t)generate_random_below(&random, 300),
                              .window_tokens = generate_random_below(&random, 3) == 0
                                                   ? 1 + generate_random_below(&random, 200)
                                                   : 0};
        for (uint32_t s = 0; s < asked.seqs; s++)
            asked.lengths[s] =
                generate_random_below(&random, 4) == 0 ? 0 : generate_random_below(&random, 1500);
        check(&asked);
    }
}

static void test_edges(void **state) {
    (void)state;
    check(&(struct asked){.seqs = 1, .kv_heads = 1, .tile_tokens = 64, .workers = 1});
    check(&(struct asked){.seqs = 3, .kv_heads = 8, .tile_tokens = 64, .workers = 500});
    check(&(struct asked){
        .lengths = {1}, .seqs = 1, .kv_heads = 1, .tile_tokens = 64, .workers = 132});
    check(&(struct asked){.lengths = {(uint64_t)1 << 50},
                          .seqs = 1,
                          .kv_heads = 8,
                          .tile_tokens = 64,
                          .workers = 132});
    check(&(struct asked){.lengths = {0, 0, 1000000, 0},
                          .seqs = 4,
                          .kv_heads = 2,
                          .tile_tokens = 32,
                          .workers = 7,
                          .window_tokens = 1024});
}

static void test_refusals(void **state) {
    (void)state;
    const uint64_t lengths[] = {UINT64_MAX, UINT64_MAX};
    struct plan plan;
    struct status_text text = {{0}};
    assert_int_equal(plan_create(lengths, 0, 1, 0, 64, 1, &plan, &text), STATUS_BAD_INPUT);
    assert_int_equal(plan_create(lengths, 1, 1, 0, 0, 1, &plan, &text), STATUS_BAD_INPUT);
    assert_int_equal(plan_create(lengths, 1, 1, 0, 64, 0, &plan, &text), STATUS_BAD_INPUT);
    assert_int_equal(plan_create(lengths, 2, 1, 0, 1, 4, &plan, &text), STATUS_OVERFLOW);
    assert_int_equal(plan_create(lengths, UINT32_MAX, 2, 0, 1, 4, &plan, &text), STATUS_REFUSED);
    plan_destroy(&plan);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_plans),
        cmocka_unit_test(test_edges),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
