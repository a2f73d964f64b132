/* The main job, one case at a time: pool, step, verify for each format of a batch; then measure
 * the batch as one; then tear down. */
#include "runner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "interrupt.h"
#include "measure_groups.h"
#include "progress.h"
#include "reduce.h"
#include "run_weights.h"
#include "runner_ranks.h"
#include "telemetry_watch.h"

/* Cached values the references may read per row. */
#define RUNNER_VERIFY_VALUES ((uint64_t)30 * 1000 * 1000)

struct entry {
    struct result result;
    struct pool *pool;
    struct step *step;
    bool in_batch;
    bool done; /* its row was given */
};

struct work {
    struct runner *runner;
    const struct run_case *one;
    struct entry *entries;
    size_t count;
    size_t baseline; /* index of the baseline's entry; == count when it is not asked for */
    struct memory_budget budget;
    struct weights_read *weights; /* NULL: none are read */
    const struct ranks *ranks;    /* never NULL */
};

static void fail(struct entry *entry, enum status status, const struct status_text *why) {
    entry->result.status = result_status_of(status);
    (void)snprintf(entry->result.reason, sizeof entry->result.reason, "%s", why->line);
    entry->result.has_speed = false;
}

static void say(const struct work *work, const struct entry *entry, const char *what) {
    if (work->ranks->rank > 0)
        return;
    char line[256];
    (void)snprintf(line, sizeof line, "%s %s: %s", work->one->model.name,
                   entry->result.format->name, what);
    progress_show(work->runner->quarters_done, line);
}

/* Sizes of every format, so that batches can be cut; refusals become rows here. */
static void plan_entries(struct work *work) {
    for (size_t i = 0; i < work->count; i++) {
        struct entry *entry = &work->entries[i];
        if (entry->result.status != RESULT_OK)
            continue;
        struct status_text why = {""};
        struct pool_request request;
        enum status status = run_case_request(work->one, entry->result.format, &request, &why);
        if (status == STATUS_OK)
            status = pool_plan(&request, &entry->result.sizes, &why);
        entry->result.has_sizes = status == STATUS_OK;
        if (status == STATUS_OK && entry->result.sizes.pool_bytes > work->budget.budget_bytes)
            status = status_set(&why, STATUS_OUT_OF_MEMORY,
                                "the pool takes %llu bytes and the budget is %llu (%s)",
                                (unsigned long long)entry->result.sizes.pool_bytes,
                                (unsigned long long)work->budget.budget_bytes, work->budget.source);
        status = ranks_agree(work->ranks, status, &why);
        if (status != STATUS_OK)
            fail(entry, status, &why);
        result_ranks_plan(work->ranks, work->one, entry->result.format,
                          entry->result.has_sizes ? &entry->result.sizes : NULL,
                          &entry->result.ranks);
    }
}

/* What --weights-read amounts to in this case; refused, that is every row's reason. */
static void plan_weights(struct work *work, const struct backend_facts *facts) {
    struct runner *runner = work->runner;
    struct status_text why = {""};
    struct result_weights weights = {0};
    enum status status = run_weights_plan(runner->ops, runner->device, runner->options, facts,
                                          work->one, &weights.shape, &why);
    status = ranks_agree(work->ranks, status, &why);
    for (size_t i = 0; i < work->count; i++) {
        struct result *result = &work->entries[i].result;
        result->weights = weights;
        result->has_overtakes = run_weights_overtaken(work->one, result->format, &weights.shape,
                                                      &result->overtakes_tokens);
        if (status != STATUS_OK)
            fail(&work->entries[i], status, &why);
    }
}

/* Takes them, unless every row is there or refused already. */
static void take_weights(struct work *work, const struct backend_facts *facts) {
    struct runner *runner = work->runner;
    struct result_weights weights = work->entries[0].result.weights;
    bool wanted = false;
    for (size_t i = 0; i < work->count; i++)
        wanted = wanted || (!work->entries[i].done && work->entries[i].result.status == RESULT_OK);
    if (!wanted || weights.shape.read_bytes == 0)
        return;
    struct status_text why = {""};
    enum status status = run_weights_take(runner->ops, runner->device, runner->options, facts,
                                          &weights, &work->weights, &why);
    status = ranks_agree(work->ranks, status, &why);
    for (size_t i = 0; i < work->count; i++) {
        work->entries[i].result.weights = weights;
        if (status != STATUS_OK && work->entries[i].result.status == RESULT_OK)
            fail(&work->entries[i], status, &why);
    }
}

