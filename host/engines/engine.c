/* The table of engines, their settings, and the sum every answer is held to. */
#include "engine.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "brief.h"
#include "engine_parts.h"
#include "nearest.h"
#include "number.h"

/* A new engine: its file, and its row here. */
static const struct engine *const engines[] = {&engine_vllm, &engine_llama_cpp, &engine_sglang,
                                               &engine_contiguous};

size_t engine_count(void) {
    return sizeof engines / sizeof engines[0];
}

const struct engine *engine_get(size_t index) {
    return engines[index];
}

const struct engine *engine_find(const char *name) {
    for (size_t i = 0; i < engine_count(); i++)
        if (strcasecmp(engines[i]->name, name) == 0)
            return engines[i];
    return NULL;
}

static enum status unknown_key(const struct engine *engine, const char *key,
                               struct status_text *text) {
    const char *names[ENGINE_MAX_SETTINGS];
    char all[320] = "", near[96], shown[BRIEF_BYTES];
    for (size_t i = 0; i < engine->setting_count; i++) {
        names[i] = engine->settings[i].key;
        const size_t used = strlen(all);
        (void)snprintf(all + used, sizeof all - used, "%s%s", i > 0 ? ", " : "", names[i]);
    }
    nearest_names(key, names, engine->setting_count, near, sizeof near);
    return status_set(text, STATUS_BAD_INPUT, "--engine-opt %s: unknown to %s%s%s; it takes %s",
                      brief_text(key, shown), engine->name, near[0] != '\0' ? ", nearest: " : "",
                      near, all);
}

static enum status bad_value(const char *option, const char *value, const char *allowed,
                             struct status_text *text) {
    char shown[BRIEF_BYTES];
    return status_set(text, STATUS_BAD_INPUT, "%s=%s: %s", option, brief_text(value, shown),
                      allowed);
}

/* A word's place among blank separated ones. */
static bool find_word(const char *words, const char *value, uint64_t *place) {
    *place = 0;
    for (const char *at = words; *at != '\0'; (*place)++) {
        const size_t length = strcspn(at, " ");
        if (strlen(value) == length && strncmp(at, value, length) == 0)
            return true;
        at += length;
        at += strspn(at, " ");
    }
    return false;
}

static enum status read_value(const struct engine_setting_row *row, const char *option,
                              const char *value, struct engine_setting *out,
                              struct status_text *text) {
    char allowed[128];
    switch (row->kind) {
    case ENGINE_COUNT:
        return number_parse_count(option, value, 1, UINT32_MAX, &out->number, text);
    case ENGINE_BYTES:
        return number_parse_bytes(option, value, &out->number, text);
    case ENGINE_TOKENS:
        if (strcmp(value, "max") == 0)
            return bad_value(option, value, "a number of tokens is expected: 8192, 8k", text);
        return number_parse_tokens(option, value, &out->number, text);
    case ENGINE_SWITCH:
        return find_word("false true", value, &out->number)
                   ? STATUS_OK
                   : bad_value(option, value, "true or false is expected", text);
    case ENGINE_WORD:
        (void)snprintf(allowed, sizeof allowed, "allowed are %s", row->words);
        return find_word(row->words, value, &out->number) ? STATUS_OK
                                                          : bad_value(option, value, allowed, text);
    case ENGINE_FRACTION:
    case ENGINE_RATIO:
        break;
    }
    const bool whole = row->kind == ENGINE_FRACTION; /* a share of one whole */
    if (number_parse_seconds(option, value, &out->fraction, NULL) != STATUS_OK ||
        !(out->fraction > 0) || (whole && out->fraction > 1))
        return bad_value(option, value,
                         whole ? "a number above 0 and at most 1 is expected"
                               : "a number above 0 is expected",
                         text);
    return STATUS_OK;
}

