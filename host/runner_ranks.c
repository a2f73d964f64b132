/* Budgets and the measuring team. */
#include "runner_ranks.h"

#include <stdio.h>
#include <string.h>

void runner_ranks_facts(const struct ranks *ranks, const struct backend_ops *ops,
                        struct backend_device *device, struct backend_facts *out) {
    ranks_barrier(ranks);
    ops->facts(device, out);
    if (ranks->local_count == 1 || (!out->integrated && strcmp(out->backend, "cpu") != 0))
        return;
    char source[sizeof out->memory_source];
    (void)snprintf(source, sizeof source, "%.40s / %u ranks", out->memory_source,
                   ranks->local_count);
    (void)strcpy(out->memory_source, source);
    out->memory_free_bytes /= ranks->local_count;
    out->memory_total_bytes /= ranks->local_count;
}

void runner_ranks_least(const struct ranks *ranks, struct memory_budget *budget) {
    const uint64_t least = ranks_least(ranks, budget->budget_bytes);
    if (least < budget->budget_bytes)
        (void)snprintf(budget->source, sizeof budget->source, "of another rank");
    budget->budget_bytes = least;
}

static void start(void *context) {
    ranks_barrier(context);
}

static enum status agree(void *context, enum status mine, bool *more, struct status_text *text) {
    const struct ranks *ranks = context;
    const enum status status = ranks_agree(ranks, mine, text);
    if (status == STATUS_OK)
        *more = ranks_any(ranks, *more);
    return status;
}

struct measure_team runner_ranks_team(const struct ranks *ranks) {
    return (struct measure_team){
        .start = start, .agree = agree, .context = (void *)(uintptr_t)ranks};
}
