/* Recomputes the size with one mistake at a time and keeps the one that comes nearest. */
#include "expect_mistakes.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "expect_size.h"

/* The best explanation so far. */
struct search {
    const struct expect_case *one;
    const struct expect_figure *figure;
    double nearest; /* distance as a share of the candidate; above 1: none yet */
    bool tied;      /* a second one comes as near, and is named too */
    char *out;
    size_t bytes;
};

/* Offers the value that a mistake gives. What changes nothing explains nothing; two that come
 * equally near are both named. */
static void offer(struct search *search, double value, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 3, 4)))
#endif
    ;
static void offer(struct search *search, double value, const char *format, ...) {
    const double ours = search->one->ours;
    if (!isfinite(value) || !(value > 0) || fabs(value - ours) < 1e-4 * ours)
        return;
    const double off = fabs(search->figure->value - value);
    const double allowed = fmax(search->figure->half_unit * (1 + 1e-9), 0.005 * value);
    const double share = off / value;
    const bool tie = fabs(share - search->nearest) <= 1e-9;
    if (off > allowed || (tie ? search->tied : share > search->nearest))
        return;
    search->tied = tie;
    search->nearest = tie ? search->nearest : share;
    size_t used = tie ? strlen(search->out) : 0;
    if (tie) {
        (void)snprintf(search->out + used, search->bytes - used, ", or ");
        used = strlen(search->out);
    }
    va_list list;
    va_start(list, format);
    (void)vsnprintf(search->out + used, search->bytes - used, format, list);
    va_end(list);
}

/* The figure in its own base unit, as a calculator with that view of that model finds it. */
static double value_of(const struct expect_case *one, enum expect_unit unit,
                       const struct model *model, const struct expect_view *view, double budget) {
    const struct expect_size size = expect_size(model, &one->storage, one->tokens, view);
    const double seqs = (double)one->seqs;
    struct expect_view of_baseline = *view;
    switch (unit) {
    case EXPECT_BYTES:
        return size.bytes * seqs;
    case EXPECT_RATE:
        return size.rate;
    case EXPECT_TOKENS:
        return (budget - size.fixed * seqs) / size.rate;
    case EXPECT_RATIO:
        break;
    }
    /* How a format's values are taken is that format's mistake. */
    of_baseline.value_bytes = 0;
    of_baseline.group_as_value = false;
    return expect_size(model, &one->baseline, one->tokens, &of_baseline).rate / size.rate;
}

static double viewed(const struct search *search, struct expect_view view) {
    return value_of(search->one, search->figure->unit, search->one->model, &view,
                    search->one->budget_bytes);
}

static bool has_kind(const struct model *model, enum model_kind kind) {
    for (uint32_t g = 0; g < model->group_count; g++)
        if (model->groups[g].kind == kind)
            return true;
    return false;
}

static const struct model_group *heads_group(const struct model *model) {
    for (uint32_t g = 0; g < model->group_count; g++)
        if (model->groups[g].kv_heads > 0)
            return &model->groups[g];
    return NULL;
}

static void try_heads(struct search *search) {
    const double k = viewed(search, (struct expect_view){.no_v = true});
    const double v = viewed(search, (struct expect_view){.no_k = true});
    const struct model_group *group = heads_group(search->one->model);
    if (group == NULL)
        return;
    const bool alike = fabs(k - v) < 1e-9 * k;
    offer(search, k, "only K%s is counted", alike ? ", or only V," : "");
    if (!alike)
        offer(search, v, "only V is counted");
    offer(search, viewed(search, (struct expect_view){.every_query_head = true}),
          "every query head is counted, not the KV heads (MHA instead of GQA, %gx here)",
          (double)group->query_heads / group->kv_heads);
}

static void try_groups(struct search *search) {
    const struct model *model = search->one->model;
    if (has_kind(model, MODEL_WINDOW)) {
        offer(search, viewed(search, (struct expect_view){.windows_in_full = true}),
              "window layers are counted as full attention");
        offer(search, viewed(search, (struct expect_view){.no_windows = true}),
              "window layers are left out");
    }
    if (has_kind(model, MODEL_STATE)) {
        offer(search, viewed(search, (struct expect_view){.state_in_full = true}),
              "recurrent layers are counted as full attention");
        offer(search, viewed(search, (struct expect_view){.no_state = true}),
              "the recurrent state is left out");
    }
    if (has_kind(model, MODEL_INDEX))
        offer(search, viewed(search, (struct expect_view){.no_index = true}),
              "index keys are left out");
    if (has_kind(model, MODEL_LATENT) || has_kind(model, MODEL_COMPRESSED))
        offer(search, viewed(search, (struct expect_view){.latents_twice = true}),
              "the latent is counted as K and as V");
}

