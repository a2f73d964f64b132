/* Page geometry: offsets worked out by hand, and for all formats that rows never overlap, planes
 * are aligned where promised, and what cannot be planned is refused with a reason. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "page.h"

#define FOR_EVERY_FORMAT(id)                                                                       \
    for (enum format_id id = (enum format_id)0; id < FORMAT_COUNT; id = (enum format_id)(id + 1))

static struct page_shape shape_of(uint32_t kv_heads, uint32_t page_tokens, uint32_t k_dim,
                                  uint32_t v_dim, bool v_in_k, enum format_id k_format,
                                  enum format_id v_format) {
    return (struct page_shape){.kv_heads = kv_heads,
                               .page_tokens = page_tokens,
                               .k_dim = k_dim,
                               .v_dim = v_dim,
                               .v_in_k = v_in_k,
                               .k_format = k_format,
                               .v_format = v_format};
}

static struct page_layout plan(struct page_shape shape) {
    struct page_layout layout;
    struct status_text text = {""};
    if (page_plan(&shape, &layout, &text) != STATUS_OK)
        fail_msg("refused: %s", text.line);
    return layout;
}

/* vLLM's page sizes for 8 heads of 128 and 16 tokens: formats.md 2.1 and E16. */
static void test_published_page_sizes(void **state) {
    (void)state;
    const struct page_shape bf16 = shape_of(8, 16, 128, 128, false, FORMAT_BF16, FORMAT_BF16);
    const struct page_shape fp8 =
        shape_of(8, 16, 128, 128, false, FORMAT_FP8_E4M3, FORMAT_FP8_E4M3);
    const struct page_shape nvfp4 = shape_of(8, 16, 128, 128, false, FORMAT_NVFP4, FORMAT_NVFP4);
    const struct page_shape latent = shape_of(1, 64, 576, 512, true, FORMAT_BF16, FORMAT_BF16);
    assert_int_equal(plan(bf16).stride_bytes, 65536);
    assert_int_equal(plan(fp8).stride_bytes, 32768);
    assert_int_equal(plan(nvfp4).stride_bytes, 18432);
    assert_int_equal(plan(latent).stride_bytes, 64 * 1152);
    assert_int_equal(plan(latent).padding_bytes, 0);
}

/* 2 heads, 3 tokens, K 32 values of nvfp4 and V 64 values of q8_0:
 * K values 6 rows x 16 = 96; V values 6 x 64 = 384 from 96; scales from 480: K 6 x 2 = 12,
 * V 6 x 4 = 24 from 492; 516 used, 528 with padding. */
static void test_offsets_by_hand(void **state) {
    (void)state;
    const struct page_layout layout =
        plan(shape_of(2, 3, 32, 64, false, FORMAT_NVFP4, FORMAT_Q8_0));
    assert_int_equal(layout.k.values_offset_bytes, 0);
    assert_int_equal(layout.v.values_offset_bytes, 96);
    assert_int_equal(layout.k.scales_offset_bytes, 480);
    assert_int_equal(layout.v.scales_offset_bytes, 492);
    assert_int_equal(layout.k.row_payload_bytes, 16);
    assert_int_equal(layout.k.row_scale_bytes, 2);
    assert_int_equal(layout.v.row_payload_bytes, 64);
    assert_int_equal(layout.v.row_scale_bytes, 4);
    assert_int_equal(layout.payload_bytes, 516);
    assert_int_equal(layout.padding_bytes, 12);
    assert_int_equal(layout.stride_bytes, 528);
    struct page_place place = page_locate(&layout.k, 3, 1, 2); /* row 5 */
    assert_int_equal(place.payload_bytes, 80);
    assert_int_equal(place.scale_bytes, 490);
    place = page_locate(&layout.v, 3, 1, 0); /* row 3 */
    assert_int_equal(place.payload_bytes, 96 + 192);
    assert_int_equal(place.scale_bytes, 492 + 12);
}

/* One token of 8 values of fp8: the V plane starts on 16 though K ends at 8. */
static void test_value_planes_are_aligned_apart(void **state) {
    (void)state;
    const struct page_layout layout =
        plan(shape_of(1, 1, 8, 8, false, FORMAT_FP8_E4M3, FORMAT_FP8_E4M3));
    assert_int_equal(layout.v.values_offset_bytes, 16);
    assert_int_equal(layout.stride_bytes, 32);
    assert_int_equal(layout.payload_bytes, 16);
    assert_int_equal(layout.padding_bytes, 16);
}

