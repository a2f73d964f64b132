/* The format table, the row codecs' properties, and the ends of the range that no outside
 * implementation defines. Which bytes a value gives is tests/golden's business. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "format.h"
#include "format_q4_0.h"
#include "format_q8_0.h"

enum { ROW_VALUES = 288, ROW_BYTES = 2 * ROW_VALUES + 1 }; /* two chunks and a part of a third */

struct stored_row {
    uint8_t payload[ROW_BYTES];
    uint8_t scales[ROW_BYTES];
};

#define FOR_EVERY_FORMAT(id)                                                                       \
    for (enum format_id id = (enum format_id)0; id < FORMAT_COUNT; id = (enum format_id)(id + 1))

static uint8_t *scales_of(enum format_id id, struct stored_row *row) {
    return format_get(id)->group_scale_bytes == 0 ? NULL : row->scales;
}

/* Values in (-1, 1), the same on every machine. */
static float next_value(uint32_t *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return (float)(int32_t)*seed * 0x1p-31f;
}

static void fill(float *row, uint32_t values, float amplitude, uint32_t seed) {
    for (uint32_t i = 0; i < values; i++)
        row[i] = next_value(&seed) * amplitude;
}

static float largest(const float *row, uint32_t values) {
    float amax = 0;
    for (uint32_t i = 0; i < values; i++)
        amax = fmaxf(amax, fabsf(row[i]));
    return amax;
}

static void test_find(void **state) {
    (void)state;
    enum format_id found;
    char upper[32];
    FOR_EVERY_FORMAT(id) {
        const char *name = format_get(id)->name;
        assert_true(format_find(name, &found));
        assert_int_equal(found, id);
        for (size_t i = 0; i <= strlen(name); i++)
            upper[i] = (char)(name[i] >= 'a' && name[i] <= 'z' ? name[i] - 'a' + 'A' : name[i]);
        assert_true(format_find(upper, &found));
        assert_int_equal(found, id);
    }
    for (uint32_t i = FORMAT_COUNT + 1; i < FORMAT_END; i++) {
        assert_true(format_find_record(format_get((enum format_id)i)->name, &found));
        assert_int_equal(found, i);
        assert_false(format_find(format_get((enum format_id)i)->name, &found));
    }
}

static void test_find_aliases_and_unknown_names(void **state) {
    (void)state;
    enum format_id found;
    enum format_id record = FORMAT_COUNT;
    assert_true(format_find("BFloat16", &found) && found == FORMAT_BF16);
    assert_true(format_find("float16", &found) && found == FORMAT_F16);
    assert_true(format_find("fp16", &found) && found == FORMAT_F16);
    assert_true(format_find("FP8", &found) && found == FORMAT_FP8_E4M3);
    found = FORMAT_COUNT;
    static const char *const unknown[] = {"",    "bf",      "bf160", "nvfp",
                                          "q8_", "fp8_e4m", "all",   " f16"};
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        assert_false(format_find(unknown[i], &found));
        assert_false(format_find_record(unknown[i], &record));
    }
    assert_false(format_find_record("bf16", &record));
    assert_int_equal(found, FORMAT_COUNT);
    assert_int_equal(record, FORMAT_COUNT);
}

/* Bytes of 128 values, from the published bits per value: 16, 8, 4.5, 4.25, 8.5, 4.5, 5, 5.5 and 6.
 */
static void test_sizes(void **state) {
    (void)state;
    static const uint32_t row_bytes_of_128[FORMAT_COUNT] = {
        [FORMAT_BF16] = 256,          [FORMAT_F16] = 256,      [FORMAT_FP8_E4M3] = 128,
        [FORMAT_FP8_E5M2] = 128,      [FORMAT_NVFP4] = 72,     [FORMAT_MXFP4] = 68,
        [FORMAT_FP4_MX_BLOCK16] = 72, [FORMAT_Q8_0] = 136,     [FORMAT_Q4_0] = 72,
        [FORMAT_Q8_0_GGML] = 136,     [FORMAT_Q4_0_GGML] = 72, [FORMAT_Q4_1] = 80,
        [FORMAT_Q5_0] = 88,           [FORMAT_Q5_1] = 96,      [FORMAT_IQ4_NL] = 72,
    };
    FOR_EVERY_FORMAT(id) {
        const struct format_info *info = format_get(id);
        assert_true(row_bytes_of_128[id] != 0); /* a new format needs its size here */
        assert_int_equal(format_row_bytes(id, 128), row_bytes_of_128[id]);
        assert_int_equal(format_payload_bytes(id, 128) + format_scale_bytes(id, 128),
                         row_bytes_of_128[id]);
        assert_int_equal(format_row_bytes(id, 576), row_bytes_of_128[id] * 9 / 2);
        assert_true(info->value_bits == 16 || info->value_bits == 8 || info->value_bits == 5 ||
                    info->value_bits == 4);
        assert_true(info->group_payload_bytes * 8 >= info->value_bits * info->group_values);
        assert_true(info->kernel_tolerance > 0 && info->kernel_tolerance < 0.01);
    }
}

