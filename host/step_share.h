/* Where a whole step's bytes and time go: weights, KV, index keys, state; and from which context
 * length on the cache is read more than the weights are. */
#ifndef STEP_SHARE_H
#define STEP_SHARE_H

#include <stdbool.h>
#include <stdint.h>

#include "formula.h"
#include "model.h"
#include "result_groups.h"
#include "writer.h"

enum step_share_part {
    STEP_SHARE_WEIGHTS,
    STEP_SHARE_KV,
    STEP_SHARE_INDEX,
    STEP_SHARE_STATE,
    STEP_SHARE_PARTS
};

enum step_share_field {
#define STEP_SHARE(ID, name) STEP_SHARE_FIELD_##ID,
#include "step_share_fields.def"
#undef STEP_SHARE
    STEP_SHARE_FIELD_COUNT
};

extern const struct writer_field step_share_fields[STEP_SHARE_FIELD_COUNT];

/* bytes: read in a step; ns: of the step's medians. A part without bytes is not there. */
struct step_share {
    uint64_t bytes[STEP_SHARE_PARTS];
    double ns[STEP_SHARE_PARTS];
};

/* kv_ns is spread over the groups as their own times are. */
void step_share_take(const struct result_groups *groups, double kv_ns, uint64_t weights_bytes,
                     double weights_ns, struct step_share *out);
/* values: [STEP_SHARE_PARTS][STEP_SHARE_FIELD_COUNT]; the number of parts that are there. */
size_t step_share_values(const struct step_share *share, struct writer_value *values);
/* "weights 62 % of the bytes, 58 % of the time; KV 38 %, 42 %" */
void step_share_words(const struct step_share *share, char *out, size_t bytes);

/* Bytes that a step reads of the caches of `seqs` sequences of `tokens` each, by the formula: what
 * layers share once per reading layer, of a sparse group what its index chooses, state as it is. */
enum status step_share_cache_bytes(const struct model *model, const struct formula_storage *storage,
                                   uint64_t tokens, uint64_t seqs, uint64_t *bytes,
                                   struct status_text *text);
/* The least tokens a sequence at which those bytes are as many as weights_bytes; false: they never
 * are. */
bool step_share_overtakes(const struct model *model, const struct formula_storage *storage,
                          uint64_t seqs, uint64_t weights_bytes, uint64_t *tokens);

#endif
