/* From a row of the runner to the counters of a benchmark. */
#include "bench_run.h"

#include <map>

/* The columns of `kvgauge run` that are counters, under the same names. */
static const result_field counter_fields[] = {
    RESULT_FORMULA_BYTES, RESULT_POOL_BYTES, RESULT_KV_READ_BYTES,      RESULT_POOL_TOKENS_GB,
    RESULT_KV_TOKENS_S,   RESULT_READ_GB_S,  RESULT_PERCENT_OF_CEILING, RESULT_CEILING_GB_S,
    RESULT_KERNEL_ERROR,  RESULT_COLD,
};
/* And where steps read weights: of weights_ns the median ... */
static const result_field weights_fields[] = {
    RESULT_STEP_TOKENS_S, RESULT_WEIGHTS_READ_BYTES, RESULT_WEIGHTS_NS,
    RESULT_WEIGHTS_GB_S,  RESULT_WEIGHTS_ERROR,      RESULT_KV_OVERTAKES,
};
/* ... and of step_parts the weights' own. */
static const struct {
    step_share_field field;
    const char *name;
} share_fields[] = {
    {STEP_SHARE_FIELD_BYTES_PERCENT, "weights_bytes_percent"},
    {STEP_SHARE_FIELD_TIME_PERCENT, "weights_time_percent"},
};
/* Of samples_ns, the number alone. */
static const char samples_name[] = "samples";

/* What is kept of a row, which itself does not outlive the runner's call. */
struct bench_row {
    bool given;
    result_status status;
    std::string reason;
    double step_s;
    std::map<std::string, double> counters;
};

std::vector<std::string> bench_run_counters(bool weights) {
    std::vector<std::string> names = {samples_name};
    for (const result_field field : counter_fields)
        names.push_back(result_fields[field].name);
    if (!weights)
        return names;
    for (const result_field field : weights_fields)
        names.push_back(result_fields[field].name);
    for (const auto &share : share_fields)
        names.push_back(share.name);
    return names;
}

std::string bench_run_text(const char *text) {
    std::string out;
    for (; *text != '\0'; text++)
        out += *text >= ' ' && *text <= '~' ? *text : '?';
    return out;
}

/* Counters are numbers: what a row does not know (the share of the ceiling of a hot one) is 0. */
static double number_of(const writer_value &value) {
    switch (value.kind) {
    case WRITER_UNSIGNED:
        return static_cast<double>(value.as.number);
    case WRITER_REAL:
        return value.as.real;
    case WRITER_BOOL:
        return value.as.truth ? 1 : 0;
    case WRITER_SUMMARY:
        return value.as.summary.median;
    default:
        return 0;
    }
}

static void take_weights(const result_row &values, std::map<std::string, double> &counters) {
    for (const result_field field : weights_fields)
        counters[result_fields[field].name] = number_of(values.values[field]);
    /* Weights are the first of the parts wherever a row has parts. */
    const writer_value &parts = values.values[RESULT_STEP_PARTS];
    for (const auto &share : share_fields)
        counters[share.name] =
            parts.kind == WRITER_OBJECTS ? number_of(parts.as.objects.values[share.field]) : 0;
}

struct bench_taker {
    const bench_run *run;
    bench_row *row;
};

extern "C" {
static enum status take_row(void *context, const struct result *result, struct status_text *text) {
    (void)text;
    const bench_taker *taker = static_cast<bench_taker *>(context);
    result_row values;
    result_values(&taker->run->shared, result, &values);
    bench_row &row = *taker->row;
    row.given = true;
    row.status = result->status;
    const writer_value &reason = values.values[RESULT_REASON];
    row.reason = reason.kind == WRITER_TEXT ? reason.as.text : "";
    row.step_s = result->step.median * 1e-9;
    for (const result_field field : counter_fields)
        row.counters[result_fields[field].name] = number_of(values.values[field]);
    row.counters[samples_name] = static_cast<double>(result->series.count);
    if (taker->run->weights)
        take_weights(values, row.counters);
    return STATUS_OK;
}
}

/* The case with that one format, which is its own baseline. */
static bench_row run_case_once(bench_run &run, const bench_case &which) {
    struct options alone = *which.one->options;
    alone.formats[0] = alone.baseline = which.format;
    alone.format_count = 1;
    run_case one = *which.one;
    one.options = &alone;
    bench_row row = {};
    bench_taker taker = {&run, &row};
    status_text text = {""};
    run.runner.quarters_done = 0;
    progress_start(4);
    const enum status status = runner_run_case(&run.runner, &one, take_row, &taker, &text);
    progress_clear();
    if (!row.given) {
        row.status = result_status_of(status != STATUS_OK ? status : STATUS_REFUSED);
        row.reason = text.line;
    }
    return row;
}

void bench_run_one(benchmark::State &state, bench_run &run, const bench_case &which) {
    bench_row row = {};
    while (state.KeepRunning()) {
        /* The library asks for more iterations only to warm up: the harness has done that. */
        if (!row.given) {
            if (interrupt_asked()) {
                state.SkipWithError("interrupted");
                break;
            }
            row = run_case_once(run, which);
            run.ok_rows += row.status == RESULT_OK;
            run.wrong_rows += row.status == RESULT_WRONG;
            if (row.status != RESULT_OK || !row.given) {
                const std::string why = std::string(result_status_name(row.status)) + ": " +
                                        bench_run_text(row.reason.c_str());
                state.SkipWithError(why.c_str());
                break;
            }
        }
        state.SetIterationTime(row.step_s);
    }
    /* What there is to say of a row that counts: a drift, a remark on the model. */
    if (row.status == RESULT_OK && !row.reason.empty())
        state.SetLabel(bench_run_text(row.reason.c_str()).c_str());
    for (const auto &counter : row.counters)
        state.counters[counter.first] = benchmark::Counter(counter.second);
}
