/* Inputs, lines and comparison: the same for the recorder and the replay. */
#include "vectors.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum compare { BITS, FLOAT, SUM, EXP2 };

static const struct {
    const char *name;
    uint32_t words;
    enum compare compare;
} ops[] = {
#define VECTORS(name, words, compare) {#name, words, compare},
#include "vectors.def"
#undef VECTORS
};

const char *vectors_name(enum vectors_op op) {
    return ops[op].name;
}

/* splitmix64's finaliser of a counter: the same on every machine. */
static uint32_t random_bits(uint64_t counter) {
    uint64_t x = (counter + 1) * 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return (uint32_t)((x ^ (x >> 31)) >> 16);
}

static uint32_t float_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float bits_float(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* A 16-bit number of size 1 at most: bf16 is the upper half of fp32, f16 has its own 5 exponent
 * bits. `whole`: -1, 0 or 1. */
static uint32_t half_bits(uint32_t bits, bool bf16, bool whole) {
    const uint32_t sign = (bits & 1u) << 15, one = bf16 ? 0x3F80u : 0x3C00u;
    if (whole)
        return (bits >> 1) % 3 == 0 ? 0 : sign | one;
    const uint32_t exponent_lsb = bf16 ? 0x80u : 0x400u;
    const uint32_t below = one - exponent_lsb * (1 + (bits >> 1) % 6);
    return sign | below | ((bits >> 8) & (exponent_lsb - 1));
}

static uint32_t half_pair(uint32_t bits, bool bf16, bool whole) {
    return half_bits(bits, bf16, whole) | half_bits(bits >> 16, bf16, whole) << 16;
}

static void product_inputs(enum vectors_op op, uint32_t vector, uint32_t *words) {
    const bool bf16 = op == VECTORS_mma_bf16, whole = vector < VECTORS_PER_OP / 2;
    for (uint32_t i = 0; i < 8; i++)
        words[i] = half_pair(words[i], bf16, whole);
    for (uint32_t i = 8; i < VECTORS_IN_WORDS; i++) {
        const float value = (float)(int32_t)words[i] * 0x1p-31f;
        words[i] = float_bits(whole ? (float)(int)(value * 100) : value);
    }
}

/* fp32 values over the range that 16-bit formats know, past both of its ends, with halfway cases.
 */
static uint32_t rounding_input(uint32_t bits, uint32_t index) {
    static const float special[] = {0.0f,     -0.0f,    65504.0f, 65520.0f, 65519.996f, 1e30f,
                                    0x1p-24f, 0x1p-25f, 0x1p-14f, INFINITY, -INFINITY,  3.4e38f};
    enum { SPECIALS = sizeof special / sizeof special[0] };
    if (index < SPECIALS)
        return float_bits(special[index]);
    const uint32_t exponent = 127 - 28 + (bits >> 8) % 46;
    const uint32_t mantissa = (bits & 1u) != 0 ? (bits >> 9) << 12 : bits >> 9;
    return (bits & 0x80000000u) | exponent << 23 | (mantissa & 0x7FFFFFu);
}

static uint32_t exp2_input(uint32_t bits, uint32_t index) {
    static const float special[] = {0.0f,   -0.0f,   1.0f,    -1.0f,     127.5f,
                                    128.0f, -126.0f, -126.5f, -INFINITY, -1e30f};
    enum { SPECIALS = sizeof special / sizeof special[0] };
    if (index < SPECIALS)
        return float_bits(special[index]);
    return float_bits((float)(int32_t)bits * 0x1p-31f * 120.0f);
}

void vectors_inputs(enum vectors_op op, uint32_t vector, uint32_t *in) {
    for (uint32_t lane = 0; lane < VECTORS_LANES; lane++) {
        uint32_t *words = in + VECTORS_IN_WORDS * lane;
        const uint32_t index = vector * VECTORS_LANES + lane; /* below 256 */
        for (uint32_t i = 0; i < VECTORS_IN_WORDS; i++)
            words[i] = random_bits(((uint64_t)op * VECTORS_PER_OP + vector) * VECTORS_IN_COUNT +
                                   (uint64_t)lane * VECTORS_IN_WORDS + i);
        if (op == VECTORS_mma_f16 || op == VECTORS_mma_bf16)
            product_inputs(op, vector, words);
        if (op == VECTORS_pack_f16x2 || op == VECTORS_pack_bf16x2)
            for (uint32_t i = 0; i < 2; i++)
                words[i] = rounding_input(words[i], index);
        if (op == VECTORS_mul_f16x2 || op == VECTORS_mul_bf16x2)
            for (uint32_t i = 0; i < 2; i++)
                words[i] = half_pair(words[i], op == VECTORS_mul_bf16x2, false);
        if (op == VECTORS_e4m3x2_to_f16x2)
            words[0] = index | (255 - index) << 8;
        if (op == VECTORS_e2m1x2_to_f16x2)
            words[0] = index;
        if (op == VECTORS_permute_bytes)
            words[2] &= 0x7777u;
        if (op == VECTORS_exp2)
            words[0] = exp2_input(words[0], index);
    }
}

/* FNV-1a over the words. */
static uint32_t hash_inputs(const uint32_t *in) {
    uint32_t hash = 2166136261u;
    for (uint32_t i = 0; i < VECTORS_IN_COUNT; i++)
        for (int shift = 0; shift < 32; shift += 8)
            hash = (hash ^ ((in[i] >> shift) & 0xFFu)) * 16777619u;
    return hash;
}

void vectors_write(FILE *file, enum vectors_op op, uint32_t vector, const uint32_t *in,
                   const uint32_t *out) {
    (void)fprintf(file, "%s %u %08x", ops[op].name, vector, hash_inputs(in));
    for (uint32_t lane = 0; lane < VECTORS_LANES; lane++)
        for (uint32_t word = 0; word < ops[op].words; word++)
            (void)fprintf(file, " %x", out[VECTORS_OUT_WORDS * lane + word]);
    (void)fputc('\n', file);
}

bool vectors_parse(const char *line, enum vectors_op *op, uint32_t *vector, uint32_t *out) {
    const size_t length = strcspn(line, " ");
    int found = 0;
    while (found < VECTORS_COUNT &&
           (strlen(ops[found].name) != length || strncmp(line, ops[found].name, length) != 0))
        found++;
    if (found == VECTORS_COUNT)
        return false;
    char *at;
    *op = (enum vectors_op)found;
    *vector = (uint32_t)strtoul(line + length, &at, 10);
    const uint32_t hash = (uint32_t)strtoul(at, &at, 16);
    uint32_t in[VECTORS_IN_COUNT];
    if (*vector >= VECTORS_PER_OP)
        return false;
    vectors_inputs(*op, *vector, in);
    if (hash != hash_inputs(in))
        return false;
    memset(out, 0, VECTORS_OUT_COUNT * sizeof *out);
    for (uint32_t lane = 0; lane < VECTORS_LANES; lane++) {
        for (uint32_t word = 0; word < ops[found].words; word++) {
            char *end;
            out[VECTORS_OUT_WORDS * lane + word] = (uint32_t)strtoul(at, &end, 16);
            if (end == at)
                return false;
            at = end;
        }
    }
    return at[strspn(at, " \r\n")] == '\0';
}

static bool word_equal(enum compare compare, uint32_t recorded, uint32_t replayed) {
    if (recorded == replayed)
        return true;
    const double a = bits_float(recorded), b = bits_float(replayed);
    if (compare == BITS)
        return false;
    if (isnan(a) || isnan(b))
        return isnan(a) && isnan(b);
    switch (compare) {
    case SUM:
        return fabs(a - b) <= 17 * 0x1p-21;
    case EXP2:
        return fabs(a - b) <= fabs(a) * 0x1p-21;
    case FLOAT:
    case BITS:
        break;
    }
    return a == b;
}

bool vectors_equal(enum vectors_op op, const uint32_t *recorded, const uint32_t *replayed,
                   uint32_t *lane, uint32_t *word) {
    for (*lane = 0; *lane < VECTORS_LANES; ++*lane) {
        for (*word = 0; *word < ops[op].words; ++*word) {
            const uint32_t at = VECTORS_OUT_WORDS * *lane + *word;
            if (!word_equal(ops[op].compare, recorded[at], replayed[at]))
                return false;
        }
    }
    return true;
}
