/* What the engines' files share: a model's groups as an engine sees them, sums that notice when
 * they leave 63 bits, items, and text. Private to host/engines. */
#ifndef ENGINE_PARTS_H
#define ENGINE_PARTS_H

#include "engine.h"

/* One group of layers, for one layer of it. */
struct engine_group {
    const struct model_group *of;
    uint32_t layers;
    uint64_t token_bytes; /* K and V of a token, a latent, an index key; 0 for state */
    uint64_t k_bytes;     /* K's part of it; a latent counts as K */
    uint64_t kept_tokens; /* what the formula keeps of one sequence */
    uint64_t state_bytes; /* recurrent state of one sequence, in the question's state format */
    uint64_t state_values;
    uint64_t conv_bytes; /* 2 bytes a value, as in the formula */
    uint64_t conv_values;
};

struct engine_layout {
    uint32_t count;
    struct engine_group groups[MODEL_MAX_GROUPS];
};

/* STATUS_REFUSED for compressed entries, whose paging no engine's rule here covers, and for
 * anything the formula refuses. */
enum status engine_layout_read(const struct engine *engine, const struct engine_question *question,
                               struct engine_layout *out, struct status_text *text);

/* Sums and products that stay below 2^63; once one does not, *fits is false and stays so. */
uint64_t engine_times(bool *fits, uint64_t a, uint64_t b);
uint64_t engine_plus(bool *fits, uint64_t a, uint64_t b);
uint64_t engine_up(bool *fits, uint64_t a, uint64_t step); /* a rounded up to a multiple of step */
/* factor * a - factor * b, as an item has it. */
int64_t engine_change(bool *fits, uint64_t factor, uint64_t a, uint64_t b);

/* Adds to the item of that name (the same string), or makes it. Items of 0 bytes are left out. */
void engine_add_item(struct engine_answer *answer, const char *name, int64_t bytes);
/* Appends to says (" | " before) or notes ("; " before). */
void engine_say(struct engine_answer *answer, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;
void engine_note(struct engine_answer *answer, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;

/* The value given, or the default. */
uint64_t engine_number(const struct engine_setting *setting, uint64_t fallback);

enum status engine_refuse_format(const struct engine *engine,
                                 const struct engine_question *question, const char *allowed,
                                 struct status_text *text);
enum status engine_too_large(const struct engine *engine, struct status_text *text);

/* The name --kv-format has for a question's storage. */
const char *engine_format_name(const struct formula_storage *storage);

extern const struct engine engine_contiguous, engine_llama_cpp, engine_sglang, engine_vllm;

#endif
