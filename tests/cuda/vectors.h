/* Fixed inputs for every instruction wrapper, and what comes out: recorded on a GPU
 * (record_vectors.c), replayed by the host's model of the instructions (replay_vectors.c). Both run
 * the one kernel of vectors_kernel.cu, one warp a vector. */
#ifndef VECTORS_H
#define VECTORS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

enum vectors_op {
#define VECTORS(name, words, compare) VECTORS_##name,
#include "vectors.def"
#undef VECTORS
    VECTORS_COUNT
};

enum {
    VECTORS_LANES = 32,
    VECTORS_IN_WORDS = 12, /* of each lane */
    VECTORS_OUT_WORDS = 4,
    VECTORS_PER_OP = 8,
    VECTORS_IN_COUNT = VECTORS_LANES * VECTORS_IN_WORDS,
    /* then one word: 1 where the target has the instruction */
    VECTORS_OUT_COUNT = VECTORS_LANES * VECTORS_OUT_WORDS + 1,
    VECTORS_SHARED_BYTES = 4096,
    VECTORS_LINE_BYTES = 2048
};

struct vectors_arguments {
    const uint32_t *dev_in; /* [VECTORS_IN_COUNT] */
    uint32_t *dev_out;      /* [VECTORS_OUT_COUNT] */
    uint32_t op;
};

const void *vectors_entry(void); /* the kernel: one block of VECTORS_LANES threads */

const char *vectors_name(enum vectors_op op);
/* Which values: bits where any bits will do, small whole numbers in the first half of a product's
 * vectors (so that sums are exact and a fragment's layout shows), every code of the conversions. */
void vectors_inputs(enum vectors_op op, uint32_t vector, uint32_t *in);

/* One line: "name vector hash-of-the-inputs word word ...", hexadecimal, lane after lane. */
void vectors_write(FILE *file, enum vectors_op op, uint32_t vector, const uint32_t *in,
                   const uint32_t *out);
/* False for a line that is none, was made of other inputs, or has too few words. `out` gets the
 * words where vectors_write takes them from. */
bool vectors_parse(const char *line, enum vectors_op *op, uint32_t *vector, uint32_t *out);
/* The first lane and word in which they differ by more than the instruction's own freedom: none;
 * for SUM, fp32 sums of 17 terms of size 1 at most, 17 * 2^-21; for EXP2 2^-21 of the value (2 ulp
 * and a bit). NaN equals NaN, except for BITS. */
bool vectors_equal(enum vectors_op op, const uint32_t *recorded, const uint32_t *replayed,
                   uint32_t *lane, uint32_t *word);

#ifdef __cplusplus
}
#endif
#endif
