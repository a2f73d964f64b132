/* Sums over groups, and a search over lengths. */
#include "step_share.h"

#include <string.h>

#include "checked.h"
#include "model_reads.h"
#include "result_value.h"
#include "words.h"

/* Longer than any context: what has not overtaken there never does. */
#define SHARE_MOST_TOKENS ((uint64_t)1 << 40)

const struct writer_field step_share_fields[STEP_SHARE_FIELD_COUNT] = {
#define STEP_SHARE(ID, name) {#name, NULL, 0},
#include "step_share_fields.def"
#undef STEP_SHARE
};

static enum step_share_part part_of(const char *kind) {
    if (strcmp(kind, model_kind_name(MODEL_INDEX)) == 0)
        return STEP_SHARE_INDEX;
    return strcmp(kind, model_kind_name(MODEL_STATE)) == 0 ? STEP_SHARE_STATE : STEP_SHARE_KV;
}

void step_share_take(const struct result_groups *groups, double kv_ns, uint64_t weights_bytes,
                     double weights_ns, struct step_share *out) {
    double all_ns = 0;
    for (uint32_t g = 0; g < groups->count; g++)
        all_ns += groups->groups[g].ns;
    *out = (struct step_share){.bytes = {[STEP_SHARE_WEIGHTS] = weights_bytes},
                               .ns = {[STEP_SHARE_WEIGHTS] = weights_ns}};
    for (uint32_t g = 0; g < groups->count; g++) {
        const enum step_share_part part = part_of(groups->groups[g].kind);
        out->bytes[part] += groups->groups[g].read_bytes;
        out->ns[part] += all_ns > 0 ? kv_ns * groups->groups[g].ns / all_ns : 0;
    }
}

static const char *const part_names[STEP_SHARE_PARTS] = {"weights", "kv", "index", "state"};

struct share_sums {
    double bytes, ns;
};

static struct share_sums sums_of(const struct step_share *share) {
    struct share_sums sums = {0};
    for (int part = 0; part < STEP_SHARE_PARTS; part++) {
        sums.bytes += (double)share->bytes[part];
        sums.ns += share->ns[part];
    }
    return sums;
}

size_t step_share_values(const struct step_share *share, struct writer_value *values) {
    const struct share_sums sums = sums_of(share);
    size_t count = 0;
    for (int part = 0; part < STEP_SHARE_PARTS; part++) {
        if (share->bytes[part] == 0)
            continue;
        struct writer_value *row = values + count++ * STEP_SHARE_FIELD_COUNT;
        row[STEP_SHARE_FIELD_PART] = result_value_text(part_names[part]);
        row[STEP_SHARE_FIELD_READ_BYTES] = result_value_number(share->bytes[part]);
        row[STEP_SHARE_FIELD_BYTES_PERCENT] =
            result_value_real(100 * (double)share->bytes[part] / sums.bytes);
        row[STEP_SHARE_FIELD_NS] = result_value_real(share->ns[part]);
        row[STEP_SHARE_FIELD_TIME_PERCENT] = result_value_real(100 * share->ns[part] / sums.ns);
    }
    return count;
}

void step_share_words(const struct step_share *share, char *out, size_t bytes) {
    static const char *const words[STEP_SHARE_PARTS] = {"weights", "KV", "index", "state"};
    const struct share_sums sums = sums_of(share);
    out[0] = '\0';
    for (int part = 0; part < STEP_SHARE_PARTS; part++) {
        const bool first = out[0] == '\0';
        if (share->bytes[part] > 0)
            words_add(out, bytes, "; ", "%s %.0f %%%s, %.0f %%%s", words[part],
                      100 * (double)share->bytes[part] / sums.bytes, first ? " of the bytes" : "",
                      100 * share->ns[part] / sums.ns, first ? " of the time" : "");
    }
}

/* One group by itself, with `layers` layers. */
static enum status group_bytes(const struct model *model, uint32_t g, uint64_t layers,
                               const struct formula_storage *storage, uint64_t tokens,
                               uint64_t seqs, uint64_t *sum, struct status_text *text) {
    if (layers == 0)
        return STATUS_OK;
    struct model alone = *model;
    alone.group_count = 1;
    alone.groups[0] = model->groups[g];
    alone.groups[0].layers = (uint32_t)layers;
    alone.groups[0].read_by_layers = (uint32_t)layers;
    struct formula_result result;
    const enum status status = formula_compute(&alone, storage, tokens, seqs, &result, text);
    if (status != STATUS_OK || checked_add(*sum, result.total_bytes, sum))
        return status;
    return status_set(text, STATUS_OVERFLOW, "%s: bytes past 64 bits", model->name);
}

enum status step_share_cache_bytes(const struct model *model, const struct formula_storage *storage,
                                   uint64_t tokens, uint64_t seqs, uint64_t *bytes,
                                   struct status_text *text) {
    *bytes = 0;
    enum status status = STATUS_OK;
    for (uint32_t g = 0; g < model->group_count && status == STATUS_OK; g++) {
        const struct model_group *group = &model->groups[g];
        if (!model_reads_attends(group->kind)) {
            status = group_bytes(model, g, group->layers, storage, tokens, seqs, bytes, text);
            continue;
        }
        const uint32_t index = model_reads_index_of(model, g);
        const bool sparse = index != MODEL_READS_NONE && storage->index != FORMULA_INDEX_NONE;
        const uint32_t choosing = sparse ? model_reads_sparse_readers(model, g) : 0;
        status = group_bytes(model, g, group->read_by_layers - choosing, storage, tokens, seqs,
                             bytes, text);
        if (status != STATUS_OK || choosing == 0)
            continue;
        const uint64_t chosen =
            (uint64_t)model_reads_top_k(&model->groups[index]) * model_reads_tokens_per_row(group);
        status = group_bytes(model, g, choosing, storage, tokens < chosen ? tokens : chosen, seqs,
                             bytes, text);
    }
    return status;
}

bool step_share_overtakes(const struct model *model, const struct formula_storage *storage,
                          uint64_t seqs, uint64_t weights_bytes, uint64_t *tokens) {
    uint64_t low = 1, high = SHARE_MOST_TOKENS, bytes = 0;
    struct status_text why;
    while (low <= high) {
        const uint64_t middle = low + (high - low) / 2;
        const enum status status =
            step_share_cache_bytes(model, storage, middle, seqs, &bytes, &why);
        if (status != STATUS_OK && status != STATUS_OVERFLOW)
            return false;
        if (status == STATUS_OVERFLOW || bytes >= weights_bytes)
            high = middle - 1;
        else
            low = middle + 1;
    }
    *tokens = low;
    return low <= SHARE_MOST_TOKENS;
}
