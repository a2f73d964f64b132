/* Models in memory: what a group must have, how ranks divide it, which page it needs, and its
 * words. Every refusal must name the field it is about. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "model.h"

static const struct model_group full = {.kind = MODEL_FULL,
                                        .layers = 4,
                                        .read_by_layers = 4,
                                        .query_heads = 32,
                                        .kv_heads = 8,
                                        .k_dim = 192,
                                        .v_dim = 128};
static const struct model_group window = {.kind = MODEL_WINDOW,
                                          .layers = 4,
                                          .read_by_layers = 4,
                                          .query_heads = 32,
                                          .kv_heads = 8,
                                          .k_dim = 64,
                                          .v_dim = 64,
                                          .window_tokens = 128};
static const struct model_group latent = {.kind = MODEL_LATENT,
                                          .layers = 4,
                                          .read_by_layers = 4,
                                          .query_heads = 16,
                                          .latent_dim = 512,
                                          .rope_dim = 64};
static const struct model_group compressed = {.kind = MODEL_COMPRESSED,
                                              .layers = 4,
                                              .read_by_layers = 9,
                                              .query_heads = 16,
                                              .entry_dim = 512,
                                              .tokens_per_entry = 4};
static const struct model_group keys = {
    .kind = MODEL_INDEX, .layers = 4, .read_by_layers = 4, .key_dim = 128, .tokens_per_entry = 4};
static const struct model_group recurrent = {.kind = MODEL_STATE,
                                             .layers = 4,
                                             .read_by_layers = 4,
                                             .family = "mamba2",
                                             .heads = 64,
                                             .state_rows = 64,
                                             .state_cols = 128,
                                             .conv_channels = 6144,
                                             .conv_taps = 3};

static struct model model_of(struct model_group group) {
    struct model model = {.name = "sample", .group_count = 1};
    model.groups[0] = group;
    return model;
}

/* model_check refuses the group in one line that holds `word`. */
static void assert_incomplete(struct model_group group, const char *word) {
    const struct model model = model_of(group);
    struct status_text text = {""};
    assert_int_equal(model_check(&model, &text), STATUS_BAD_INPUT);
    if (strstr(text.line, word) == NULL || strstr(text.line, "groups[0]") == NULL)
        fail_msg("\"%s\" does not say \"%s\"", text.line, word);
}

static void test_kind_names(void **state) {
    (void)state;
    for (int kind = 0; kind < MODEL_KIND_COUNT; kind++) {
        enum model_kind found;
        assert_true(model_kind_find(model_kind_name((enum model_kind)kind), &found));
        assert_int_equal(found, kind);
    }
    enum model_kind found;
    assert_false(model_kind_find("", &found));
    assert_false(model_kind_find("Full", &found));
    assert_false(model_kind_find("sliding", &found));
    assert_non_null(model_kind_name(MODEL_KIND_COUNT));
}

static void test_whole_groups_are_accepted(void **state) {
    (void)state;
    const struct model_group all[] = {full, window, latent, compressed, keys, recurrent};
    struct model model = {.name = "sample", .group_count = 6};
    memcpy(model.groups, all, sizeof all);
    assert_int_equal(model_check(&model, NULL), STATUS_OK);
    struct model_group one_row = window, conv = recurrent, pure = recurrent;
    one_row.v_dim = 0;
    conv.heads = 0;
    pure.conv_taps = 0;
    model.groups[0] = one_row;
    model.groups[1] = conv;
    model.groups[2] = pure;
    assert_int_equal(model_check(&model, NULL), STATUS_OK);
    model.group_count = 0;
    assert_int_equal(model_check(&model, NULL), STATUS_BAD_INPUT);
    model.group_count = MODEL_MAX_GROUPS + 1;
    assert_int_equal(model_check(&model, NULL), STATUS_BAD_INPUT);
}

