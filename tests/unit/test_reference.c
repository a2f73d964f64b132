/* The judge judged: cases with answers known in closed form, and what it must reject. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reference.h"

enum { DIM = 32, PAGE_TOKENS = 3, PAGES = 4, TOKENS = 8, HEADS = 2 };

/* A bf16 cache of 8 tokens on pages 2, 0, 3; K is `scale` times the unit vector of the token's
 * own channel, V is the token's number plus a tenth of the channel's. */
struct cache {
    struct page_layout page;
    int32_t table[3];
    uint8_t *pages;
    float k[TOKENS * HEADS * DIM], v[TOKENS * HEADS * DIM];
};

static void store(struct cache *cache, const struct page_plane *plane, uint32_t token,
                  uint32_t head, const float *row) {
    uint8_t *page =
        cache->pages + (uint64_t)cache->table[token / PAGE_TOKENS] * cache->page.stride_bytes;
    const struct page_place at = page_locate(plane, PAGE_TOKENS, head, token % PAGE_TOKENS);
    format_encode_row(FORMAT_BF16, row, DIM, 1, page + at.payload_bytes, NULL, NULL);
}

static void make_cache(struct cache *cache, float scale) {
    const struct page_shape shape = {.kv_heads = HEADS,
                                     .page_tokens = PAGE_TOKENS,
                                     .k_dim = DIM,
                                     .v_dim = DIM,
                                     .k_format = FORMAT_BF16,
                                     .v_format = FORMAT_BF16};
    *cache = (struct cache){.table = {2, 0, 3}};
    assert_int_equal(page_plan(&shape, &cache->page, NULL), STATUS_OK);
    cache->pages = malloc(PAGES * cache->page.stride_bytes);
    assert_non_null(cache->pages);
    memset(cache->pages, 0xFF, PAGES * cache->page.stride_bytes);
    for (uint32_t t = 0; t < TOKENS; t++)
        for (uint32_t h = 0; h < HEADS; h++) {
            float *k = cache->k + (t * HEADS + h) * DIM, *v = cache->v + (t * HEADS + h) * DIM;
            k[t] = scale;
            for (uint32_t i = 0; i < DIM; i++)
                v[i] = (float)(t + 10 * h) + 0.125f * (float)i;
            store(cache, &cache->page.k, t, h, k);
            store(cache, &cache->page.v, t, h, v);
        }
}

static struct reference_view view_of(const struct cache *cache) {
    return (struct reference_view){.page = &cache->page,
                                   .pages = cache->pages,
                                   .page_table = cache->table,
                                   .page_table_columns = 3,
                                   .k_tensor_scale = 1,
                                   .v_tensor_scale = 1,
                                   .exact_k = cache->k,
                                   .exact_v = cache->v,
                                   .exact_rows = TOKENS};
}

static void test_known_weights(void **state) {
    (void)state;
    struct cache cache;
    make_cache(&cache, 1);
    const struct reference_view view = view_of(&cache);
    double scratch[2 * DIM + TOKENS + 1], out[DIM];
    /* a query of zeros: the mean of V */
    float query[DIM] = {0};
    reference_attend(&view, 1, query, 0.5f, NULL, 0, TOKENS, scratch, out);
    for (uint32_t i = 0; i < DIM; i++)
        assert_true(fabs(out[i] - (13.5 + 0.125 * i)) < 1e-12);
    /* part of the tokens: 2, 3 and 4, across a page's edge */
    reference_attend(&view, 0, query, 0.5f, NULL, 2, 3, scratch, out);
    for (uint32_t i = 0; i < DIM; i++)
        assert_true(fabs(out[i] - (3 + 0.125 * i)) < 1e-12);
    /* scores ln 2 apart: token 5 weighs twice each other one */
    query[5] = 2;
    reference_attend(&view, 0, query, (float)(log(2) / 2), NULL, 0, TOKENS, scratch, out);
    const double w = exp(2 * (double)(float)(log(2) / 2));
    assert_true(fabs(out[0] - (23 + 5 * w) / (7 + w)) < 1e-12);
    /* a sink of logit 0 is one more token without a V */
    const float sink = 0;
    query[5] = 0;
    reference_attend(&view, 0, query, 0.5f, &sink, 0, TOKENS, scratch, out);
    assert_true(fabs(out[0] - 28.0 / 9) < 1e-12);
    free(cache.pages);
}

