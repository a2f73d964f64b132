/* Measuring one batch: parts of a step, the ranks' team, times to results. */
#include "runner_parts.h"

#include <stdio.h>
#include <stdlib.h>

#include "measure_groups.h"
#include "reduce.h"
#include "runner_ranks.h"
#include "telemetry_watch.h"

static enum status summarise(struct result *result, struct measure_contender *contender,
                             struct status_text *text) {
    measure_series_free(&result->series);
    result->series = contender->series;
    contender->series = (struct measure_series){0};
    const struct measure_series *series = &result->series;
    enum status status = measure_summarise(series->step_ns, series->count, &result->step, text);
    for (int part = 0; part < MEASURE_PARTS && status == STATUS_OK; part++)
        status =
            measure_summarise(series->part_ns[part], series->count, &result->parts[part], text);
    if (status == STATUS_OK)
        status = measure_summarise_kv(series, &result->kv, text);
    result->canary = contender->canary;
    result->seen = contender->seen;
    result_add_reason(result, result->seen.verdict.words);
    if (series->clockless > 0) {
        char words[96];
        (void)snprintf(words, sizeof words, "%llu steps left out: the device's clock did not go on",
                       (unsigned long long)series->clockless);
        result_add_reason(result, words);
    }
    result->has_speed = status == STATUS_OK;
    return status;
}

/* A model of one group spends all of a step there. */
static enum status itemise(const struct runner_work *work, struct runner_entry *entry,
                           struct status_text *text) {
    struct result_groups *groups = &entry->result.groups;
    double ns[MODEL_MAX_GROUPS] = {entry->result.kv.median};
    enum status status = STATUS_OK;
    if (groups->count > 1)
        status = measure_groups(work->runner->ops, work->runner->device, entry->step, groups->count,
                                ns, text);
    status = ranks_agree(work->ranks, status, text);
    if (status != STATUS_OK)
        return status;
    result_ranks_share_groups(work->ranks, &entry->result.ranks, ns, groups->count);
    for (uint32_t g = 0; g < groups->count; g++)
        groups->groups[g].ns = ns[g];
    return STATUS_OK;
}

/* Energy by itself, and what else a reader of the row has to know. */
static enum status add_circumstances(const struct runner_work *work, struct runner_entry *entry,
                                     const struct telemetry_watch *watch,
                                     struct status_text *text) {
    const struct runner *runner = work->runner;
    struct result *result = &entry->result;
    enum status status = measure_energy_run(runner->ops, runner->device, entry->step,
                                            runner->telemetry, &result->energy, text);
    /* What was measured stays: only its energy is not known then. */
    if (status == STATUS_INTERRUPTED)
        status = STATUS_OK;
    status = ranks_agree(work->ranks, status, text);
    if (status != STATUS_OK)
        return status;
    struct telemetry_watch slowest = *watch;
    result_ranks_share_watch(work->ranks, &result->ranks, &runner->run->facts, &slowest,
                             &result->energy);
    telemetry_watch_summary(&slowest, &result->energy, &result->telemetry);
    result_add_reason(result, result->telemetry.throttled);
    if (result->telemetry.throttled[0] != '\0')
        result->seen.verdict.stability = MEASURE_THROTTLED;
    return STATUS_OK;
}

void runner_compare(const struct result *baseline, struct result *result) {
    if (!baseline->has_speed || !result->has_speed)
        return;
    result->has_baseline = true;
    result->kv_speed_vs_baseline = baseline->kv.median / result->kv.median;
    result->step_speed_vs_baseline = baseline->step.median / result->step.median;
    result->tokens_vs_baseline =
        (double)baseline->sizes.formula_bytes / (double)result->sizes.formula_bytes;
}

static bool takes_part(const struct runner_entry *entry) {
    return entry->in_batch && entry->step != NULL;
}

static uint32_t count_parts(const struct runner_work *work) {
    uint32_t count = 0;
    for (size_t i = 0; i < work->count; i++)
        count += takes_part(&work->entries[i]);
    return count;
}

