/* Questions to engines, for tests: a model by name, settings as words, answers that must come. */
#ifndef ENGINE_QUESTIONS_H
#define ENGINE_QUESTIONS_H

#include <string.h>

#include "engine.h"
#include "model_source.h"

static const double gib = 1073741824.0;

static inline struct model load(const char *name) {
    struct model model;
    struct status_text text = {""};
    if (model_source_load(name, &model, NULL, NULL, NULL, &text) != STATUS_OK)
        fail_msg("%s", text.line);
    return model;
}

static inline struct formula_storage storage_of(enum format_id format) {
    return (struct formula_storage){.k_format = format,
                                    .v_format = format,
                                    .index = formula_index_default(format),
                                    .state_value_bytes = 4};
}

/* "swa-full ubatch-size=64" into settings. */
static inline void set(struct engine_question *question, const char *engine, const char *words) {
    char copy[256], *texts[8];
    size_t count = 0;
    struct status_text text = {""};
    assert_true(strlen(words) < sizeof copy);
    (void)strcpy(copy, words);
    for (char *word = strtok(copy, " "); word != NULL; word = strtok(NULL, " "))
        texts[count++] = word;
    if (engine_read_settings(engine_find(engine), texts, count, question->settings, &text) !=
        STATUS_OK)
        fail_msg("%s", text.line);
}

static inline struct engine_answer ask(const char *engine, const struct engine_question *question) {
    struct engine_answer answer;
    struct status_text text = {""};
    if (engine_ask(engine_find(engine), question, &answer, &text) != STATUS_OK)
        fail_msg("%s: %s", engine, text.line);
    return answer;
}

static inline struct engine_answer ask_model(const char *engine, const char *settings,
                                             const char *name, struct formula_storage storage,
                                             uint64_t tokens, uint64_t seqs, double memory_gib) {
    const struct model model = load(name);
    struct engine_question question = {.model = &model,
                                       .storage = storage,
                                       .tokens = tokens,
                                       .seqs = seqs,
                                       .has_memory = memory_gib > 0,
                                       .memory_bytes = (uint64_t)(memory_gib * gib)};
    set(&question, engine, settings);
    return ask(engine, &question);
}

static inline void says(const struct engine_answer *answer, const char *words) {
    if (strstr(answer->says, words) == NULL)
        fail_msg("\"%s\" says nothing of \"%s\"", answer->says, words);
}

static inline void notes(const struct engine_answer *answer, const char *words) {
    if (strstr(answer->notes, words) == NULL)
        fail_msg("\"%s\" notes nothing of \"%s\"", answer->notes, words);
}

static inline int64_t item(const struct engine_answer *answer, const char *name) {
    for (size_t i = 0; i < answer->item_count; i++)
        if (strcmp(answer->items[i].name, name) == 0)
            return answer->items[i].bytes;
    return 0;
}

#endif