/* Scores that would overflow exp, a sink far above them, and nothing at all. */
static void test_extremes(void **state) {
    (void)state;
    struct cache cache;
    make_cache(&cache, 32768);
    const struct reference_view view = view_of(&cache);
    double scratch[2 * DIM + TOKENS + 1], out[DIM];
    float query[DIM] = {0};
    query[6] = 100;
    reference_attend(&view, 0, query, 1, NULL, 0, TOKENS, scratch, out);
    assert_true(out[0] == 6);
    query[6] = -100;
    reference_attend(&view, 0, query, 1, NULL, 0, TOKENS, scratch, out);
    assert_true(fabs(out[0] - 22.0 / 7) < 1e-12);
    const float sink = 1e30f;
    reference_attend(&view, 0, query, 1, &sink, 0, TOKENS, scratch, out);
    assert_true(out[0] == 0);
    reference_attend(&view, 0, query, 1, NULL, 0, 0, scratch, out);
    for (uint32_t i = 0; i < DIM; i++)
        assert_true(out[i] == 0);
    reference_attend(&view, 0, query, 1, &sink, 0, 0, scratch, out);
    for (uint32_t i = 0; i < DIM; i++)
        assert_true(out[i] == 0);
    /* one token too far is poison */
    reference_attend(&view, 0, query, 1, NULL, 0, TOKENS + 1, scratch, out);
    assert_true(isnan(out[0]));
    free(cache.pages);
}

/* Exact rows take the place of stored ones, K and V apart. */
static void test_exact_rows(void **state) {
    (void)state;
    struct cache cache;
    make_cache(&cache, 1);
    double scratch[2 * DIM + TOKENS + 1], out[DIM];
    float query[DIM] = {0};
    query[7] = 3;
    for (uint32_t i = 0; i < TOKENS * HEADS * DIM; i++)
        cache.v[i] *= 2;
    struct reference_view view = view_of(&cache);
    view.use_exact_v = true;
    reference_attend(&view, 0, query, 0, NULL, 0, TOKENS, scratch, out);
    assert_true(fabs(out[0] - 7) < 1e-12);
    /* rows start at 3: token 4 is the bank's row 7, which is the one that counts */
    view.use_exact_k = true;
    view.use_exact_v = false;
    view.exact_first_row = 3;
    reference_attend(&view, 0, query, 100, NULL, 0, TOKENS, scratch, out);
    assert_true(fabs(out[0] - 4) < 1e-12);
    free(cache.pages);
}

static void test_relative_error(void **state) {
    (void)state;
    const double exact[] = {3, 4}, zeros[] = {0, 0};
    assert_true(reference_relative_error((const float[]){3, 4}, exact, 2) == 0);
    assert_true(fabs(reference_relative_error((const float[]){3, 4.05f}, exact, 2) - 0.01) < 1e-6);
    assert_true(reference_relative_error((const float[]){0, 0}, exact, 2) == 1);
    assert_true(reference_relative_error((const float[]){0, 0}, zeros, 2) == 0);
    assert_true(isinf(reference_relative_error((const float[]){0, 1e-30f}, zeros, 2)));
    assert_true(isinf(reference_relative_error((const float[]){3, NAN}, exact, 2)));
    assert_true(isinf(reference_relative_error((const float[]){INFINITY, 4}, exact, 2)));
}

static void test_bound(void **state) {
    (void)state;
    assert_true(reference_bound("tiled", FORMAT_Q8_0, FORMAT_NVFP4) == 0x1p-10);
    assert_true(reference_bound("tiled", FORMAT_Q8_0, FORMAT_MXFP4) == 0x1p-8);
    assert_true(reference_bound("tiled", FORMAT_BF16, FORMAT_F16) == 0x1p-8);
    assert_true(reference_bound("expand", FORMAT_FP8_E4M3, FORMAT_NVFP4) == 0x1p-10);
    assert_true(reference_bound("expand", FORMAT_MXFP4, FORMAT_BF16) == 0x1p-8);
    assert_true(reference_bound("expand", FORMAT_Q8_0, FORMAT_NVFP4) == 0x1p-6);
    assert_true(reference_bound("expand", FORMAT_F16, FORMAT_Q4_0_GGML) == 0x1p-6);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_weights), cmocka_unit_test(test_extremes),
        cmocka_unit_test(test_exact_rows),    cmocka_unit_test(test_relative_error),
        cmocka_unit_test(test_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