/* contenders: [count_parts], zeros; in the order of the entries that take part. */
static void set_contenders(const struct runner_work *work, struct reduce *reduce,
                           struct measure_contender *contenders) {
    for (size_t i = 0; i < work->count; i++) {
        if (!takes_part(&work->entries[i]))
            continue;
        contenders->pool = work->entries[i].pool;
        contenders->step = work->entries[i].step;
        if (reduce != NULL)
            contenders->work[MEASURE_REDUCE] =
                (struct measure_work){.run = reduce_run, .context = reduce};
        if (work->weights != NULL)
            contenders->work[MEASURE_WEIGHTS] =
                (struct measure_work){.run = weights_read_run, .context = work->weights};
        contenders++;
    }
}

/* Samples of all contenders against each other. All ranks leave it with the same status. */
static enum status sample(const struct runner_work *work, struct measure_contender *contenders,
                          uint32_t count, struct telemetry_watch *watch, struct status_text *text) {
    const struct runner *runner = work->runner;
    const struct options *options = work->one->options;
    const bool together = work->ranks->count > 1;
    const struct measure_team team = runner_ranks_team(work->ranks);
    const struct measure_limits limits = {.samples = options->samples,
                                          .max_noise_percent = options->max_noise_percent,
                                          .min_time_s = options->min_time_s,
                                          .max_time_s = options->max_time_s,
                                          .team = together ? &team : NULL,
                                          .look = telemetry_watch_look,
                                          .look_context = watch};
    struct reduce *reduce = NULL;
    enum status status = STATUS_OK;
    if (together)
        status = reduce_create(runner->ops, runner->device, work->ranks, &work->one->whole,
                               work->one->seqs, &reduce, text);
    set_contenders(work, reduce, contenders);
    if (status == STATUS_OK)
        status = telemetry_watch_begin(runner->ops, runner->device, contenders[0].step,
                                       runner->telemetry, watch, text);
    status = ranks_agree(work->ranks, status, text);
    if (status == STATUS_OK)
        status = measure_run(runner->ops, runner->device, contenders, count, &limits, text);
    if (status == STATUS_OK)
        status = telemetry_watch_end(runner->ops, runner->device, watch, text);
    reduce_destroy(reduce);
    return ranks_agree(work->ranks, status, text);
}

/* From samples to a result, and the passes behind them. All ranks leave it with the same status. */
static enum status finish(const struct runner_work *work, struct runner_entry *entry,
                          struct measure_contender *contender, const struct telemetry_watch *watch,
                          struct status_text *text) {
    struct result *result = &entry->result;
    enum status status = result_ranks_share(work->ranks, &work->runner->run->facts, &result->sizes,
                                            result->read_bytes, contender, &result->ranks, text);
    if (status == STATUS_OK)
        status = ranks_agree(work->ranks, summarise(result, contender, text), text);
    if (status == STATUS_OK)
        status = itemise(work, entry, text);
    if (status == STATUS_OK)
        status = add_circumstances(work, entry, watch, text);
    return status;
}

void runner_measure(struct runner_work *work) {
    const uint32_t count = count_parts(work);
    if (count == 0)
        return;
    struct measure_contender *contenders = calloc(count, sizeof *contenders);
    struct telemetry_watch watch = {0};
    struct status_text why = {"no host memory to measure"};
    enum status status = contenders != NULL ? STATUS_OK : STATUS_OUT_OF_MEMORY;
    status = ranks_agree(work->ranks, status, &why);
    if (status == STATUS_OK) {
        runner_say(work, NULL, "measuring, formats interleaved");
        status = sample(work, contenders, count, &watch, &why);
    }
    uint32_t at = 0;
    for (size_t i = 0; i < work->count; i++) {
        struct runner_entry *entry = &work->entries[i];
        if (!takes_part(entry))
            continue;
        enum status finished = status;
        if (finished == STATUS_OK)
            finished = finish(work, entry, &contenders[at], &watch, &why);
        if (finished != STATUS_OK)
            runner_fail(entry, finished, &why);
        if (contenders != NULL)
            measure_series_free(&contenders[at++].series);
    }
    free(contenders);
}
