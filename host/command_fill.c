/* `kvgauge fill`: builds pools on the device, fills them, reads them, and says level by level what
 * they took: formula, paged, pool, driver, resident; each with its signed difference to the level
 * before. With --until-full the pool is as large as the budget, and the device's own overheads are
 * named. */
#include "commands.h"

#include <stdio.h>

#include "fill_rows.h"
#include "interrupt.h"
#include "weights.h"

struct fill {
    const struct options *options;
    struct session session;
    struct session_output output;
    struct memory_budget budget; /* the whole one: weights and pools */
    struct backend_memory weights;
    uint64_t ok_pools;
    bool wrong;
    bool spilled;
};

/* One pool: a case in one of its formats. */
struct filling {
    struct fill *fill;
    struct run_case one; /* with --until-full, as large as it became */
    const struct options_format *format;
    struct memory_budget budget;
    struct pool_request request;
    struct fill_until found;
    double ceiling_gb_per_s;
    struct pool *pool;
};

/* As large as the budget, when asked for. */
static enum status find_size(struct filling *filling, struct status_text *text) {
    const enum options_until what = filling->fill->options->until_full;
    if (what == OPTIONS_UNTIL_NOT)
        return STATUS_OK;
    struct fill_until *found = &filling->found;
    const enum status status =
        fill_until_find(what, &filling->request, &filling->budget, found, text);
    if (status != STATUS_OK)
        return status;
    filling->one.lengths = found->lengths;
    filling->one.seqs = found->seqs;
    filling->one.tokens = found->lengths[0];
    filling->request.lengths = found->lengths;
    filling->request.seqs = found->seqs;
    return STATUS_OK;
}

/* The harness' own memory comes out of the same budget. */
static enum status check_budget(const struct filling *filling, struct pool_sizes *sizes,
                                struct status_text *text) {
    const struct memory_budget *budget = &filling->budget;
    const enum status status = pool_plan(&filling->request, sizes, text);
    if (status != STATUS_OK)
        return status;
    if (sizes->pool_bytes <= budget->budget_bytes &&
        sizes->harness_bytes <= budget->budget_bytes - sizes->pool_bytes)
        return STATUS_OK;
    return status_set(
        text, STATUS_OUT_OF_MEMORY,
        "the pool takes %llu bytes, the rows it is filled from %llu, and the budget is %llu (%s)",
        (unsigned long long)sizes->pool_bytes, (unsigned long long)sizes->harness_bytes,
        (unsigned long long)budget->budget_bytes, budget->source);
}

static enum status build(struct filling *filling, struct status_text *text) {
    struct fill *fill = filling->fill;
    const struct backend_ops *ops = fill->session.ops;
    struct backend_device *device = fill->session.device;
    struct pool_sizes sizes = {0};
    enum status status = run_case_request(&filling->one, filling->format, &filling->request, text);
    if (status == STATUS_OK)
        status = find_size(filling, text);
    if (status == STATUS_OK)
        status = check_budget(filling, &sizes, text);
    if (status == STATUS_OK)
        status = spill_ceiling(ops, device, sizes.pool_bytes, filling->budget.budget_bytes,
                               &filling->ceiling_gb_per_s, text);
    if (status == STATUS_OK)
        status =
            pool_create(ops, device, &filling->request, &filling->budget, &filling->pool, text);
    if (status == STATUS_OK)
        status = pool_fill(filling->pool, interrupt_asked, text);
    return status;
}

/* What a full pool took, then whether it is where it should be. `failed` is a failure of the
 * reading, with its text in `why`: a row too. */
static enum status write_pool(struct filling *filling, const struct fill_rows *rows,
                              enum status *failed, struct status_text *why,
                              struct status_text *text) {
    struct fill *fill = filling->fill;
    enum status status = fill_rows_levels(rows, filling->pool, text);
    if (status != STATUS_OK)
        return status;
    uint64_t bytes;
    const void *dev_pool = pool_dev_memory(filling->pool, &bytes);
    struct spill_report report;
    *failed = spill_read(fill->session.ops, fill->session.device, dev_pool, bytes,
                         filling->ceiling_gb_per_s, interrupt_asked, &report, why);
    if (*failed != STATUS_OK)
        return STATUS_OK;
    fill->ok_pools++;
    fill->spilled = fill->spilled || report.spilled_bytes > 0;
    status = fill_rows_read(rows, &report, text);
    if (status == STATUS_OK && filling->found.lengths != NULL)
        status = fill_rows_until(rows, fill->options->until_full, &filling->found, &filling->budget,
                                 fill->weights.bytes, text);
    return status;
}

