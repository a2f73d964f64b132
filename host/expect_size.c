/* Bytes of a model's groups as somebody may have counted them. */
#include "expect_size.h"

#include <stddef.h>

static double value_bytes(enum format_id format, const struct expect_view *view) {
    const struct format_info *info = format_get(format);
    const double group = info->group_payload_bytes + (double)info->group_scale_bytes;
    if (view->group_as_value)
        return group;
    return view->value_bytes > 0 ? view->value_bytes : group / info->group_values;
}

/* One token in one layer of K and V. */
static double kv_bytes(const struct model_group *group, const struct formula_storage *storage,
                       const struct expect_view *view) {
    const double heads = view->every_query_head ? group->query_heads : group->kv_heads;
    const double k_dim = view->head_dim > 0 ? view->head_dim : group->k_dim;
    const double v_dim = view->head_dim > 0 && group->v_dim > 0 ? view->head_dim : group->v_dim;
    const double k = k_dim * value_bytes(storage->k_format, view);
    const double v = v_dim * value_bytes(storage->v_format, view);
    return heads * ((view->no_k ? 0 : k) + (view->no_v ? 0 : v));
}

/* One latent or entry, or one token of a window that keeps one row. */
static double row_bytes(uint32_t values, const struct formula_storage *storage,
                        const struct expect_view *view) {
    const double times = view->latents_twice ? 2 : 1;
    if (format_is_record(storage->k_format) && view->value_bytes <= 0)
        return times *
               format_row_bytes(storage->k_format, format_get(storage->k_format)->group_values);
    return times * values * value_bytes(storage->k_format, view);
}

static double key_bytes(const struct model_group *group, enum formula_index_format index) {
    switch (index) {
    case FORMULA_INDEX_BF16:
        return 2.0 * group->key_dim;
    case FORMULA_INDEX_FP8_E4M3:
        return group->key_dim;
    case FORMULA_INDEX_FP8_132:
        return group->key_dim + 4.0;
    case FORMULA_INDEX_MXFP4:
        return group->key_dim * 17.0 / 32;
    default:
        return 0;
    }
}

/* The layers of full attention that a recurrent layer is taken for. */
static const struct model_group *full_group(const struct model *model) {
    for (uint32_t g = 0; g < model->group_count; g++)
        if (model->groups[g].kind == MODEL_FULL || model->groups[g].kind == MODEL_LATENT)
            return &model->groups[g];
    return NULL;
}

/* Adds a part that grows by `token_bytes` with each of `tokens`, or that stays. */
static void add(struct expect_size *out, double token_bytes, double tokens, bool grows) {
    out->rate += grows ? token_bytes : 0;
    out->fixed += grows ? 0 : token_bytes * tokens;
    out->bytes += token_bytes * tokens;
}

static void add_state(const struct model *model, const struct model_group *group,
                      const struct formula_storage *storage, double tokens,
                      const struct expect_view *view, struct expect_size *out) {
    const struct model_group *full = full_group(model);
    const double state =
        (double)group->heads * group->state_rows * group->state_cols * storage->state_value_bytes +
        2.0 * group->conv_channels * group->conv_taps;
    if (view->state_in_full && full != NULL)
        add(out,
            group->layers * (full->kind == MODEL_FULL
                                 ? kv_bytes(full, storage, view)
                                 : row_bytes(full->latent_dim + full->rope_dim, storage, view)),
            tokens, true);
    else if (!view->no_state)
        add(out, group->layers * state, 1, false);
}

struct expect_size expect_size(const struct model *model, const struct formula_storage *storage,
                               uint64_t tokens, const struct expect_view *view) {
    struct expect_size out = {0};
    const double length = (double)tokens;
    for (uint32_t g = 0; g < model->group_count; g++) {
        const struct model_group *group = &model->groups[g];
        const double layers = group->layers;
        switch (group->kind) {
        case MODEL_FULL:
            add(&out, layers * kv_bytes(group, storage, view), length, true);
            break;
        case MODEL_WINDOW: {
            const bool grows = view->windows_in_full || storage->window_as_full;
            const double kept =
                !grows && group->window_tokens < tokens ? (double)group->window_tokens : length;
            const double token = group->v_dim > 0 ? kv_bytes(group, storage, view)
                                                  : row_bytes(group->k_dim, storage, view);
            if (!view->no_windows)
                add(&out, layers * token, kept, grows);
            break;
        }
        case MODEL_LATENT:
            add(&out, layers * row_bytes(group->latent_dim + group->rope_dim, storage, view),
                length, true);
            break;
        case MODEL_COMPRESSED:
            add(&out, layers * row_bytes(group->entry_dim, storage, view) / group->tokens_per_entry,
                length, true);
            break;
        case MODEL_INDEX:
            if (!view->no_index)
                add(&out, layers * key_bytes(group, storage->index) / group->tokens_per_entry,
                    length, true);
            break;
        case MODEL_STATE:
            add_state(model, group, storage, length, view, &out);
            break;
        case MODEL_KIND_COUNT:
            break;
        }
    }
    return out;
}
