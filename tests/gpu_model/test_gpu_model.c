/* gpu_model.h against formulas that share no code with it: numbers as sums of powers of two in
 * double precision, fragments as the PTX ISA's tables number their elements. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>

#include "gpu_model.h"

/* A binary format: exponent and mantissa bits, bias, and what the top exponent means. */
struct binary {
    int exponent_bits, mantissa_bits, bias;
    bool ieee; /* infinities and NaN in the top exponent */
};
static const struct binary f16 = {5, 10, 15, true};
static const struct binary bf16 = {8, 7, 127, true};
static const struct binary e4m3 = {4, 3, 7, false};
static const struct binary e2m1 = {2, 1, 1, false};

static double value_of(const struct binary *format, uint32_t code) {
    const uint32_t exponent_mask = (1u << format->exponent_bits) - 1;
    const uint32_t exponent = code >> format->mantissa_bits & exponent_mask;
    const double mantissa = (double)(code & ((1u << format->mantissa_bits) - 1));
    const double sign =
        (code >> (format->exponent_bits + format->mantissa_bits) & 1u) != 0 ? -1.0 : 1.0;
    if (format->ieee && exponent == exponent_mask)
        return mantissa == 0 ? sign * (double)INFINITY : (double)NAN;
    if (exponent == 0)
        return sign * ldexp(mantissa, 1 - format->bias - format->mantissa_bits);
    return sign * ldexp(mantissa + (double)(1u << format->mantissa_bits),
                        (int)exponent - format->bias - format->mantissa_bits);
}

/* The code nearest to `exact`, ties to even, of an ieee format; NaN as the ISA gives it. */
static uint32_t code_of(const struct binary *format, double exact) {
    const uint32_t sign =
        signbit(exact) ? 1u << (format->exponent_bits + format->mantissa_bits) : 0;
    const uint32_t infinity = ((1u << format->exponent_bits) - 1) << format->mantissa_bits;
    if (isnan(exact))
        return 0x7FFFu;
    if (exact == 0)
        return sign;
    if (isinf(exact))
        return sign | infinity;
    int exponent;
    (void)frexp(fabs(exact), &exponent);
    const int lowest = 1 - format->bias;
    int scale = (exponent - 1 < lowest ? lowest : exponent - 1) - format->mantissa_bits;
    /* nearbyint rounds ties to even */
    double mantissa = nearbyint(ldexp(fabs(exact), -scale));
    if (mantissa == (double)(2u << format->mantissa_bits)) {
        mantissa /= 2;
        scale++;
    }
    const double hidden = (double)(1u << format->mantissa_bits);
    const uint32_t code =
        mantissa < hidden
            ? (uint32_t)mantissa
            : ((uint32_t)(scale + format->mantissa_bits + format->bias) << format->mantissa_bits) +
                  (uint32_t)(mantissa - hidden);
    return sign | (code > infinity ? infinity : code);
}

static uint64_t random_state = 88172645463325252u;
static uint32_t next_random(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)(random_state >> 20);
}

static void assert_same_float(float got, double expected) {
    if (isnan(expected))
        assert_true(isnan(got));
    else
        assert_int_equal(format_bits_of_f32(got), format_bits_of_f32((float)expected));
}

static void test_every_f16(void **state) {
    (void)state;
    for (uint32_t code = 0; code < 65536; code++)
        assert_same_float(gpu_model_f16_to_f32(code | 0xABCD0000u), value_of(&f16, code));
}

/* Each code, the middle to the next one, and the fp32 numbers around that middle. */
static void check_pack(const struct binary *format, uint32_t (*pack)(float, float)) {
    const uint32_t infinity = ((1u << format->exponent_bits) - 1) << format->mantissa_bits;
    for (uint32_t code = 0; code < infinity; code++) {
        const double low = value_of(format, code);
        const double high = code + 1 == infinity ? 2 * low - value_of(format, code - 1)
                                                 : value_of(format, code + 1);
        const float middle = (float)(low / 2 + high / 2);
        const float numbers[] = {(float)low, middle, nextafterf(middle, 0.0f),
                                 nextafterf(middle, INFINITY)};
        for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
            const uint32_t expected =
                code_of(format, (double)numbers[i]) | code_of(format, -(double)numbers[i]) << 16;
            assert_int_equal(pack(numbers[i], -numbers[i]), expected);
        }
    }
    assert_int_equal(pack(INFINITY, NAN), infinity | 0x7FFFu << 16);
    assert_int_equal(pack(0.0f, -0.0f), 0x80000000u);
}

static void test_pack(void **state) {
    (void)state;
    check_pack(&f16, gpu_model_pack_f16x2);
    check_pack(&bf16, gpu_model_pack_bf16x2);
}