/* 2 heads x 2 tokens x 32 values of q8_0_ggml: whole blocks of 34 bytes, no scale plane. */
static void test_ggml_blocks_stay_whole(void **state) {
    (void)state;
    const struct page_layout layout =
        plan(shape_of(2, 2, 32, 32, false, FORMAT_Q8_0_GGML, FORMAT_Q8_0_GGML));
    assert_int_equal(layout.k.row_payload_bytes, 34);
    assert_int_equal(layout.k.row_scale_bytes, 0);
    assert_int_equal(page_locate(&layout.k, 2, 1, 1).payload_bytes, 3 * 34);
    assert_int_equal(layout.v.values_offset_bytes, 144); /* 136 rounded up */
    assert_int_equal(layout.stride_bytes, 288);          /* 280 rounded up */
}

static void test_one_row_serves_as_both(void **state) {
    (void)state;
    const struct page_layout layout =
        plan(shape_of(1, 17, 576, 512, true, FORMAT_MXFP4, FORMAT_MXFP4));
    assert_memory_equal(&layout.k, &layout.v, sizeof layout.k);
    assert_int_equal(layout.k.scales_offset_bytes, 17 * 288);
    assert_int_equal(layout.payload_bytes, 17 * (288 + 18));
    assert_int_equal(layout.stride_bytes, 5216); /* 5202 rounded up */
}

/* Marks `count` bytes as owned; they must not have been. */
static void claim(uint8_t *owned, const struct page_layout *layout, uint64_t first,
                  uint32_t count) {
    assert_true(first + count <= layout->stride_bytes);
    for (uint32_t i = 0; i < count; i++) {
        if (owned[first + i] != 0)
            fail_msg("%s/%s, %u tokens: byte %llu belongs to two rows",
                     format_get(layout->shape.k_format)->name,
                     format_get(layout->shape.v_format)->name, layout->shape.page_tokens,
                     (unsigned long long)(first + i));
        owned[first + i] = 1;
    }
}

static void claim_plane(uint8_t *owned, const struct page_layout *layout,
                        const struct page_plane *plane) {
    for (uint32_t head = 0; head < layout->shape.kv_heads; head++) {
        for (uint32_t token = 0; token < layout->shape.page_tokens; token++) {
            const struct page_place place =
                page_locate(plane, layout->shape.page_tokens, head, token);
            claim(owned, layout, place.payload_bytes, plane->row_payload_bytes);
            claim(owned, layout, place.scale_bytes, plane->row_scale_bytes);
        }
    }
}

static void check_layout(struct page_shape shape) {
    const struct page_layout layout = plan(shape);
    assert_int_equal(layout.k.values_offset_bytes % PAGE_ALIGNMENT_BYTES, 0);
    assert_int_equal(layout.v.values_offset_bytes % PAGE_ALIGNMENT_BYTES, 0);
    assert_int_equal(layout.k.scales_offset_bytes % PAGE_ALIGNMENT_BYTES, 0);
    assert_int_equal(layout.stride_bytes % PAGE_ALIGNMENT_BYTES, 0);
    assert_true(layout.padding_bytes < 3 * PAGE_ALIGNMENT_BYTES);

    uint8_t *owned = calloc(layout.stride_bytes, 1);
    assert_non_null(owned);
    claim_plane(owned, &layout, &layout.k);
    if (!shape.v_in_k)
        claim_plane(owned, &layout, &layout.v);
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < layout.stride_bytes; i++)
        bytes += owned[i];
    free(owned);
    const uint64_t rows = (uint64_t)shape.kv_heads * shape.page_tokens;
    assert_int_equal(bytes, layout.payload_bytes);
    assert_int_equal(bytes, layout.stride_bytes - layout.padding_bytes);
    assert_int_equal(bytes,
                     rows * (format_row_bytes(shape.k_format, shape.k_dim) +
                             (shape.v_in_k ? 0 : format_row_bytes(shape.v_format, shape.v_dim))));
}

static void test_rows_never_overlap(void **state) {
    (void)state;
    static const uint32_t page_tokens[] = {1, 16, 17, 544};
    FOR_EVERY_FORMAT(k) {
        for (size_t t = 0; t < sizeof page_tokens / sizeof page_tokens[0]; t++) {
            FOR_EVERY_FORMAT(v)
            check_layout(shape_of(3, page_tokens[t], 96, 64, false, k, v));
            check_layout(shape_of(1, page_tokens[t], 576, 512, true, k, k));
        }
    }
}

