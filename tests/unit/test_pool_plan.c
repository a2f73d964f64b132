/* What a pool will take, worked out by hand, and what cannot be planned. No device. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "pool.h"

struct asked {
    struct model model;
    uint64_t lengths[3];
    struct pool_request request;
};

static struct asked plain(void) {
    return (struct asked){
        .model = {.name = "plain",
                  .group_count = 1,
                  .groups = {{.kind = MODEL_FULL,
                              .layers = 2,
                              .read_by_layers = 2,
                              .query_heads = 8,
                              .kv_heads = 2,
                              .k_dim = 64,
                              .v_dim = 64}}},
        .lengths = {100, 200, 50},
        .request = {.storage = {.k_format = FORMAT_NVFP4,
                                .v_format = FORMAT_NVFP4,
                                .index = FORMULA_INDEX_NONE,
                                .state_value_bytes = 4},
                    .seqs = 3,
                    .page_tokens = 16},
    };
}

/* By hand: 2 x 64 nvfp4 values are 36 + 36 bytes per head and token, a page of 16 tokens and 2
 * heads 2304 bytes, without padding. */
static void test_sizes_by_hand(void **state) {
    (void)state;
    struct asked asked = plain();
    asked.request.model = &asked.model;
    asked.request.lengths = asked.lengths;
    struct pool_sizes sizes;
    struct status_text text = {{0}};
    assert_int_equal(pool_plan(&asked.request, &sizes, &text), STATUS_OK);
    assert_int_equal(sizes.formula_bytes, 350 * 2 * 2 * 72);
    assert_int_equal(sizes.paged_bytes, (7 + 13 + 4) * 2 * 2304);
    assert_int_equal(sizes.alignment_bytes, 0);
    assert_int_equal(sizes.spare_bytes, 0);
    assert_int_equal(sizes.page_table_bytes, 3 * 8 + 3 * 13 * 4);
    assert_int_equal(sizes.tensor_scale_bytes, 2 * 2 * 4);
    /* 90 tokens are 5 whole pages; the second sequence is the longest and owns them */
    asked.request.share_prefix_tokens = 90;
    assert_int_equal(pool_plan(&asked.request, &sizes, &text), STATUS_OK);
    assert_int_equal(sizes.shared_bytes, (5 + 3) * 2 * 2304);
    assert_int_equal(sizes.paged_bytes, (2 + 13 + 1) * 2 * 2304);
    /* a window of 33 keeps 3 or 4 pages: 100 tokens end with 4, 200 with 3, 50 with 3 */
    asked.request.share_prefix_tokens = 0;
    asked.model.groups[0].kind = MODEL_WINDOW;
    asked.model.groups[0].window_tokens = 33;
    assert_int_equal(pool_plan(&asked.request, &sizes, &text), STATUS_OK);
    assert_int_equal(sizes.formula_bytes, 99 * 2 * 2 * 72);
    assert_int_equal(sizes.page_table_bytes, 3 * 8 + 3 * 3 * 4);
    assert_int_equal(sizes.paged_bytes + sizes.spare_bytes, 3 * 3 * 2 * 2304);
}

/* Entries of 4 tokens: 25, 50 and 12 of them in pages of 16, and what does not make one in fp32. */
static void test_entries_by_hand(void **state) {
    (void)state;
    struct asked asked = plain();
    asked.request.model = &asked.model;
    asked.request.lengths = asked.lengths;
    asked.request.storage.k_format = asked.request.storage.v_format = FORMAT_BF16;
    asked.model.groups[0].kind = MODEL_COMPRESSED;
    asked.model.groups[0].entry_dim = 512;
    asked.model.groups[0].tokens_per_entry = 4;
    struct pool_sizes sizes;
    assert_int_equal(pool_plan(&asked.request, &sizes, NULL), STATUS_OK);
    assert_int_equal(sizes.formula_bytes, (25 + 50 + 12) * 2 * 1024);
    assert_int_equal(sizes.paged_bytes, (2 + 4 + 1) * 2 * 16 * 1024);
    assert_int_equal(sizes.partial_bytes, 3 * 2 * 512 * 4);
    /* lengths, entries of each, and 4 columns */
    assert_int_equal(sizes.page_table_bytes, 3 * 8 + 3 * 8 + 3 * 4 * 4);
    assert_int_equal(sizes.pool_bytes,
                     sizes.paged_bytes + sizes.partial_bytes + sizes.page_table_bytes);
    /* one token an entry: nothing is ever partial, and entries are counted as tokens are */
    asked.model.groups[0].tokens_per_entry = 1;
    assert_int_equal(pool_plan(&asked.request, &sizes, NULL), STATUS_OK);
    assert_int_equal(sizes.formula_bytes, 350 * 2 * 1024);
    assert_int_equal(sizes.partial_bytes, 0);
    assert_int_equal(sizes.page_table_bytes, 3 * 8 + 3 * 13 * 4);
    /* DeepSeek-V4's record: 64 entries in 37,440 bytes, 64 of them padding */
    asked.model.groups[0].tokens_per_entry = 4;
    asked.request.page_tokens = 64;
    asked.request.storage.k_format = asked.request.storage.v_format = FORMAT_FP8_DS_MLA_584;
    assert_int_equal(pool_plan(&asked.request, &sizes, NULL), STATUS_OK);
    assert_int_equal(sizes.formula_bytes, (25 + 50 + 12) * 2 * 584);
    assert_int_equal(sizes.paged_bytes, 3 * 2 * 37440);
    assert_int_equal(sizes.alignment_bytes, 3 * 2 * 64);
    /* index keys: 100, 200 and 50 of 132 bytes; or none */
    asked.model.groups[0].kind = MODEL_INDEX;
    asked.model.groups[0].key_dim = 128;
    asked.model.groups[0].tokens_per_entry = 1;
    asked.request.storage.index = FORMULA_INDEX_FP8_132;
    assert_int_equal(pool_plan(&asked.request, &sizes, NULL), STATUS_OK);
    assert_int_equal(sizes.formula_bytes, 350 * 2 * 132);
    assert_int_equal(sizes.paged_bytes, (2 + 4 + 1) * 2 * 8448);
    asked.request.storage.index = FORMULA_INDEX_NONE;
    assert_int_equal(pool_plan(&asked.request, &sizes, NULL), STATUS_OK);
    assert_int_equal(sizes.pool_bytes, 3 * 8);
}

