/* --until-full: the count found is the largest that fits, one more does not, the pool of it is
 * really built within the budget, and the formula's count stands beside it. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "counting_ops.h"
#include "fill_until.h"

enum { MAX_SEQS = 4, BUDGETS = 150 };

static struct generate_random random_state;

static uint32_t below(uint32_t bound) {
    return (uint32_t)generate_random_below(&random_state, bound);
}

struct asked {
    struct model model;
    uint64_t lengths[MAX_SEQS];
    struct pool_request request;
};

/* Full attention first, so that something grows; then perhaps a window and a latent. */
static void random_request(struct asked *asked) {
    const struct model_group groups[] = {
        {.kind = MODEL_FULL,
         .layers = 1 + below(3),
         .query_heads = 4,
         .kv_heads = 1 + below(3),
         .k_dim = 32 * (1 + below(3)),
         .v_dim = 32 * (1 + below(3))},
        {.kind = MODEL_WINDOW,
         .layers = 1 + below(2),
         .query_heads = 4,
         .kv_heads = 2,
         .k_dim = 32,
         .v_dim = 64,
         .window_tokens = 1 + below(90)},
        {.kind = MODEL_LATENT, .layers = 1, .query_heads = 4, .latent_dim = 96, .rope_dim = 32}};
    *asked = (struct asked){.model = {.name = "random", .group_count = 1 + below(3)}};
    memcpy(asked->model.groups, groups, sizeof groups);
    const enum format_id format = (enum format_id)below(FORMAT_COUNT);
    asked->request = (struct pool_request){.storage = {.k_format = format,
                                                       .v_format = format,
                                                       .index = FORMULA_INDEX_NONE,
                                                       .state_value_bytes = 4},
                                           .lengths = asked->lengths,
                                           .seqs = 1 + below(MAX_SEQS),
                                           .page_tokens = 1 + below(below(2) == 0 ? 20 : 100),
                                           .share_prefix_tokens = below(4) == 0 ? below(60) : 0,
                                           .seed = below(100)};
    asked->request.model = &asked->model;
    const uint64_t tokens = 1 + below(200);
    for (uint32_t s = 0; s < asked->request.seqs; s++)
        asked->lengths[s] = tokens;
}

/* Pool and harness of `count`, without the search. */
static uint64_t bytes_of(const struct asked *asked, enum options_until what, uint64_t count) {
    static uint64_t lengths[100000];
    struct pool_request request = asked->request;
    const uint64_t seqs = what == OPTIONS_UNTIL_SEQS ? count : request.seqs;
    assert_true(seqs <= sizeof lengths / sizeof lengths[0]);
    for (uint64_t s = 0; s < seqs; s++)
        lengths[s] = what == OPTIONS_UNTIL_SEQS ? asked->lengths[0] : count;
    request.lengths = lengths;
    request.seqs = (uint32_t)seqs;
    struct pool_sizes sizes;
    assert_int_equal(pool_plan(&request, &sizes, NULL), STATUS_OK);
    return sizes.pool_bytes + sizes.harness_bytes;
}

static void assert_found(struct backend_device *device, const struct asked *asked,
                         enum options_until what, const struct memory_budget *budget,
                         const struct fill_until *found) {
    const uint64_t bytes = bytes_of(asked, what, found->count);
    const uint64_t next = bytes_of(asked, what, found->count + 1);
    assert_true(bytes <= budget->budget_bytes);
    assert_true(next > budget->budget_bytes);
    assert_int_equal(found->short_bytes, next - budget->budget_bytes);
    assert_int_equal(found->left_bytes, budget->budget_bytes - bytes);
    assert_int_equal(found->sizes.pool_bytes + found->sizes.harness_bytes, bytes);
    assert_int_equal(found->seqs, what == OPTIONS_UNTIL_SEQS ? found->count : asked->request.seqs);
    /* Sharing apart, no pool has room for more than the formula. */
    assert_true(found->sizes.shared_bytes > 0 || found->count <= found->formula_count);
    struct formula_result formula;
    const uint64_t tokens = what == OPTIONS_UNTIL_SEQS ? asked->lengths[0] : found->formula_count;
    const uint64_t seqs = what == OPTIONS_UNTIL_SEQS ? found->formula_count : asked->request.seqs;
    assert_int_equal(
        formula_compute(&asked->model, &asked->request.storage, tokens, seqs, &formula, NULL),
        STATUS_OK);
    assert_true(formula.total_bytes <= budget->budget_bytes);
    struct pool_request request = asked->request;
    request.lengths = found->lengths;
    request.seqs = found->seqs;
    struct status_text text = {""};
    struct pool *pool;
    counting_reset(budget->budget_bytes);
    if (pool_create(&counting.ops, device, &request, budget, &pool, &text) != STATUS_OK ||
        pool_fill(pool, NULL, &text) != STATUS_OK)
        fail_msg("%s", text.line);
    assert_int_equal(counting.peak_bytes, bytes);
    for (uint32_t g = 0; g < pool_group_count(pool); g++)
        assert_int_equal(pool_pages_check(pool_group_pages(pool, g), &text), STATUS_OK);
    pool_destroy(pool);
}

