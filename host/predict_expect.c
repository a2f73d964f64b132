/* The cells of --expect: somebody's figure against this row's answer. With --engine it is the
 * engine's answer that the figure is held to. */
#include <string.h>

#include "predict_row.h"

static double real_of(const struct writer_value *value) {
    return value->kind == WRITER_REAL ? value->as.real : 0;
}

/* What the figure is about, in its base unit; 0 when the row has no such number. */
static double ours_of(const struct predict_question *question,
                      const struct predict_answer *answer) {
    const struct options *options = question->which.options;
    const bool engine = options->engine != NULL;
    const struct writer_value *most = &answer->values[PREDICT_MAX_TOKENS];
    if (engine && !answer->has_engine)
        return 0;
    switch (options->expect.unit) {
    case EXPECT_BYTES:
        return engine ? (double)answer->engine.bytes : (double)answer->formula.total_bytes;
    case EXPECT_RATE:
        return formula_rate_value(answer->formula.rate);
    case EXPECT_TOKENS:
        if (engine)
            return answer->engine.has_tokens ? (double)answer->engine.tokens : 0;
        return most->kind == WRITER_UNSIGNED ? (double)most->as.number * (double)question->seqs : 0;
    case EXPECT_RATIO:
        break;
    }
    return real_of(
        &answer->values[engine ? PREDICT_ENGINE_VS_BASELINE : PREDICT_TOKENS_VS_BASELINE]);
}

/* What the formula says where an engine is held to the figure. */
static double formula_of(const struct predict_question *question,
                         const struct predict_answer *answer) {
    const struct options *options = question->which.options;
    if (options->engine == NULL)
        return 0;
    if (options->expect.unit == EXPECT_BYTES)
        return (double)answer->formula.total_bytes;
    return options->expect.unit == EXPECT_RATIO
               ? real_of(&answer->values[PREDICT_TOKENS_VS_BASELINE])
               : 0;
}

void predict_expect(const struct predict_question *question, const struct formula_storage *storage,
                    struct predict_answer *out) {
    const struct options *options = question->which.options;
    const struct expect_figure *figure = &options->expect;
    struct options_format resolved;
    /* A format against itself is no figure of anybody's. */
    if (figure->unit == EXPECT_RATIO && strcmp(question->format->name, options->baseline.name) == 0)
        return;
    const double budget = (double)options->budget_bytes - (double)options->weights_bytes;
    const struct writer_value *paged = &out->values[PREDICT_PAGED];
    const struct expect_case one = {
        .whole = question->whole,
        .model = &question->which.model,
        .storage = *storage,
        .baseline = run_case_storage(&question->which, &options->baseline, &resolved),
        .tokens = question->tokens,
        .seqs = question->seqs,
        .ranks = options->tp,
        .budget_bytes = budget,
        .ours = ours_of(question, out),
        .paged = paged->kind == WRITER_UNSIGNED ? (double)paged->as.number : 0,
        .formula = formula_of(question, out),
        .tolerance = options->tolerance_percent / 100,
    };
    out->values[PREDICT_EXPECTED] = predict_text(figure->text);
    out->judged = true;
    if (!(one.ours > 0)) {
        out->agrees = false;
        out->values[PREDICT_VERDICT] = predict_text("not judged: there is no such figure here");
        return;
    }
    out->agrees = expect_judge(&one, figure, out->verdict);
    out->values[PREDICT_EXPECTED_OURS] = predict_real(one.ours / figure->scale);
    out->values[PREDICT_EXPECTED_RATIO] = predict_real(figure->value / one.ours);
    out->values[PREDICT_VERDICT] = predict_text(out->verdict);
}
