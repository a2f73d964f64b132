/* Packed records: the pages vLLM has of them, where a value lies in them, and that what is decoded
 * is what the row's own scales say. Their bytes are held to golden vectors by tests/golden. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "format.h"
#include "format_bits.h"
#include "formula.h"
#include "page.h"

#define FOR_EVERY_RECORD(id)                                                                       \
    for (enum format_id id = (enum format_id)(FORMAT_COUNT + 1); id < FORMAT_END;                  \
         id = (enum format_id)(id + 1))

enum { MOST_VALUES = 576, MOST_BYTES = 656 };

static struct page_layout plan(enum format_id id, uint32_t page_tokens) {
    const struct format_info *info = format_get(id);
    const struct page_shape shape = {
        .kv_heads = 1,
        .page_tokens = page_tokens,
        .k_dim = info->group_values,
        .v_dim = info->group_values - info->rope_dim,
        .v_in_k = true,
        .k_format = id,
        .v_format = id,
    };
    struct page_layout layout;
    struct status_text text = {""};
    if (page_plan(&shape, &layout, &text) != STATUS_OK)
        fail_msg("%s: %s", info->name, text.line);
    return layout;
}

static void fill(float *row, uint32_t values) {
    uint32_t state = 12345;
    for (uint32_t i = 0; i < values; i++) {
        state = state * 1664525u + 1013904223u;
        row[i] = ((float)(state >> 8) * 0x1p-23f - 1.0f) * (i % 64 == 5 ? 40.0f : 3.0f);
    }
}

/* formats.md 3 and E11 to E15. Scales follow the values at once, and pages end where vLLM's do. */
static void test_page_strides(void **state) {
    (void)state;
    static const struct {
        enum format_id id;
        uint32_t page_tokens, scales_at, stride;
    } cases[] = {
        {FORMAT_FP8_DS_MLA_656, 64, 0, 64 * 656},   {FORMAT_FP8_DS_MLA_584, 64, 36864, 37440},
        {FORMAT_FP8_DS_MLA_584, 2, 1152, 1728},     {FORMAT_FP8_DS_MLA_584, 128, 73728, 74880},
        {FORMAT_FP8_DS_MLA_528, 64, 32768, 33792},  {FORMAT_FP8_DS_MLA_528, 32, 16384, 16896},
        {FORMAT_NVFP4_DS_MLA_352, 64, 0, 64 * 352}, {FORMAT_NVFP4_DS_MLA_288, 64, 16384, 18432},
        {FORMAT_INDEX_FP8_132, 64, 8192, 8448},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct page_layout layout = plan(cases[i].id, cases[i].page_tokens);
        assert_int_equal(layout.stride_bytes, cases[i].stride);
        if (cases[i].scales_at > 0)
            assert_int_equal(layout.k.scales_offset_bytes, cases[i].scales_at);
        assert_int_equal(layout.payload_bytes,
                         cases[i].page_tokens *
                             format_row_bytes(cases[i].id, format_get(cases[i].id)->group_values));
    }
    /* The 68-byte index key is mxfp4: 64 bytes of codes a key, then 4 of scales. */
    const struct page_shape key = {.kv_heads = 1,
                                   .page_tokens = 64,
                                   .k_dim = 128,
                                   .v_dim = 128,
                                   .v_in_k = true,
                                   .k_format = FORMAT_MXFP4,
                                   .v_format = FORMAT_MXFP4};
    struct page_layout layout;
    assert_int_equal(page_plan(&key, &layout, NULL), STATUS_OK);
    assert_int_equal(layout.stride_bytes, 4352);
    assert_int_equal(page_locate(&layout.k, 64, 0, 5).payload_bytes, 64 * 5);
    assert_int_equal(page_locate(&layout.k, 64, 0, 5).scale_bytes, 4096 + 4 * 5);
}

static void test_a_row_has_one_width_and_serves_as_both(void **state) {
    (void)state;
    FOR_EVERY_RECORD(id) {
        const struct format_info *info = format_get(id);
        struct status_text text = {""};
        struct page_layout layout;
        assert_true(format_is_record(id));
        assert_true(format_fits(id, info->group_values));
        assert_false(format_fits(id, 2 * info->group_values));
        assert_false(format_fits(id, info->group_values / 2));
        assert_false(format_fits(id, 0));
        assert_int_equal(info->group_values, info->latent_dim + info->rope_dim + info->key_dim);
        struct page_shape shape = plan(id, 16).shape;
        shape.v_in_k = false;
        assert_int_equal(page_plan(&shape, &layout, &text), STATUS_REFUSED);
        assert_non_null(strstr(text.line, info->name));
        shape.v_in_k = true;
        shape.k_dim += 32;
        assert_int_equal(page_plan(&shape, &layout, &text), STATUS_REFUSED);
        assert_non_null(strstr(text.line, info->name));
    }
    assert_false(format_is_record(FORMAT_BF16) || format_is_record(FORMAT_COUNT) ||
                 format_is_record(FORMAT_END));
}