static void test_fits(void **state) {
    (void)state;
    FOR_EVERY_FORMAT(id) {
        const uint32_t group = format_get(id)->group_values;
        assert_false(format_fits(id, 0));
        assert_true(format_fits(id, group));
        assert_true(format_fits(id, 7 * group));
        assert_int_equal(format_fits(id, 80), 80 % group == 0);
        assert_int_equal(format_fits(id, group + 1), group == 1);
        assert_int_equal(format_fits(id, UINT32_MAX), group == 1);
    }
    assert_false(format_fits(FORMAT_Q8_0, 80));
    assert_true(format_fits(FORMAT_NVFP4, 80));
}

static void test_tensor_scale(void **state) {
    (void)state;
    FOR_EVERY_FORMAT(id) {
        assert_true(format_tensor_scale(id, 0.0f, true) == 1.0f);
        assert_true(format_tensor_scale(id, 1e-45f, true) > 0.0f);
        if (!format_get(id)->has_tensor_scale)
            assert_true(format_tensor_scale(id, 12.0f, true) == 1.0f);
    }
    assert_true(format_tensor_scale(FORMAT_NVFP4, 12.0f, false) == 12.0f / 2688.0f);
    assert_true(format_tensor_scale(FORMAT_NVFP4, 12.0f, true) == 12.0f / 2688.0f);
    assert_true(format_tensor_scale(FORMAT_FP8_E4M3, 12.0f, false) == 1.0f);
    assert_true(format_tensor_scale(FORMAT_FP8_E4M3, 12.0f, true) == 12.0f / 448.0f);
    assert_true(format_tensor_scale(FORMAT_FP8_E5M2, 12.0f, true) == 12.0f / 57344.0f);
}

/* The largest error of one value, as a part of the group's (or for element formats, its own)
 * largest magnitude: half the widest step between codes, scale rounding included. */
static double error_bound(enum format_id id) {
    const struct format_info *info = format_get(id);
    if (info->value_bits == 16)
        return id == FORMAT_BF16 ? 0x1p-8 : 0x1p-11;
    if (info->value_bits == 8)
        return info->group_values == 1 ? (id == FORMAT_FP8_E4M3 ? 0x1p-4 : 0x1p-3) : 0x1p-7;
    if (info->value_bits == 5) /* a whole step of 16 where q5_0's largest code is one short */
        return 0x1.01p-4;
    return 0.25; /* 4 bits: the step between 4 and 6 */
}

static void test_decoded_values_are_near(void **state) {
    (void)state;
    static float row[ROW_VALUES], decoded[ROW_VALUES];
    static const float amplitudes[] = {1.0f, 0.02f, 300.0f, 6e4f};
    FOR_EVERY_FORMAT(id) {
        for (size_t a = 0; a < sizeof amplitudes / sizeof amplitudes[0]; a++) {
            struct stored_row stored;
            fill(row, ROW_VALUES, amplitudes[a], 7u + (uint32_t)a);
            const float amax = largest(row, ROW_VALUES);
            const float tensor_scale = format_tensor_scale(id, amax, true);
            struct format_replaced replaced = {0};
            format_encode_row(id, row, ROW_VALUES, tensor_scale, stored.payload,
                              scales_of(id, &stored), &replaced);
            format_decode_row(id, stored.payload, scales_of(id, &stored), ROW_VALUES, tensor_scale,
                              decoded);
            assert_int_equal(replaced.nan_values + replaced.infinite_values, 0);
            const uint32_t group = format_get(id)->group_values;
            for (uint32_t i = 0; i < ROW_VALUES; i++) {
                const float size =
                    group == 1 ? fabsf(row[i]) : largest(row + i / group * group, group);
                const double steps = id == FORMAT_F16 ? 0x1p-25 : (double)amax * 0x1p-16;
                const double small = id == FORMAT_BF16 ? 0 : steps; /* subnormal codes */
                const double error = fabs((double)decoded[i] - (double)row[i]);
                if (error > error_bound(id) * (double)size + small)
                    fail_msg("%s: %.9g comes back as %.9g", format_get(id)->name, (double)row[i],
                             (double)decoded[i]);
            }
        }
    }
}

