/* The size formula, group by group. */
#include "formula.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>

#include "checked.h"
#include "page.h"

static const char *const index_names[FORMULA_INDEX_COUNT] = {"bf16", "fp8_e4m3", "index_fp8_132",
                                                             "mxfp4", "none"};

const char *formula_index_name(enum formula_index_format index) {
    return index < FORMULA_INDEX_COUNT ? index_names[index] : "unknown";
}

bool formula_index_find(const char *name, enum formula_index_format *out) {
    for (int index = 0; index < FORMULA_INDEX_COUNT; index++) {
        const char *a = index_names[index], *b = name;
        while (*a != '\0' && tolower((unsigned char)*b) == *a) {
            a++;
            b++;
        }
        if (*a == '\0' && *b == '\0') {
            *out = (enum formula_index_format)index;
            return true;
        }
    }
    return false;
}

enum formula_index_format formula_index_default(enum format_id k_format) {
    const uint32_t bits = format_get(k_format)->value_bits;
    if (bits == 16)
        return FORMULA_INDEX_BF16;
    if (bits == 8)
        return format_is_record(k_format) ? FORMULA_INDEX_FP8_132 : FORMULA_INDEX_FP8_E4M3;
    return FORMULA_INDEX_MXFP4;
}

bool formula_index_storage(enum formula_index_format index, enum format_id *out) {
    switch (index) {
    case FORMULA_INDEX_BF16:
        *out = FORMAT_BF16;
        return true;
    case FORMULA_INDEX_FP8_E4M3:
        *out = FORMAT_FP8_E4M3;
        return true;
    case FORMULA_INDEX_FP8_132:
        *out = FORMAT_INDEX_FP8_132;
        return true;
    case FORMULA_INDEX_MXFP4:
        *out = FORMAT_MXFP4;
        return true;
    case FORMULA_INDEX_NONE:
    case FORMULA_INDEX_COUNT:
        break;
    }
    return false;
}

double formula_rate_value(struct formula_rate rate) {
    return (double)rate.bytes / (double)rate.tokens;
}