/* Each field a kind needs, taken away. */
static void test_each_missing_field_is_named(void **state) {
    (void)state;
    const struct {
        struct model_group group;
        size_t offset;
        const char *name;
    } cases[] = {
#define WITHOUT(group, field) {group, offsetof(struct model_group, field), #field}
        WITHOUT(full, layers),
        WITHOUT(full, query_heads),
        WITHOUT(full, kv_heads),
        WITHOUT(full, k_dim),
        WITHOUT(full, v_dim),
        WITHOUT(window, kv_heads),
        WITHOUT(window, k_dim),
        WITHOUT(window, query_heads),
        WITHOUT(latent, latent_dim),
        WITHOUT(latent, query_heads),
        WITHOUT(compressed, entry_dim),
        WITHOUT(compressed, tokens_per_entry),
        WITHOUT(compressed, query_heads),
        WITHOUT(keys, key_dim),
        WITHOUT(keys, tokens_per_entry),
        WITHOUT(recurrent, layers),
        WITHOUT(full, read_by_layers),
#undef WITHOUT
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct model_group group = cases[i].group;
        memset((char *)&group + cases[i].offset, 0, sizeof(uint32_t));
        assert_incomplete(group, cases[i].name);
    }
    struct model_group group = window;
    group.window_tokens = 0;
    assert_incomplete(group, "window_tokens");
    group = recurrent;
    group.state_rows = group.conv_channels = 0;
    assert_incomplete(group, "state_rows");
}

static void test_numbers_that_contradict_are_refused(void **state) {
    (void)state;
    struct model_group group = full;
    group.query_heads = 12;
    assert_incomplete(group, "12 query heads");
    group = compressed;
    group.read_by_layers = 3;
    assert_incomplete(group, "read_by_layers");
    group = full;
    group.k_dim = UINT32_MAX;
    assert_incomplete(group, "k_dim");
    group = latent;
    group.rope_dim = UINT32_MAX; /* the sum must not wrap past the check */
    assert_incomplete(group, "rope_dim");
    group = full;
    group.kind = MODEL_KIND_COUNT;
    assert_incomplete(group, "kind");
}

static void test_ranks_split_heads_and_replicate_rows(void **state) {
    (void)state;
    const struct model_group all[] = {full, latent, compressed, keys, recurrent};
    struct model whole = {.name = "sample", .group_count = 5}, rank;
    memcpy(whole.groups, all, sizeof all);
    assert_int_equal(model_shard(&whole, 1, &rank, NULL), STATUS_OK);
    assert_memory_equal(&rank, &whole, sizeof whole);
    assert_int_equal(model_shard(&whole, 16, &rank, NULL), STATUS_OK);
    assert_int_equal(rank.groups[0].kv_heads, 1); /* 8 heads, each on two ranks */
    assert_int_equal(rank.groups[0].query_heads, 2);
    assert_int_equal(rank.groups[1].query_heads, 1);
    assert_int_equal(rank.groups[1].latent_dim, 512);
    assert_int_equal(rank.groups[2].entry_dim, 512);
    assert_int_equal(rank.groups[3].key_dim, 128);
    assert_int_equal(rank.groups[4].heads, 4);
    assert_int_equal(rank.groups[4].conv_channels, 384);
    assert_int_equal(rank.groups[4].state_rows, 64);
    assert_int_equal(model_check(&rank, NULL), STATUS_OK);
    assert_int_equal(model_shard(&whole, 4, &rank, NULL), STATUS_OK);
    assert_int_equal(rank.groups[0].kv_heads, 2);
}

