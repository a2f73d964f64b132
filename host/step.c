/* Puts the parts of a step together, checks and records it once, then repeats it. */
#include "step_parts.h"

#include <stdlib.h>
#include <string.h>

#include "backend_check.h"
#include "words.h"

static enum status give_group_append(const struct step *step, uint32_t g,
                                     struct status_text *text) {
    enum status status = STATUS_OK;
    for (uint32_t layer = 0; layer < pool_group(step->pool, g)->layers && status == STATUS_OK;
         layer++) {
        if (pool_group_has_rows(step->pool, g)) {
            struct backend_append work;
            pool_step_append(step->pool, g, layer, &work);
            status = step->ops->append(step->device, &work, NULL, text);
        }
        if (status == STATUS_OK && pool_group_slots(step->pool, g) != NULL)
            status = step_slots_give(step, g, layer, text);
    }
    return status;
}

static enum status give_append(struct step *step, struct status_text *text) {
    enum status status = STATUS_OK;
    for (uint32_t g = 0; g < step->group_count && status == STATUS_OK; g++)
        status = give_group_append(step, g, text);
    return status;
}

/* All readers of one group, each behind the choice it rests on; several may share one. */
static enum status give_group_attend(const struct step *step, uint32_t g, bool choose,
                                     struct status_text *text) {
    uint32_t chosen = MODEL_READS_NONE;
    enum status status = STATUS_OK;
    for (uint32_t reader = 0;
         reader < pool_group(step->pool, g)->read_by_layers && status == STATUS_OK; reader++) {
        const uint32_t index = step->groups[g].attention.index;
        const uint32_t layer = index == MODEL_READS_NONE
                                   ? MODEL_READS_NONE
                                   : model_reads_index_layer(pool_model(step->pool), g, reader);
        if (choose && layer != MODEL_READS_NONE && layer != chosen) {
            status = step_index_give(step, index, layer, text);
            chosen = layer;
        }
        if (status == STATUS_OK)
            status = step_attend_give(step, g, reader, text);
    }
    return status;
}

/* Every layer of an index group that a step scores. */
static enum status give_group_choose(const struct step *step, uint32_t g,
                                     struct status_text *text) {
    enum status status = STATUS_OK;
    for (uint32_t layer = 0; layer < pool_group(step->pool, g)->layers && status == STATUS_OK;
         layer++)
        if (step_index_is_asked(step, g, layer))
            status = step_index_give(step, g, layer, text);
    return status;
}

/* Whether an attended group's readers ask for this index group's choice. */
static bool serves(const struct step *step, uint32_t index_group) {
    for (uint32_t g = 0; g < step->group_count; g++)
        if (step_attends(step, g) && step->groups[g].attention.index == index_group)
            return true;
    return false;
}

static bool keeps_keys(const struct step *step, uint32_t g) {
    return pool_group(step->pool, g)->kind == MODEL_INDEX && pool_group_has_rows(step->pool, g);
}

static enum status give_attend(struct step *step, struct status_text *text) {
    enum status status = STATUS_OK;
    for (uint32_t g = 0; g < step->group_count && status == STATUS_OK; g++) {
        if (step_attends(step, g))
            status = give_group_attend(step, g, true, text);
        else if (keeps_keys(step, g) && !serves(step, g))
            status = give_group_choose(step, g, text);
    }
    return status;
}

static enum status give_group(struct step *step, uint32_t g, struct status_text *text) {
    enum status status = give_group_append(step, g, text);
    if (status == STATUS_OK && step_attends(step, g))
        status = give_group_attend(step, g, false, text);
    if (status == STATUS_OK && keeps_keys(step, g))
        status = give_group_choose(step, g, text);
    return status;
}

