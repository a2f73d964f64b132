/* Seeded random K, V and query data: finite, below 6e4, the same on every machine and backend.
 * normal: unit Gaussian. bias: as normal, with a large constant in a few K channels, as
 * Qwen2.5 has. outlier: a few values 20 times larger, anywhere. sink: the K of a bank's first row
 * is aligned with every query, so that the first token draws most of the softmax. */
#ifndef GENERATE_H
#define GENERATE_H

#include <stddef.h>
#include <stdint.h>

#include "options.h"

struct generate_bank {
    uint64_t rows;
    uint32_t kv_heads;
    uint32_t k_dim;
    uint32_t v_dim; /* 0: no V rows (v in K) */
    float *k;       /* [rows][kv_heads][k_dim]; owned */
    float *v;       /* [rows][kv_heads][v_dim]; owned; NULL when v_dim is 0 */
    float k_amax;   /* largest magnitude */
    float v_amax;
};

/* Row i of a bank is token i's (mod rows). The same (seed, stream) gives the same bank. */
enum status generate_bank_create(uint64_t seed, uint64_t stream, enum options_data data,
                                 uint64_t rows, uint32_t kv_heads, uint32_t k_dim, uint32_t v_dim,
                                 struct generate_bank *out, struct status_text *text);
void generate_bank_destroy(struct generate_bank *bank);

/* Largest magnitude of `count` values. */
float generate_largest(const float *values, uint64_t count);
/* A query's value: sixteenths, up to +-8, toward zero. At most 8 significant bits: exact in bf16
 * and in f16. */
float generate_exact(float value);
/* Queries [seqs][query_heads][k_dim], every value exact in bf16 and in f16. */
void generate_queries(uint64_t seed, uint64_t stream, enum options_data data, uint32_t seqs,
                      uint32_t query_heads, uint32_t k_dim, float *out);
/* Sinks [query_heads]. */
void generate_sinks(uint64_t seed, uint64_t stream, uint32_t query_heads, float *out);

/* A small, exact generator (splitmix64-seeded xoshiro256**), for shuffles and tests too. */
struct generate_random {
    uint64_t s[4];
};
void generate_random_seed(struct generate_random *random, uint64_t seed);
uint64_t generate_random_next(struct generate_random *random);
/* Uniform in [0, bound), without modulo bias; bound > 0. */
uint64_t generate_random_below(struct generate_random *random, uint64_t bound);
float generate_random_normal(struct generate_random *random);

#endif
