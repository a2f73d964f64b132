/* A row's account of its model's groups: bytes, time and share of each. */
#ifndef RESULT_GROUPS_H
#define RESULT_GROUPS_H

#include <stdbool.h>
#include <stdint.h>

#include "step.h"
#include "writer.h"

enum { RESULT_GROUP_WORDS_BYTES = 96 };

enum result_group_field {
#define RESULT_GROUP(ID, name) RESULT_GROUP_##ID,
#include "result_group_fields.def"
#undef RESULT_GROUP
    RESULT_GROUP_FIELD_COUNT
};

extern const struct writer_field result_group_fields[RESULT_GROUP_FIELD_COUNT];

struct result_groups {
    uint32_t count;
    struct {
        const char *kind;
        char words[RESULT_GROUP_WORDS_BYTES];
        uint32_t layers;
        const char *kernel; /* NULL: not attended */
        uint64_t formula_bytes, pool_bytes, read_bytes, written_bytes;
        double ns; /* 0 until measured */
    } groups[MODEL_MAX_GROUPS];
};

/* Everything but the times, of a pool and the step over it. */
void result_groups_take(const struct pool *pool, const struct step *step,
                        struct result_groups *out);
/* values: [count][RESULT_GROUP_FIELD_COUNT]; texts point into `groups`. */
void result_groups_values(const struct result_groups *groups, struct writer_value *values);
/* "61 latent 512+64 72 % (40 MB read), ..."; "" when there is one group, or no times. */
void result_groups_words(const struct result_groups *groups, char *out, size_t bytes);

#endif