/* Both halves, random codes over the whole range: many products are subnormal or overflow. */
static void check_products(const struct binary *format, uint32_t (*multiply)(uint32_t, uint32_t)) {
    for (int i = 0; i < 2000000; i++) {
        const uint32_t a = next_random(), b = next_random();
        const uint32_t low =
            code_of(format, value_of(format, a & 0xFFFFu) * value_of(format, b & 0xFFFFu));
        const uint32_t high =
            code_of(format, value_of(format, a >> 16) * value_of(format, b >> 16));
        assert_int_equal(multiply(a, b), low | high << 16);
    }
}

static void test_products(void **state) {
    (void)state;
    check_products(&f16, gpu_model_mul_f16x2);
    check_products(&bf16, gpu_model_mul_bf16x2);
    /* around half the smallest bf16, where fp32 itself rounds */
    for (uint32_t a = 0x0001u; a < 0x0200u; a++)
        for (uint32_t b = 0x3B80u; b < 0x3F80u; b++)
            assert_int_equal(gpu_model_mul_bf16x2(a, b),
                             code_of(&bf16, value_of(&bf16, a) * value_of(&bf16, b)));
}

static uint32_t f16_of_e4m3(uint32_t code) {
    return (code & 0x7Fu) == 0x7Fu ? 0x7FFFu : code_of(&f16, value_of(&e4m3, code));
}

static void test_every_fp8_and_fp4_pair(void **state) {
    (void)state;
    for (uint32_t codes = 0; codes < 65536; codes++)
        assert_int_equal(gpu_model_e4m3x2_to_f16x2(codes | 0x12340000u),
                         f16_of_e4m3(codes & 0xFFu) | f16_of_e4m3(codes >> 8) << 16);
    for (uint32_t codes = 0; codes < 256; codes++)
        assert_int_equal(gpu_model_e2m1x2_to_f16x2(codes | 0x5A00u),
                         code_of(&f16, value_of(&e2m1, codes & 15u)) |
                             code_of(&f16, value_of(&e2m1, codes >> 4)) << 16);
}

static void test_integers(void **state) {
    (void)state;
    for (int i = 0; i < 100000; i++) {
        const uint32_t a = next_random(), b = next_random(), selector = next_random();
        uint8_t bytes[8];
        memcpy(bytes, &a, 4);
        memcpy(bytes + 4, &b, 4);
        const uint32_t permuted = gpu_model_permute_bytes(a, b, selector);
        for (uint32_t byte = 0; byte < 4; byte++) {
            const uint32_t nibble = selector >> (4 * byte) & 15u;
            const int8_t chosen = (int8_t)bytes[nibble % 8];
            const uint32_t expected = nibble < 8 ? (uint8_t)chosen : chosen < 0 ? 0xFFu : 0u;
            assert_int_equal(permuted >> (8 * byte) & 0xFFu, expected);
        }
        /* schoolbook, in halves */
        const uint64_t a0 = a & 0xFFFFu, a1 = a >> 16, b0 = b & 0xFFFFu, b1 = b >> 16;
        const uint64_t middle = a1 * b0 + (a0 * b0 >> 16);
        const uint64_t high = a1 * b1 + (middle >> 16) + ((a0 * b1 + (middle & 0xFFFFu)) >> 16);
        assert_int_equal(gpu_model_multiply_high(a, b), high);
    }
}

static void test_exp2(void **state) {
    (void)state;
    for (float x = -126.0f; x < 127.9f; x += 0.0137f) {
        const double exact = exp2((double)x);
        assert_true(fabs((double)gpu_model_exp2(x) - exact) <= exact * 0x1p-22);
    }
    assert_same_float(gpu_model_exp2(-126.5f), 0.0); /* subnormal */
    assert_same_float(gpu_model_exp2(-INFINITY), 0.0);
    assert_same_float(gpu_model_exp2(0x1p-140f), 1.0);
    assert_same_float(gpu_model_exp2(130.0f), (double)INFINITY);
    assert_true(isnan(gpu_model_exp2(NAN)));
}

/* Element i of a lane, as the ISA counts them (a0..a7, b0..b3, c0..c3). */
static void place_of_a(uint32_t lane, uint32_t i, uint32_t *row, uint32_t *column) {
    *row = (i < 2 || (i >= 4 && i < 6)) ? lane / 4 : lane / 4 + 8;
    *column = lane % 4 * 2 + (i & 1u) + (i >= 4 ? 8 : 0);
}
static void place_of_b(uint32_t lane, uint32_t i, uint32_t *row, uint32_t *column) {
    *row = lane % 4 * 2 + (i & 1u) + (i >= 2 ? 8 : 0);
    *column = lane / 4;
}
static void place_of_c(uint32_t lane, uint32_t i, uint32_t *row, uint32_t *column) {
    *row = i < 2 ? lane / 4 : lane / 4 + 8;
    *column = lane % 4 * 2 + (i & 1u);
}

