/* The size formula on its own: sizes worked out by hand, records and index keys, what is refused
 * and in which words, the ends of 64 bits, and laws that hold for every model and format.
 * Published figures: test_published. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "formula.h"
#include "model_source.h"

static struct model load(const char *name) {
    struct model model;
    struct status_text text = {""};
    if (model_source_load(name, &model, NULL, NULL, NULL, &text) != STATUS_OK)
        fail_msg("%s", text.line);
    return model;
}

/* K and V in `format`, which may be a record, with the index keys that go beside them. */
static struct formula_storage storage_of(enum format_id format) {
    return (struct formula_storage){.k_format = format,
                                    .v_format = format,
                                    .index = formula_index_default(format),
                                    .state_value_bytes = 4};
}

static struct formula_result compute(const struct model *model, struct formula_storage storage,
                                     uint64_t tokens, uint64_t seqs) {
    struct formula_result result;
    struct status_text text = {""};
    if (formula_compute(model, &storage, tokens, seqs, &result, &text) != STATUS_OK)
        fail_msg("%s", text.line);
    return result;
}

static void assert_rate(struct formula_rate rate, uint64_t bytes, uint64_t tokens) {
    assert_int_equal(rate.bytes, bytes);
    assert_int_equal(rate.tokens, tokens);
}