/* 3 sequences, 2 layers, 5 heads of 7 x 3 values and 9 channels of 2 columns: slots of 420 (f32)
 * and 36 bytes, those of a layer rounded up to 16. */
static void test_state_by_hand(void **state) {
    (void)state;
    struct asked asked = plain();
    asked.request.model = &asked.model;
    asked.request.lengths = asked.lengths;
    asked.model.groups[0] = (struct model_group){.kind = MODEL_STATE,
                                                 .layers = 2,
                                                 .read_by_layers = 2,
                                                 .heads = 5,
                                                 .state_rows = 7,
                                                 .state_cols = 3,
                                                 .conv_channels = 9,
                                                 .conv_taps = 2};
    struct pool_sizes sizes;
    assert_int_equal(pool_plan(&asked.request, &sizes, NULL), STATUS_OK);
    assert_int_equal(sizes.formula_bytes, 3 * 2 * (420 + 36));
    assert_int_equal(sizes.alignment_bytes, 2 * (1264 - 3 * 420 + 112 - 3 * 36));
    assert_int_equal(sizes.page_table_bytes, 3 * 8);
    assert_int_equal(sizes.pool_bytes, 2 * (1264 + 112) + 3 * 8);
    asked.request.storage.state_value_bytes = 2;
    assert_int_equal(pool_plan(&asked.request, &sizes, NULL), STATUS_OK);
    assert_int_equal(sizes.formula_bytes, 3 * 2 * (210 + 36));
}

static void assert_refused(struct asked *asked, enum status expected, const char *word) {
    asked->request.model = &asked->model;
    asked->request.lengths = asked->lengths;
    struct pool_sizes sizes;
    struct status_text text = {{0}};
    assert_int_equal(pool_plan(&asked->request, &sizes, &text), expected);
    if (strstr(text.line, word) == NULL)
        fail_msg("\"%s\" does not say %s", text.line, word);
}

static void test_refusals(void **state) {
    (void)state;
    struct asked asked = plain();
    asked.request.storage.k_format = asked.request.storage.v_format = FORMAT_FP8_DS_MLA_656;
    assert_refused(&asked, STATUS_REFUSED, "fp8_ds_mla_656");
    asked = plain();
    asked.model.groups[0].k_dim = 80;
    asked.request.storage.k_format = FORMAT_Q8_0;
    assert_refused(&asked, STATUS_REFUSED, "q8_0");
    asked = plain();
    asked.request.page_tokens = 0;
    assert_refused(&asked, STATUS_BAD_INPUT, "page_tokens");
    asked = plain();
    asked.request.seqs = 0;
    assert_refused(&asked, STATUS_BAD_INPUT, "sequences");
    asked = plain();
    asked.request.page_tokens = 1;
    asked.lengths[1] = (uint64_t)1 << 40;
    assert_refused(&asked, STATUS_REFUSED, "page");
    asked = plain();
    asked.lengths[1] = UINT64_MAX;
    asked.request.page_tokens = UINT32_MAX;
    struct pool_sizes sizes;
    struct status_text text = {{0}};
    asked.request.model = &asked.model;
    asked.request.lengths = asked.lengths;
    assert_int_not_equal(pool_plan(&asked.request, &sizes, &text), STATUS_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes_by_hand),
        cmocka_unit_test(test_entries_by_hand),
        cmocka_unit_test(test_state_by_hand),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
