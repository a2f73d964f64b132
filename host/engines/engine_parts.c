/* Groups as engines see them, sums that notice overflow, items and text. */
#include "engine_parts.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "checked.h"

uint64_t engine_times(bool *fits, uint64_t a, uint64_t b) {
    uint64_t product = 0;
    if (!checked_multiply(a, b, &product) || product > INT64_MAX)
        *fits = false;
    return product;
}

uint64_t engine_plus(bool *fits, uint64_t a, uint64_t b) {
    uint64_t sum = 0;
    if (!checked_add(a, b, &sum) || sum > INT64_MAX)
        *fits = false;
    return sum;
}

uint64_t engine_up(bool *fits, uint64_t a, uint64_t step) {
    return engine_times(fits, checked_divide_up(a, step), step);
}

int64_t engine_change(bool *fits, uint64_t factor, uint64_t a, uint64_t b) {
    return a >= b ? (int64_t)engine_times(fits, factor, a - b)
                  : -(int64_t)engine_times(fits, factor, b - a);
}

void engine_add_item(struct engine_answer *answer, const char *name, int64_t bytes) {
    if (bytes == 0)
        return;
    for (size_t i = 0; i < answer->item_count; i++) {
        if (strcmp(answer->items[i].name, name) == 0) {
            answer->items[i].bytes = (int64_t)((uint64_t)answer->items[i].bytes + (uint64_t)bytes);
            return;
        }
    }
    if (answer->item_count < ENGINE_MAX_ITEMS)
        answer->items[answer->item_count++] = (struct engine_item){name, bytes};
}

static void append(char *to, size_t bytes, const char *between, const char *format, va_list list) {
    size_t used = strlen(to);
    if (used > 0) {
        (void)snprintf(to + used, bytes - used, "%s", between);
        used = strlen(to);
    }
    (void)vsnprintf(to + used, bytes - used, format, list);
}

void engine_say(struct engine_answer *answer, const char *format, ...) {
    va_list list;
    va_start(list, format);
    append(answer->says, sizeof answer->says, " | ", format, list);
    va_end(list);
}

void engine_note(struct engine_answer *answer, const char *format, ...) {
    va_list list;
    va_start(list, format);
    append(answer->notes, sizeof answer->notes, "; ", format, list);
    va_end(list);
}

uint64_t engine_number(const struct engine_setting *setting, uint64_t fallback) {
    return setting->given ? setting->number : fallback;
}

const char *engine_format_name(const struct formula_storage *storage) {
    return format_get(storage->k_format)->name;
}

enum status engine_refuse_format(const struct engine *engine,
                                 const struct engine_question *question, const char *allowed,
                                 struct status_text *text) {
    const struct formula_storage *storage = &question->storage;
    const bool pair = storage->k_format != storage->v_format;
    return status_set(text, STATUS_REFUSED, "%s has no %s%s%s cache; it takes %s", engine->version,
                      engine_format_name(storage), pair ? "/" : "",
                      pair ? format_get(storage->v_format)->name : "", allowed);
}

enum status engine_too_large(const struct engine *engine, struct status_text *text) {
    return status_set(text, STATUS_OVERFLOW, "%s: the size does not fit 63 bits", engine->name);
}

static void read_group(const struct engine_question *question, const struct model_group *from,
                       const struct formula_group *at_length, const struct formula_group *in_full,
                       struct engine_group *to) {
    const struct formula_storage *storage = &question->storage;
    *to = (struct engine_group){.of = from, .layers = from->layers};
    if (from->kind == MODEL_STATE) {
        to->state_values = (uint64_t)from->heads * from->state_rows * from->state_cols;
        to->conv_values = (uint64_t)from->conv_channels * from->conv_taps;
        to->state_bytes = at_length->state_bytes / from->layers;
        to->conv_bytes = at_length->conv_bytes / from->layers;
        return;
    }
    /* Tokens of these kinds have whole bytes: the rate is bytes / 1 in lowest terms. Where an index
     * key serves several tokens the engines refuse it. */
    const struct formula_rate rate =
        from->kind == MODEL_INDEX ? in_full->index_rate : in_full->kv_rate;
    to->token_bytes = rate.bytes / from->layers;
    to->kept_tokens = question->tokens;
    if (from->kind == MODEL_WINDOW && !storage->window_as_full &&
        from->window_tokens < question->tokens)
        to->kept_tokens = from->window_tokens;
    to->k_bytes = to->token_bytes;
    if ((from->kind == MODEL_FULL || from->kind == MODEL_WINDOW) && from->v_dim > 0)
        to->k_bytes = (uint64_t)from->kv_heads * format_row_bytes(storage->k_format, from->k_dim);
}

enum status engine_layout_read(const struct engine *engine, const struct engine_question *question,
                               struct engine_layout *out, struct status_text *text) {
    const struct model *model = question->model;
    struct formula_storage storage = question->storage;
    struct formula_result at_length, in_full;
    *out = (struct engine_layout){.count = model->group_count};
    for (uint32_t g = 0; g < model->group_count; g++)
        if (model->groups[g].kind == MODEL_COMPRESSED)
            return status_set(text, STATUS_REFUSED,
                              "%s: how %s keeps compressed entries is not known to this version; "
                              "--engine contiguous counts them",
                              model->name, engine->version);
    enum status status =
        formula_compute(model, &storage, question->tokens, question->seqs, &at_length, text);
    storage.window_as_full = true;
    if (status == STATUS_OK)
        status = formula_compute(model, &storage, 1, 1, &in_full, text);
    for (uint32_t g = 0; g < model->group_count && status == STATUS_OK; g++) {
        const struct model_group *group = &model->groups[g];
        if (group->kind == MODEL_INDEX && group->tokens_per_entry > 1)
            return status_set(text, STATUS_REFUSED,
                              "%s: how %s pages index keys of %u tokens each is not known to this "
                              "version",
                              model->name, engine->name, group->tokens_per_entry);
        read_group(question, group, &at_length.groups[g], &in_full.groups[g], &out->groups[g]);
    }
    return status;
}