/* A pool that did not come about is a row. */
static enum status write_failure(const struct filling *filling, const struct fill_rows *rows,
                                 enum status status, const struct status_text *why,
                                 struct status_text *text) {
    const struct fill *fill = filling->fill;
    const struct fill_until *found = &filling->found;
    struct status_text reason = *why;
    /* Planned, and not given: the device had less than the budget says. */
    if (found->lengths != NULL && status == STATUS_OUT_OF_MEMORY)
        (void)status_set(
            &reason, status, "--until-full %s: %llu in %llu bytes (%s): %.300s",
            fill_until_name(fill->options->until_full), (unsigned long long)found->count,
            (unsigned long long)filling->budget.budget_bytes, filling->budget.source, why->line);
    return fill_rows_failed(rows, status, reason.line, text);
}

static enum status fill_one(struct fill *fill, const struct run_case *one,
                            const struct options_format *format, struct status_text *text) {
    struct filling filling = {.fill = fill, .one = *one, .format = format};
    struct backend_facts facts;
    fill->session.ops->facts(fill->session.device, &facts);
    memory_budget_left(&fill->budget, &facts, fill->weights.bytes, &filling.budget);
    struct status_text why = {""};
    enum status status = build(&filling, &why), written = STATUS_OK;
    const struct fill_rows rows = {&fill->output, &filling.one, format};
    if (status == STATUS_OK)
        written = write_pool(&filling, &rows, &status, &why, text);
    if (status != STATUS_OK && written == STATUS_OK)
        written = write_failure(&filling, &rows, status, &why, text);
    fill->wrong = fill->wrong || status == STATUS_WRONG;
    pool_destroy(filling.pool);
    fill_until_free(&filling.found);
    if (written == STATUS_OK && interrupt_asked())
        return status_set(text, STATUS_INTERRUPTED, "interrupted");
    return written;
}

/* What is there before any pool: the device's overheads, and the weights. */
static enum status prepare(struct fill *fill, struct status_text *text) {
    const struct options *options = fill->options;
    const struct session *session = &fill->session;
    const struct memory_budget *budget = &fill->budget;
    memory_budget_make(&session->facts, options->budget_given, options->budget_bytes, 0,
                       &fill->budget);
    /* Refused before anything is written. */
    if (options->weights_bytes > budget->budget_bytes)
        return weights_take(session->ops, session->device, options->weights_bytes, budget, NULL,
                            &fill->weights, text);
    struct overhead overhead;
    const struct fill_rows rows = {.output = &fill->output};
    enum status status = STATUS_OK;
    if (options->until_full != OPTIONS_UNTIL_NOT) {
        status = overhead_probe(session->ops, session->device, budget->budget_bytes,
                                interrupt_asked, &overhead, text);
        if (status == STATUS_OK)
            status = fill_rows_overhead(&rows, &overhead, budget, text);
    }
    if (status == STATUS_OK)
        status = weights_take(session->ops, session->device, options->weights_bytes, budget,
                              interrupt_asked, &fill->weights, text);
    return status;
}

static enum status fill_all(struct fill *fill, const struct run_case_list *cases,
                            struct status_text *text) {
    char title[256];
    (void)snprintf(title, sizeof title, "%s; memory by %s. GB = 10^9 bytes",
                   fill->session.facts.device, fill->session.facts.memory_source);
    enum status status = fill_rows_open(fill->options, title, &fill->output, text);
    if (status != STATUS_OK)
        return status;
    status = prepare(fill, text);
    for (size_t i = 0; i < cases->count && status == STATUS_OK; i++) {
        const struct run_case *one = &cases->cases[i];
        for (size_t f = 0; f < one->options->format_count && status == STATUS_OK; f++)
            status = fill_one(fill, one, &one->options->formats[f], text);
    }
    struct status_text why = {""};
    const enum status closed = session_output_close(&fill->output, &why);
    if (status == STATUS_OK && closed != STATUS_OK)
        status = status_set(text, closed, "%s", why.line);
    if (status == STATUS_OK && fill->wrong)
        status = status_set(text, STATUS_WRONG, "a pool was filled wrongly");
    if (status == STATUS_OK && fill->spilled)
        status = status_set(text, STATUS_WRONG,
                            "spilled: part of a pool does not lie in the device's memory");
    if (status == STATUS_OK && fill->ok_pools == 0)
        status = status_set(text, STATUS_REFUSED, "no pool could be filled");
    return status;
}

int command_fill(const struct options *options) {
    struct status_text text = {""};
    struct run_case_list cases = {0};
    struct fill fill = {.options = options};
    enum status status = run_case_list_create(options, &cases, &text);
    if (status == STATUS_OK) {
        run_case_list_remarks(&cases);
        status = session_open(options, &fill.session, &text);
    }
    if (status == STATUS_OK) {
        session_say_fallback(&fill.session);
        interrupt_install();
        status = fill_all(&fill, &cases, &text);
        fill.session.ops->memory_free(fill.session.device, &fill.weights);
    }
    if (status != STATUS_OK)
        (void)fprintf(stderr, "kvgauge: %s\n", text.line);
    session_close(&fill.session);
    run_case_list_destroy(&cases);
    return session_exit_code(status);
}