/* One value of a row as the facts place it, in double precision. */
static double value_by_facts(enum format_id id, const uint8_t *payload, const uint8_t *scales,
                             uint32_t i) {
    const double e4m3 = (double)format_bits_e4m3_to_f32(payload[i < 512 ? i : 0]);
    const double e2m1 =
        (double)format_bits_e2m1_to_f32((uint32_t)payload[i / 2] >> (i % 2 == 0 ? 0 : 4));
    float scale;
    switch (id) {
    case FORMAT_FP8_DS_MLA_656:
        if (i >= 512)
            return (double)format_bits_bf16_to_f32(
                format_bits_load16(payload + 528 + (size_t)2 * (i - 512)));
        memcpy(&scale, payload + 512 + i / 128 * 4, sizeof scale);
        return e4m3 * (double)scale;
    case FORMAT_FP8_DS_MLA_584:
        if (i >= 448)
            return (double)format_bits_bf16_to_f32(
                format_bits_load16(payload + 448 + (size_t)2 * (i - 448)));
        return ldexp(e4m3, scales[i / 64] - 127);
    case FORMAT_FP8_DS_MLA_528:
        return ldexp(e4m3, scales[i / 32] - 127);
    case FORMAT_NVFP4_DS_MLA_352:
        if (i >= 512)
            return (double)format_bits_e4m3_to_f32(payload[256 + i - 512]);
        return e2m1 * (double)format_bits_e4m3_to_f32(payload[320 + 8 * (i / 16 % 4) + i / 16 / 4]);
    case FORMAT_NVFP4_DS_MLA_288:
        return e2m1 * (double)format_bits_e4m3_to_f32(scales[i / 16]);
    default:
        memcpy(&scale, scales, sizeof scale);
        return e4m3 * (double)scale;
    }
}

static void test_values_are_what_the_bytes_say(void **state) {
    (void)state;
    static float row[MOST_VALUES], decoded[MOST_VALUES];
    static double exact[MOST_VALUES];
    FOR_EVERY_RECORD(id) {
        const uint32_t values = format_get(id)->group_values;
        uint8_t payload[MOST_BYTES], scales[MOST_BYTES];
        fill(row, values);
        format_encode_row(id, row, values, 1.0f, payload, scales, NULL);
        format_decode_row(id, payload, scales, values, 1.0f, decoded);
        format_decode_row_double(id, payload, scales, values, 1.0f, exact);
        for (uint32_t i = 0; i < values; i++) {
            if (exact[i] != value_by_facts(id, payload, scales, i))
                fail_msg("%s: value %u is %.17g", format_get(id)->name, i, exact[i]);
            assert_true(decoded[i] == (float)exact[i]);
            const double part = format_get(id)->value_bits == 8 ? 0x1p-4 : 0.25;
            const double error = fabs(exact[i] - (double)row[i]);
            if (error > part * (i / 64 * 64 + 5 < values ? 40.0 : 3.0))
                fail_msg("%s: %.9g comes back as %.9g", format_get(id)->name, (double)row[i],
                         exact[i]);
        }
    }
}

static void test_rewriting_changes_nothing(void **state) {
    (void)state;
    static float row[MOST_VALUES], once[MOST_VALUES], twice[MOST_VALUES];
    FOR_EVERY_RECORD(id) {
        const uint32_t values = format_get(id)->group_values;
        uint8_t payload[MOST_BYTES], scales[MOST_BYTES];
        fill(row, values);
        format_encode_row(id, row, values, 1.0f, payload, scales, NULL);
        format_decode_row(id, payload, scales, values, 1.0f, once);
        format_encode_row(id, once, values, 1.0f, payload, scales, NULL);
        format_decode_row(id, payload, scales, values, 1.0f, twice);
        for (uint32_t i = 0; i < values; i++)
            if (once[i] != twice[i])
                fail_msg("%s: %.9g, then %.9g", format_get(id)->name, (double)once[i],
                         (double)twice[i]);
    }
}

static void test_poison_is_no_data(void **state) {
    (void)state;
    static float row[MOST_VALUES], decoded[MOST_VALUES];
    FOR_EVERY_RECORD(id) {
        const uint32_t values = format_get(id)->group_values;
        uint8_t payload[MOST_BYTES], scales[MOST_BYTES];
        format_poison_row(id, payload, scales, values);
        format_decode_row(id, payload, scales, values, 1.0f, decoded);
        for (uint32_t i = 0; i < values; i++)
            assert_true(isnan(decoded[i]));
        struct format_replaced replaced = {0};
        fill(row, values);
        row[0] = NAN;
        row[1] = INFINITY;
        row[values - 1] = -INFINITY;
        format_encode_row(id, row, values, 1.0f, payload, scales, &replaced);
        format_decode_row(id, payload, scales, values, 1.0f, decoded);
        assert_int_equal(replaced.nan_values, 1);
        assert_int_equal(replaced.infinite_values, 2);
        for (uint32_t i = 0; i < values; i++)
            assert_true(isfinite(decoded[i]));
    }
}

static void test_index_keys_are_formats(void **state) {
    (void)state;
    static const uint32_t bytes[FORMULA_INDEX_COUNT] = {256, 128, 132, 68, 0};
    for (int index = 0; index < FORMULA_INDEX_COUNT; index++) {
        enum format_id format = FORMAT_COUNT;
        const bool kept = formula_index_storage((enum formula_index_format)index, &format);
        assert_int_equal(kept, index != FORMULA_INDEX_NONE);
        if (kept)
            assert_int_equal(format_row_bytes(format, 128), bytes[index]);
    }
    assert_int_equal(formula_index_default(FORMAT_FP8_DS_MLA_656), FORMULA_INDEX_FP8_132);
    assert_int_equal(formula_index_default(FORMAT_FP8_DS_MLA_528), FORMULA_INDEX_FP8_132);
    assert_int_equal(formula_index_default(FORMAT_NVFP4_DS_MLA_352), FORMULA_INDEX_MXFP4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_page_strides),
        cmocka_unit_test(test_a_row_has_one_width_and_serves_as_both),
        cmocka_unit_test(test_values_are_what_the_bytes_say),
        cmocka_unit_test(test_rewriting_changes_nothing),
        cmocka_unit_test(test_poison_is_no_data),
        cmocka_unit_test(test_index_keys_are_formats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