static void test_random_budgets(void **state) {
    (void)state;
    struct status_text text = {""};
    struct backend_device *device;
    counting_reset(0);
    assert_int_equal(counting.ops.open(&(struct backend_options){.threads = 2}, &device, &text),
                     STATUS_OK);
    generate_random_seed(&random_state, 99);
    unsigned found_counts[3] = {0}, none = 0, more = 0;
    for (unsigned i = 0; i < BUDGETS; i++) {
        struct asked asked;
        random_request(&asked);
        const enum options_until what = below(2) == 0 ? OPTIONS_UNTIL_SEQS : OPTIONS_UNTIL_TOKENS;
        const struct memory_budget budget = {.budget_bytes =
                                                 1000 + below(below(4) == 0 ? 40000 : 2000000),
                                             .source = "a test's budget"};
        struct fill_until found;
        const enum status status = fill_until_find(what, &asked.request, &budget, &found, &text);
        if (status != STATUS_OK) {
            assert_int_equal(status, STATUS_OUT_OF_MEMORY);
            assert_true(bytes_of(&asked, what, 1) > budget.budget_bytes);
            assert_non_null(strstr(text.line, "--until-full"));
            assert_non_null(strstr(text.line, "a test's budget"));
            none++;
            continue;
        }
        assert_found(device, &asked, what, &budget, &found);
        found_counts[what]++;
        more += found.count > 1;
        fill_until_free(&found);
    }
    counting.ops.close(device);
    print_message(
        "%u by sequences, %u by tokens, %u of them more than one; %u with room for none\n",
        found_counts[OPTIONS_UNTIL_SEQS], found_counts[OPTIONS_UNTIL_TOKENS], more, none);
    assert_true(found_counts[OPTIONS_UNTIL_SEQS] > 20 && found_counts[OPTIONS_UNTIL_TOKENS] > 20);
    assert_true(none > 0 && more > 20);
}

/* By hand: 1 layer of 1 x 32 bf16 K and V, pages of 544 tokens: 69632 bytes for 12 tokens, which
 * take 1536 by the formula. One sequence: 24 bytes of arguments, 8 of length, 4 of table. */
static void test_short_sequences_on_large_pages(void **state) {
    (void)state;
    struct asked asked = {.model = {.name = "plain",
                                    .group_count = 1,
                                    .groups = {{.kind = MODEL_FULL,
                                                .layers = 1,
                                                .query_heads = 1,
                                                .kv_heads = 1,
                                                .k_dim = 32,
                                                .v_dim = 32}}},
                          .lengths = {12}};
    asked.request =
        (struct pool_request){.model = &asked.model,
                              .storage = {.k_format = FORMAT_BF16, .v_format = FORMAT_BF16},
                              .lengths = asked.lengths,
                              .seqs = 1,
                              .page_tokens = 544};
    const uint64_t bank_bytes = 12 * 64 * sizeof(float);
    const struct memory_budget budget = {.budget_bytes = bank_bytes + 10 * (69632 + 36) + 35};
    struct fill_until found;
    assert_int_equal(fill_until_find(OPTIONS_UNTIL_SEQS, &asked.request, &budget, &found, NULL),
                     STATUS_OK);
    assert_int_equal(found.count, 10);
    assert_int_equal(found.left_bytes, 35);
    assert_int_equal(found.formula_count, budget.budget_bytes / 1536);
    assert_int_equal(found.sizes.formula_bytes, 10 * 1536);
    assert_int_equal(found.sizes.tail_bytes, 10 * (69632 - 1536));
    assert_int_equal(found.limit[0], 0);
    fill_until_free(&found);
}

static void test_what_never_ends_is_refused(void **state) {
    (void)state;
    struct asked asked;
    struct fill_until found;
    struct status_text text = {""};
    const struct memory_budget budget = {.budget_bytes = 1 << 20};
    generate_random_seed(&random_state, 5);
    random_request(&asked);
    asked.model.group_count = 1;
    asked.model.groups[0].kind = MODEL_WINDOW;
    asked.model.groups[0].window_tokens = 20;
    assert_int_equal(fill_until_find(OPTIONS_UNTIL_TOKENS, &asked.request, &budget, &found, &text),
                     STATUS_REFUSED);
    assert_non_null(strstr(text.line, "windows and state only"));
    assert_int_equal(fill_until_find(OPTIONS_UNTIL_SEQS, &asked.request, &budget, &found, &text),
                     STATUS_OK);
    fill_until_free(&found);
    /* state does not grow either: sequences fill the budget, tokens never would */
    asked.model.groups[0].kind = MODEL_STATE;
    asked.model.groups[0].heads = 2;
    asked.model.groups[0].state_rows = asked.model.groups[0].state_cols = 16;
    assert_int_equal(fill_until_find(OPTIONS_UNTIL_TOKENS, &asked.request, &budget, &found, &text),
                     STATUS_REFUSED);
    assert_non_null(strstr(text.line, "windows and state only"));
    assert_int_equal(fill_until_find(OPTIONS_UNTIL_SEQS, &asked.request, &budget, &found, &text),
                     STATUS_OK);
    fill_until_free(&found);
}

/* int32 page ids end it before the budget does; nothing is allocated to see that. */
static void test_another_limit_than_the_budget(void **state) {
    (void)state;
    struct asked asked;
    struct fill_until found;
    const struct memory_budget budget = {.budget_bytes = (uint64_t)1 << 60};
    generate_random_seed(&random_state, 6);
    random_request(&asked);
    asked.model.group_count = 1;
    asked.request.page_tokens = 1;
    asked.request.seqs = 2;
    asked.request.share_prefix_tokens = 0;
    assert_int_equal(fill_until_find(OPTIONS_UNTIL_TOKENS, &asked.request, &budget, &found, NULL),
                     STATUS_OK);
    assert_int_equal(found.count, INT32_MAX / 2);
    assert_non_null(strstr(found.limit, "page ids"));
    assert_int_equal(found.short_bytes, 0);
    fill_until_free(&found);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_budgets),
        cmocka_unit_test(test_short_sequences_on_large_pages),
        cmocka_unit_test(test_what_never_ends_is_refused),
        cmocka_unit_test(test_another_limit_than_the_budget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