/* What has been through a format once goes through unchanged again: every rule gives the largest
 * value of a group a code from which the same scale, or in the MX formats half of it, follows. */
static void test_round_trip_is_idempotent(void **state) {
    (void)state;
    static float row[ROW_VALUES], once[ROW_VALUES], twice[ROW_VALUES];
    static const float amplitudes[] = {1.0f, 40.0f, 700.0f};
    FOR_EVERY_FORMAT(id) {
        for (size_t a = 0; a < sizeof amplitudes / sizeof amplitudes[0]; a++) {
            struct stored_row stored;
            uint8_t *scales = scales_of(id, &stored);
            fill(row, ROW_VALUES, amplitudes[a], 99u);
            format_encode_row(id, row, ROW_VALUES, 1.0f, stored.payload, scales, NULL);
            format_decode_row(id, stored.payload, scales, ROW_VALUES, 1.0f, once);
            format_encode_row(id, once, ROW_VALUES, 1.0f, stored.payload, scales, NULL);
            format_decode_row(id, stored.payload, scales, ROW_VALUES, 1.0f, twice);
            for (uint32_t i = 0; i < ROW_VALUES; i++) /* -0 and 0 are the same value */
                if (once[i] != twice[i])
                    fail_msg("%s: %.9g, then %.9g", format_get(id)->name, (double)once[i],
                             (double)twice[i]);
        }
    }
}

/* q8_0 and nvfp4 as bytes: a group built from codes and a scale that the rule itself would choose
 * gives those codes back. */
static void test_exact_groups_come_back(void **state) {
    (void)state;
    float row[32], decoded[32];
    for (uint32_t i = 0; i < 32; i++)
        row[i] = (float)((int32_t)(i * 8) - 127) * 0.25f; /* amax 127 / 4: d = 1 / 4 */
    struct stored_row stored;
    format_encode_row(FORMAT_Q8_0, row, 32, 1.0f, stored.payload, stored.scales, NULL);
    format_decode_row(FORMAT_Q8_0, stored.payload, stored.scales, 32, 1.0f, decoded);
    assert_memory_equal(row, decoded, sizeof row);

    static const float units[16] = {0,     0.5f,  1,  1.5f,  2,  3,  4,  6,
                                    -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};
    for (uint32_t i = 0; i < 16; i++)
        row[i] = units[i] * 13.0f * 0.5f; /* 13 is an e4m3 number; tensor scale 1 / 2 */
    format_encode_row(FORMAT_NVFP4, row, 16, 0.5f, stored.payload, stored.scales, NULL);
    format_decode_row(FORMAT_NVFP4, stored.payload, stored.scales, 16, 0.5f, decoded);
    assert_memory_equal(row, decoded, 16 * sizeof row[0]);
}

/* The _ggml formats hold the bytes of their plain twins, block by block. */
static void test_ggml_blocks_hold_the_same_bytes(void **state) {
    (void)state;
    static const enum format_id pairs[][2] = {{FORMAT_Q8_0, FORMAT_Q8_0_GGML},
                                              {FORMAT_Q4_0, FORMAT_Q4_0_GGML}};
    static float row[ROW_VALUES];
    fill(row, ROW_VALUES, 3.0f, 5u);
    for (size_t p = 0; p < 2; p++) {
        const uint32_t codes = format_get(pairs[p][0])->group_payload_bytes;
        struct stored_row planes, blocks;
        format_encode_row(pairs[p][0], row, ROW_VALUES, 1.0f, planes.payload, planes.scales, NULL);
        format_encode_row(pairs[p][1], row, ROW_VALUES, 1.0f, blocks.payload, NULL, NULL);
        for (uint32_t g = 0; g < ROW_VALUES / 32; g++) {
            const uint8_t *block = blocks.payload + g * (codes + 2);
            assert_memory_equal(block, planes.scales + 2 * g, 2);
            assert_memory_equal(block + 2, planes.payload + codes * g, codes);
        }
    }
}

