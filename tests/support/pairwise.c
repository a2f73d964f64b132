/* Greedy covering: each open pair gets a row, which then takes whatever else is open. */
#include "pairwise.h"

#include <stdlib.h>

#include "generate.h"

enum { FIRST_TRIES = 400 };

struct state {
    const struct pairwise *plan;
    uint32_t starts[PAIRWISE_MAX_AXES]; /* an axis' first value among all values */
    uint32_t value_count;
    bool *open; /* [value_count][value_count], earlier axis first: allowed and not yet covered */
    struct generate_random random;
};

static bool is_allowed(const struct pairwise *plan, const uint32_t *values) {
    return plan->allowed == NULL || plan->allowed(values);
}

static bool *pair_at(const struct state *state, uint32_t a, uint32_t va, uint32_t b, uint32_t vb) {
    const size_t from = state->starts[a] + va, to = state->starts[b] + vb;
    return &state->open[a < b ? from * state->value_count + to : to * state->value_count + from];
}

static void forget(uint32_t *values, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        values[i] = PAIRWISE_ANY;
}

/* Opens every pair that the rules allow. */
static bool prepare(struct state *state) {
    const struct pairwise *plan = state->plan;
    for (uint32_t a = 0; a < plan->axis_count; a++) {
        state->starts[a] = state->value_count;
        state->value_count += plan->axis_sizes[a];
    }
    state->open = calloc((size_t)state->value_count * state->value_count, sizeof *state->open);
    if (state->open == NULL)
        return false;
    uint32_t values[PAIRWISE_MAX_AXES];
    for (uint32_t a = 0; a < plan->axis_count; a++)
        for (uint32_t b = a + 1; b < plan->axis_count; b++)
            for (uint32_t va = 0; va < plan->axis_sizes[a]; va++)
                for (uint32_t vb = 0; vb < plan->axis_sizes[b]; vb++) {
                    forget(values, plan->axis_count);
                    values[a] = va;
                    values[b] = vb;
                    *pair_at(state, a, va, b, vb) = is_allowed(plan, values);
                }
    return true;
}

static uint32_t gain(const struct state *state, const uint32_t *values, uint32_t axis) {
    uint32_t pairs = 0;
    for (uint32_t other = 0; other < state->plan->axis_count; other++)
        if (other != axis && values[other] != PAIRWISE_ANY)
            pairs += *pair_at(state, axis, values[axis], other, values[other]);
    return pairs;
}

/* Decides the open axes in random order, each by what covers most; ties fall randomly. */
static bool complete(struct state *state, uint32_t *values) {
    const struct pairwise *plan = state->plan;
    uint32_t order[PAIRWISE_MAX_AXES];
    for (uint32_t i = 0; i < plan->axis_count; i++) {
        const uint32_t j = (uint32_t)generate_random_below(&state->random, i + 1);
        order[i] = order[j];
        order[j] = i;
    }
    for (uint32_t i = 0; i < plan->axis_count; i++) {
        const uint32_t axis = order[i];
        if (values[axis] != PAIRWISE_ANY)
            continue;
        uint32_t best = PAIRWISE_ANY, best_gain = 0, ties = 0;
        for (uint32_t v = 0; v < plan->axis_sizes[axis]; v++) {
            values[axis] = v;
            if (!is_allowed(plan, values))
                continue;
            const uint32_t pairs = gain(state, values, axis);
            ties = best == PAIRWISE_ANY || pairs > best_gain ? 1 : ties + (pairs == best_gain);
            if (best == PAIRWISE_ANY || pairs > best_gain ||
                (pairs == best_gain && generate_random_below(&state->random, ties) == 0)) {
                best = v;
                best_gain = pairs;
            }
        }
        values[axis] = best;
        if (best == PAIRWISE_ANY)
            return false;
    }
    return true;
}

static void close_pairs(struct state *state, const uint32_t *values) {
    for (uint32_t a = 0; a < state->plan->axis_count; a++)
        for (uint32_t b = a + 1; b < state->plan->axis_count; b++)
            *pair_at(state, a, values[a], b, values[b]) = false;
}

/* A row that holds the given pair and as many other open ones as greed finds. */
static bool add_row(struct state *state, uint32_t a, uint32_t va, uint32_t b, uint32_t vb,
                    uint32_t *row) {
    for (int attempt = 0; attempt < FIRST_TRIES; attempt++) {
        forget(row, state->plan->axis_count);
        row[a] = va;
        row[b] = vb;
        if (complete(state, row)) {
            close_pairs(state, row);
            return true;
        }
    }
    return false;
}

size_t pairwise_generate(const struct pairwise *plan, uint64_t seed, uint32_t *rows,
                         size_t capacity) {
    struct state state = {.plan = plan};
    generate_random_seed(&state.random, seed);
    if (!prepare(&state))
        return 0;
    size_t count = 0;
    bool well = true;
    for (uint32_t a = 0; a < plan->axis_count; a++)
        for (uint32_t b = a + 1; b < plan->axis_count; b++)
            for (uint32_t va = 0; va < plan->axis_sizes[a]; va++)
                for (uint32_t vb = 0; vb < plan->axis_sizes[b] && well; vb++) {
                    if (!*pair_at(&state, a, va, b, vb))
                        continue;
                    well = count < capacity &&
                           add_row(&state, a, va, b, vb, rows + count * plan->axis_count);
                    count += well;
                }
    free(state.open);
    return well ? count : 0;
}

size_t pairwise_missing(const struct pairwise *plan, const uint32_t *rows, size_t count) {
    struct state state = {.plan = plan};
    if (!prepare(&state))
        return SIZE_MAX;
    for (size_t i = 0; i < count; i++)
        close_pairs(&state, rows + i * plan->axis_count);
    size_t missing = 0;
    for (size_t i = 0; i < (size_t)state.value_count * state.value_count; i++)
        missing += state.open[i];
    free(state.open);
    return missing;
}
