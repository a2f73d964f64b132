/* Every format against its golden vectors, <format>.txt, and the scalar conversions against
 * scalars.txt. README.md here says what the lines mean and who computed them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format.h"
#include "format_bits.h"

enum { MAX_VALUES = 576, MAX_LINE = 16 * MAX_VALUES };

static const uint32_t nan_bits = 0x7FC00000u;

/* One line cut at its spaces. */
struct vector_line {
    char text[MAX_LINE];
    const char *words[10];
    int count;
};

static FILE *open_vectors(const char *name) {
    char path[512];
    (void)snprintf(path, sizeof path, "%s/tests/golden/%s.txt", KVGAUGE_SOURCE_DIR, name);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        fail_msg("no golden vectors for %s: cannot open %s", name, path);
    return file;
}

static bool next_line(FILE *file, struct vector_line *line) {
    if (fgets(line->text, sizeof line->text, file) == NULL)
        return false;
    assert_non_null(strchr(line->text, '\n')); /* longer than any line should be */
    line->count = 0;
    for (char *word = strtok(line->text, " \n"); word != NULL; word = strtok(NULL, " \n")) {
        assert_true(line->count < 10);
        line->words[line->count++] = word;
    }
    return true;
}

static uint32_t hex_word(const char *text, size_t digits) {
    char copy[9] = {0};
    char *end;
    assert_true(digits <= 8 && strlen(text) >= digits);
    memcpy(copy, text, digits);
    const uint32_t value = (uint32_t)strtoul(copy, &end, 16);
    assert_true(*end == '\0');
    return value;
}

static uint32_t read_floats(const char *text, float *out) {
    const size_t digits = strlen(text);
    assert_true(digits % 8 == 0 && digits / 8 <= MAX_VALUES);
    for (size_t i = 0; i < digits / 8; i++)
        out[i] = format_bits_to_f32(hex_word(text + 8 * i, 8));
    return (uint32_t)(digits / 8);
}

static uint32_t read_bytes(const char *text, uint8_t *out) {
    if (strcmp(text, "-") == 0)
        return 0;
    const size_t digits = strlen(text);
    assert_true(digits % 2 == 0 && digits / 2 <= 4 * MAX_VALUES);
    for (size_t i = 0; i < digits / 2; i++)
        out[i] = (uint8_t)hex_word(text + 2 * i, 2);
    return (uint32_t)(digits / 2);
}

/* Bits with every NaN made the same: vectors do not say which NaN. */
static uint32_t comparable(float value) {
    const uint32_t bits = format_bits_of_f32(value);
    return (bits & 0x7FFFFFFFu) > 0x7F800000u ? nan_bits : bits;
}

/* What the vectors of a format covered. */
struct coverage {
    uint32_t encode_lines;
    uint32_t decode_lines;
    bool byte_seen[256]; /* payload bytes decoded */
};

/* decode LABEL SCALE PAYLOAD SCALES VALUES */
static void check_decode(enum format_id id, const struct vector_line *line,
                         struct coverage *coverage) {
    static uint8_t payload[4 * MAX_VALUES], scales[4 * MAX_VALUES];
    static float expected[MAX_VALUES], got[MAX_VALUES];
    static double got_double[MAX_VALUES];
    assert_int_equal(line->count, 6);
    const float tensor_scale = format_bits_to_f32(hex_word(line->words[2], 8));
    const uint32_t payload_bytes = read_bytes(line->words[3], payload);
    const uint32_t scale_bytes = read_bytes(line->words[4], scales);
    const uint32_t values = read_floats(line->words[5], expected);
    assert_true(format_fits(id, values));
    assert_int_equal(payload_bytes, format_payload_bytes(id, values));
    assert_int_equal(scale_bytes, format_scale_bytes(id, values));
    uint8_t *plane = scale_bytes == 0 ? NULL : scales;
    format_decode_row(id, payload, plane, values, tensor_scale, got);
    format_decode_row_double(id, payload, plane, values, tensor_scale, got_double);
    for (uint32_t i = 0; i < values; i++) {
        if (comparable(got[i]) != comparable(expected[i]))
            fail_msg(
                "%s %s: value %u decodes to %.9g (%08" PRIx32 "), expected %.9g (%08" PRIx32 ")",
                format_get(id)->name, line->words[1], i, (double)got[i], format_bits_of_f32(got[i]),
                (double)expected[i], format_bits_of_f32(expected[i]));
        /* the exact product rounds to fp32's only where the first product was exact */
        const double error = got_double[i] - (double)expected[i];
        const double size = expected[i] < 0 ? -(double)expected[i] : (double)expected[i];
        if (size < 3e38 && size > 2e-38)
            assert_true(error <= size * 0x1p-23 && error >= -size * 0x1p-23);
    }
    for (uint32_t i = 0; i < payload_bytes; i++)
        coverage->byte_seen[payload[i]] = true;
    coverage->decode_lines++;
}

