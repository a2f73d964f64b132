/* Somebody's figure for a cache against ours: does it agree within its last digit, and if not,
 * which usual mistake gives it. Knows the arithmetic of mistakes; what "ours" is, the caller says.
 */
#ifndef EXPECT_H
#define EXPECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formula.h"
#include "model.h"
#include "status.h"

enum expect_unit {
    EXPECT_BYTES,  /* 5GiB: all sequences */
    EXPECT_RATE,   /* 20480B/token: what grows, one sequence */
    EXPECT_TOKENS, /* 207120tokens: all sequences, in a budget */
    EXPECT_RATIO,  /* 1.64x: tokens against the baseline format */
};

struct expect_figure {
    enum expect_unit unit;
    double value;     /* bytes, bytes per token, tokens, a ratio */
    double half_unit; /* of its last digit, or what --tolerance allows */
    double scale;     /* bytes of its unit: 2^30 for GiB; 1 for others */
    char unit_name[16];
    char text[48]; /* as given */
};

/* "5GiB", "320kB/token", "207120tokens", "1.64x". `option` names the option in messages. */
enum status expect_parse(const char *option, const char *text, struct expect_figure *out,
                         struct status_text *message);

/* What the figure is judged by. */
struct expect_case {
    const struct model *whole; /* before model_shard */
    const struct model *model; /* one rank's */
    struct formula_storage storage;
    struct formula_storage baseline;
    uint64_t tokens;
    uint64_t seqs;
    uint32_t ranks;
    double budget_bytes; /* for EXPECT_TOKENS */
    double ours;         /* in the figure's base unit: bytes, bytes per token, tokens, ratio */
    double paged;        /* whole pages; 0: no such figure */
    double formula;      /* where `ours` is an engine's: the formula's; else 0 */
    double tolerance;    /* a share of ours; 0: half a unit of the figure's last digit */
};

enum { EXPECT_VERDICT_BYTES = 288 };

/* True when the figure agrees with ours. `verdict`: "agrees", or "differs: ..." with the mistake
 * that comes nearest (two, when they come equally near), or "differs" when none fits. */
bool expect_judge(const struct expect_case *one, const struct expect_figure *figure,
                  char verdict[EXPECT_VERDICT_BYTES]);

#endif