/* Rows of a file that the run goes on with are done. */
static void skip_there(struct work *work) {
    struct runner *runner = work->runner;
    for (size_t i = 0; i < work->count; i++) {
        struct result_row row;
        bool there = false;
        if (runner->resume != NULL) {
            result_values(runner->run, &work->entries[i].result, &row);
            there = resume_has(runner->resume, row.values);
        }
        if (!ranks_any(work->ranks, there))
            continue;
        work->entries[i].done = true;
        runner->quarters_done += 4;
        runner->rows_there++;
    }
}

static void tear_down(struct entry *entry) {
    step_destroy(entry->step);
    pool_destroy(entry->pool);
    entry->step = NULL;
    entry->pool = NULL;
}

/* Pool, fill, step, verification. A failure ends up in the entry's result. */
static void build(struct work *work, struct entry *entry) {
    struct runner *runner = work->runner;
    struct result *result = &entry->result;
    struct status_text why = {""};
    struct pool_request request;
    enum status status = run_case_request(work->one, result->format, &request, &why);
    say(work, entry, "allocating");
    if (status == STATUS_OK)
        status =
            pool_create(runner->ops, runner->device, &request, &work->budget, &entry->pool, &why);
    say(work, entry, "filling");
    if (status == STATUS_OK)
        status = pool_fill(entry->pool, interrupt_asked, &why);
    if (status == STATUS_OK)
        status = step_create(runner->ops, runner->device, entry->pool, runner->options->kernel,
                             request.seed, request.data, &entry->step, &why);
    if (status == STATUS_OK) {
        pool_sizes_get(entry->pool, &result->sizes);
        pool_replaced_get(entry->pool, &result->replaced);
        result->has_driver = pool_driver_bytes(entry->pool, &result->driver_bytes);
        result->has_resident = pool_resident_bytes(entry->pool, &result->resident_bytes);
        (void)snprintf(result->kernel, sizeof result->kernel, "%s", step_kernel(entry->step));
        (void)snprintf(result->reason, sizeof result->reason, "%s", step_remark(entry->step));
        result->has_work = true;
        result->workspace_bytes = step_workspace_bytes(entry->step);
        result->read_bytes = step_read_bytes(entry->step);
        result->written_bytes = step_written_bytes(entry->step);
        result_groups_take(entry->pool, entry->step, &result->groups);
        runner->quarters_done += entry->done ? 0 : 1;
        say(work, entry, "verifying");
        status = verify_pool(runner->ops, runner->device, entry->pool, entry->step, request.seed,
                             RUNNER_VERIFY_VALUES, &result->verify, &why);
        result->has_verify = status == STATUS_OK || status == STATUS_WRONG;
        runner->quarters_done += entry->done ? 0 : 1;
    }
    status = ranks_agree(work->ranks, status, &why);
    if (status != STATUS_OK) {
        fail(entry, status, &why);
        tear_down(entry);
    }
}

/* Takes formats into the batch while their pools fit beside each other; the baseline is always
 * first in, so that every ratio is measured within one interleaved run. */
static size_t cut_batch(struct work *work) {
    uint64_t used = 0;
    size_t taken = 0;
    const bool has_baseline =
        work->baseline < work->count && work->entries[work->baseline].result.status == RESULT_OK;
    for (size_t turn = 0; turn < work->count + 1; turn++) {
        const size_t i = turn == 0 ? work->baseline : turn - 1;
        if (turn == 0 && !has_baseline)
            continue;
        struct entry *entry = &work->entries[i];
        const bool is_baseline = has_baseline && i == work->baseline;
        if (entry->in_batch || entry->result.status != RESULT_OK || (entry->done && !is_baseline))
            continue;
        const uint64_t bytes = entry->result.sizes.pool_bytes;
        const bool fits = used + bytes <= work->budget.budget_bytes;
        if (!fits && taken > 0)
            continue;
        entry->in_batch = true;
        used += bytes;
        taken += entry->done ? 0 : 1;
    }
    return taken;
}

