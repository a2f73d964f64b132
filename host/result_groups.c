/* From pool and step to a row's groups. */
#include "result_groups.h"

#include "model_reads.h"
#include "number.h"
#include "words.h"

const struct writer_field result_group_fields[RESULT_GROUP_FIELD_COUNT] = {
#define RESULT_GROUP(ID, name) {#name, NULL, 0},
#include "result_group_fields.def"
#undef RESULT_GROUP
};

void result_groups_take(const struct pool *pool, const struct step *step,
                        struct result_groups *out) {
    *out = (struct result_groups){.count = pool_group_count(pool)};
    for (uint32_t g = 0; g < out->count; g++) {
        const struct model_group *model = pool_group(pool, g);
        out->groups[g].kind = model_kind_name(model->kind);
        model_group_words(model, out->groups[g].words, sizeof out->groups[g].words);
        out->groups[g].layers = model->layers;
        out->groups[g].kernel = step_group_kernel(step, g);
        out->groups[g].formula_bytes = pool_group_formula_bytes(pool, g);
        out->groups[g].pool_bytes = pool_group_bytes(pool, g);
        out->groups[g].read_bytes = step_group_read_bytes(step, g);
        out->groups[g].written_bytes = step_group_written_bytes(step, g);
    }
}

static double all_ns(const struct result_groups *groups) {
    double ns = 0;
    for (uint32_t g = 0; g < groups->count; g++)
        ns += groups->groups[g].ns;
    return ns;
}

void result_groups_values(const struct result_groups *groups, struct writer_value *values) {
    const double all = all_ns(groups);
    for (uint32_t g = 0; g < groups->count; g++, values += RESULT_GROUP_FIELD_COUNT) {
        for (size_t i = 0; i < RESULT_GROUP_FIELD_COUNT; i++)
            values[i] = (struct writer_value){.kind = WRITER_NULL};
        const struct {
            enum result_group_field field;
            const char *text;
        } texts[] = {{RESULT_GROUP_KIND, groups->groups[g].kind},
                     {RESULT_GROUP_WORDS, groups->groups[g].words},
                     {RESULT_GROUP_KERNEL, groups->groups[g].kernel}};
        const struct {
            enum result_group_field field;
            uint64_t number;
        } numbers[] = {{RESULT_GROUP_LAYERS, groups->groups[g].layers},
                       {RESULT_GROUP_FORMULA_BYTES, groups->groups[g].formula_bytes},
                       {RESULT_GROUP_POOL_BYTES, groups->groups[g].pool_bytes},
                       {RESULT_GROUP_READ_BYTES, groups->groups[g].read_bytes},
                       {RESULT_GROUP_WRITTEN_BYTES, groups->groups[g].written_bytes}};
        for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
            if (texts[i].text != NULL)
                values[texts[i].field] =
                    (struct writer_value){.kind = WRITER_TEXT, .as.text = texts[i].text};
        for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
            values[numbers[i].field] =
                (struct writer_value){.kind = WRITER_UNSIGNED, .as.number = numbers[i].number};
        if (all <= 0)
            continue;
        values[RESULT_GROUP_NS] =
            (struct writer_value){.kind = WRITER_REAL, .as.real = groups->groups[g].ns};
        values[RESULT_GROUP_SHARE] =
            (struct writer_value){.kind = WRITER_REAL, .as.real = 100 * groups->groups[g].ns / all};
    }
}

void result_groups_words(const struct result_groups *groups, char *out, size_t bytes) {
    const double all = all_ns(groups);
    out[0] = '\0';
    for (uint32_t g = 0; g < groups->count && groups->count > 1 && all > 0; g++) {
        char read[NUMBER_TEXT_BYTES];
        number_bytes_words(groups->groups[g].read_bytes, read);
        words_add(out, bytes, ", ", "%s %.0f %% (%s read)", groups->groups[g].words,
                  100 * groups->groups[g].ns / all, read);
    }
}
