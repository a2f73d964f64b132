/* Typed reads of a model's keys, whichever file they came from, for the functions that know one
 * family each. The first thing that is not understood is written down and every later read
 * answers 1, so that a family reads its keys one after another and returns reader->status at the
 * end. A key that holds null counts as missing.
 *
 * `keys` may name alternatives, as "num_hidden_layers|n_layer": the first one that is there
 * counts. `field` is what --itemise calls the number (NULL: it went into none). */
#ifndef MODEL_READER_H
#define MODEL_READER_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "json_text.h"
#include "model.h"
#include "model_source.h"
#include "status.h"

struct reader {
    const cJSON *root;   /* the whole file */
    const cJSON *config; /* where keys are looked up */
    char where[64];      /* path of `config` in the file: "" or "text_config." */
    const char *origin;  /* names the file in messages */
    struct model *model;
    struct model_trace *trace; /* may be NULL */
    struct status_text *text;
    enum status status;
};

/* The value, or NULL; *key (may be NULL) is the alternative that was there. */
const cJSON *reader_find(const struct reader *reader, const char *keys, const char **key);
bool reader_has(const struct reader *reader, const char *keys);

/* A number the family cannot do without, and one with a default that `why` explains ("": by itself
 * the default says that there is nothing to count). */
uint32_t reader_need(struct reader *reader, const char *field, const char *keys, uint64_t least,
                     uint64_t most);
uint32_t reader_want(struct reader *reader, const char *field, const char *keys, uint64_t least,
                     uint64_t most, uint32_t otherwise, const char *why);
/* A number that nothing depends on: 0 where there is none, or no count of anything. */
uint32_t reader_hint(const struct reader *reader, const char *keys);
/* A factor above 0, which may have a fraction. */
double reader_factor(struct reader *reader, const char *field, const char *key);
/* true or false. */
bool reader_flag(struct reader *reader, const char *key, bool otherwise);
/* A list the family cannot do without, with at least `least` entries. NULL after a failure. */
const cJSON *reader_list(struct reader *reader, const char *key, uint32_t least);

/* Writes down where a number came from, in words; reader_note_key: a key, with its path. */
void reader_note_key(const struct reader *reader, const char *field, const char *key);
void reader_note(const struct reader *reader, const char *field, const char *from);
/* Adds to what goes with every row of this model. */
void reader_remark(const struct reader *reader, const char *remark);
/* Adds to the fields no source gave. */
void reader_assume(const struct reader *reader, const char *field);
/* The first failure counts: its message is `file: path.key what`. */
enum status reader_fail(struct reader *reader, enum status status, const char *key,
                        const char *what);
/* A value in a few printable characters: "4096", "\"mamba\"", "a list". */
void reader_describe(const cJSON *value, char *out, size_t bytes);
/* "key[index] is VALUE, which is not understood" */
enum status reader_strange(struct reader *reader, const char *key, uint32_t index,
                           const cJSON *value);

/* Reads from a dictionary inside `config` until reader_leave. */
struct reader_place {
    const cJSON *config;
    size_t where_length;
};
struct reader_place reader_enter(struct reader *reader, const char *key);
void reader_leave(struct reader *reader, struct reader_place place);

/* What each layer keeps; families that need other words number them from LAYER_OWN. */
enum layer_kind { LAYER_FULL, LAYER_WINDOW, LAYER_STATE, LAYER_BOTH, LAYER_NONE, LAYER_OWN };
struct layer_list {
    uint32_t count;
    uint8_t kinds[JSON_TEXT_MOST_LAYERS];
};
struct layer_word {
    const char *word;
    uint8_t kind;
};
uint32_t reader_layer_count(struct reader *reader);
/* One word per layer, from `words` (which ends with a NULL word); any other word is refused.
 * Entries past `layers->count` are draft layers and are not looked at. */
void reader_layer_words(struct reader *reader, const char *key, const struct layer_word *words,
                        struct layer_list *layers);
/* The same for a list of 0 and 1 (false and true). */
void reader_layer_flags(struct reader *reader, const char *key, uint8_t if_zero, uint8_t if_one,
                        struct layer_list *layers);
/* Marks the layers listed by number, which start at `first` (0 or 1). */
void reader_layer_numbers(struct reader *reader, const char *key, uint32_t first, uint8_t kind,
                          struct layer_list *layers);
void layers_fill(struct layer_list *layers, uint8_t kind);
/* Layer i gets `kind` when i % period == offset. */
void layers_every(struct layer_list *layers, uint32_t period, uint32_t offset, uint8_t kind);

/* One more layer that owns such a cache: counted in the group of the same geometry, or a new one.
 * `layers` and `read_by_layers` of `group` are not looked at. reader_share: one more layer that
 * only reads it. */
void reader_add(struct reader *reader, const struct model_group *group);
void reader_share(struct reader *reader, const struct model_group *group);

/* Where a family differs from the usual: numbers to use where a config leaves them out (0: as many
 * KV heads as query heads, width / heads, and query heads must be given), and where KV heads are
 * read (NULL: the usual keys, "": nowhere). `why` explains the numbers; NULL: the family's. */
struct attention_rule {
    uint32_t query_heads;
    uint32_t kv_heads;
    uint32_t head_dim;
    const char *kv_keys;
    const char *why;
};
/* A full group without layers; `rule` NULL: the usual. */
struct model_group reader_attention(struct reader *reader, const struct attention_rule *rule);
/* The same group as a window of `tokens`. */
struct model_group reader_slide(const struct model_group *full, uint32_t tokens);
/* fla's `attn`: marks its layers (from 0) full, and their group, a window where it has one. */
struct model_group reader_fla_attention(struct reader *reader, struct layer_list *layers);
/* A latent of kv_lora_rank + qk_rope_head_dim. */
struct model_group reader_latent(struct reader *reader);

#endif
