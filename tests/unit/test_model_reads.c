/* Which group and which layer reads what, rule by rule. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "model_reads.h"

static struct model_group group(enum model_kind kind, uint32_t layers, uint32_t read_by_layers,
                                uint32_t tokens_per_entry) {
    return (struct model_group){.kind = kind,
                                .layers = layers,
                                .read_by_layers = read_by_layers,
                                .tokens_per_entry = tokens_per_entry};
}

/* DeepSeek-V4: entries of 4 tokens are chosen among, those of 128 and the windows are not. */
static void test_entries_and_their_index(void **state) {
    (void)state;
    const struct model model = {
        .group_count = 4,
        .groups = {group(MODEL_COMPRESSED, 21, 21, 4), group(MODEL_COMPRESSED, 20, 20, 128),
                   group(MODEL_WINDOW, 43, 43, 0), group(MODEL_INDEX, 21, 21, 4)}};
    assert_int_equal(model_reads_index_of(&model, 0), 3);
    assert_int_equal(model_reads_index_of(&model, 1), MODEL_READS_NONE);
    assert_int_equal(model_reads_index_of(&model, 2), MODEL_READS_NONE);
    assert_int_equal(model_reads_sparse_readers(&model, 0), 21);
    assert_int_equal(model_reads_sparse_readers(&model, 1), 0);
    for (uint32_t reader = 0; reader < 21; reader++) {
        assert_int_equal(model_reads_index_layer(&model, 0, reader), reader);
        assert_int_equal(model_reads_index_layer(&model, 1, 0), MODEL_READS_NONE);
    }
    assert_int_equal(model_reads_tokens_per_row(&model.groups[0]), 4);
    assert_int_equal(model_reads_tokens_per_row(&model.groups[2]), 1);
    assert_int_equal(model_reads_tokens_per_row(&model.groups[3]), 4);
}

/* DeepSeek-V4.1: three owners of each, and 18 layers that read both. */
static void test_as_many_owners_serve_every_reader(void **state) {
    (void)state;
    const struct model model = {
        .group_count = 4,
        .groups = {group(MODEL_COMPRESSED, 3, 18, 2), group(MODEL_COMPRESSED, 1, 20, 1),
                   group(MODEL_INDEX, 3, 3, 2), group(MODEL_INDEX, 1, 1, 1)}};
    assert_int_equal(model_reads_index_of(&model, 0), 2);
    assert_int_equal(model_reads_index_of(&model, 1), 3);
    assert_int_equal(model_reads_sparse_readers(&model, 0), 18);
    assert_int_equal(model_reads_sparse_readers(&model, 1), 20);
    for (uint32_t reader = 0; reader < 18; reader++) {
        assert_int_equal(model_reads_layer(&model.groups[0], reader), reader / 6);
        assert_int_equal(model_reads_index_layer(&model, 0, reader), reader / 6);
    }
    assert_int_equal(model_reads_index_layer(&model, 1, 19), 0);
}

/* Shared indexers (deepseek_v32): 4 layers keep keys, all 10 read what they choose. */
static void test_shared_indexers(void **state) {
    (void)state;
    const struct model model = {
        .group_count = 2, .groups = {group(MODEL_LATENT, 10, 10, 0), group(MODEL_INDEX, 4, 10, 1)}};
    assert_int_equal(model_reads_sparse_readers(&model, 0), 10);
    uint32_t before = 0;
    for (uint32_t reader = 0; reader < 10; reader++) {
        const uint32_t layer = model_reads_index_layer(&model, 0, reader);
        assert_true(layer < 4 && layer >= before);
        before = layer;
    }
    assert_int_equal(before, 3);
    /* more layers say they read the keys than read the rows: there are no more than those */
    const struct model more = {
        .group_count = 2, .groups = {group(MODEL_LATENT, 10, 12, 0), group(MODEL_INDEX, 4, 20, 1)}};
    assert_int_equal(model_reads_sparse_readers(&more, 0), 12);
    assert_int_equal(model_reads_index_layer(&more, 0, 0), 0);
    assert_int_equal(model_reads_index_layer(&more, 0, 11), 3);
}

/* minimax_m3: three of sixty layers keep no keys and read everything; they are the first. */
static void test_dense_layers_first(void **state) {
    (void)state;
    const struct model model = {
        .group_count = 2, .groups = {group(MODEL_INDEX, 57, 57, 1), group(MODEL_FULL, 60, 60, 0)}};
    assert_int_equal(model_reads_index_of(&model, 1), 0);
    assert_int_equal(model_reads_sparse_readers(&model, 1), 57);
    for (uint32_t reader = 0; reader < 60; reader++)
        assert_int_equal(model_reads_index_layer(&model, 1, reader),
                         reader < 3 ? (uint32_t)MODEL_READS_NONE : reader - 3);
}

/* Two groups could be meant: the one with as many layers is; windows and other entries never. */
static void test_nearest_in_number(void **state) {
    (void)state;
    const struct model model = {
        .group_count = 5,
        .groups = {group(MODEL_FULL, 40, 40, 0), group(MODEL_LATENT, 9, 9, 0),
                   group(MODEL_WINDOW, 8, 8, 0), group(MODEL_INDEX, 8, 8, 1),
                   group(MODEL_INDEX, 8, 8, 4)}};
    assert_int_equal(model_reads_index_of(&model, 0), MODEL_READS_NONE);
    assert_int_equal(model_reads_index_of(&model, 1), 3);
    assert_int_equal(model_reads_index_of(&model, 2), MODEL_READS_NONE);
}

static void test_what_no_source_gives(void **state) {
    (void)state;
    struct model_group index = group(MODEL_INDEX, 1, 1, 1);
    assert_int_equal(model_reads_top_k(&index), 2048);
    assert_int_equal(model_reads_index_heads(&index), 64);
    index.top_k = 512;
    index.query_heads = 32;
    assert_int_equal(model_reads_top_k(&index), 512);
    assert_int_equal(model_reads_index_heads(&index), 32);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_entries_and_their_index),
        cmocka_unit_test(test_as_many_owners_serve_every_reader),
        cmocka_unit_test(test_shared_indexers),
        cmocka_unit_test(test_dense_layers_first),
        cmocka_unit_test(test_nearest_in_number),
        cmocka_unit_test(test_what_no_source_gives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
