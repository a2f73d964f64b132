/* Gathers what ranks measured. */
#include "result_ranks.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "number.h"
#include "reduce.h"
#include "result_value.h"

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
                 {series->part_ns[MEASURE_REDUCE], &out->reduce_ns},
                 {series->part_ns[MEASURE_WEIGHTS], &out->weights_ns}};
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
    ranks_broadcast(ranks, out->slowest, series->pace_mops, bytes);
    for (int part = 0; part < MEASURE_PARTS; part++)
        ranks_broadcast(ranks, out->slowest, series->part_ns[part], bytes);
    ranks_broadcast(ranks, out->slowest, &contender->canary, sizeof contender->canary);
    ranks_broadcast(ranks, out->slowest, &contender->seen, sizeof contender->seen);
    out->has_times = true;
    return STATUS_OK;
}

void result_ranks_share_groups(const struct ranks *ranks, const struct result_ranks *shared,
                               double *ns, uint32_t count) {
    ranks_broadcast(ranks, shared->slowest, ns, count * sizeof *ns);
}

void result_ranks_share_verify(const struct ranks *ranks, bool *has, struct verify_result *verify) {
    struct verified {
        bool has;
        struct verify_result found;
    } mine = {.has = *has, .found = *verify}, all[RANKS_MOST];
    if (ranks->count == 1)
        return;
    ranks_gather(ranks, &mine, sizeof mine, all);
    for (uint32_t r = 0; r < ranks->count; r++) {
        const struct verify_result *found = &all[r].found;
        if (!all[r].has)
            continue;
        if (!*has)
            *verify = *found;
        *has = true;
        verify->kernel_error = fmax(verify->kernel_error, found->kernel_error);
        verify->k_error = fmax(verify->k_error, found->k_error);
        verify->v_error = fmax(verify->v_error, found->v_error);
        verify->format_error = fmax(verify->format_error, found->format_error);
        verify->verified_fraction = fmin(verify->verified_fraction, found->verified_fraction);
    }
}

static bool same_device(const struct result_rank_energy *a, const struct result_rank_energy *b) {
    return a->machine == b->machine && strcmp(a->pci_bus_id, b->pci_bus_id) == 0;
}

void result_ranks_sum_energy(const struct result_rank_energy *each, uint32_t count,
                             struct measure_energy *out) {
    double power_w = 0, step_j = 0;
    bool known = true;
    for (uint32_t r = 0; r < count; r++) {
        known = known && each[r].known;
        uint32_t sharers = 0;
        bool counted = false; /* with an earlier rank */
        double shared_w = 0, steps_per_j = 0;
        for (uint32_t other = 0; other < count; other++) {
            if (!same_device(&each[r], &each[other]))
                continue;
            counted = counted || other < r;
            sharers++;
            shared_w += each[other].power_w;
            steps_per_j += 1 / each[other].step_j;
        }
        if (counted)
            continue;
        power_w += shared_w / sharers;
        step_j += sharers / steps_per_j;
    }
    out->has_power = out->has_energy = known;
    out->power_w = known ? power_w : 0;
    out->step_j = known ? step_j : 0;
}

void result_ranks_share_watch(const struct ranks *ranks, const struct result_ranks *shared,
                              const struct backend_facts *facts, struct telemetry_watch *watch,
                              struct measure_energy *energy) {
    if (ranks->count == 1)
        return;
    struct result_rank_energy all[RANKS_MOST],
        mine = {.machine = ranks->machine,
                .known = energy->has_power && energy->has_energy,
                .power_w = energy->power_w,
                .step_j = energy->step_j};
    (void)snprintf(mine.pci_bus_id, sizeof mine.pci_bus_id, "%s", facts->pci_bus_id);
    ranks_gather(ranks, &mine, sizeof mine, all);
    /* For Linux the other ranks of a machine are others, too. */
    if (ranks->local_count > 1)
        watch->before.known &= ~telemetry_bit(TELEMETRY_LOAD);
    struct telemetry *const own = watch->telemetry; /* another rank's is nobody's here */
    ranks_broadcast(ranks, shared->slowest, watch, sizeof *watch);
    watch->telemetry = own;
    ranks_broadcast(ranks, shared->slowest, energy, sizeof *energy);
    result_ranks_sum_energy(all, ranks->count, energy);
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
        values[RESULT_RANK_RANK] = result_value_number(r);
        values[RESULT_RANK_DEVICE] = result_value_text(rank->device);
        values[RESULT_RANK_THREADS] = result_value_known_number(rank->threads > 0, rank->threads);
        values[RESULT_RANK_FORMULA_BYTES] = result_value_number(rank->formula_bytes);
        values[RESULT_RANK_POOL_BYTES] = result_value_number(rank->pool_bytes);
        values[RESULT_RANK_READ_BYTES] = result_value_number(rank->read_bytes);
        values[RESULT_RANK_STEP_NS] = result_value_real(rank->step_ns);
        values[RESULT_RANK_APPEND_NS] = result_value_real(rank->append_ns);
        values[RESULT_RANK_ATTEND_NS] = result_value_real(rank->attend_ns);
        values[RESULT_RANK_KV_NS] = result_value_real(rank->kv_ns);
        values[RESULT_RANK_REDUCE_NS] = result_value_real(rank->reduce_ns);
        values[RESULT_RANK_WEIGHTS_NS] =
            result_value_known_real(rank->weights_ns > 0, rank->weights_ns);
        values[RESULT_RANK_CEILING] = result_value_real(rank->ceiling_gb_per_s);
    }
}