/* Append and attention of every sample, without what else a step has. */
static enum status summarise_kv(const struct measure_series *series, struct writer_summary *out,
                                struct status_text *text) {
    uint64_t *kv_ns = malloc(series->count * sizeof *kv_ns);
    if (kv_ns == NULL)
        return status_set(text, STATUS_OUT_OF_MEMORY, "no host memory for samples");
    for (uint64_t i = 0; i < series->count; i++)
        kv_ns[i] = series->part_ns[MEASURE_APPEND][i] + series->part_ns[MEASURE_ATTEND][i];
    const enum status status = measure_summarise(kv_ns, series->count, out, text);
    free(kv_ns);
    return status;
}

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
        status = summarise_kv(series, &result->kv, text);
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
static enum status itemise(const struct runner *runner, struct entry *entry,
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
static enum status add_circumstances(const struct runner *runner, struct entry *entry,
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

static void compare_with_baseline(const struct result *baseline, struct result *result) {
    if (!baseline->has_speed || !result->has_speed)
        return;
    result->has_baseline = true;
    result->kv_speed_vs_baseline = baseline->kv.median / result->kv.median;
    result->step_speed_vs_baseline = baseline->step.median / result->step.median;
    result->tokens_vs_baseline =
        (double)baseline->sizes.formula_bytes / (double)result->sizes.formula_bytes;
}

static void measure_batch(struct work *work) {
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
                fail(&work->entries[i], status, &why);
        count = 0;
    }
    if (count > 0)
        say(work, &work->entries[which[0]], "measuring, formats interleaved");
    const struct measure_team team = runner_ranks_team(work->ranks);
    const bool together = work->ranks->count > 1;
    const struct measure_limits limits = {.samples = options->samples,
                                          .max_noise_percent = options->max_noise_percent,
                                          .min_time_s = options->min_time_s,
                                          .max_time_s = options->max_time_s,
                                          .team = together ? &team : NULL};
    struct reduce *reduce = NULL;
    if (count > 0 && together)
        status = reduce_create(runner->ops, runner->device, work->ranks, &work->one->whole,
                               work->one->seqs, &reduce, &why);
    for (uint32_t i = 0; i < count && reduce != NULL; i++)
        contenders[i].work[MEASURE_REDUCE] =
            (struct measure_work){.run = reduce_run, .context = reduce};
    struct telemetry_watch watch = {0};
    if (count > 0 && status == STATUS_OK)
        status = telemetry_watch_begin(runner->ops, runner->device, contenders[0].step,
                                       runner->telemetry, &watch, &why);
    status = ranks_agree(work->ranks, status, &why);
    if (count > 0 && status == STATUS_OK)
        status = measure_run(runner->ops, runner->device, contenders, count, &limits, &why);
    if (count > 0 && status == STATUS_OK)
        status = telemetry_watch_end(runner->ops, runner->device, runner->telemetry, &watch, &why);
    status = ranks_agree(work->ranks, status, &why);
    for (uint32_t i = 0; i < count; i++) {
        struct entry *entry = &work->entries[which[i]];
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
            fail(entry, summed, &why);
        measure_series_free(&contenders[i].series);
    }
    reduce_destroy(reduce);
    free(contenders);
    free(which);
}

/* One batch from pools to rows. */
static enum status run_batch(struct work *work, runner_row row, void *context,
                             struct status_text *text) {
    for (size_t i = 0; i < work->count && !ranks_any(work->ranks, interrupt_asked()); i++)
        if (work->entries[i].in_batch)
            build(work, &work->entries[i]);
    if (!ranks_any(work->ranks, interrupt_asked()))
        measure_batch(work);
    enum status status = STATUS_OK;
    for (size_t i = 0; i < work->count; i++) {
        struct entry *entry = &work->entries[i];
        if (!entry->in_batch)
            continue;
        entry->in_batch = false;
        tear_down(entry);
        if (entry->done)
            continue;
        if (!entry->result.has_speed && entry->result.status == RESULT_OK) {
            entry->result.status = RESULT_INTERRUPTED;
            (void)snprintf(entry->result.reason, sizeof entry->result.reason, "interrupted");
        }
        if (work->baseline < work->count)
            compare_with_baseline(&work->entries[work->baseline].result, &entry->result);
        entry->done = true;
        progress_clear();
        /* Where one output fails, the other still gets every row that is measured. */
        struct status_text why = {""};
        const enum status given =
            ranks_agree(work->ranks, row(context, &entry->result, &why), &why);
        if (given != STATUS_OK && status == STATUS_OK)
            status = status_set(text, given, "%s", why.line);
        work->runner->quarters_done += 2;
    }
    return status;
}

static bool same_format(const struct options_format *a, const struct options_format *b) {
    return strcmp(a->name, b->name) == 0;
}

enum status runner_run_case(struct runner *runner, const struct run_case *one, runner_row row,
                            void *context, struct status_text *text) {
    static const struct ranks alone = {.count = 1, .local_count = 1};
    const struct options *options = one->options;
    struct work work = {.runner = runner,
                        .one = one,
                        .count = options->format_count,
                        .ranks = runner->ranks != NULL ? runner->ranks : &alone};
    work.entries = calloc(work.count, sizeof *work.entries);
    enum status status = STATUS_OK;
    if (work.entries == NULL)
        status =
            status_set(text, STATUS_OUT_OF_MEMORY, "no host memory for %zu formats", work.count);
    status = ranks_agree(work.ranks, status, text);
    if (status != STATUS_OK) {
        free(work.entries);
        return status;
    }
    work.baseline = work.count;
    for (size_t i = 0; i < work.count; i++) {
        work.entries[i].result.which = one;
        work.entries[i].result.format = &options->formats[i];
        if (work.baseline == work.count && same_format(&options->formats[i], &options->baseline))
            work.baseline = i;
    }
    struct backend_facts facts;
    runner_ranks_facts(work.ranks, runner->ops, runner->device, &facts);
    plan_weights(&work, &facts);
    run_weights_budget(runner->options, &facts, &work.entries[0].result.weights.shape,
                       &work.budget);
    runner_ranks_least(work.ranks, &work.budget);
    plan_entries(&work);
    skip_there(&work);
    take_weights(&work, &facts);
    for (size_t i = 0; i < work.count && status == STATUS_OK; i++)
        if (work.entries[i].result.status != RESULT_OK && !work.entries[i].done) {
            work.entries[i].done = true;
            progress_clear();
            status = ranks_agree(work.ranks, row(context, &work.entries[i].result, text), text);
            runner->quarters_done += 4;
        }
    while (status == STATUS_OK && cut_batch(&work) > 0) {
        status = run_batch(&work, row, context, text);
        if (status == STATUS_OK && ranks_any(work.ranks, interrupt_asked()))
            status = status_set(text, STATUS_INTERRUPTED, "interrupted");
    }
    weights_read_destroy(work.weights);
    for (size_t i = 0; i < work.count; i++) {
        tear_down(&work.entries[i]);
        measure_series_free(&work.entries[i].result.series);
    }
    free(work.entries);
    return status;
}

enum status runner_case_bytes(const struct run_case *one, uint64_t *sum_bytes,
                              struct status_text *text) {
    *sum_bytes = 0;
    enum status status = STATUS_OK;
    for (size_t i = 0; i < one->options->format_count; i++) {
        struct pool_request request;
        struct pool_sizes sizes;
        enum status planned = run_case_request(one, &one->options->formats[i], &request, text);
        if (planned == STATUS_OK)
            planned = pool_plan(&request, &sizes, text);
        if (planned == STATUS_OK)
            *sum_bytes += sizes.pool_bytes;
        else if (status == STATUS_OK)
            status = planned;
    }
    return status;
}