static void try_format(struct search *search) {
    const struct format_info *info = format_get(search->one->storage.k_format);
    const uint32_t group = info->group_payload_bytes + info->group_scale_bytes;
    if (info->group_values > 1) {
        offer(search, viewed(search, (struct expect_view){.group_as_value = true}),
              "the %u bytes of a group of %s are taken for each of its %u values", group,
              info->name, info->group_values);
        offer(search, viewed(search, (struct expect_view){.value_bytes = info->value_bits / 8.0}),
              "%s is taken as %.1f bytes a value, its scales left out", info->name,
              info->value_bits / 8.0);
    }
    if (info->value_bits < 16)
        offer(search, viewed(search, (struct expect_view){.value_bytes = 2}),
              "16 bits a value are counted, not %s", info->name);
}

/* The same power of 1000 and of 1024: how much the other unit is worth. */
static double other_unit(double scale) {
    for (int power = 1; power <= 4; power++) {
        if (scale == pow(1000, power))
            return pow(1024, power);
        if (scale == pow(1024, power))
            return pow(1000, power);
    }
    return scale;
}

static void try_units(struct search *search) {
    const struct expect_case *one = search->one;
    const double scale = search->figure->scale, other = other_unit(scale);
    const struct expect_view right = {0};
    if (search->figure->unit == EXPECT_TOKENS) {
        const double gib_per_gb = 1.073741824;
        offer(search,
              value_of(one, EXPECT_TOKENS, one->model, &right, one->budget_bytes * gib_per_gb),
              "the budget's GB are taken for GiB");
        offer(search,
              value_of(one, EXPECT_TOKENS, one->model, &right, one->budget_bytes / gib_per_gb),
              "the budget's GiB are taken for GB");
        return;
    }
    /* The number is that of the other unit. */
    offer(search, one->ours * scale / other, "the number is right, the unit is not: %s are meant",
          scale < other ? "binary units (GiB, not GB)" : "decimal units (GB, not GiB)");
}

static void try_whole(struct search *search) {
    const struct expect_case *one = search->one;
    const enum expect_unit unit = search->figure->unit;
    const struct expect_view right = {0};
    if (one->seqs > 1 && (unit == EXPECT_BYTES || unit == EXPECT_TOKENS))
        offer(search, one->ours / (double)one->seqs, "one sequence is counted, not all %llu",
              (unsigned long long)one->seqs);
    if (one->ranks > 1)
        offer(search, value_of(one, unit, one->whole, &right, one->budget_bytes),
              "all %u ranks together are counted, not one", one->ranks);
    for (uint32_t ranks = 2; one->ranks == 1 && ranks <= 8; ranks *= 2) {
        struct model rank;
        if (model_shard(one->whole, ranks, &rank, NULL) == STATUS_OK)
            offer(search, value_of(one, unit, &rank, &right, one->budget_bytes),
                  "one rank of %u is counted, not all", ranks);
    }
    if (unit == EXPECT_BYTES && one->paged > 0 && !(one->formula > 0))
        offer(search, one->paged, "whole pages are counted, unused slots too");
    if (one->formula > 0)
        offer(search, one->formula, "that is the size formula, without what the engine adds");
}

/* Head dims that hidden size / heads gives in public models whose heads have another. */
static void try_head_dims(struct search *search) {
    static const uint32_t dims[] = {40,  45,  48,  56,  64,  72,  80,  90,  96,  112, 120,
                                    128, 144, 160, 192, 224, 256, 288, 320, 384, 512};
    const struct model_group *group = heads_group(search->one->model);
    /* With fewer digits than three some of them always fits. */
    if (group == NULL || search->figure->half_unit > 0.005 * search->figure->value)
        return;
    for (size_t i = 0; i < sizeof dims / sizeof dims[0]; i++)
        if (dims[i] != group->k_dim)
            offer(search, viewed(search, (struct expect_view){.head_dim = dims[i]}),
                  "head dim %u is taken, not %u (hidden size / heads?)", dims[i], group->k_dim);
}

void expect_mistake(const struct expect_case *one, const struct expect_figure *figure, char *out,
                    size_t bytes) {
    struct search search = {.one = one, .figure = figure, .nearest = 2, .out = out, .bytes = bytes};
    out[0] = '\0';
    try_heads(&search);
    try_groups(&search);
    try_format(&search);
    try_units(&search);
    try_whole(&search);
    if (out[0] == '\0')
        try_head_dims(&search);
}
