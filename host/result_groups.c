/* From pool and step to a row's groups. */
#include "result_groups.h"

#include "model_reads.h"
#include "number.h"
#include "result_value.h"
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
        values[RESULT_GROUP_KIND] = result_value_text(groups->groups[g].kind);
        values[RESULT_GROUP_WORDS] = result_value_text(groups->groups[g].words);
        values[RESULT_GROUP_LAYERS] = result_value_number(groups->groups[g].layers);
        values[RESULT_GROUP_KERNEL] = result_value_text(groups->groups[g].kernel);
        values[RESULT_GROUP_FORMULA_BYTES] = result_value_number(groups->groups[g].formula_bytes);
        values[RESULT_GROUP_POOL_BYTES] = result_value_number(groups->groups[g].pool_bytes);
        values[RESULT_GROUP_READ_BYTES] = result_value_number(groups->groups[g].read_bytes);
        values[RESULT_GROUP_WRITTEN_BYTES] = result_value_number(groups->groups[g].written_bytes);
        values[RESULT_GROUP_NS] = result_value_known_real(all > 0, groups->groups[g].ns);
        values[RESULT_GROUP_SHARE] =
            result_value_known_real(all > 0, 100 * groups->groups[g].ns / all);
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