/* One table and one set of arguments serve all layers of a group. */
static enum status check_work(const struct step *step, struct status_text *text) {
    enum status status = STATUS_OK;
    for (uint32_t g = 0; g < step->group_count && status == STATUS_OK; g++) {
        struct backend_append append;
        struct backend_attend attend;
        if (!pool_group_has_rows(step->pool, g))
            continue;
        pool_step_append(step->pool, g, 0, &append);
        status = backend_check_append(step->ops, step->device, &append, text);
        if (status == STATUS_OK && keeps_keys(step, g)) {
            struct backend_index_score score;
            step_index_describe(step, g, 0, &score);
            status = backend_check_index_score(step->ops, step->device, &score, text);
        }
        if (status != STATUS_OK || !step_attends(step, g))
            continue;
        /* the first reader may read all rows where the last reads what was chosen */
        const uint32_t readers = pool_group(step->pool, g)->read_by_layers;
        step_attend_describe(step, g, 0, &attend);
        status = backend_check_attend(step->ops, step->device, &attend, text);
        if (status == STATUS_OK && readers > 1) {
            step_attend_describe(step, g, readers - 1, &attend);
            status = backend_check_attend(step->ops, step->device, &attend, text);
        }
    }
    return status;
}

static enum status begin(struct step *step, struct status_text *text) {
    return step->ops->record_begin(step->device, text);
}

/* Also behind a failure: the device must not go on recording. */
static enum status end(struct step *step, enum status given, struct backend_recording **out,
                       struct status_text *text) {
    const enum status ended =
        step->ops->record_end(step->device, out, given == STATUS_OK ? text : NULL);
    return given == STATUS_OK ? ended : given;
}

static enum status record(struct step *step,
                          enum status (*give)(struct step *step, struct status_text *text),
                          struct backend_recording **out, struct status_text *text) {
    const enum status status = begin(step, text);
    return status == STATUS_OK ? end(step, give(step, text), out, text) : status;
}

/* Runs it once before: a device may load its code at the first use, which no recording allows. */
static enum status record_step(struct step *step, struct status_text *text) {
    enum status status = give_append(step, text);
    if (status == STATUS_OK)
        status = give_attend(step, text);
    if (status == STATUS_OK)
        status = step->ops->synchronize(step->device, text);
    if (status == STATUS_OK)
        status = record(step, give_append, &step->recorded_append, text);
    if (status == STATUS_OK)
        status = record(step, give_attend, &step->recorded_attend, text);
    return status;
}

static enum status create_group(struct step *step, uint32_t g, uint64_t seed,
                                enum options_data data, uint64_t *workspace_bytes,
                                struct status_text *text) {
    enum status status = STATUS_OK;
    if (step_attends(step, g))
        status = step_attend_create(step, g, seed, data, workspace_bytes, text);
    if (status == STATUS_OK && keeps_keys(step, g))
        status = step_index_create(step, g, seed, data, text);
    if (status == STATUS_OK && pool_group_slots(step->pool, g) != NULL)
        status = step_slots_create(step, g, seed, text);
    return status;
}

/* Each kernel once, in the order of the groups. */
static void name_kernels(struct step *step) {
    for (uint32_t g = 0; g < step->group_count; g++) {
        const char *name = step->groups[g].attention.kernel;
        if (name == NULL || strstr(step->kernel, name) != NULL)
            continue;
        words_add(step->kernel, sizeof step->kernel, ", ", "%s", name);
    }
}

static enum status build(struct step *step, uint64_t seed, enum options_data data,
                         struct status_text *text) {
    uint64_t workspace_bytes = 0;
    enum status status = STATUS_OK;
    for (uint32_t g = 0; g < step->group_count && status == STATUS_OK; g++)
        status = create_group(step, g, seed, data, &workspace_bytes, text);
    if (status == STATUS_OK && workspace_bytes > 0)
        status = step->ops->memory_allocate(step->device, workspace_bytes,
                                            "the attention workspace", &step->workspace, text);
    if (status != STATUS_OK)
        return status;
    name_kernels(step);
    status = check_work(step, text);
    if (status == STATUS_OK && step->ops->record_begin != NULL)
        status = record_step(step, text);
    return status;
}

enum status step_create(const struct backend_ops *ops, struct backend_device *device,
                        struct pool *pool, const char *kernel, uint64_t seed,
                        enum options_data data, struct step **out, struct status_text *text) {
    *out = NULL;
    struct step *step = calloc(1, sizeof *step);
    if (step == NULL)
        return status_set(text, STATUS_OUT_OF_MEMORY, "no host memory for a step");
    step->ops = ops;
    step->device = device;
    step->pool = pool;
    step->asked_kernel = kernel;
    step->group_count = pool_group_count(pool);
    step->groups = calloc(step->group_count, sizeof *step->groups);
    const enum status status =
        step->groups != NULL ? build(step, seed, data, text)
                             : status_set(text, STATUS_OUT_OF_MEMORY, "no host memory for a step");
    if (status != STATUS_OK) {
        step_destroy(step);
        return status;
    }
    *out = step;
    return STATUS_OK;
}

