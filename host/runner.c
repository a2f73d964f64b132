/* The main job, one case at a time: pool, step, verify for each format of a batch; then measure
 * the batch as one; then tear down. */
#include "runner_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "interrupt.h"
#include "progress.h"
#include "run_weights.h"
#include "runner_ranks.h"

/* Cached values the references may read per row. */
#define RUNNER_VERIFY_VALUES ((uint64_t)30 * 1000 * 1000)

void runner_fail(struct runner_entry *entry, enum status status, const struct status_text *why) {
    entry->result.status = result_status_of(status);
    (void)snprintf(entry->result.reason, sizeof entry->result.reason, "%s", why->line);
    entry->result.has_speed = false;
}

void runner_say(const struct runner_work *work, const struct runner_entry *entry,
                const char *what) {
    if (work->ranks->rank > 0)
        return;
    char line[256];
    (void)snprintf(line, sizeof line, "%s%s%s: %s", work->one->model.name, entry != NULL ? " " : "",
                   entry != NULL ? entry->result.format->name : "", what);
    progress_show(work->runner->quarters_done, line);
}

/* Sizes of every format, so that batches can be cut; refusals become rows here. */
static void plan_entries(struct runner_work *work) {
    for (size_t i = 0; i < work->count; i++) {
        struct runner_entry *entry = &work->entries[i];
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
            runner_fail(entry, status, &why);
        result_ranks_plan(work->ranks, work->one, entry->result.format,
                          entry->result.has_sizes ? &entry->result.sizes : NULL,
                          &entry->result.ranks);
    }
}

/* Such a row still says what was asked: one without weights is another row. */
static void refuse_weights(struct runner_entry *entry, const struct options *options,
                           enum status status, const struct status_text *why) {
    struct weights_read_shape *shape = &entry->result.weights.shape;
    runner_fail(entry, status, why);
    if (shape->read_bytes == 0) {
        shape->read_bytes = options->weights_read_bytes;
        shape->format = options->weights_format;
    }
}

/* What --weights-read amounts to in this case; refused, that is every row's reason. */
static void plan_weights(struct runner_work *work, const struct backend_facts *facts) {
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
            refuse_weights(&work->entries[i], work->one->options, status, &why);
    }
}

/* Takes them, unless every row is there or refused already. */
static void take_weights(struct runner_work *work, const struct backend_facts *facts) {
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
            runner_fail(&work->entries[i], status, &why);
    }
}

/* Rows of a file that the run goes on with are done. */
static void skip_there(struct runner_work *work) {
    struct runner *runner = work->runner;
    for (size_t i = 0; i < work->count; i++) {
        struct result_row row;
        bool there = false;
        if (runner->resume != NULL) {
            result_values(runner->run, &work->entries[i].result, &row);
            there = resume_take(runner->resume, row.values);
        }
        if (!ranks_any(work->ranks, there))
            continue;
        work->entries[i].done = true;
        runner->quarters_done += 4;
        runner->rows_there++;
    }
}

static void tear_down(struct runner_entry *entry) {
    step_destroy(entry->step);
    pool_destroy(entry->pool);
    entry->step = NULL;
    entry->pool = NULL;
}

/* Pool, fill, step, verification. A failure ends up in the entry's result. */
static void build(struct runner_work *work, struct runner_entry *entry) {
    struct runner *runner = work->runner;
    struct result *result = &entry->result;
    struct status_text why = {""};
    struct pool_request request;
    enum status status = run_case_request(work->one, result->format, &request, &why);
    runner_say(work, entry, "allocating");
    if (status == STATUS_OK)
        status =
            pool_create(runner->ops, runner->device, &request, &work->budget, &entry->pool, &why);
    runner_say(work, entry, "filling");
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
        runner_say(work, entry, "verifying");
        status = verify_pool(runner->ops, runner->device, entry->pool, entry->step, request.seed,
                             RUNNER_VERIFY_VALUES, &result->verify, &why);
        result->has_verify = status == STATUS_OK || status == STATUS_WRONG;
        runner->quarters_done += entry->done ? 0 : 1;
    }
    status = ranks_agree(work->ranks, status, &why);
    result_ranks_share_verify(work->ranks, &result->has_verify, &result->verify);
    if (status != STATUS_OK) {
        runner_fail(entry, status, &why);
        tear_down(entry);
    }
}

/* Takes formats into the batch while their pools fit beside each other; the baseline is always
 * first in, so that every ratio is measured within one interleaved run. */
