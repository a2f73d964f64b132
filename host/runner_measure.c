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
static enum status itemise(const struct runner *runner, struct runner_entry *entry,
                           struct status_text *text) {
    struct result_groups *groups = &entry->result.groups;
    double ns[MODEL_MAX_GROUPS] = {entry->result.kv.median};
    enum status status = STATUS_OK;
    if (groups->count > 1)
        status = measure_groups(runner->ops, runner->device, entry->step, groups->count, ns, text);
    for (uint32_t g = 0; g < groups->count && status == STATUS_OK; g++)
        groups->groups[g].ns = ns[g];
    return status;
}

/* Energy by itself, and what else a reader of the row has to know. */
static enum status add_circumstances(const struct runner *runner, struct runner_entry *entry,
                                     const struct telemetry_watch *watch,
                                     struct status_text *text) {
    struct result *result = &entry->result;
    const enum status status = measure_energy_run(runner->ops, runner->device, entry->step,
                                                  runner->telemetry, &result->energy, text);
    telemetry_watch_summary(watch, &result->energy, &result->telemetry);
    result_add_reason(result, result->telemetry.throttled);
    if (result->telemetry.throttled[0] != '\0')
        result->seen.verdict.stability = MEASURE_THROTTLED;
    /* What was measured stays: only its energy is not known then. */
    return status == STATUS_INTERRUPTED ? STATUS_OK : status;
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

void runner_measure(struct runner_work *work) {
    struct runner *runner = work->runner;
    const struct options *options = work->one->options;
    struct measure_contender *contenders = calloc(work->count, sizeof *contenders);
    size_t *which = calloc(work->count, sizeof *which);
    struct status_text why = {"no host memory to measure"};
    enum status status = contenders == NULL || which == NULL ? STATUS_OUT_OF_MEMORY : STATUS_OK;
    uint32_t count = 0;
    for (size_t i = 0; i < work->count && status == STATUS_OK; i++)
        if (work->entries[i].in_batch && work->entries[i].step != NULL) {
            which[count] = i;
            contenders[count].pool = work->entries[i].pool;
            if (work->weights != NULL)
                contenders[count].work[MEASURE_WEIGHTS] =
                    (struct measure_work){weights_read_run, work->weights};
            contenders[count++].step = work->entries[i].step;
        }
    status = ranks_agree(work->ranks, status, &why);
    if (status != STATUS_OK) {
        for (size_t i = 0; i < work->count; i++)
            if (work->entries[i].in_batch && work->entries[i].step != NULL)
                runner_fail(&work->entries[i], status, &why);
        count = 0;
    }
    if (count > 0)
        runner_say(work, &work->entries[which[0]], "measuring, formats interleaved");
    const struct measure_team team = runner_ranks_team(work->ranks);
    const bool together = work->ranks->count > 1;
    struct telemetry_watch watch = {0};
    const struct measure_limits limits = {.samples = options->samples,
                                          .max_noise_percent = options->max_noise_percent,
                                          .min_time_s = options->min_time_s,
                                          .max_time_s = options->max_time_s,
                                          .team = together ? &team : NULL,
                                          .look = telemetry_watch_look,
                                          .look_context = &watch};
    struct reduce *reduce = NULL;
    if (count > 0 && together)
        status = reduce_create(runner->ops, runner->device, work->ranks, &work->one->whole,
                               work->one->seqs, &reduce, &why);
    for (uint32_t i = 0; i < count && reduce != NULL; i++)
        contenders[i].work[MEASURE_REDUCE] =
            (struct measure_work){.run = reduce_run, .context = reduce};
    if (count > 0 && status == STATUS_OK)
        status = telemetry_watch_begin(runner->ops, runner->device, contenders[0].step,
                                       runner->telemetry, &watch, &why);
    status = ranks_agree(work->ranks, status, &why);
    if (count > 0 && status == STATUS_OK)
        status = measure_run(runner->ops, runner->device, contenders, count, &limits, &why);
    if (count > 0 && status == STATUS_OK)
        status = telemetry_watch_end(runner->ops, runner->device, &watch, &why);
    status = ranks_agree(work->ranks, status, &why);
    for (uint32_t i = 0; i < count; i++) {
        struct runner_entry *entry = &work->entries[which[i]];
        enum status summed = status;
        if (summed == STATUS_OK)
            summed = result_ranks_share(work->ranks, &runner->run->facts, &entry->result.sizes,
                                        entry->result.read_bytes, &contenders[i],
                                        &entry->result.ranks, &why);
        if (summed == STATUS_OK)
            summed = summarise(&entry->result, &contenders[i], &why);
        if (summed == STATUS_OK)
            summed = itemise(runner, entry, &why);
        if (summed == STATUS_OK)
            summed = add_circumstances(runner, entry, &watch, &why);
        summed = ranks_agree(work->ranks, summed, &why);
        if (summed != STATUS_OK)
            runner_fail(entry, summed, &why);
        measure_series_free(&contenders[i].series);
    }
    reduce_destroy(reduce);
    free(contenders);
    free(which);
}
