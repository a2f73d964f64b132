/* What serving engines allocate and print for a model, beside what the size formula says: one file
 * per engine, one row each in engine.c. All of it is arithmetic over the groups of a model; each
 * rule was read in the engine's own source, and its file says in which version.
 *
 * An answer's items are signed and add up: formula_bytes + all items = bytes, to the byte. */
#ifndef ENGINE_H
#define ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formula.h"
#include "model.h"
#include "status.h"

enum { ENGINE_MAX_ITEMS = 20, ENGINE_MAX_SETTINGS = 16 };

/* How the value of a setting (--engine-opt KEY=VALUE) is read. */
enum engine_kind {
    ENGINE_COUNT,    /* a whole number from 1 */
    ENGINE_TOKENS,   /* 8192, 8k */
    ENGINE_BYTES,    /* 30GiB */
    ENGINE_SWITCH,   /* true, false; the key alone is true */
    ENGINE_FRACTION, /* above 0, at most 1 */
    ENGINE_RATIO,    /* above 0 */
    ENGINE_WORD,     /* one of `words` */
};

/* One setting of an engine, by the engine's own name for it, without dashes in front. */
struct engine_setting_row {
    const char *key;
    enum engine_kind kind;
    const char *words; /* ENGINE_WORD: blank separated, the default first */
};

struct engine_setting {
    bool given;
    uint64_t number; /* counts, tokens, bytes; a word's place; a switch's 0 or 1 */
    double fraction;
};

struct engine_question {
    const struct model *model; /* one rank's (model_shard) */
    struct formula_storage storage;
    uint64_t tokens; /* length of each sequence */
    uint64_t seqs;
    bool has_memory; /* memory_bytes says what there is (--budget), weights_bytes what of it is
                        taken */
    uint64_t memory_bytes;
    uint64_t weights_bytes;
    struct engine_setting settings[ENGINE_MAX_SETTINGS]; /* in the order of the engine's rows */
};

struct engine_item {
    const char *name;
    int64_t bytes;
};

struct engine_answer {
    uint64_t formula_bytes; /* all sequences */
    uint64_t bytes;         /* what the engine takes for the same sequences */
    size_t item_count;
    struct engine_item items[ENGINE_MAX_ITEMS]; /* none is 0 */
    bool has_tokens;                            /* with memory only */
    uint64_t tokens; /* how many tokens that memory holds, as the engine counts */
    char says[640];  /* the engine's own lines about it, " | " between; "" when it prints none */
    char notes[512]; /* what was taken where neither the model nor a setting says; "" if nothing */
};

struct engine {
    const char *name;
    const char *version; /* the rule was read from this one */
    const struct engine_setting_row *settings;
    size_t setting_count;
    /* Fills everything but formula_bytes. STATUS_REFUSED when the engine has no such cache, or its
     * rule is not known here: the text says which. */
    enum status (*plan)(const struct engine_question *question, struct engine_answer *out,
                        struct status_text *text);
};

size_t engine_count(void);
const struct engine *engine_get(size_t index);
/* By name, case ignored; NULL when there is none. */
const struct engine *engine_find(const char *name);

/* Reads "KEY=VALUE" texts into settings. STATUS_BAD_INPUT names the key, the value and what is
 * allowed. */
enum status engine_read_settings(const struct engine *engine, char *const *texts, size_t count,
                                 struct engine_setting settings[ENGINE_MAX_SETTINGS],
                                 struct status_text *text);

/* The engine's answer. STATUS_REFUSED as from plan; STATUS_WRONG when the items do not add up,
 * which is a defect of ours. */
enum status engine_ask(const struct engine *engine, const struct engine_question *question,
                       struct engine_answer *out, struct status_text *text);

/* The most tokens each of the question's sequences may have so that the engine's bytes stay within
 * `bytes`, by halving; UINT64_MAX when nothing limits it. */
enum status engine_max_tokens(const struct engine *engine, const struct engine_question *question,
                              uint64_t bytes, uint64_t *out, struct status_text *text);

/* What people reported of this model, format and engine: would it start, on which GPU. Writes the
 * sentences, "; " between, into `out`; "" when nothing was reported. `format` is a name of
 * --kv-format. */
void engine_reports(const struct engine *engine, const char *model, const char *format, char *out,
                    size_t bytes);

#endif
