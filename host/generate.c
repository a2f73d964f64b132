/* Integer generator, and values made from it with exact arithmetic only: no libm, whose last bits
 * differ between machines. */
#include "generate.h"

#include <math.h>
#include <stdlib.h>

#include "checked.h"

static uint64_t splitmix(uint64_t *state) {
    uint64_t z = (*state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

void generate_random_seed(struct generate_random *random, uint64_t seed) {
    for (int i = 0; i < 4; i++)
        random->s[i] = splitmix(&seed);
}

static uint64_t rotate_left(uint64_t x, int by) {
    return (x << by) | (x >> (64 - by));
}

uint64_t generate_random_next(struct generate_random *random) {
    uint64_t *s = random->s;
    const uint64_t result = rotate_left(s[1] * 5, 7) * 9;
    const uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate_left(s[3], 45);
    return result;
}

uint64_t generate_random_below(struct generate_random *random, uint64_t bound) {
    /* Values past the last whole multiple of bound would favour small results. */
    const uint64_t limit = UINT64_MAX - UINT64_MAX % bound;
    uint64_t value;
    do
        value = generate_random_next(random);
    while (value >= limit);
    return value % bound;
}

/* Sum of twelve 10-bit uniforms: mean 0, variance 1 after scaling, tails to +-6. The eight bits
 * left over fill the steps between sums, so that 16-bit formats have something to round. Integers
 * up to the last product, which is exact: 24 bits times a power of two. */
float generate_random_normal(struct generate_random *random) {
    int32_t sum = 0, between = 0;
    for (int word = 0; word < 2; word++) {
        uint64_t bits = generate_random_next(random);
        for (int i = 0; i < 6; i++, bits >>= 10)
            sum += (int32_t)(bits & 1023u);
        between = between * 16 + (int32_t)bits;
    }
    /* Each uniform has variance (1024^2 - 1) / 12, so twelve have 1024 squared, nearly. */
    return (float)((2 * sum - 12 * 1023) * 256 + 2 * between - 255) * 0x1p-19f;
}

/* Streams that must not repeat each other. */
static void seed_stream(struct generate_random *random, uint64_t seed, uint64_t stream,
                        uint64_t what) {
    uint64_t mixed = seed;
    const uint64_t a = splitmix(&mixed) ^ stream;
    mixed = a;
    generate_random_seed(random, splitmix(&mixed) ^ (what << 56));
}

enum { WHAT_K = 1, WHAT_V = 2, WHAT_QUERY = 3, WHAT_SINK = 4, WHAT_DIRECTION = 5 };
enum { BIAS_CHANNELS = 4, OUTLIER_ONE_IN = 256, OUTLIER_TIMES = 20, SINK_LOGIT = 10 };

/* The direction every query leans to with --data sink: +-1 per channel. */
static float sink_direction(uint64_t seed, uint64_t stream, uint32_t channel) {
    struct generate_random random;
    seed_stream(&random, seed, stream ^ ((uint64_t)channel << 32), WHAT_DIRECTION);
    return (generate_random_next(&random) & 1u) != 0 ? 1.0f : -1.0f;
}

static float one_value(struct generate_random *random, enum options_data data) {
    float value = generate_random_normal(random);
    if (data == OPTIONS_DATA_OUTLIER && generate_random_below(random, OUTLIER_ONE_IN) == 0)
        value *= (float)OUTLIER_TIMES;
    return value;
}

/* A few channels of each head carry a constant many times the rest, as Qwen2.5's K bias does. */
static void add_bias(uint64_t seed, uint64_t stream, struct generate_bank *bank) {
    struct generate_random random;
    seed_stream(&random, seed, stream, WHAT_DIRECTION);
    for (uint32_t head = 0; head < bank->kv_heads; head++) {
        for (int i = 0; i < BIAS_CHANNELS; i++) {
            const uint64_t channel = generate_random_below(&random, bank->k_dim);
            const float constant = (float)(32 + (int)generate_random_below(&random, 97)) *
                                   ((generate_random_next(&random) & 1u) != 0 ? 1.0f : -1.0f);
            for (uint64_t row = 0; row < bank->rows; row++)
                bank->k[(row * bank->kv_heads + head) * bank->k_dim + channel] += constant;
        }
    }
}

/* Row 0 points along the queries' common direction: its logit (q . k / sqrt(k_dim)) is about
 * SINK_LOGIT where the others' are about 1, so that it draws most of a thousand rows' weight and
 * leaves the rest some. sqrtf is exact to the last bit everywhere, unlike the rest of libm. */
static void add_sink(uint64_t seed, uint64_t stream, struct generate_bank *bank) {
    const float strength = (float)SINK_LOGIT / sqrtf((float)bank->k_dim);
    for (uint32_t channel = 0; channel < bank->k_dim; channel++) {
        const float value = strength * sink_direction(seed, stream, channel);
        for (uint32_t head = 0; head < bank->kv_heads; head++)
            bank->k[(uint64_t)head * bank->k_dim + channel] += value;
    }
}

float generate_largest(const float *values, uint64_t count) {
    float largest = 0;
    for (uint64_t i = 0; i < count; i++) {
        const float magnitude = values[i] < 0 ? -values[i] : values[i];
        largest = magnitude > largest ? magnitude : largest;
    }
    return largest;
}

static float *make_side(uint64_t seed, uint64_t stream, uint64_t what, enum options_data data,
                        uint64_t count) {
    float *values = malloc(count * sizeof *values);
    if (values == NULL)
        return NULL;
    struct generate_random random;
    seed_stream(&random, seed, stream, what);
    for (uint64_t i = 0; i < count; i++)
        values[i] = one_value(&random, data);
    return values;
}

enum status generate_bank_create(uint64_t seed, uint64_t stream, enum options_data data,
                                 uint64_t rows, uint32_t kv_heads, uint32_t k_dim, uint32_t v_dim,
                                 struct generate_bank *out, struct status_text *text) {
    *out =
        (struct generate_bank){.rows = rows, .kv_heads = kv_heads, .k_dim = k_dim, .v_dim = v_dim};
    if (rows == 0 || kv_heads == 0 || k_dim == 0)
        return status_set(text, STATUS_BAD_INPUT,
                          "test data needs rows, KV heads and K values above zero");
    uint64_t row_heads, k_count, v_count, count, bytes;
    if (!checked_multiply(rows, kv_heads, &row_heads) ||
        !checked_multiply(row_heads, k_dim, &k_count) ||
        !checked_multiply(row_heads, v_dim, &v_count) || !checked_add(k_count, v_count, &count) ||
        !checked_multiply(count, sizeof(float), &bytes))
        return status_set(text, STATUS_OVERFLOW, "a bank of %llu rows does not fit 64-bit sizes",
                          (unsigned long long)rows);
    out->k = make_side(seed, stream, WHAT_K, data, k_count);
    out->v = v_dim > 0 ? make_side(seed, stream, WHAT_V, data, v_count) : NULL;
    if (out->k == NULL || (v_dim > 0 && out->v == NULL)) {
        generate_bank_destroy(out);
        return status_set(text, STATUS_OUT_OF_MEMORY, "no host memory for %llu bytes of test data",
                          (unsigned long long)bytes);
    }
    if (data == OPTIONS_DATA_BIAS)
        add_bias(seed, stream, out);
    if (data == OPTIONS_DATA_SINK)
        add_sink(seed, stream, out);
    out->k_amax = generate_largest(out->k, k_count);
    out->v_amax = v_dim > 0 ? generate_largest(out->v, v_count) : 0;
    return STATUS_OK;
}

void generate_bank_destroy(struct generate_bank *bank) {
    free(bank->k);
    free(bank->v);
    *bank = (struct generate_bank){0};
}

float generate_exact(float value) {
    int32_t sixteenths = (int32_t)(value * 16.0f);
    sixteenths = sixteenths > 127 ? 127 : sixteenths < -127 ? -127 : sixteenths;
    return (float)sixteenths * 0.0625f;
}

void generate_queries(uint64_t seed, uint64_t stream, enum options_data data, uint32_t seqs,
                      uint32_t query_heads, uint32_t k_dim, float *out) {
    struct generate_random random;
    seed_stream(&random, seed, stream, WHAT_QUERY);
    const uint64_t rows = (uint64_t)seqs * query_heads;
    for (uint64_t row = 0; row < rows; row++) {
        for (uint32_t channel = 0; channel < k_dim; channel++) {
            float value = generate_random_normal(&random);
            if (data == OPTIONS_DATA_SINK)
                value += sink_direction(seed, stream, channel);
            out[row * k_dim + channel] = generate_exact(value);
        }
    }
}

void generate_sinks(uint64_t seed, uint64_t stream, uint32_t query_heads, float *out) {
    struct generate_random random;
    seed_stream(&random, seed, stream, WHAT_SINK);
    for (uint32_t i = 0; i < query_heads; i++)
        out[i] = generate_random_normal(&random);
}