static void compare_bytes(enum format_id id, const struct vector_line *line, const char *what,
                          const uint8_t *got, const uint8_t *expected, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (got[i] != expected[i])
            fail_msg("%s %s: %s byte %u is %02x, expected %02x, for values %s",
                     format_get(id)->name, line->words[1], what, i, got[i], expected[i],
                     line->words[3]);
}

/* encode LABEL SCALE VALUES PAYLOAD SCALES NANS INFINITIES */
static void check_encode(enum format_id id, const struct vector_line *line,
                         struct coverage *coverage) {
    static float row[MAX_VALUES];
    static uint8_t expected[4 * MAX_VALUES], expected_scales[4 * MAX_VALUES];
    static uint8_t got[4 * MAX_VALUES], got_scales[4 * MAX_VALUES];
    assert_int_equal(line->count, 8);
    const float tensor_scale = format_bits_to_f32(hex_word(line->words[2], 8));
    const uint32_t values = read_floats(line->words[3], row);
    const uint32_t payload_bytes = read_bytes(line->words[4], expected);
    const uint32_t scale_bytes = read_bytes(line->words[5], expected_scales);
    assert_true(format_fits(id, values));
    assert_int_equal(payload_bytes, format_payload_bytes(id, values));
    assert_int_equal(scale_bytes, format_scale_bytes(id, values));
    struct format_replaced replaced = {0};
    memset(got, 0xA5, sizeof got);
    memset(got_scales, 0xA5, sizeof got_scales);
    format_encode_row(id, row, values, tensor_scale, got, scale_bytes == 0 ? NULL : got_scales,
                      &replaced);
    compare_bytes(id, line, "payload", got, expected, payload_bytes);
    compare_bytes(id, line, "scale", got_scales, expected_scales, scale_bytes);
    assert_int_equal(got[payload_bytes], 0xA5);
    assert_int_equal(got_scales[scale_bytes], 0xA5);
    assert_int_equal(replaced.nan_values, strtoul(line->words[6], NULL, 10));
    assert_int_equal(replaced.infinite_values, strtoul(line->words[7], NULL, 10));
    coverage->encode_lines++;
}

/* codes16 CRC32: of all 65536 codes decoded in order, each as eight hexadecimal digits' bytes,
 * most significant first. */
static void check_codes16(enum format_id id, const struct vector_line *line) {
    uint32_t crc = 0xFFFFFFFFu;
    assert_int_equal(line->count, 2);
    for (uint32_t code = 0; code < 65536; code++) {
        uint8_t payload[2] = {(uint8_t)(code & 255u), (uint8_t)(code >> 8)};
        float value;
        format_decode_row(id, payload, NULL, 1, 1.0f, &value);
        for (int shift = 24; shift >= 0; shift -= 8) {
            crc ^= (comparable(value) >> shift) & 255u;
            for (int bit = 0; bit < 8; bit++)
                crc = (crc >> 1) ^ ((crc & 1u) != 0 ? 0xEDB88320u : 0u);
        }
    }
    assert_int_equal(crc ^ 0xFFFFFFFFu, hex_word(line->words[1], 8));
}