/* `formula_compute` says `status` and its one line holds `word`. */
static void assert_refused(const struct model *model, struct formula_storage storage,
                           uint64_t tokens, enum status status, const char *word) {
    struct formula_result result;
    struct status_text text = {""};
    assert_int_equal(formula_compute(model, &storage, tokens, 1, &result, &text), status);
    if (strstr(text.line, word) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", text.line, word);
    assert_null(strchr(text.line, '\n'));
}

static void test_deepseek_v4_1_flash(void **state) {
    (void)state;
    const struct model model = load("deepseek-v4.1-flash");
    assert_rate(compute(&model, storage_of(FORMAT_NVFP4), 8192, 1).rate, 890, 1);
    assert_rate(compute(&model, storage_of(FORMAT_FP8_E4M3), 8192, 1).rate, 1600, 1);
    assert_rate(compute(&model, storage_of(FORMAT_BF16), 8192, 1).rate, 3200, 1);
    assert_rate(compute(&model, storage_of(FORMAT_FP8_DS_MLA_528), 8192, 1).rate, 1650, 1);
    assert_rate(compute(&model, storage_of(FORMAT_NVFP4_DS_MLA_288), 8192, 1).rate, 890, 1);
}

static void test_records_replace_rows(void **state) {
    (void)state;
    const struct model v32 = load("deepseek-v3.2"), v4 = load("deepseek-v4-flash");
    struct formula_result result = compute(&v32, storage_of(FORMAT_FP8_DS_MLA_656), 1000, 3);
    assert_rate(result.kv_rate, 61 * 656, 1);
    assert_rate(result.index_rate, 61 * 132, 1);
    assert_int_equal(result.total_bytes, 3000ull * 61 * (656 + 132));
    assert_rate(result.rate, 48068, 1);
    result = compute(&v32, storage_of(FORMAT_NVFP4_DS_MLA_352), 1000, 1);
    assert_rate(result.rate, 61 * (352 + 68), 1);
    /* 21 x (584 + 132) / 4 + 20 x 584 / 128 = 3850.25 a token (formats.md, E16). */
    result = compute(&v4, storage_of(FORMAT_FP8_DS_MLA_584), 1 << 20, 1);
    assert_rate(result.rate, 15401, 4);
    assert_int_equal(result.fixed_bytes_per_seq, 43 * 128 * 584);
}

static void test_records_that_do_not_fit_are_refused_by_name(void **state) {
    (void)state;
    const struct model v32 = load("deepseek-v3.2"), small = load("mistral-small-4-119b"),
                       llama = load("llama-3.3-70b"), glm = load("glm-5.3-flash");
    assert_refused(&small, storage_of(FORMAT_FP8_DS_MLA_656), 8, STATUS_REFUSED, "256 + 64");
    assert_refused(&v32, storage_of(FORMAT_FP8_DS_MLA_528), 8, STATUS_REFUSED, "fp8_ds_mla_528");
    assert_refused(&v32, storage_of(FORMAT_FP8_DS_MLA_584), 8, STATUS_REFUSED, "448 + 64");
    assert_refused(&v32, storage_of(FORMAT_INDEX_FP8_132), 8, STATUS_REFUSED, "index_fp8_132");
    assert_refused(&glm, storage_of(FORMAT_FP8_DS_MLA_584), 8, STATUS_REFUSED, "512 + 0");
    assert_refused(&llama, storage_of(FORMAT_FP8_DS_MLA_656), 8, STATUS_REFUSED, "full");
}

static void test_formats_that_do_not_fit_are_refused(void **state) {
    (void)state;
    const struct model narrow = load("8x80/g4"), latent = load("deepseek-v3.2");
    assert_refused(&narrow, storage_of(FORMAT_Q8_0), 8, STATUS_REFUSED, "64 or 96");
    const struct formula_result fits = compute(&narrow, storage_of(FORMAT_NVFP4), 1, 1);
    assert_rate(fits.rate, 8 * 2 * (40 + 5), 1);
    struct formula_storage mixed = storage_of(FORMAT_Q8_0);
    mixed.v_format = FORMAT_Q4_0;
    assert_refused(&latent, mixed, 8, STATUS_REFUSED, "q8_0/q4_0");
    const struct model llama = load("llama-3.3-70b");
    assert_rate(compute(&llama, mixed, 8, 1).rate, 80 * 8 * 4 * (34 + 18), 1);
}

static void test_each_index_format(void **state) {
    (void)state;
    const struct model model = load("glm-5.3");
    static const uint64_t key_bytes[FORMULA_INDEX_COUNT] = {
        [FORMULA_INDEX_BF16] = 256, [FORMULA_INDEX_FP8_E4M3] = 128, [FORMULA_INDEX_FP8_132] = 132,
        [FORMULA_INDEX_MXFP4] = 68, [FORMULA_INDEX_NONE] = 0,
    };
    for (int i = 0; i < FORMULA_INDEX_COUNT; i++) {
        const enum formula_index_format index = (enum formula_index_format)i;
        struct formula_storage storage = storage_of(FORMAT_BF16);
        storage.index = index;
        const struct formula_result result = compute(&model, storage, 100, 1);
        assert_rate(result.index_rate, 21 * key_bytes[i], 1);
        assert_int_equal(result.seq_bytes, 100 * (78 * 1152 + 21 * key_bytes[i]));
        enum formula_index_format found;
        assert_true(formula_index_find(formula_index_name(index), &found));
        assert_int_equal(found, index);
    }
    enum formula_index_format found;
    assert_true(formula_index_find("FP8_E4M3", &found));
    assert_int_equal(found, FORMULA_INDEX_FP8_E4M3);
    assert_false(formula_index_find("bf1", &found));
    assert_false(formula_index_find("bf166", &found));
    assert_false(formula_index_find("", &found));
}

/* One rank of several: KV heads split, or one each when there are fewer than ranks. */
static void test_one_rank_of_several(void **state) {
    (void)state;
    const struct model whole = load("qwen3-235b-a22b");
    static const struct {
        uint32_t ranks;
        uint64_t bytes;
    } cases[] = {{1, 192512}, {2, 96256}, {4, 48128}, {8, 48128}, {16, 48128}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct model rank;
        assert_int_equal(model_shard(&whole, cases[i].ranks, &rank, NULL), STATUS_OK);
        assert_rate(compute(&rank, storage_of(FORMAT_BF16), 8, 1).rate, cases[i].bytes, 1);
    }
    const struct model latent = load("deepseek-v3.2");
    struct model rank;
    assert_int_equal(model_shard(&latent, 8, &rank, NULL), STATUS_OK);
    assert_rate(compute(&rank, storage_of(FORMAT_BF16), 8, 1).kv_rate, 70272, 1);
}

static void test_windows(void **state) {
    (void)state;
    const struct model gemma = load("gemma-4-31b");
    struct formula_storage storage = storage_of(FORMAT_BF16);
    const uint64_t token = 50 * 16 * 512 * 2;
    assert_int_equal(compute(&gemma, storage, 1, 1).fixed_bytes_per_seq, token);
    assert_int_equal(compute(&gemma, storage, 1023, 1).fixed_bytes_per_seq, 1023 * token);
    assert_int_equal(compute(&gemma, storage, 1025, 1).fixed_bytes_per_seq, 1024 * token);
    storage.window_as_full = true;
    const struct formula_result full = compute(&gemma, storage, 4096, 1);
    /* llama.cpp --swa-full adds 819,200 bytes a token (published.json, observations). */
    assert_rate(full.rate, 81920 + 819200, 1);
    assert_int_equal(full.fixed_bytes_per_seq, 0);
    assert_int_equal(full.seq_bytes, 4096ull * (81920 + 819200));
    /* K and V in one row: still one row for each KV head. */
    struct model one_row = load("4x64w100/g2x3l");
    one_row.groups[0].v_dim = 0;
    storage.window_as_full = false;
    assert_int_equal(compute(&one_row, storage, 7, 1).seq_bytes, 7 * 3 * 4 * 64 * 2);
    struct formula_paged paged;
    assert_int_equal(formula_paged_compute(&one_row, &storage, 16, 16, &paged, NULL), STATUS_OK);
    assert_int_equal(paged.tail_bytes + paged.alignment_bytes, 0);
}

static void test_states(void **state) {
    (void)state;
    const struct model kimi = load("kimi-k3");
    struct formula_storage storage = storage_of(FORMAT_BF16);
    const uint64_t values = 69ull * 96 * 128 * 128, conv = 69ull * 36864 * 3 * 2;
    assert_int_equal(compute(&kimi, storage, 7, 1).fixed_bytes_per_seq, values * 4 + conv);
    storage.state_value_bytes = 2;
    assert_int_equal(compute(&kimi, storage, 7, 1).fixed_bytes_per_seq, values * 2 + conv);
    /* Convolution columns have their own type, whatever K and V are stored in. */
    storage.k_format = storage.v_format = FORMAT_FP8_E4M3;
    assert_int_equal(compute(&kimi, storage, 7, 1).fixed_bytes_per_seq, values * 2 + conv);
}

static void test_pooled_entries_count_when_whole(void **state) {
    (void)state;
    const struct model model = load("deepseek-v4-flash");
    const struct formula_storage storage = storage_of(FORMAT_BF16);
    const uint64_t window = 43 * 1024;
    assert_int_equal(compute(&model, storage, 3, 1).seq_bytes, 3 * window);
    assert_int_equal(compute(&model, storage, 4, 1).seq_bytes, 4 * window + 21 * (1024 + 256));
    assert_int_equal(compute(&model, storage, 127, 1).seq_bytes,
                     127 * window + 31 * 21 * (1024 + 256));
    assert_int_equal(compute(&model, storage, 128, 1).seq_bytes,
                     128 * window + 32 * 21 * (1024 + 256) + 20 * 1024);
}

static void test_the_ends_of_64_bits(void **state) {
    (void)state;
    const struct model model = load("1x1"); /* 4 bytes a token in bf16 */
    const struct formula_storage storage = storage_of(FORMAT_BF16);
    const uint64_t most = UINT64_MAX / 4;
    assert_int_equal(compute(&model, storage, most, 1).total_bytes, 4 * most);
    assert_refused(&model, storage, most + 1, STATUS_OVERFLOW, "64 bits");
    assert_refused(&model, storage, UINT64_MAX, STATUS_OVERFLOW, "1x1");
    struct formula_result result;
    assert_int_equal(formula_compute(&model, &storage, 1ull << 31, 1ull << 31, &result, NULL),
                     STATUS_OVERFLOW);
    assert_int_equal(compute(&model, storage, 1ull << 31, (1ull << 31) - 1).total_bytes,
                     (1ull << 33) * ((1ull << 31) - 1));
    struct model wide = load("qwen3.8-27b");
    wide.groups[1].heads = wide.groups[1].state_rows = wide.groups[1].state_cols = UINT32_MAX;
    assert_refused(&wide, storage, 1, STATUS_OVERFLOW, "64 bits");
}

/* formula_max_*: the answer fits, one more does not. */
static void test_most_that_fits_a_budget(void **state) {
    (void)state;
    static const uint64_t budgets[] = {1, 4096, 1000000000, 34359738368, UINT64_MAX};
    for (size_t i = 0; i < model_source_count(); i++) {
        const struct model model = load(model_source_name(i));
        const struct formula_storage storage = storage_of(FORMAT_FP8_E4M3);
        for (size_t b = 0; b < sizeof budgets / sizeof budgets[0]; b++) {
            uint64_t tokens, seqs;
            struct formula_result at, past = {0};
            assert_int_equal(formula_max_tokens(&model, &storage, 3, budgets[b], &tokens, NULL),
                             STATUS_OK);
            assert_int_equal(formula_compute(&model, &storage, tokens, 3, &at, NULL), STATUS_OK);
            if (tokens > 0)
                assert_true(at.total_bytes <= budgets[b]);
            const enum status beyond =
                formula_compute(&model, &storage, tokens + 1, 3, &past, NULL);
            assert_true(beyond == STATUS_OVERFLOW || past.total_bytes > budgets[b]);
            assert_int_equal(formula_max_seqs(&model, &storage, 5000, budgets[b], &seqs, NULL),
                             STATUS_OK);
            const uint64_t one = compute(&model, storage, 5000, 1).seq_bytes;
            assert_true(seqs * one <= budgets[b] && budgets[b] - seqs * one < one);
        }
    }
    const struct model window = load("2x64w128"); /* 512 bytes a token, 128 at most */
    uint64_t tokens;
    const struct formula_storage storage = storage_of(FORMAT_BF16);
    assert_int_equal(formula_max_tokens(&window, &storage, 1, 65536, &tokens, NULL), STATUS_OK);
    assert_true(tokens == UINT64_MAX);
    assert_int_equal(formula_max_tokens(&window, &storage, 1, 65535, &tokens, NULL), STATUS_OK);
    assert_int_equal(tokens, 127);
}

static void test_whole_pages(void **state) {
    (void)state;
    const struct formula_storage bf16 = storage_of(FORMAT_BF16);
    struct formula_paged paged;
    const struct model model = load("2x64x3l"); /* 512 bytes a token and layer */
    assert_int_equal(formula_paged_compute(&model, &bf16, 17, 16, &paged, NULL), STATUS_OK);
    assert_int_equal(paged.seq_bytes, 3 * 2 * 16 * 512);
    assert_int_equal(paged.tail_bytes, 3 * 15 * 512);
    assert_int_equal(paged.alignment_bytes, 0);
    /* 1 x 16 in nvfp4: 9 + 9 bytes a token; K values at 0, V values at 32, scales from 64 to 70,
     * and the page ends on 16. */
    const struct model small = load("1x16");
    const struct formula_storage nvfp4 = storage_of(FORMAT_NVFP4);
    assert_int_equal(formula_paged_compute(&small, &nvfp4, 3, 3, &paged, NULL), STATUS_OK);
    assert_int_equal(paged.seq_bytes, 80);
    assert_int_equal(paged.tail_bytes, 0);
    assert_int_equal(paged.alignment_bytes, 80 - 54);
    /* The last 128 of 200 tokens are 72 to 199: 9 pages of 16, 16 slots of them without a use. */
    const struct model window = load("2x64w128");
    assert_int_equal(formula_paged_compute(&window, &bf16, 200, 16, &paged, NULL), STATUS_OK);
    assert_int_equal(paged.seq_bytes, 9 * 16 * 512);
    assert_int_equal(paged.tail_bytes, 16 * 512);
    /* Pages of records have vLLM's strides: 64 entries of 584 bytes take 37440, two of them 1728; a
     * page of keys, 64 x 132, has no padding (formats.md, E11 and E15). 256 tokens are 64 entries
     * of four or two of 128; the window's 128 last rows are two pages of 64. */
    const struct model v4 = load("deepseek-v4-flash");
    const struct formula_storage record = storage_of(FORMAT_FP8_DS_MLA_584);
    assert_int_equal(formula_paged_compute(&v4, &record, 256, 64, &paged, NULL), STATUS_OK);
    assert_int_equal(paged.seq_bytes, 21 * (37440 + 8448) + 20 * 37440 + 43 * 2 * 37440);
    assert_int_equal(paged.tail_bytes, 20 * 62 * 584);
    assert_int_equal(paged.alignment_bytes, (21 + 20 + 43 * 2) * 64);
    assert_int_equal(formula_paged_compute(&v4, &record, 256, 2, &paged, NULL), STATUS_OK);
    assert_int_equal(paged.seq_bytes, 21 * 32 * (1728 + 272) + 20 * 1728 + 43 * 64 * 1728);
    struct status_text text = {""};
    assert_int_equal(formula_paged_compute(&model, &bf16, 17, 0, &paged, &text), STATUS_BAD_INPUT);
    assert_non_null(strstr(text.line, "page"));
}

/* What holds whatever the model, the format, the length and the page. */
static void check_laws(const struct model *model, struct formula_storage storage, uint64_t tokens) {
    static const uint32_t pages[] = {1, 16, 17, 544};
    struct formula_result result;
    if (formula_compute(model, &storage, tokens, 5, &result, NULL) != STATUS_OK)
        fail_msg("%s refuses %s", model->name, format_get(storage.k_format)->name);
    uint64_t growing = 0, fixed = 0;
    for (uint32_t g = 0; g < result.group_count; g++) {
        const struct formula_group *group = &result.groups[g];
        growing += group->kv_bytes + group->index_bytes;
        fixed += group->window_bytes + group->state_bytes + group->conv_bytes;
    }
    assert_int_equal(result.fixed_bytes_per_seq, fixed);
    assert_int_equal(result.seq_bytes, growing + fixed);
    assert_int_equal(result.total_bytes, 5 * (growing + fixed));
    /* A rate times tokens is the growing part, up to one unfinished entry of each group. */
    const double rate = formula_rate_value(result.kv_rate) + formula_rate_value(result.index_rate);
    assert_true(rate == formula_rate_value(result.rate));
    if (tokens % 128 == 0)
        assert_true(rate * (double)tokens == (double)growing);
    else
        assert_true(rate * (double)tokens >= (double)growing);
    for (size_t p = 0; p < sizeof pages / sizeof pages[0]; p++) {
        struct formula_paged paged;
        assert_int_equal(formula_paged_compute(model, &storage, tokens, pages[p], &paged, NULL),
                         STATUS_OK);
        assert_int_equal(paged.seq_bytes,
                         result.seq_bytes + paged.tail_bytes + paged.alignment_bytes);
        if (pages[p] == 1)
            assert_int_equal(paged.tail_bytes, 0);
    }
}

static void test_laws_of_every_model_and_format(void **state) {
    (void)state;
    static const uint64_t lengths[] = {1, 100, 127, 128, 1000, 4096, 131072};
    for (size_t i = 0; i < model_source_count(); i++) {
        const struct model model = load(model_source_name(i));
        for (int f = 0; f < FORMAT_COUNT; f++)
            for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++) {
                struct formula_storage storage = storage_of((enum format_id)f);
                check_laws(&model, storage, lengths[l]);
                storage.window_as_full = true;
                check_laws(&model, storage, lengths[l]);
            }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_deepseek_v4_1_flash),
        cmocka_unit_test(test_records_replace_rows),
        cmocka_unit_test(test_records_that_do_not_fit_are_refused_by_name),
        cmocka_unit_test(test_formats_that_do_not_fit_are_refused),
        cmocka_unit_test(test_each_index_format),
        cmocka_unit_test(test_one_rank_of_several),
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_states),
        cmocka_unit_test(test_pooled_entries_count_when_whole),
        cmocka_unit_test(test_the_ends_of_64_bits),
        cmocka_unit_test(test_most_that_fits_a_budget),
        cmocka_unit_test(test_whole_pages),
        cmocka_unit_test(test_laws_of_every_model_and_format),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