struct matrices {
    double a[16][16], b[16][8], c[16][8];
};

static uint32_t pair_of(const struct binary *format, double low, double high) {
    return code_of(format, low) | code_of(format, high) << 16;
}

static void load_registers(const struct binary *format, const struct matrices *from,
                           struct gpu_model_mma *warp) {
    for (uint32_t lane = 0; lane < 32; lane++) {
        double elements[8];
        uint32_t row, column;
        for (uint32_t i = 0; i < 8; i++) {
            place_of_a(lane, i, &row, &column);
            elements[i] = from->a[row][column];
        }
        for (uint32_t i = 0; i < 4; i++)
            warp->a[lane][i] = pair_of(format, elements[2 * i], elements[2 * i + 1]);
        for (uint32_t i = 0; i < 4; i++) {
            place_of_b(lane, i, &row, &column);
            elements[i] = from->b[row][column];
            place_of_c(lane, i, &row, &column);
            warp->d[lane][i] = (float)from->c[row][column];
        }
        for (uint32_t i = 0; i < 2; i++)
            warp->b[lane][i] = pair_of(format, elements[2 * i], elements[2 * i + 1]);
    }
}

static void check_mma(const struct binary *format, const struct matrices *of) {
    struct gpu_model_mma warp;
    load_registers(format, of, &warp);
    gpu_model_mma(&warp, format == &bf16);
    for (uint32_t lane = 0; lane < 32; lane++)
        for (uint32_t i = 0; i < 4; i++) {
            uint32_t row, column;
            place_of_c(lane, i, &row, &column);
            double sum = of->c[row][column];
            for (uint32_t k = 0; k < 16; k++)
                sum += of->a[row][k] * of->b[k][column];
            assert_same_float(warp.d[lane][i], sum);
        }
}

/* Small integers: every sum is exact, so any misplaced element shows. */
static void test_mma(void **state) {
    (void)state;
    for (int round = 0; round < 200; round++) {
        struct matrices of;
        for (uint32_t row = 0; row < 16; row++) {
            for (uint32_t column = 0; column < 16; column++)
                of.a[row][column] = (double)(next_random() % 129) - 64;
            for (uint32_t column = 0; column < 8; column++) {
                of.b[row][column] = (double)(next_random() % 129) - 64;
                of.c[row][column] = (double)(next_random() % 4097) - 2048;
            }
        }
        check_mma(&f16, &of);
        check_mma(&bf16, &of);
    }
}

/* Subnormal inputs count in full. */
static void test_mma_of_small_numbers(void **state) {
    (void)state;
    struct matrices of = {0};
    of.a[3][5] = 0x1p-24;
    of.b[5][2] = 3 * 0x1p-24;
    check_mma(&f16, &of);
    of.a[3][5] = 0x1p-133;
    of.b[5][2] = 0x1p100;
    check_mma(&bf16, &of);
}

static void test_matrix_moves(void **state) {
    (void)state;
    uint16_t units[4][8][8];
    uint8_t rows[32][16];
    uint32_t plain[32][4], trans[32][4], moved[32], one[32];
    for (uint32_t i = 0; i < 256; i++)
        units[i / 64][i / 8 % 8][i % 8] = (uint16_t)(i * 257 + 1);
    memcpy(rows, units, sizeof rows);
    gpu_model_ldmatrix_x4((const uint8_t(*)[16])rows, false, plain);
    gpu_model_ldmatrix_x4((const uint8_t(*)[16])rows, true, trans);
    for (uint32_t lane = 0; lane < 32; lane++)
        one[lane] = plain[lane][2];
    gpu_model_movmatrix_trans(one, moved);
    for (uint32_t lane = 0; lane < 32; lane++) {
        const uint32_t row = lane / 4, first = lane % 4 * 2;
        for (uint32_t m = 0; m < 4; m++) {
            assert_int_equal(plain[lane][m],
                             units[m][row][first] | (uint32_t)units[m][row][first + 1] << 16);
            assert_int_equal(trans[lane][m],
                             units[m][first][row] | (uint32_t)units[m][first + 1][row] << 16);
        }
        assert_int_equal(moved[lane], trans[lane][2]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_f16),    cmocka_unit_test(test_pack),
        cmocka_unit_test(test_products),     cmocka_unit_test(test_every_fp8_and_fp4_pair),
        cmocka_unit_test(test_integers),     cmocka_unit_test(test_exp2),
        cmocka_unit_test(test_mma),          cmocka_unit_test(test_mma_of_small_numbers),
        cmocka_unit_test(test_matrix_moves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
