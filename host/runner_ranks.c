/* Budgets and the measuring team. */
#include "runner_ranks.h"

#include <stdio.h>
#include <string.h>

void runner_ranks_budget(const struct ranks *ranks, const struct backend_ops *ops,
                         struct backend_device *device, const struct options *options,
                         struct memory_budget *out) {
    struct backend_facts facts;
    ranks_barrier(ranks);
    ops->facts(device, &facts);
    if (ranks->local_count > 1 && (facts.integrated || strcmp(facts.backend, "cpu") == 0)) {
        char source[sizeof facts.memory_source];
        (void)snprintf(source, sizeof source, "%.40s / %u ranks", facts.memory_source,
                       ranks->local_count);
        (void)strcpy(facts.memory_source, source);
        facts.memory_free_bytes /= ranks->local_count;
        facts.memory_total_bytes /= ranks->local_count;
    }
    memory_budget_make(&facts, options->budget_given, options->budget_bytes, options->weights_bytes,
                       out);
    /* Nobody allocates before all have looked. */
    const uint64_t least = ranks_least(ranks, out->budget_bytes);
    if (least < out->budget_bytes)
        (void)snprintf(out->source, sizeof out->source, "of another rank");
    out->budget_bytes = least;
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
