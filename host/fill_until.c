/* Doubling until the budget is passed, then halving the gap: a pool of more sequences, or of longer
 * ones, never takes less. */
#include "fill_until.h"

#include <stdio.h>
#include <stdlib.h>

#include "checked.h"

/* More sequences than the arguments of a kernel count. */
#define FILL_UNTIL_MOST_SEQS ((uint64_t)UINT32_MAX / 2)

struct search {
    enum options_until what;
    struct pool_request request; /* with the lengths of the count tried last */
    uint64_t tokens;
    uint64_t *lengths;
    uint64_t capacity;
    const struct memory_budget *budget;
    struct pool_sizes sizes;     /* of the count tried last */
    uint64_t bytes;              /* pool and harness; UINT64_MAX where they do not add up */
    struct status_text too_many; /* why the count tried last has no pool at all */
};

const char *fill_until_name(enum options_until what) {
    return what == OPTIONS_UNTIL_SEQS ? "seqs" : "tokens";
}

static enum status set_count(struct search *search, uint64_t count, struct status_text *text) {
    const uint64_t seqs = search->what == OPTIONS_UNTIL_SEQS ? count : search->request.seqs;
    if (seqs > search->capacity) {
        uint64_t *wider = realloc(search->lengths, seqs * sizeof *wider);
        if (wider == NULL)
            return status_set(text, STATUS_OUT_OF_MEMORY, "no host memory for %llu lengths",
                              (unsigned long long)seqs);
        search->lengths = wider;
        search->capacity = seqs;
    }
    for (uint64_t s = 0; s < seqs; s++)
        search->lengths[s] = search->what == OPTIONS_UNTIL_SEQS ? search->tokens : count;
    search->request.lengths = search->lengths;
    search->request.seqs = (uint32_t)seqs;
    return STATUS_OK;
}

/* Whether `count` fits. A count that has no pool at all does not; why is kept. */
static enum status try_count(struct search *search, uint64_t count, bool *fits,
                             struct status_text *text) {
    *fits = false;
    search->too_many.line[0] = '\0';
    search->bytes = UINT64_MAX;
    if (search->what == OPTIONS_UNTIL_SEQS && count > FILL_UNTIL_MOST_SEQS) {
        (void)status_set(&search->too_many, STATUS_REFUSED, "at most %llu sequences",
                         (unsigned long long)FILL_UNTIL_MOST_SEQS);
        return STATUS_OK;
    }
    enum status status = set_count(search, count, text);
    if (status != STATUS_OK)
        return status;
    status = pool_plan(&search->request, &search->sizes, &search->too_many);
    if (status != STATUS_OK)
        return count > 1 ? STATUS_OK : status_set(text, status, "%s", search->too_many.line);
    if (checked_add(search->sizes.pool_bytes, search->sizes.harness_bytes, &search->bytes))
        *fits = search->bytes <= search->budget->budget_bytes;
    return STATUS_OK;
}

/* The largest count that fits; 0: none does. */
static enum status find_largest(struct search *search, uint64_t *count, struct status_text *text) {
    uint64_t fitting = 0, passing = 1;
    bool fits;
    enum status status = try_count(search, passing, &fits, text);
    while (status == STATUS_OK && fits && passing < UINT64_MAX) {
        fitting = passing;
        passing = passing <= UINT64_MAX / 2 ? passing * 2 : UINT64_MAX;
        status = try_count(search, passing, &fits, text);
    }
    while (status == STATUS_OK && passing - fitting > 1) {
        const uint64_t middle = fitting + (passing - fitting) / 2;
        status = try_count(search, middle, &fits, text);
        if (fits)
            fitting = middle;
        else
            passing = middle;
    }
    *count = fitting;
    return status;
}

static enum status count_by_formula(const struct search *search, uint64_t *count,
                                    struct status_text *text) {
    const struct pool_request *request = &search->request;
    if (search->what == OPTIONS_UNTIL_SEQS)
        return formula_max_seqs(request->model, &request->storage, search->tokens,
                                search->budget->budget_bytes, count, text);
    const enum status status = formula_max_tokens(request->model, &request->storage, request->seqs,
                                                  search->budget->budget_bytes, count, text);
    if (status == STATUS_OK && *count == UINT64_MAX)
        return status_set(
            text, STATUS_REFUSED,
            "--until-full tokens: nothing of %s grows with the length (windows and state only): "
            "the budget would never end",
            request->model->name);
    return status;
}

/* Why it ends after `count`, and what is left then. */
static enum status describe(struct search *search, struct fill_until *out,
                            struct status_text *text) {
    bool fits;
    enum status status = try_count(search, out->count + 1, &fits, text);
    if (status != STATUS_OK)
        return status;
    const uint64_t budget_bytes = search->budget->budget_bytes;
    if (search->too_many.line[0] == '\0')
        out->short_bytes = search->bytes - budget_bytes;
    (void)snprintf(out->limit, sizeof out->limit, "%.*s", (int)sizeof out->limit - 1,
                   search->too_many.line);
    status = try_count(search, out->count, &fits, text);
    out->sizes = search->sizes;
    out->left_bytes = budget_bytes - search->bytes;
    return status;
}

enum status fill_until_find(enum options_until what, const struct pool_request *request,
                            const struct memory_budget *budget, struct fill_until *out,
                            struct status_text *text) {
    *out = (struct fill_until){0};
    struct search search = {
        .what = what, .request = *request, .tokens = request->lengths[0], .budget = budget};
    bool fits;
    enum status status = try_count(&search, 1, &fits, text);
    /* First, since it refuses what would never end. */
    if (status == STATUS_OK)
        status = count_by_formula(&search, &out->formula_count, text);
    if (status == STATUS_OK)
        status = find_largest(&search, &out->count, text);
    if (status == STATUS_OK && out->count == 0)
        status = status_set(text, STATUS_OUT_OF_MEMORY,
                            "--until-full %s: the first takes %llu bytes, %llu more the rows it is "
                            "filled from, and "
                            "the budget is %llu (%s)",
                            fill_until_name(what), (unsigned long long)search.sizes.pool_bytes,
                            (unsigned long long)search.sizes.harness_bytes,
                            (unsigned long long)budget->budget_bytes, budget->source);
    if (status == STATUS_OK)
        status = describe(&search, out, text);
    if (status != STATUS_OK) {
        free(search.lengths);
        *out = (struct fill_until){0};
        return status;
    }
    out->lengths = search.lengths;
    out->seqs = search.request.seqs;
    return STATUS_OK;
}

void fill_until_free(struct fill_until *found) {
    free(found->lengths);
    *found = (struct fill_until){0};
}