static void test_nan_and_infinities_are_counted(void **state) {
    (void)state;
    static float row[ROW_VALUES], decoded[ROW_VALUES];
    FOR_EVERY_FORMAT(id) {
        const struct format_info *info = format_get(id);
        struct format_replaced replaced = {.nan_values = 10, .infinite_values = 20};
        struct stored_row stored;
        fill(row, ROW_VALUES, 1.0f, 3u);
        row[5] = NAN;
        row[130] = -NAN;
        row[131] = INFINITY;
        row[ROW_VALUES - 1] = -INFINITY;
        const float tensor_scale = format_tensor_scale(id, 65504.0f, true);
        format_encode_row(id, row, ROW_VALUES, tensor_scale, stored.payload, scales_of(id, &stored),
                          &replaced);
        format_decode_row(id, stored.payload, scales_of(id, &stored), ROW_VALUES, tensor_scale,
                          decoded);
        assert_int_equal(replaced.nan_values, info->has_nan ? 10 : 12);
        assert_int_equal(replaced.infinite_values, 22);
        assert_true(decoded[131] > 4e4f && decoded[131] < 8e4f);
        assert_true(decoded[ROW_VALUES - 1] < -4e4f && decoded[ROW_VALUES - 1] > -8e4f);
        for (uint32_t i = 0; i < ROW_VALUES; i++) {
            const bool was_nan = i == 5 || i == 130;
            assert_int_equal(isnan(decoded[i]) != 0, was_nan && info->has_nan);
        }
        /* q4_0's steps are asymmetric and shifted by half: 0 is a code all the same; not so where a
         * minimum is added, and in iq4_nl's table */
        const bool no_zero = id == FORMAT_Q4_1 || id == FORMAT_Q5_1 || id == FORMAT_IQ4_NL;
        if (!info->has_nan && !no_zero)
            assert_true(decoded[5] == 0.0f && decoded[130] == 0.0f);
        else if (no_zero)
            assert_true(fabsf(decoded[5]) < 0.1f && fabsf(decoded[130]) < 0.1f * 65504.0f);
    }
}

/* Every group decodes to finite values, whatever finite values it was made from. f16 and bf16
 * overflow to infinity as types do, from 65520 and 3.39e38 on, and the MX formats' 4 * 2^126 is
 * infinite in fp32: all far above what is generated. */
static void test_any_finite_group_stays_finite(void **state) {
    (void)state;
    static const float amplitudes[] = {1e-45f, 1e-42f, 0x1p-128f, 0x1.8p-128f, 0x1p-126f, 4e-37f,
                                       1e-30f, 1e-20f, 1e-8f,     65504.f,     8.320e6f,  8.4e6f,
                                       5.3e5f, 1e10f,  1e30f,     1e38f};
    static float row[ROW_VALUES], decoded[ROW_VALUES];
    FOR_EVERY_FORMAT(id) {
        for (size_t a = 0; a < sizeof amplitudes / sizeof amplitudes[0]; a++) {
            if (format_get(id)->value_bits == 16 && amplitudes[a] > 65504.0f)
                continue;
            struct stored_row stored;
            fill(row, ROW_VALUES, amplitudes[a], 11u);
            for (uint32_t i = 0; i < ROW_VALUES; i += 32)
                row[i] = (i & 32u) != 0 ? -amplitudes[a] : amplitudes[a];
            format_encode_row(id, row, ROW_VALUES, 1.0f, stored.payload, scales_of(id, &stored),
                              NULL);
            format_decode_row(id, stored.payload, scales_of(id, &stored), ROW_VALUES, 1.0f,
                              decoded);
            for (uint32_t i = 0; i < ROW_VALUES; i++)
                if (!isfinite(decoded[i]))
                    fail_msg("%s: %.9g under %.9g decodes to %.9g", format_get(id)->name,
                             (double)row[i], (double)amplitudes[a], (double)decoded[i]);
        }
    }
}