static size_t cut_batch(struct runner_work *work) {
    uint64_t used = 0;
    size_t taken = 0;
    const bool has_baseline =
        work->baseline < work->count && work->entries[work->baseline].result.status == RESULT_OK;
    for (size_t turn = 0; turn < work->count + 1; turn++) {
        const size_t i = turn == 0 ? work->baseline : turn - 1;
        if (turn == 0 && !has_baseline)
            continue;
        struct runner_entry *entry = &work->entries[i];
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
        if (!fits) { /* not even beside the baseline alone */
            work->entries[work->baseline].in_batch = false;
            break;
        }
    }
    return taken;
}

/* One batch from pools to rows. */
static enum status run_batch(struct runner_work *work, runner_row row, void *context,
                             struct status_text *text) {
    for (size_t i = 0; i < work->count && !ranks_any(work->ranks, interrupt_asked()); i++)
        if (work->entries[i].in_batch)
            build(work, &work->entries[i]);
    if (!ranks_any(work->ranks, interrupt_asked()))
        runner_measure(work);
    const struct runner_entry *baseline =
        work->baseline < work->count ? &work->entries[work->baseline] : NULL;
    const bool compared = baseline != NULL && baseline->in_batch;
    enum status status = STATUS_OK;
    for (size_t i = 0; i < work->count; i++) {
        struct runner_entry *entry = &work->entries[i];
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
        if (compared)
            runner_compare(&baseline->result, &entry->result);
        else if (baseline != NULL && baseline->result.has_speed && entry->result.has_speed)
            result_add_reason(&entry->result,
                              "by itself: beside the baseline it is past the budget");
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

static enum status create_entries(struct runner_work *work, struct status_text *text) {
    const struct options *options = work->one->options;
    work->count = work->baseline = options->format_count;
    work->entries = calloc(work->count, sizeof *work->entries);
    if (work->entries == NULL)
        return status_set(text, STATUS_OUT_OF_MEMORY, "no host memory for %zu formats",
                          work->count);
    for (size_t i = 0; i < work->count; i++) {
        work->entries[i].result.which = work->one;
        work->entries[i].result.format = &options->formats[i];
        if (work->baseline == work->count && same_format(&options->formats[i], &options->baseline))
            work->baseline = i;
    }
    return STATUS_OK;
}

static void destroy_entries(struct runner_work *work) {
    for (size_t i = 0; i < work->count && work->entries != NULL; i++) {
        tear_down(&work->entries[i]);
        measure_series_free(&work->entries[i].result.series);
    }
    free(work->entries);
}

/* Everything that is known before anything of the cache is built. */
static void plan(struct runner_work *work) {
    struct runner *runner = work->runner;
    struct backend_facts facts;
    runner_ranks_facts(work->ranks, runner->ops, runner->device, &facts);
    plan_weights(work, &facts);
    run_weights_budget(runner->options, &facts, &work->entries[0].result.weights.shape,
                       &work->budget);
    runner_ranks_least(work->ranks, &work->budget);
    plan_entries(work);
    skip_there(work);
    take_weights(work, &facts);
}

/* Rows that cannot run. */
static enum status give_refused(struct runner_work *work, runner_row row, void *context,
                                struct status_text *text) {
    enum status status = STATUS_OK;
    for (size_t i = 0; i < work->count && status == STATUS_OK; i++) {
        struct runner_entry *entry = &work->entries[i];
        if (entry->result.status == RESULT_OK || entry->done)
            continue;
        entry->done = true;
        progress_clear();
        status = ranks_agree(work->ranks, row(context, &entry->result, text), text);
        work->runner->quarters_done += 4;
    }
    return status;
}

static enum status say_interrupted(const struct runner_work *work, enum status status,
                                   struct status_text *text) {
    if (status == STATUS_OK && ranks_any(work->ranks, interrupt_asked()))
        return status_set(text, STATUS_INTERRUPTED, "interrupted");
    return status;
}

enum status runner_run_case(struct runner *runner, const struct run_case *one, runner_row row,
                            void *context, struct status_text *text) {
    static const struct ranks alone = {.count = 1, .local_count = 1};
    struct runner_work work = {
        .runner = runner, .one = one, .ranks = runner->ranks != NULL ? runner->ranks : &alone};
    enum status status = ranks_agree(work.ranks, create_entries(&work, text), text);
    if (status == STATUS_OK) {
        plan(&work);
        status = give_refused(&work, row, context, text);
    }
    while (status == STATUS_OK && cut_batch(&work) > 0)
        status = say_interrupted(&work, run_batch(&work, row, context, text), text);
    /* It may have come while weights were written, and left no batch. */
    status = say_interrupted(&work, status, text);
    weights_read_destroy(work.weights);
    destroy_entries(&work);
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