static void assert_unsplit(struct model_group group, uint32_t ranks, const char *word) {
    const struct model model = model_of(group);
    struct model rank;
    struct status_text text = {""};
    assert_int_equal(model_shard(&model, ranks, &rank, &text), STATUS_REFUSED);
    if (strstr(text.line, word) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", text.line, word);
}

static void test_heads_that_do_not_divide_are_refused(void **state) {
    (void)state;
    assert_unsplit(full, 3, "32 query heads");
    struct model_group group = full;
    group.kv_heads = 6;
    group.query_heads = 48;
    assert_unsplit(group, 4, "6 KV heads");
    assert_unsplit(group, 16, "6 KV heads"); /* 16 ranks over 6 heads */
    assert_unsplit(recurrent, 128, "64 state heads");
    group = recurrent;
    group.conv_channels = 6145;
    assert_unsplit(group, 2, "6145 convolution channels");
    struct model rank;
    const struct model model = model_of(full);
    assert_int_equal(model_shard(&model, 0, &rank, NULL), STATUS_BAD_INPUT);
}

static void test_page_shapes(void **state) {
    (void)state;
    struct page_shape shape;
    assert_int_equal(model_page_shape(&full, FORMAT_Q8_0, FORMAT_Q4_0, 17, &shape, NULL),
                     STATUS_OK);
    assert_int_equal(shape.kv_heads, 8);
    assert_int_equal(shape.page_tokens, 17);
    assert_int_equal(shape.k_dim, 192);
    assert_int_equal(shape.v_dim, 128);
    assert_false(shape.v_in_k);
    assert_int_equal(shape.k_format, FORMAT_Q8_0);
    assert_int_equal(shape.v_format, FORMAT_Q4_0);
    assert_int_equal(model_page_shape(&latent, FORMAT_BF16, FORMAT_BF16, 16, &shape, NULL),
                     STATUS_OK);
    assert_int_equal(shape.kv_heads, 1);
    assert_int_equal(shape.k_dim, 576);
    assert_int_equal(shape.v_dim, 512);
    assert_true(shape.v_in_k);
    struct model_group one_row = window;
    one_row.v_dim = 0;
    assert_int_equal(model_page_shape(&one_row, FORMAT_BF16, FORMAT_BF16, 16, &shape, NULL),
                     STATUS_OK);
    assert_true(shape.v_in_k);
    assert_int_equal(shape.v_dim, 64);
    assert_int_equal(model_page_shape(&compressed, FORMAT_BF16, FORMAT_BF16, 16, &shape, NULL),
                     STATUS_OK);
    assert_true(shape.v_in_k && shape.kv_heads == 1);
    assert_int_equal(shape.k_dim, compressed.entry_dim);
    assert_int_equal(shape.v_dim, compressed.entry_dim);
    assert_int_equal(model_page_shape(&keys, FORMAT_MXFP4, FORMAT_MXFP4, 64, &shape, NULL),
                     STATUS_OK);
    assert_true(shape.v_in_k && shape.kv_heads == 1 && shape.k_format == FORMAT_MXFP4);
    assert_int_equal(shape.k_dim, keys.key_dim);
    assert_int_equal(shape.v_dim, keys.key_dim);
}

static void test_pages_that_are_refused(void **state) {
    (void)state;
    struct page_shape shape;
    struct status_text text = {""};
    struct model_group one_row = window;
    one_row.v_dim = 0;
    assert_int_equal(model_page_shape(&latent, FORMAT_Q8_0, FORMAT_Q4_0, 16, &shape, &text),
                     STATUS_REFUSED);
    assert_non_null(strstr(text.line, "q8_0/q4_0"));
    assert_int_equal(model_page_shape(&one_row, FORMAT_Q8_0, FORMAT_BF16, 16, &shape, NULL),
                     STATUS_REFUSED);
    assert_int_equal(model_page_shape(&compressed, FORMAT_Q8_0, FORMAT_BF16, 16, &shape, NULL),
                     STATUS_REFUSED);
    assert_int_equal(model_page_shape(&recurrent, FORMAT_BF16, FORMAT_BF16, 16, &shape, &text),
                     STATUS_REFUSED);
    assert_non_null(strstr(text.line, "state"));
}

static struct model drafted(struct model model, uint32_t drafts) {
    struct model out;
    struct status_text text = {""};
    if (model_add_drafts(&model, drafts, &out, &text) != STATUS_OK)
        fail_msg("%s", text.line);
    for (uint32_t g = 0; g < model.group_count; g++)
        assert_int_equal(out.groups[g].read_by_layers - model.groups[g].read_by_layers,
                         out.groups[g].layers - model.groups[g].layers);
    return out;
}

static void test_draft_layers(void **state) {
    (void)state;
    struct model_group token_keys = keys, second = full, named = window;
    token_keys.tokens_per_entry = 1;
    second.k_dim = 64;
    named.drafts = true;
    const struct {
        struct model_group groups[4];
        uint32_t count, layers[4];
        const char *remark;
    } cases[] = {
        {{full}, 1, {6}, "2 draft layers counted in, as full layers; a guess"},
        {{window, full, second}, 3, {4, 6, 4}, "as full layers; a guess"},
        {{recurrent, latent, token_keys},
         3,
         {4, 6, 6},
         "as latent layers with index keys; a guess"},
        {{full, keys}, 2, {6, 4}, "as full layers; a guess"}, /* keys of 4 tokens are another's */
        {{compressed, keys, token_keys, window}, 4, {4, 4, 4, 6}, "as window layers; a guess"},
        {{window, recurrent}, 2, {6, 4}, "as window layers; a guess"},
        {{full, token_keys, window, named}, 4, {4, 4, 4, 6}, "as window layers; a guess"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct model model = {.name = "sample", .remark = "a guess", .group_count = cases[i].count};
        memcpy(model.groups, cases[i].groups, sizeof cases[i].groups);
        const struct model same = drafted(model, 0), more = drafted(model, 2);
        assert_memory_equal(&same, &model, sizeof same);
        for (uint32_t g = 0; g < model.group_count; g++)
            assert_int_equal(more.groups[g].layers, cases[i].layers[g]);
        if (strstr(more.remark, cases[i].remark) == NULL)
            fail_msg("'%s' is not in '%s'", cases[i].remark, more.remark);
    }
    const struct model one = drafted(model_of(latent), 1);
    assert_string_equal(one.remark, "1 draft layer counted in, as latent layer");
}

static void test_draft_layers_that_are_refused(void **state) {
    (void)state;
    struct status_text text = {""};
    struct model out, model = model_of(recurrent);
    assert_int_equal(model_add_drafts(&model, 1, &out, &text), STATUS_REFUSED);
    assert_non_null(strstr(text.line, "sample: no group that a draft layer"));
    model = model_of(compressed); /* its drafts have windows, and it has none */
    assert_int_equal(model_add_drafts(&model, 1, &out, &text), STATUS_REFUSED);
    model = model_of(full);
    model.groups[0].read_by_layers = UINT32_MAX;
    assert_int_equal(model_add_drafts(&model, 1, &out, &text), STATUS_OVERFLOW);
}

static void test_groups_in_words(void **state) {
    (void)state;
    struct model_group one_row = window;
    one_row.v_dim = 0;
    const struct {
        struct model_group group;
        const char *words;
    } cases[] = {
        {one_row, "4 window 8x64 K=V of 128"},   {full, "4 full 8x192/128"},
        {window, "4 window 8x64 of 128"},        {latent, "4 latent 512+64"},
        {compressed, "4 compressed 512 per 4"},  {keys, "4 index 128 per 4"},
        {recurrent, "4 state mamba2 64x64x128"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char words[64], cut[8];
        model_group_words(&cases[i].group, words, sizeof words);
        assert_string_equal(words, cases[i].words);
        model_group_words(&cases[i].group, cut, sizeof cut);
        assert_memory_equal(cut, cases[i].words, 7);
        assert_int_equal(cut[7], '\0');
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kind_names),
        cmocka_unit_test(test_whole_groups_are_accepted),
        cmocka_unit_test(test_each_missing_field_is_named),
        cmocka_unit_test(test_numbers_that_contradict_are_refused),
        cmocka_unit_test(test_ranks_split_heads_and_replicate_rows),
        cmocka_unit_test(test_heads_that_do_not_divide_are_refused),
        cmocka_unit_test(test_page_shapes),
        cmocka_unit_test(test_pages_that_are_refused),
        cmocka_unit_test(test_draft_layers),
        cmocka_unit_test(test_draft_layers_that_are_refused),
        cmocka_unit_test(test_groups_in_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
