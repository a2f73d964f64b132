/* The hot part of the cpu backend: attention and index scores over one segment, tile by tile, plain
 * streaming, and steps of the recurrent state. cpu_tile.c and cpu_state_rows.c are compiled once
 * per instruction set; the best one the machine has is taken at open. */
#ifndef CPU_TILE_H
#define CPU_TILE_H

#include <stdbool.h>
#include <stdint.h>

#include "cpu_state.h"
#include "page.h"

enum {
    CPU_TILE_TOKENS = 32,         /* tokens worked on at a time */
    CPU_TILE_IN_PLACE_HEADS = 16, /* with more query heads than this a tile is decoded first */
    CPU_TILE_ALIGNMENT = 64,      /* of every float array below, bytes */
    CPU_TILE_ROW_VALUES = 16,     /* rows are padded to a multiple of this many values */
};

/* Values of a row in the arrays below: dim rounded up, the rest zeros. */
static inline uint32_t cpu_tile_stride(uint32_t dim) {
    return (dim + CPU_TILE_ROW_VALUES - 1) / CPU_TILE_ROW_VALUES * CPU_TILE_ROW_VALUES;
}

/* Floats that a float array takes when another follows it. */
static inline uint64_t cpu_tile_aligned(uint64_t floats) {
    const uint64_t alignment = CPU_TILE_ALIGNMENT / sizeof(float);
    return (floats + alignment - 1) / alignment * alignment;
}

/* One segment of one row: tokens [first_token, first_token + token_count) of one KV head, for
 * `heads` query heads. */
struct cpu_tile_job {
    const struct page_layout *page;
    const uint8_t *pages;
    const int32_t *table; /* the sequence's columns */
    uint32_t columns;
    uint32_t kv_head;
    uint64_t first_token; /* 0 with `selected` */
    uint64_t token_count;
    const int32_t *selected; /* [token_count] the tokens themselves; NULL: they follow each other */
    uint32_t heads;
    const float *queries; /* [heads][k stride], times softmax scale, K's tensor scale and log2(e) */
    float *largest;       /* [heads] out: largest score, in powers of two; -INFINITY if none */
    float *sums;          /* [heads] out: sum of 2^(score - largest) */
    float *outputs;       /* [heads][v stride] out: the weighted sum, V's tensor scale left out */
    float *tile;          /* scratch [CPU_TILE_TOKENS][stride of K or V, the larger] */
    float *scales;        /* scratch: scales of a tile, CPU_TILE_TOKENS rows of the longer of K
                             and V at most one scale per 16 values, each run of rows rounded up */
    float *weights;       /* scratch [heads][CPU_TILE_TOKENS] */
    float *lane_sums;     /* scratch [heads][CPU_TILE_ROW_VALUES]: of the weights, lane by lane */
};

struct cpu_tile_ops {
    const char *name; /* "avx512", "avx2", "neon", "generic" */
    void (*segment)(const struct cpu_tile_job *job);
    /* scores[i] = sum over heads of head_weights[h] * max(0, query h . K row i), NaN staying NaN.
     * Of the job: no `outputs`, `largest`, `sums` and `lane_sums`, and plain queries. */
    void (*index)(const struct cpu_tile_job *job, const float *head_weights, float *scores);
    /* Reads `bytes` from `from` by plain wide loads and returns something that depends on all of
     * them, so that no load can be left out. */
    uint64_t (*stream)(const uint8_t *from, uint64_t bytes);
    void (*state_rows)(const struct cpu_state_rows *job);
};

/* The best variant this processor runs. */
const struct cpu_tile_ops *cpu_tile_choose(void);

#endif
