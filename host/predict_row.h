/* A row of `predict`: what is asked, and what the size formula answers. */
#ifndef PREDICT_ROW_H
#define PREDICT_ROW_H

#include <stdbool.h>
#include <stdint.h>

#include "engine.h"
#include "formula.h"
#include "model_source.h"
#include "predict_output.h"
#include "run_case.h"

struct predict_question {
    struct run_case which; /* one rank's model, options, auto format; its lengths are not used */
    struct model_trace trace;
    char auto_reason[128]; /* why auto_format is what it is */
    const struct options_format *format;
    uint64_t tokens; /* 0: the native context, which no source gives */
    uint64_t seqs;
    const struct model *whole;                    /* before it was split over ranks */
    const struct engine_setting *engine_settings; /* of --engine; unused without */
};

struct predict_answer {
    enum status status;     /* STATUS_OK, or why there are no numbers */
    struct status_text why; /* in words */
    bool fits;              /* in --budget; true without one */
    struct options_format format;
    struct formula_result formula; /* meaningful with STATUS_OK */
    bool has_engine;               /* --engine answers; the rest is its answer */
    struct engine_answer engine;
    bool judged; /* --expect has a figure for this row */
    bool agrees;
    char verdict[EXPECT_VERDICT_BYTES];
    char notes[1600];
    struct writer_value values[PREDICT_FIELD_COUNT]; /* texts point into this and the question */
};

/* Never fails: a row that cannot be computed is a row that says why. */
void predict_row(const struct predict_question *question, struct predict_answer *out);

/* Rows behind `answer`, one per group (its share of the row, notes "group N: ...") and one that
 * names the config key of each number; other cells are null. */
enum status predict_row_items(const struct predict_question *question,
                              const struct predict_answer *answer, struct predict_output *output,
                              struct status_text *text);

/* Rows for --engine behind `answer`: one per item of the difference, one for what was taken, one
 * for each line the engine prints (host/predict_engine.c). */
enum status predict_engine_items(const struct predict_answer *answer, struct predict_output *output,
                                 struct status_text *text);
/* Fills the engine's cells of an answer that has its formula. STATUS_WRONG: a defect of ours. */
enum status predict_engine(const struct predict_question *question,
                           const struct formula_storage *storage, struct predict_answer *out);

/* Fills the cells of --expect of an answer that has everything else (host/predict_expect.c). */
void predict_expect(const struct predict_question *question, const struct formula_storage *storage,
                    struct predict_answer *out);

/* Cells of a row behind `answer`: its question, and nothing else. */
void predict_row_behind(const struct predict_answer *answer, struct writer_value *values);
/* Appends to the notes of `out`, "; " between. */
void predict_row_note(struct predict_answer *out, const char *note);

/* "llama-3.3-70b nvfp4, 1 x 8,192 tokens: fits, 9.30 GiB left; ..." for a row with a budget. */
void predict_row_verdict(const struct predict_question *question,
                         const struct predict_answer *answer, char *out, size_t bytes);

#endif