static uint64_t common_divisor(uint64_t a, uint64_t b) {
    while (b != 0) {
        const uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static struct formula_rate reduced(uint64_t bytes, uint64_t tokens) {
    const uint64_t divisor = common_divisor(bytes, tokens);
    return (struct formula_rate){bytes / divisor, tokens / divisor};
}

/* a + b over a common denominator. */
static bool add_rates(struct formula_rate a, struct formula_rate b, struct formula_rate *out) {
    const uint64_t divisor = common_divisor(a.tokens, b.tokens);
    uint64_t tokens, left, right, bytes;
    if (!checked_multiply(a.tokens, b.tokens / divisor, &tokens) ||
        !checked_multiply(a.bytes, b.tokens / divisor, &left) ||
        !checked_multiply(b.bytes, a.tokens / divisor, &right) || !checked_add(left, right, &bytes))
        return false;
    *out = reduced(bytes, tokens);
    return true;
}

static enum status too_large(const struct model *model, struct status_text *text) {
    return status_set(text, STATUS_OVERFLOW, "%s: the size does not fit 64 bits", model->name);
}

static enum status check_dim(const struct model *model, enum format_id format, const char *what,
                             uint32_t dim, struct status_text *text) {
    const struct format_info *info = format_get(format);
    if (format_fits(format, dim))
        return STATUS_OK;
    if (format_is_record(format))
        return status_set(text, STATUS_REFUSED, "%s: %s is a row of %u values, not %s of %u",
                          model->name, info->name, info->group_values, what, dim);
    char multiples[48];
    format_multiples_words(format, dim, multiples, sizeof multiples);
    return status_set(text, STATUS_REFUSED,
                      "%s: %s cannot hold %s of %u values: its scale covers %u values, so the dim "
                      "must be a multiple of that (%s would do)",
                      model->name, info->name, what, dim, info->group_values, multiples);
}

/* Bytes of one latent, or of one pooled entry, which says only its whole width: as latent_dim,
 * with rope_dim 0 and `pooled`. */
static enum status entry_bytes(const struct model *model, const struct formula_storage *storage,
                               uint32_t latent_dim, uint32_t rope_dim, bool pooled,
                               const char *what, uint64_t *out, struct status_text *text) {
    const uint32_t dim = latent_dim + rope_dim;
    if (format_is_record(storage->k_format)) {
        const struct format_info *record = format_get(storage->k_format);
        const bool fits =
            record->key_dim == 0 &&
            (pooled ? dim == record->latent_dim + record->rope_dim
                    : latent_dim == record->latent_dim && rope_dim == record->rope_dim);
        if (!fits)
            return status_set(text, STATUS_REFUSED,
                              "%s: %s holds %u + %u values and cannot hold %s of %u + %u",
                              model->name, record->name, record->latent_dim, record->rope_dim, what,
                              latent_dim, rope_dim);
        *out = format_row_bytes(storage->k_format, record->group_values);
        return STATUS_OK;
    }
    if (storage->k_format != storage->v_format)
        return status_set(text, STATUS_REFUSED,
                          "%s: %s/%s: %s keeps K and V in one row, which takes one format",
                          model->name, format_get(storage->k_format)->name,
                          format_get(storage->v_format)->name, what);
    const enum status status = check_dim(model, storage->k_format, what, dim, text);
    if (status == STATUS_OK)
        *out = format_row_bytes(storage->k_format, dim);
    return status;
}

/* Bytes of one token in one layer of a full or window group. */
static enum status kv_token_bytes(const struct model *model, const struct model_group *group,
                                  const struct formula_storage *storage, uint64_t *out,
                                  struct status_text *text) {
    if (group->v_dim == 0) {
        uint64_t row = 0;
        const enum status status =
            entry_bytes(model, storage, group->k_dim, 0, true, "a one-row window", &row, text);
        if (status != STATUS_OK)
            return status;
        return checked_multiply(row, group->kv_heads, out) ? STATUS_OK : too_large(model, text);
    }
    if (format_is_record(storage->k_format))
        return status_set(text, STATUS_REFUSED,
                          "%s: %s holds a latent and cannot hold a %s group's K and V", model->name,
                          format_get(storage->k_format)->name, model_kind_name(group->kind));
    enum status status = check_dim(model, storage->k_format, "K rows", group->k_dim, text);
    if (status == STATUS_OK)
        status = check_dim(model, storage->v_format, "V rows", group->v_dim, text);
    if (status != STATUS_OK)
        return status;
    const uint64_t rows = (uint64_t)format_row_bytes(storage->k_format, group->k_dim) +
                          format_row_bytes(storage->v_format, group->v_dim);
    return checked_multiply(rows, group->kv_heads, out) ? STATUS_OK : too_large(model, text);
}

static enum status index_key_bytes(const struct model *model, const struct model_group *group,
                                   enum formula_index_format index, uint64_t *out,
                                   struct status_text *text) {
    enum format_id format;
    *out = 0;
    if (!formula_index_storage(index, &format))
        return STATUS_OK;
    const enum status status = check_dim(model, format, "index keys", group->key_dim, text);
    if (status == STATUS_OK)
        *out = format_row_bytes(format, group->key_dim);
    return status;
}

/* The growing part: `entry` bytes per layer and per tokens_per_entry tokens. */
static bool grow(uint64_t entry, uint32_t layers, uint32_t tokens_per_entry, uint64_t tokens,
                 struct formula_rate *rate, uint64_t *bytes) {
    uint64_t per_entry;
    if (!checked_multiply(entry, layers, &per_entry))
        return false;
    *rate = reduced(per_entry, tokens_per_entry);
    return checked_multiply(per_entry, tokens / tokens_per_entry, bytes);
}

static enum status compute_state(const struct model *model, const struct model_group *group,
                                 uint32_t state_value_bytes, struct formula_group *out,
                                 struct status_text *text) {
    uint64_t values, columns;
    if (!checked_multiply((uint64_t)group->heads * group->state_rows, group->state_cols, &values) ||
        !checked_multiply(values, state_value_bytes, &values) ||
        !checked_multiply(values, group->layers, &out->state_bytes) ||
        !checked_multiply((uint64_t)group->conv_channels * group->conv_taps, 2, &columns) ||
        !checked_multiply(columns, group->layers, &out->conv_bytes))
        return too_large(model, text);
    return STATUS_OK;
}

static enum status compute_group(const struct model *model, const struct model_group *group,
                                 const struct formula_storage *storage, uint64_t tokens,
                                 struct formula_group *out, struct status_text *text) {
    *out = (struct formula_group){.kv_rate = {0, 1}, .index_rate = {0, 1}};
    uint64_t entry = 0;
    enum status status = STATUS_OK;
    switch (group->kind) {
    case MODEL_FULL:
    case MODEL_WINDOW:
        status = kv_token_bytes(model, group, storage, &entry, text);
        if (status == STATUS_OK && group->kind == MODEL_WINDOW && !storage->window_as_full) {
            const uint64_t kept = tokens < group->window_tokens ? tokens : group->window_tokens;
            struct formula_rate rate;
            return grow(entry, group->layers, 1, kept, &rate, &out->window_bytes)
                       ? STATUS_OK
                       : too_large(model, text);
        }
        break;
    case MODEL_LATENT:
        status = entry_bytes(model, storage, group->latent_dim, group->rope_dim, false, "a latent",
                             &entry, text);
        break;
    case MODEL_COMPRESSED:
        status = entry_bytes(model, storage, group->entry_dim, 0, true, "an entry", &entry, text);
        break;
    case MODEL_INDEX:
        status = index_key_bytes(model, group, storage->index, &entry, text);
        if (status != STATUS_OK)
            return status;
        return grow(entry, group->layers, group->tokens_per_entry, tokens, &out->index_rate,
                    &out->index_bytes)
                   ? STATUS_OK
                   : too_large(model, text);
    case MODEL_STATE:
        return compute_state(model, group, storage->state_value_bytes, out, text);
    case MODEL_KIND_COUNT:
        return status_set(text, STATUS_BAD_INPUT, "%s: a group of unknown kind", model->name);
    }
    if (status != STATUS_OK)
        return status;
    const uint32_t per = group->kind == MODEL_COMPRESSED ? group->tokens_per_entry : 1;
    return grow(entry, group->layers, per, tokens, &out->kv_rate, &out->kv_bytes)
               ? STATUS_OK
               : too_large(model, text);
}

enum status formula_compute(const struct model *model, const struct formula_storage *storage,
                            uint64_t tokens, uint64_t seqs, struct formula_result *out,
                            struct status_text *text) {
    *out = (struct formula_result){
        .kv_rate = {0, 1}, .index_rate = {0, 1}, .group_count = model->group_count};
    bool fits = true;
    for (uint32_t g = 0; g < model->group_count; g++) {
        struct formula_group *group = &out->groups[g];
        const enum status status =
            compute_group(model, &model->groups[g], storage, tokens, group, text);
        if (status != STATUS_OK)
            return status;
        const uint64_t fixed[] = {group->window_bytes, group->state_bytes, group->conv_bytes};
        for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++)
            fits =
                fits && checked_add(out->fixed_bytes_per_seq, fixed[i], &out->fixed_bytes_per_seq);
        fits = fits && add_rates(out->kv_rate, group->kv_rate, &out->kv_rate) &&
               add_rates(out->index_rate, group->index_rate, &out->index_rate) &&
               checked_add(out->seq_bytes, group->kv_bytes, &out->seq_bytes) &&
               checked_add(out->seq_bytes, group->index_bytes, &out->seq_bytes);
    }
    fits = fits && add_rates(out->kv_rate, out->index_rate, &out->rate) &&
           checked_add(out->seq_bytes, out->fixed_bytes_per_seq, &out->seq_bytes) &&
           checked_multiply(out->seq_bytes, seqs, &out->total_bytes);
    return fits ? STATUS_OK : too_large(model, text);
}

/* Pages of one layer that hold the rows [first, end), and the rows those pages have room for. */
static uint64_t pages_touched(uint64_t first, uint64_t end, uint32_t page_tokens) {
    return end == first ? 0 : (end - 1) / page_tokens - first / page_tokens + 1;
}

static enum status paged_group(const struct model *model, const struct model_group *group,
                               const struct formula_storage *storage,
                               const struct formula_group *formula, uint64_t tokens,
                               uint32_t page_tokens, struct formula_paged *out,
                               struct status_text *text) {
    enum format_id k_format = storage->k_format, v_format = storage->v_format;
    const uint64_t counted = formula->kv_bytes + formula->index_bytes + formula->window_bytes;
    if (group->kind == MODEL_STATE)
        return checked_add(out->seq_bytes, formula->state_bytes + formula->conv_bytes,
                           &out->seq_bytes)
                   ? STATUS_OK
                   : too_large(model, text);
    if (group->kind == MODEL_INDEX) {
        if (!formula_index_storage(storage->index, &k_format))
            return STATUS_OK;
        v_format = k_format;
    }
    struct page_shape shape;
    struct page_layout page;
    enum status status = model_page_shape(group, k_format, v_format, page_tokens, &shape, text);
    if (status == STATUS_OK)
        status = page_plan(&shape, &page, text);
    if (status != STATUS_OK)
        return status;
    uint64_t first = 0, bytes, whole, pages;
    const uint64_t end = tokens / (group->tokens_per_entry > 0 ? group->tokens_per_entry : 1);
    if (group->kind == MODEL_WINDOW && !storage->window_as_full && tokens > group->window_tokens)
        first = tokens - group->window_tokens;
    if (!checked_multiply(pages_touched(first, end, page_tokens), group->layers, &pages) ||
        !checked_multiply(pages, page.stride_bytes, &bytes) ||
        !checked_multiply(pages, page.payload_bytes, &whole) ||
        !checked_add(out->seq_bytes, bytes, &out->seq_bytes))
        return too_large(model, text);
    out->tail_bytes += whole - counted;
    out->alignment_bytes += bytes - whole;
    return STATUS_OK;
}

enum status formula_paged_compute(const struct model *model, const struct formula_storage *storage,
                                  uint64_t tokens, uint32_t page_tokens, struct formula_paged *out,
                                  struct status_text *text) {
    *out = (struct formula_paged){0};
    if (page_tokens == 0)
        return status_set(text, STATUS_BAD_INPUT, "%s: a page holds at least 1 token", model->name);
    struct formula_result formula;
    enum status status = formula_compute(model, storage, tokens, 1, &formula, text);
    for (uint32_t g = 0; g < model->group_count && status == STATUS_OK; g++)
        status = paged_group(model, &model->groups[g], storage, &formula.groups[g], tokens,
                             page_tokens, out, text);
    return status;
}

enum status formula_max_seqs(const struct model *model, const struct formula_storage *storage,
                             uint64_t tokens, uint64_t budget_bytes, uint64_t *out,
                             struct status_text *text) {
    struct formula_result one;
    const enum status status = formula_compute(model, storage, tokens, 1, &one, text);
    if (status == STATUS_OK)
        *out = one.seq_bytes == 0 ? UINT64_MAX : budget_bytes / one.seq_bytes;
    return status;
}

enum status formula_max_tokens(const struct model *model, const struct formula_storage *storage,
                               uint64_t seqs, uint64_t budget_bytes, uint64_t *out,
                               struct status_text *text) {
    struct formula_result result;
    enum status status = formula_compute(model, storage, 0, seqs, &result, text);
    if (status != STATUS_OK)
        return status;
    *out = 0;
    if (result.total_bytes > budget_bytes)
        return STATUS_OK;
    /* Total bytes never fall as tokens rise, so the largest that fits is found by halving; a
     * length whose size does not even fit 64 bits does not fit the budget. */
    uint64_t fits = 0, too_many = UINT64_MAX;
    if (formula_compute(model, storage, UINT64_MAX, seqs, &result, NULL) == STATUS_OK &&
        result.total_bytes <= budget_bytes) {
        *out = UINT64_MAX;
        return STATUS_OK;
    }
    while (too_many - fits > 1) {
        const uint64_t middle = fits + (too_many - fits) / 2;
        status = formula_compute(model, storage, middle, seqs, &result, NULL);
        if (status == STATUS_OK && result.total_bytes <= budget_bytes)
            fits = middle;
        else
            too_many = middle;
    }
    *out = fits;
    return STATUS_OK;
}
