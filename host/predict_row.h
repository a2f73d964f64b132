/* A row of `predict`: what is asked, and what the size formula answers. */
#ifndef PREDICT_ROW_H
#define PREDICT_ROW_H

#include <stdbool.h>
#include <stdint.h>

#include "formula.h"
#include "model_source.h"
#include "run_case.h"
#include "session.h"

/* In the order of the output (README, "predict"). */
enum predict_field {
    PREDICT_MODEL,
    PREDICT_K_FORMAT,
    PREDICT_V_FORMAT,
    PREDICT_INDEX_FORMAT,
    PREDICT_TOKENS,
    PREDICT_SEQS,
    PREDICT_TP,
    PREDICT_KV_RATE,
    PREDICT_INDEX_RATE,
    PREDICT_RATE,
    PREDICT_FIXED,
    PREDICT_TOTAL,
    PREDICT_PAGED,
    PREDICT_PADDING,
    PREDICT_TOKENS_GB,
    PREDICT_TOKENS_VS_BASELINE,
    PREDICT_FITS,
    PREDICT_LEFT,
    PREDICT_MAX_TOKENS,
    PREDICT_MAX_SEQS,
    PREDICT_NOTES,
    PREDICT_FIELD_COUNT
};

extern const struct writer_field predict_fields[PREDICT_FIELD_COUNT];

struct predict_question {
    struct run_case which; /* one rank's model, options, auto format; its lengths are not used */
    struct model_trace trace;
    char auto_reason[128]; /* why auto_format is what it is */
    const struct options_format *format;
    uint64_t tokens; /* 0: the native context, which no source gives */
    uint64_t seqs;
};

struct predict_answer {
    enum status status;     /* STATUS_OK, or why there are no numbers */
    struct status_text why; /* in words */
    bool fits;              /* in --budget; true without one */
    struct options_format format;
    struct formula_result formula; /* meaningful with STATUS_OK */
    char notes[640];
    struct writer_value values[PREDICT_FIELD_COUNT]; /* texts point into this and the question */
};

/* Never fails: a row that cannot be computed is a row that says why. */
void predict_row(const struct predict_question *question, struct predict_answer *out);

/* Rows behind `answer`, one per group (its share of the row, notes "group N: ...") and one that
 * names the config key of each number; other cells are null. */
enum status predict_row_items(const struct predict_question *question,
                              const struct predict_answer *answer, struct session_output *output,
                              struct status_text *text);

/* "llama-3.3-70b nvfp4, 1 x 8,192 tokens: fits, 9.30 GiB left; ..." for a row with a budget. */
void predict_row_verdict(const struct predict_question *question,
                         const struct predict_answer *answer, char *out, size_t bytes);

#endif