/* Where ggml's reference divides by zero or overflows f16; see format_q8_0.h and format_q4_0.h. */
static void test_ends_of_ggml_scales(void **state) {
    (void)state;
    float row[32] = {0x1p-130f, -0x1p-130f}, units[32];
    uint8_t payload[32], scale[2];
    static const uint8_t zeros[32] = {0};
    format_q8_0_encode(row, 1.0f, payload, scale);
    assert_memory_equal(payload, zeros, 32);
    assert_memory_equal(scale, zeros, 2);
    format_q4_0_encode(row, 1.0f, payload, scale);
    for (uint32_t j = 0; j < 16; j++)
        assert_int_equal(payload[j], 0x88);
    assert_int_equal(scale[0] | scale[1] << 8, 0x8000);

    row[0] = 1e9f;
    row[1] = 5e8f;
    format_q8_0_encode(row, 1.0f, payload, scale);
    assert_int_equal(scale[0] | scale[1] << 8, 0x7BFF);
    assert_true(format_q8_0_decode(payload, scale, units) == 65504.0f && units[0] == 127.0f);
    format_q4_0_encode(row, 1.0f, payload, scale);
    assert_int_equal(scale[0] | scale[1] << 8, 0xFBFF);
    assert_true(format_q4_0_decode(payload, scale, units) == -65504.0f && units[0] == -8.0f);
}

static void test_poison_is_seen(void **state) {
    (void)state;
    static float decoded[ROW_VALUES];
    static double decoded_double[ROW_VALUES];
    FOR_EVERY_FORMAT(id) {
        struct stored_row stored;
        memset(&stored, 0, sizeof stored);
        format_poison_row(id, stored.payload, scales_of(id, &stored), ROW_VALUES);
        format_decode_row(id, stored.payload, scales_of(id, &stored), ROW_VALUES, 1.0f, decoded);
        format_decode_row_double(id, stored.payload, scales_of(id, &stored), ROW_VALUES, 1.0f,
                                 decoded_double);
        for (uint32_t i = 0; i < ROW_VALUES; i++) {
            assert_true(isnan(decoded[i]) || fabsf(decoded[i]) >= 1e4f);
            assert_true(isnan(decoded_double[i]) || fabs(decoded_double[i]) >= 1e4);
        }
        assert_int_equal(stored.payload[format_payload_bytes(id, ROW_VALUES)], 0);
        assert_int_equal(stored.scales[format_scale_bytes(id, ROW_VALUES)], 0);
    }
}

/* The reference reads what the kernels read: same values, more digits. */
static void test_double_decoding_agrees(void **state) {
    (void)state;
    static float row[ROW_VALUES], decoded[ROW_VALUES];
    static double decoded_double[ROW_VALUES];
    FOR_EVERY_FORMAT(id) {
        struct stored_row stored;
        fill(row, ROW_VALUES, 5.0f, 21u);
        const float tensor_scale = format_tensor_scale(id, 5.0f, true);
        format_encode_row(id, row, ROW_VALUES, tensor_scale, stored.payload, scales_of(id, &stored),
                          NULL);
        format_decode_row(id, stored.payload, scales_of(id, &stored), ROW_VALUES, tensor_scale,
                          decoded);
        format_decode_row_double(id, stored.payload, scales_of(id, &stored), ROW_VALUES,
                                 tensor_scale, decoded_double);
        for (uint32_t i = 0; i < ROW_VALUES; i++)
            assert_true((float)decoded_double[i] == decoded[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_find),
        cmocka_unit_test(test_find_aliases_and_unknown_names),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_fits),
        cmocka_unit_test(test_tensor_scale),
        cmocka_unit_test(test_decoded_values_are_near),
        cmocka_unit_test(test_round_trip_is_idempotent),
        cmocka_unit_test(test_exact_groups_come_back),
        cmocka_unit_test(test_ggml_blocks_hold_the_same_bytes),
        cmocka_unit_test(test_nan_and_infinities_are_counted),
        cmocka_unit_test(test_any_finite_group_stays_finite),
        cmocka_unit_test(test_ends_of_ggml_scales),
        cmocka_unit_test(test_poison_is_seen),
        cmocka_unit_test(test_double_decoding_agrees),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