void step_destroy(struct step *step) {
    if (step == NULL)
        return;
    if (step->ops->record_free != NULL) {
        step->ops->record_free(step->device, step->recorded_append);
        step->ops->record_free(step->device, step->recorded_attend);
    }
    for (uint32_t g = 0; step->groups != NULL && g < step->group_count; g++) {
        if (step->ops->record_free != NULL)
            step->ops->record_free(step->device, step->groups[g].recorded);
        step_attend_destroy(step, g);
        step_index_destroy(step, g);
        step_slots_destroy(step, g);
    }
    step->ops->memory_free(step->device, &step->workspace);
    free(step->groups);
    free(step);
}

enum status step_append(struct step *step, struct status_text *text) {
    return step->recorded_append != NULL
               ? step->ops->replay(step->device, step->recorded_append, text)
               : give_append(step, text);
}

enum status step_attend(struct step *step, struct status_text *text) {
    return step->recorded_attend != NULL
               ? step->ops->replay(step->device, step->recorded_attend, text)
               : give_attend(step, text);
}

enum status step_group_run(struct step *step, uint32_t g, struct status_text *text) {
    struct step_group *group = &step->groups[g];
    if (step->ops->record_begin == NULL)
        return give_group(step, g, text);
    if (group->recorded == NULL) {
        enum status status = begin(step, text);
        if (status == STATUS_OK)
            status = end(step, give_group(step, g, text), &group->recorded, text);
        if (status != STATUS_OK)
            return status;
    }
    return step->ops->replay(step->device, group->recorded, text);
}

static enum status poison_outputs(struct step *step, uint32_t g, struct status_text *text) {
    const struct step_attention *attention = &step->groups[g].attention;
    return step->ops->memory_fill(step->device, attention->dev_outputs, 0xFF,
                                  attention->output_bytes, text);
}

static enum status read_outputs(struct step *step, uint32_t g, float *outputs,
                                struct status_text *text) {
    const struct step_attention *attention = &step->groups[g].attention;
    return step->ops->memory_read(step->device, outputs, attention->dev_outputs,
                                  attention->output_bytes, text);
}

enum status step_attend_layer(struct step *step, uint32_t g, uint32_t layer, float *outputs,
                              struct status_text *text) {
    uint32_t index_group, index_layer;
    enum status status = poison_outputs(step, g, text);
    if (status == STATUS_OK && step_chosen_by(step, g, layer, &index_group, &index_layer))
        status = step_choose(step, index_group, index_layer, text);
    if (status == STATUS_OK)
        status = step_attend_give(step, g, step_attend_reader(step, g, layer), text);
    if (status == STATUS_OK)
        status = step->ops->synchronize(step->device, text);
    if (status == STATUS_OK)
        status = read_outputs(step, g, outputs, text);
    return status;
}

enum status step_run(struct step *step, float *const *outputs, struct status_text *text) {
    enum status status = STATUS_OK;
    for (uint32_t g = 0; g < step->group_count && status == STATUS_OK; g++)
        if (step_attends(step, g))
            status = poison_outputs(step, g, text);
    if (status == STATUS_OK)
        status = step_append(step, text);
    if (status == STATUS_OK)
        status = step_attend(step, text);
    if (status == STATUS_OK)
        status = step->ops->synchronize(step->device, text);
    for (uint32_t g = 0; g < step->group_count && status == STATUS_OK; g++)
        if (step_attends(step, g))
            status = read_outputs(step, g, outputs[g], text);
    return status;
}

uint32_t step_last_layer(const struct step *step, uint32_t group) {
    const struct model_group *model = pool_group(step->pool, group);
    return model_reads_layer(model, model->read_by_layers - 1);
}

const char *step_kernel(const struct step *step) {
    return step->kernel;
}

const char *step_remark(const struct step *step) {
    return step->remark;
}