static enum status read_setting(const struct engine *engine, const char *text_in,
                                struct engine_setting *settings, struct status_text *text) {
    const char *equals = strchr(text_in, '=');
    const size_t length = equals != NULL ? (size_t)(equals - text_in) : strlen(text_in);
    char key[64];
    (void)snprintf(key, sizeof key, "%.*s", (int)length, text_in);
    for (size_t i = 0; i < engine->setting_count; i++) {
        const struct engine_setting_row *row = &engine->settings[i];
        if (strlen(row->key) != length || strncmp(row->key, text_in, length) != 0)
            continue;
        char option[96];
        (void)snprintf(option, sizeof option, "--engine-opt %s", key);
        if (equals == NULL && row->kind != ENGINE_SWITCH)
            return status_set(text, STATUS_BAD_INPUT, "%s: a value is expected: %s=VALUE", option,
                              key);
        settings[i] = (struct engine_setting){.given = true};
        return read_value(row, option, equals != NULL ? equals + 1 : "true", &settings[i], text);
    }
    return unknown_key(engine, key, text);
}

enum status engine_read_settings(const struct engine *engine, char *const *texts, size_t count,
                                 struct engine_setting settings[ENGINE_MAX_SETTINGS],
                                 struct status_text *text) {
    for (size_t i = 0; i < ENGINE_MAX_SETTINGS; i++)
        settings[i] = (struct engine_setting){0};
    for (size_t i = 0; i < count; i++) {
        const enum status status = read_setting(engine, texts[i], settings, text);
        if (status != STATUS_OK)
            return status;
    }
    return STATUS_OK;
}

enum status engine_ask(const struct engine *engine, const struct engine_question *question,
                       struct engine_answer *out, struct status_text *text) {
    *out = (struct engine_answer){0};
    struct formula_result formula;
    enum status status = formula_compute(question->model, &question->storage, question->tokens,
                                         question->seqs, &formula, text);
    if (status != STATUS_OK)
        return status;
    if (formula.total_bytes > INT64_MAX / 2)
        return engine_too_large(engine, text);
    out->formula_bytes = formula.total_bytes;
    status = engine->plan(question, out, text);
    if (status != STATUS_OK)
        return status;
    /* Both are below 2^63, so no partial sum of signed items leaves 64 bits unnoticed. */
    uint64_t sum = out->formula_bytes;
    for (size_t i = 0; i < out->item_count; i++)
        sum += (uint64_t)out->items[i].bytes;
    if (sum != out->bytes)
        return status_set(text, STATUS_WRONG,
                          "%s: %llu bytes by the formula and its items make %llu, not the %llu "
                          "bytes of the engine (a defect of kvgauge)",
                          engine->name, (unsigned long long)out->formula_bytes,
                          (unsigned long long)sum, (unsigned long long)out->bytes);
    return STATUS_OK;
}

static bool fits_at(const struct engine *engine, struct engine_question *question, uint64_t tokens,
                    uint64_t bytes) {
    struct engine_answer answer;
    question->tokens = tokens;
    return engine_ask(engine, question, &answer, NULL) == STATUS_OK && answer.bytes <= bytes;
}

enum status engine_max_tokens(const struct engine *engine, const struct engine_question *question,
                              uint64_t bytes, uint64_t *out, struct status_text *text) {
    struct engine_question one = *question;
    struct engine_answer answer;
    one.has_memory = false;
    const enum status status = engine_ask(engine, &one, &answer, text);
    if (status != STATUS_OK)
        return status;
    uint64_t fits = 0, too_many = (uint64_t)1 << 62;
    /* No length of ours is a limit: the bytes do not grow with it. */
    if (fits_at(engine, &one, (uint64_t)1 << 40, bytes)) {
        *out = UINT64_MAX;
        return STATUS_OK;
    }
    while (too_many - fits > 1) {
        const uint64_t middle = fits + (too_many - fits) / 2;
        if (fits_at(engine, &one, middle, bytes))
            fits = middle;
        else
            too_many = middle;
    }
    *out = fits;
    return STATUS_OK;
}