/* A dim that does not fit is refused by name, with dims that do. */
static void test_refused_dims_say_which_work(void **state) {
    (void)state;
    struct page_layout layout;
    struct status_text text = {""};
    memset(&layout, 0x5A, sizeof layout);
    const struct page_layout untouched = layout;
    const struct page_shape k80 = shape_of(8, 16, 80, 128, false, FORMAT_Q8_0, FORMAT_BF16);
    assert_int_equal(page_plan(&k80, &layout, &text), STATUS_REFUSED);
    static const char *const words[] = {"q8_0", "K", "80", "64", "96", "multiple of 32"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        assert_non_null(strstr(text.line, words[i]));

    const struct page_shape v24 = shape_of(8, 16, 128, 24, false, FORMAT_BF16, FORMAT_NVFP4);
    assert_int_equal(page_plan(&v24, &layout, &text), STATUS_REFUSED);
    assert_non_null(strstr(text.line, "nvfp4 cannot hold V rows of 24"));
    assert_non_null(strstr(text.line, "16 or 32"));
    assert_memory_equal(&layout, &untouched, sizeof layout);
    assert_int_equal(page_plan(&v24, &layout, NULL), STATUS_REFUSED); /* nobody listens */

    /* below one scale there is a single one, and the last of 32 bits has none above it */
    static const struct {
        uint32_t dim;
        const char *words;
    } edges[] = {{1, "(32 would do)"},
                 {31, "(32 would do)"},
                 {33, "(32 or 64 would do)"},
                 {UINT32_MAX, "(4294967264 would do)"}};
    for (size_t i = 0; i < sizeof edges / sizeof edges[0]; i++) {
        const struct page_shape edge =
            shape_of(1, 1, edges[i].dim, 32, false, FORMAT_Q8_0, FORMAT_Q8_0);
        assert_int_equal(page_plan(&edge, &layout, &text), STATUS_REFUSED);
        if (strstr(text.line, edges[i].words) == NULL)
            fail_msg("%s", text.line);
    }

    FOR_EVERY_FORMAT(id) {
        const struct page_shape shape = shape_of(1, 1, 80, 80, false, id, id);
        const enum status expected = format_fits(id, 80) ? STATUS_OK : STATUS_REFUSED;
        assert_int_equal(page_plan(&shape, &layout, &text), expected);
    }
}

static void test_zero_sizes_are_bad_input(void **state) {
    (void)state;
    const struct page_shape shapes[] = {
        shape_of(0, 16, 128, 128, false, FORMAT_BF16, FORMAT_BF16),
        shape_of(8, 0, 128, 128, false, FORMAT_BF16, FORMAT_BF16),
        shape_of(8, 16, 0, 128, false, FORMAT_BF16, FORMAT_BF16),
        shape_of(8, 16, 128, 0, false, FORMAT_BF16, FORMAT_BF16),
        shape_of(1, 16, 512, 576, true, FORMAT_BF16,
                 FORMAT_BF16), /* V longer than the row it is in */
    };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        struct page_layout layout;
        struct status_text text = {""};
        assert_int_equal(page_plan(&shapes[i], &layout, &text), STATUS_BAD_INPUT);
        assert_true(text.line[0] != '\0');
    }
}

/* 2^32 - 1 heads x tokens, and rows of 2^32 - 2 bytes: more than 2^64. */
static void test_overflow_is_refused(void **state) {
    (void)state;
    struct page_layout layout;
    struct status_text text = {""};
    const struct page_shape huge =
        shape_of(UINT32_MAX, UINT32_MAX, 1u << 30, 1u << 30, false, FORMAT_BF16, FORMAT_BF16);
    assert_int_equal(page_plan(&huge, &layout, &text), STATUS_OVERFLOW);
    assert_non_null(strstr(text.line, "4294967295"));
    /* each plane fits, their sum does not */
    const struct page_shape sum =
        shape_of(UINT32_MAX, UINT32_MAX, 1, 1, false, FORMAT_FP8_E4M3, FORMAT_FP8_E4M3);
    assert_int_equal(page_plan(&sum, &layout, &text), STATUS_OVERFLOW);
    const struct page_shape half =
        shape_of(UINT32_MAX, UINT32_MAX / 2, 1, 1, false, FORMAT_FP8_E4M3, FORMAT_FP8_E4M3);
    assert_int_equal(page_plan(&half, &layout, &text), STATUS_OK);
    assert_true(layout.stride_bytes > (UINT64_MAX >> 1) - (1ull << 35));
    const struct page_place last =
        page_locate(&layout.v, half.page_tokens, UINT32_MAX - 1, half.page_tokens - 1);
    assert_true(last.payload_bytes < layout.stride_bytes);
    assert_true(last.payload_bytes > layout.v.values_offset_bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published_page_sizes),
        cmocka_unit_test(test_offsets_by_hand),
        cmocka_unit_test(test_value_planes_are_aligned_apart),
        cmocka_unit_test(test_ggml_blocks_stay_whole),
        cmocka_unit_test(test_one_row_serves_as_both),
        cmocka_unit_test(test_rows_never_overlap),
        cmocka_unit_test(test_refused_dims_say_which_work),
        cmocka_unit_test(test_zero_sizes_are_bad_input),
        cmocka_unit_test(test_overflow_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