static void check_coverage(enum format_id id, const struct coverage *coverage, bool codes16) {
    const struct format_info *info = format_get(id);
    bool nibble_seen[16] = {false};
    uint32_t bytes = 0, nibbles = 0;
    for (uint32_t byte = 0; byte < 256; byte++) {
        if (!coverage->byte_seen[byte])
            continue;
        bytes++;
        nibble_seen[byte & 15u] = true;
        nibble_seen[byte >> 4] = true;
    }
    for (uint32_t code = 0; code < 16; code++)
        nibbles += nibble_seen[code];
    if (coverage->encode_lines < 10 || coverage->decode_lines < 4)
        fail_msg("%s: only %u encode and %u decode vectors", info->name, coverage->encode_lines,
                 coverage->decode_lines);
    if (info->value_bits == 16 && !codes16)
        fail_msg("%s: no checksum over all 16-bit codes", info->name);
    if (info->value_bits == 8 && bytes != 256)
        fail_msg("%s: %u of 256 codes decoded", info->name, bytes);
    if (info->value_bits == 4 && nibbles != 16)
        fail_msg("%s: %u of 16 codes decoded", info->name, nibbles);
}

static void test_every_format(void **state) {
    (void)state;
    static struct vector_line line;
    for (uint32_t i = 0; i < FORMAT_END; i++) {
        if (i == FORMAT_COUNT)
            continue;
        const enum format_id id = (enum format_id)i;
        struct coverage coverage = {0};
        bool codes16 = false;
        FILE *file = open_vectors(format_get(id)->name);
        while (next_line(file, &line)) {
            if (strcmp(line.words[0], "encode") == 0) {
                check_encode(id, &line, &coverage);
            } else if (strcmp(line.words[0], "decode") == 0) {
                check_decode(id, &line, &coverage);
            } else if (strcmp(line.words[0], "codes16") == 0) {
                check_codes16(id, &line);
                codes16 = true;
            } else {
                fail_msg("%s: unknown line %s", format_get(id)->name, line.words[0]);
            }
        }
        (void)fclose(file);
        check_coverage(id, &coverage, codes16);
    }
}

/* F32 BF16 F16 E4M3 E5M2 E2M1_EVEN E2M1_AWAY E8M0_UP */
static void test_scalar_conversions(void **state) {
    (void)state;
    static struct vector_line line;
    uint32_t lines = 0;
    FILE *file = open_vectors("scalars");
    while (next_line(file, &line)) {
        assert_int_equal(line.count, 8);
        const float value = format_bits_to_f32(hex_word(line.words[0], 8));
        const uint32_t got[] = {
            format_bits_f32_to_bf16(value),      format_bits_f32_to_f16(value),
            format_bits_f32_to_e4m3(value),      format_bits_f32_to_e5m2(value),
            format_bits_f32_to_e2m1_even(value), format_bits_f32_to_e2m1_away(value),
            format_bits_f32_to_e8m0_up(value),
        };
        static const char *const names[] = {"bf16",      "f16",       "e4m3", "e5m2",
                                            "e2m1 even", "e2m1 away", "e8m0"};
        for (size_t i = 0; i < sizeof got / sizeof got[0]; i++)
            if (strcmp(line.words[i + 1], "-") != 0 &&
                got[i] != hex_word(line.words[i + 1], strlen(line.words[i + 1])))
                fail_msg("%s to %s gives %" PRIx32 ", expected %s", line.words[0], names[i], got[i],
                         line.words[i + 1]);
        lines++;
    }
    (void)fclose(file);
    assert_true(lines > 2000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_format),
        cmocka_unit_test(test_scalar_conversions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
