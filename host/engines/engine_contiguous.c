/* One buffer per sequence, reserved at the full length before anything is known of what it will
 * hold: what serving did before pages, and what a static cache still does. Every group as the
 * formula has it, at that length. */
#include "engine_parts.h"

enum { MAX_LEN };

static const struct engine_setting_row settings[] = {[MAX_LEN] = {"max-len", ENGINE_TOKENS, NULL}};

static const char *const item_names[MODEL_KIND_COUNT] = {
    [MODEL_FULL] = "K and V reserved beyond the tokens asked",
    [MODEL_WINDOW] = "windows reserved beyond the tokens asked",
    [MODEL_LATENT] = "latents reserved beyond the tokens asked",
    [MODEL_COMPRESSED] = "entries reserved beyond the tokens asked",
    [MODEL_INDEX] = "index keys reserved beyond the tokens asked",
    [MODEL_STATE] = "state",
};

static uint64_t bytes_of(const struct formula_group *group) {
    return group->kv_bytes + group->index_bytes + group->window_bytes + group->state_bytes +
           group->conv_bytes;
}

static enum status plan(const struct engine_question *question, struct engine_answer *out,
                        struct status_text *text) {
    const struct model *model = question->model;
    const struct engine_setting *asked = &question->settings[MAX_LEN];
    const uint64_t length = engine_number(asked, model->native_context);
    if (length == 0)
        return status_set(text, STATUS_REFUSED,
                          "contiguous: no source gives the native context of %s; --engine-opt "
                          "max-len=N says what each sequence is reserved at",
                          model->name);
    if (length < question->tokens)
        return status_set(text, STATUS_REFUSED,
                          "contiguous: %llu tokens do not fit a sequence reserved at %llu (%s)",
                          (unsigned long long)question->tokens, (unsigned long long)length,
                          asked->given ? "--engine-opt max-len" : "the native context");
    struct formula_result asked_for, reserved;
    enum status status = formula_compute(model, &question->storage, question->tokens,
                                         question->seqs, &asked_for, text);
    if (status == STATUS_OK)
        status =
            formula_compute(model, &question->storage, length, question->seqs, &reserved, text);
    if (status != STATUS_OK)
        return status;
    if (reserved.total_bytes > INT64_MAX / 2)
        return engine_too_large(&engine_contiguous, text);
    bool fits = true;
    out->bytes = reserved.total_bytes;
    for (uint32_t g = 0; g < model->group_count; g++)
        engine_add_item(out, item_names[model->groups[g].kind],
                        engine_change(&fits, question->seqs, bytes_of(&reserved.groups[g]),
                                      bytes_of(&asked_for.groups[g])));
    engine_note(out, "each sequence reserved at %llu tokens", (unsigned long long)length);
    if (question->has_memory && reserved.seq_bytes > 0) {
        const uint64_t left = question->memory_bytes > question->weights_bytes
                                  ? question->memory_bytes - question->weights_bytes
                                  : 0;
        out->has_tokens = true;
        out->tokens = engine_times(&fits, left / reserved.seq_bytes, length);
    }
    return fits ? STATUS_OK : engine_too_large(&engine_contiguous, text);
}

const struct engine engine_contiguous = {
    .name = "contiguous",
    .version = "a buffer per sequence",
    .settings = settings,
    .setting_count = sizeof settings / sizeof settings[0],
    .plan = plan,
};
