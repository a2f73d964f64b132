/* Gathers what ranks measured. */
#include "result_ranks.h"

#include <stdio.h>

#include "number.h"
#include "reduce.h"

const struct writer_field result_rank_fields[RESULT_RANK_FIELD_COUNT] = {
#define RESULT_RANK(ID, name) {#name, NULL, 0},
#include "result_rank_fields.def"
#undef RESULT_RANK
};

void result_ranks_plan(const struct ranks *ranks, const struct run_case *one,
                       const struct options_format *format, const struct pool_sizes *sizes,
                       struct result_ranks *out) {
    if (ranks->count == 1)
        return;
    out->count = ranks->count;
    out->reduce_bytes = reduce_bytes(&one->whole, one->seqs);
    if (sizes == NULL)
        return;
    struct pool_request request;
    struct pool_sizes whole;
    struct status_text why;
    enum status status = run_case_request(one, format, &request, &why);
    request.model = &one->whole;
    if (status == STATUS_OK)
        status = pool_plan(&request, &whole, &why);
    out->has_replicated = status == STATUS_OK;
    if (out->has_replicated)
        out->replicated_bytes = sizes->formula_bytes * ranks->count - whole.formula_bytes;
}

static enum status medians(const struct measure_series *series, struct result_rank *out,
                           struct status_text *text) {
    const struct {
        const uint64_t *values;
        double *median;
    } parts[] = {{series->step_ns, &out->step_ns},
                 {series->part_ns[MEASURE_APPEND], &out->append_ns},
                 {series->part_ns[MEASURE_ATTEND], &out->attend_ns},
                 {series->part_ns[MEASURE_REDUCE], &out->reduce_ns}};
    struct writer_summary summary = {0};
    enum status status = measure_summarise_kv(series, &summary, text);
    out->kv_ns = summary.median;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0] && status == STATUS_OK; i++) {
        status = measure_summarise(parts[i].values, series->count, &summary, text);
        *parts[i].median = summary.median;
    }
    return status;
}

enum status result_ranks_share(const struct ranks *ranks, const struct backend_facts *facts,
                               const struct pool_sizes *sizes, uint64_t read_bytes,
                               struct measure_contender *contender, struct result_ranks *out,
                               struct status_text *text) {
    const struct measure_series *series = &contender->series;
    if (ranks->count == 1)
        return STATUS_OK;
    struct result_rank mine = {.threads = facts->threads,
                               .formula_bytes = sizes->formula_bytes,
                               .pool_bytes = sizes->pool_bytes,
                               .read_bytes = read_bytes,
                               .ceiling_gb_per_s = contender->canary.gb_per_s};
    (void)snprintf(mine.device, sizeof mine.device, "%s", facts->device);
    enum status status = medians(series, &mine, text);
    /* A broadcast of arrays of two lengths would not come back. */
    if (!ranks_same(ranks, series->count) && status == STATUS_OK)
        status = status_set(text, STATUS_WRONG, "the ranks have different numbers of samples");
    status = ranks_agree(ranks, status, text);
    if (status != STATUS_OK)
        return status;
    ranks_gather(ranks, &mine, sizeof mine, out->each);
    out->slowest = 0;
    for (uint32_t r = 1; r < ranks->count; r++)
        if (out->each[r].kv_ns > out->each[out->slowest].kv_ns)
            out->slowest = r;
    const size_t bytes = series->count * sizeof *series->step_ns;
    ranks_broadcast(ranks, out->slowest, series->step_ns, bytes);
    ranks_broadcast(ranks, out->slowest, series->canary_mb_per_s, bytes);
    for (int part = 0; part < MEASURE_PARTS; part++)
        ranks_broadcast(ranks, out->slowest, series->part_ns[part], bytes);
    ranks_broadcast(ranks, out->slowest, &contender->canary, sizeof contender->canary);
    ranks_broadcast(ranks, out->slowest, &contender->seen, sizeof contender->seen);
    out->has_times = true;
    return STATUS_OK;
}

void result_ranks_words(const struct result_ranks *ranks, char *out, size_t bytes) {
    out[0] = '\0';
    if (!ranks->has_times)
        return;
    const struct result_rank *slowest = &ranks->each[ranks->slowest];
    char copies[NUMBER_TEXT_BYTES];
    number_bytes_words(ranks->replicated_bytes, copies);
    (void)snprintf(
        out, bytes,
        "%u ranks, the slowest is rank %u; the sum over them takes %.0f %% of its step%s%s%s",
        ranks->count, ranks->slowest, 100 * slowest->reduce_ns / slowest->step_ns,
        ranks->replicated_bytes > 0 ? "; " : "", ranks->replicated_bytes > 0 ? copies : "",
        ranks->replicated_bytes > 0 ? " are copies of what another rank holds too" : "");
}

void result_ranks_values(const struct result_ranks *ranks, struct writer_value *values) {
    for (uint32_t r = 0; r < ranks->count; r++, values += RESULT_RANK_FIELD_COUNT) {
        const struct result_rank *rank = &ranks->each[r];
        const struct {
            enum result_rank_field field;
            uint64_t number;
        } numbers[] = {{RESULT_RANK_RANK, r},
                       {RESULT_RANK_THREADS, rank->threads},
                       {RESULT_RANK_FORMULA_BYTES, rank->formula_bytes},
                       {RESULT_RANK_POOL_BYTES, rank->pool_bytes},
                       {RESULT_RANK_READ_BYTES, rank->read_bytes}};
        const struct {
            enum result_rank_field field;
            double real;
        } reals[] = {{RESULT_RANK_STEP_NS, rank->step_ns},
                     {RESULT_RANK_APPEND_NS, rank->append_ns},
                     {RESULT_RANK_ATTEND_NS, rank->attend_ns},
                     {RESULT_RANK_KV_NS, rank->kv_ns},
                     {RESULT_RANK_REDUCE_NS, rank->reduce_ns},
                     {RESULT_RANK_CEILING, rank->ceiling_gb_per_s}};
        for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
            values[numbers[i].field] =
                (struct writer_value){.kind = WRITER_UNSIGNED, .as.number = numbers[i].number};
        for (size_t i = 0; i < sizeof reals / sizeof reals[0]; i++)
            values[reals[i].field] =
                (struct writer_value){.kind = WRITER_REAL, .as.real = reals[i].real};
        values[RESULT_RANK_DEVICE] =
            (struct writer_value){.kind = WRITER_TEXT, .as.text = rank->device};
        if (rank->threads == 0)
            values[RESULT_RANK_THREADS] = (struct writer_value){.kind = WRITER_NULL};
    }
}
