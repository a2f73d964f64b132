/* Builds the per-group work once, checks and records it, then repeats it. */
#include "step_state.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend_check.h"
#include "rotate.h"

/* Tokens in one tile of the plan: small enough to balance short sequences, large enough that a
 * segment's start costs nothing. */
enum { STEP_TILE_TOKENS = 64 };

static uint32_t pool_seqs(const struct pool *pool) {
    struct backend_cache cache;
    pool_cache(pool, 0, 0, &cache);
    return cache.seqs;
}

static uint64_t align_up(uint64_t bytes) {
    return (bytes + PAGE_ALIGNMENT_BYTES - 1) / PAGE_ALIGNMENT_BYTES * PAGE_ALIGNMENT_BYTES;
}

static enum status upload_plan(struct step *step, struct step_group *group,
                               struct status_text *text) {
    const struct plan *plan = &group->plan;
    const uint64_t segment_bytes =
        align_up((uint64_t)plan->segment_count * sizeof plan->segments[0]);
    const uint64_t row_bytes = align_up(((uint64_t)plan->row_count + 1) * sizeof(uint32_t));
    const uint64_t worker_bytes = align_up(((uint64_t)plan->worker_count + 1) * sizeof(uint32_t));
    const uint64_t bytes = segment_bytes + row_bytes + worker_bytes;
    enum status status = step->ops->memory_allocate(step->device, bytes, "the attention plan",
                                                    &group->plan_memory, text);
    if (status != STATUS_OK)
        return status;
    step->plan_bytes += bytes;
    uint8_t *base = group->plan_memory.dev_address;
    group->dev_plan = (struct backend_plan){
        .dev_segments = (const struct backend_segment *)base,
        .dev_row_first = (const uint32_t *)(base + segment_bytes),
        .dev_worker_first = (const uint32_t *)(base + segment_bytes + row_bytes),
        .segment_count = plan->segment_count,
        .row_count = plan->row_count,
        .worker_count = plan->worker_count,
    };
    const struct {
        uint64_t offset;
        const void *from;
        uint64_t bytes;
    } parts[] = {
        {0, plan->segments, (uint64_t)plan->segment_count * sizeof plan->segments[0]},
        {segment_bytes, plan->row_first, ((uint64_t)plan->row_count + 1) * sizeof(uint32_t)},
        {segment_bytes + row_bytes, plan->worker_first,
         ((uint64_t)plan->worker_count + 1) * sizeof(uint32_t)},
    };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0] && status == STATUS_OK; i++)
        status = step->ops->memory_write(step->device, base + parts[i].offset, parts[i].from,
                                         parts[i].bytes, text);
    return status;
}

static enum status upload_io(struct step *step, uint32_t index, uint64_t seed,
                             enum options_data data, struct status_text *text) {
    struct step_group *group = &step->groups[index];
    const struct model_group *model = pool_group(step->pool, index);
    const struct page_shape *shape = &pool_group_page(step->pool, index)->shape;
    const uint32_t seqs = pool_seqs(step->pool);
    const uint64_t query_bytes = (uint64_t)seqs * model->query_heads * shape->k_dim * sizeof(float);
    const uint64_t sink_bytes = model->sinks ? (uint64_t)model->query_heads * sizeof(float) : 0;
    group->output_bytes = (uint64_t)seqs * model->query_heads * shape->v_dim * sizeof(float);
    group->queries = malloc(query_bytes);
    group->sinks = model->sinks ? malloc(sink_bytes) : NULL;
    if (group->queries == NULL || (model->sinks && group->sinks == NULL))
        return status_set(text, STATUS_OUT_OF_MEMORY,
                          "no host memory for %llu bytes of queries and sinks",
                          (unsigned long long)(query_bytes + sink_bytes));
    generate_queries(seed, index, data, seqs, model->query_heads, shape->k_dim, group->queries);
    rotate_queries(group->queries, query_bytes / sizeof(float),
                   pool_rotate_points(step->pool, index));
    if (model->sinks)
        generate_sinks(seed, index, model->query_heads, group->sinks);
    enum status status = step->ops->memory_allocate(
        step->device, align_up(query_bytes) + align_up(sink_bytes) + group->output_bytes,
        "queries and outputs", &group->io_memory, text);
    if (status != STATUS_OK)
        return status;
    uint8_t *base = group->io_memory.dev_address;
    group->dev_queries = (float *)base;
    group->dev_sinks = model->sinks ? (float *)(base + align_up(query_bytes)) : NULL;
    group->dev_outputs = (float *)(base + align_up(query_bytes) + align_up(sink_bytes));
    status = step->ops->memory_write(step->device, group->dev_queries, group->queries, query_bytes,
                                     text);
    if (status == STATUS_OK && model->sinks)
        status =
            step->ops->memory_write(step->device, group->dev_sinks, group->sinks, sink_bytes, text);
    return status;
}

/* As many workers as there is work for: fewer tokens each than this, and what a segment costs by
 * itself (its start, its partial result) is no longer small beside them. */
enum { STEP_LEAST_TOKENS = 256 };

static uint32_t useful_workers(const struct step *step, const struct page_layout *page,
                               uint32_t query_heads, uint64_t window_tokens) {
    const uint32_t workers =
        step->ops->attend_workers(step->device, step->kernel, page, query_heads);
    uint64_t tokens = 0;
    for (uint32_t s = 0; s < pool_seqs(step->pool); s++) {
        const uint64_t length = pool_lengths(step->pool)[s];
        tokens += window_tokens > 0 && length > window_tokens ? window_tokens : length;
    }
    const uint64_t rows = (uint64_t)pool_seqs(step->pool) * page->shape.kv_heads;
    uint64_t most = tokens * page->shape.kv_heads / STEP_LEAST_TOKENS;
    most = most > rows ? most : rows; /* a row each makes no partial results */
    return most < workers ? (uint32_t)most : workers;
}

static enum status create_group(struct step *step, uint32_t index, uint64_t seed,
                                enum options_data data, uint64_t *workspace_bytes,
                                struct status_text *text) {
    struct step_group *group = &step->groups[index];
    const struct model_group *model = pool_group(step->pool, index);
    const struct page_layout *page = pool_group_page(step->pool, index);
    enum status status =
        step->ops->attend_check(step->device, step->kernel, page, model->query_heads, false, text);
    if (status != STATUS_OK)
        return status;
    const struct pool_pages *pages = pool_group_pages(step->pool, index);
    const uint32_t workers = useful_workers(step, page, model->query_heads, pages->window_tokens);
    status = plan_create(pool_lengths(step->pool), pool_seqs(step->pool), page->shape.kv_heads,
                         pages->window_tokens, STEP_TILE_TOKENS, workers, &group->plan, text);
    if (status == STATUS_OK)
        status = upload_plan(step, group, text);
    if (status == STATUS_OK)
        status = upload_io(step, index, seed, data, text);
    if (status != STATUS_OK)
        return status;
    group->softmax_scale = (float)(1.0 / sqrt((double)page->shape.k_dim));
    const uint64_t bytes =
        step->ops->attend_workspace_bytes(step->device, step->kernel, page, model->query_heads,
                                          group->plan.segment_count, pages->page_count);
    if (bytes > *workspace_bytes)
        *workspace_bytes = bytes;
    return STATUS_OK;
}

static enum status give_append(struct step *step, struct status_text *text) {
    for (uint32_t g = 0; g < step->group_count; g++) {
        for (uint32_t layer = 0; layer < pool_group(step->pool, g)->layers; layer++) {
            struct backend_append work;
            pool_step_append(step->pool, g, layer, &work);
            const enum status status = step->ops->append(step->device, &work, NULL, text);
            if (status != STATUS_OK)
                return status;
        }
    }
    return STATUS_OK;
}

static void describe_attend(const struct step *step, uint32_t g, uint32_t layer,
                            struct backend_attend *out) {
    const struct step_group *group = &step->groups[g];
    *out = (struct backend_attend){
        .kernel = step->kernel,
        .query_heads = pool_group(step->pool, g)->query_heads,
        .softmax_scale = group->softmax_scale,
        .dev_queries = group->dev_queries,
        .dev_sinks = group->dev_sinks,
        .dev_outputs = group->dev_outputs,
        .plan = group->dev_plan,
        .dev_workspace = step->workspace.dev_address,
    };
    pool_cache(step->pool, g, layer, &out->cache);
}

static enum status give_attend_layer(struct step *step, uint32_t g, uint32_t layer,
                                     struct status_text *text) {
    struct backend_attend work;
    describe_attend(step, g, layer, &work);
    return step->ops->attend(step->device, &work, text);
}

/* Layers without a cache of their own read an owner's; spread evenly. */
static uint32_t layer_read(const struct model_group *model, uint32_t reader) {
    return (uint32_t)((uint64_t)reader * model->layers / model->read_by_layers);
}

uint32_t step_last_layer(const struct step *step, uint32_t group) {
    const struct model_group *model = pool_group(step->pool, group);
    return layer_read(model, model->read_by_layers - 1);
}

static enum status give_attend(struct step *step, struct status_text *text) {
    for (uint32_t g = 0; g < step->group_count; g++) {
        const struct model_group *model = pool_group(step->pool, g);
        for (uint32_t reader = 0; reader < model->read_by_layers; reader++) {
            const enum status status = give_attend_layer(step, g, layer_read(model, reader), text);
            if (status != STATUS_OK)
                return status;
        }
    }
    return STATUS_OK;
}

/* One table and one set of arguments serve all layers of a group. */
static enum status check_work(const struct step *step, struct status_text *text) {
    enum status status = STATUS_OK;
    for (uint32_t g = 0; g < step->group_count && status == STATUS_OK; g++) {
        struct backend_append append;
        struct backend_attend attend;
        pool_step_append(step->pool, g, 0, &append);
        describe_attend(step, g, 0, &attend);
        status = backend_check_append(step->ops, step->device, &append, text);
        if (status == STATUS_OK)
            status = backend_check_attend(step->ops, step->device, &attend, text);
    }
    return status;
}

static enum status record(struct step *step,
                          enum status (*give)(struct step *step, struct status_text *text),
                          struct backend_recording **out, struct status_text *text) {
    enum status status = step->ops->record_begin(step->device, text);
    if (status != STATUS_OK)
        return status;
    status = give(step, text);
    /* Also behind a failure: the device must not go on recording. */
    const enum status ended =
        step->ops->record_end(step->device, out, status == STATUS_OK ? text : NULL);
    return status == STATUS_OK ? ended : status;
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
    step->kernel = kernel != NULL ? kernel : ops->kernels[0];
    step->group_count = pool_group_count(pool);
    step->groups = calloc(step->group_count, sizeof *step->groups);
    enum status status = STATUS_OK;
    if (step->groups == NULL)
        status = status_set(text, STATUS_OUT_OF_MEMORY, "no host memory for a step");
    uint64_t workspace_bytes = 0;
    for (uint32_t g = 0; g < step->group_count && status == STATUS_OK; g++)
        status = create_group(step, g, seed, data, &workspace_bytes, text);
    if (status == STATUS_OK && workspace_bytes > 0)
        status = ops->memory_allocate(device, workspace_bytes, "the attention workspace",
                                      &step->workspace, text);
    if (status == STATUS_OK)
        status = check_work(step, text);
    if (status == STATUS_OK && ops->record_begin != NULL)
        status = record_step(step, text);
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
        struct step_group *group = &step->groups[g];
        plan_destroy(&group->plan);
        step->ops->memory_free(step->device, &group->plan_memory);
        step->ops->memory_free(step->device, &group->io_memory);
        free(group->queries);
        free(group->sinks);
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

static enum status poison_outputs(struct step *step, uint32_t g, struct status_text *text) {
    const struct step_group *group = &step->groups[g];
    return step->ops->memory_fill(step->device, group->dev_outputs, 0xFF, group->output_bytes,
                                  text);
}

static enum status read_outputs(struct step *step, uint32_t g, float *outputs,
                                struct status_text *text) {
    const struct step_group *group = &step->groups[g];
    return step->ops->memory_read(step->device, outputs, group->dev_outputs, group->output_bytes,
                                  text);
}

enum status step_attend_layer(struct step *step, uint32_t group, uint32_t layer, float *outputs,
                              struct status_text *text) {
    enum status status = poison_outputs(step, group, text);
    if (status == STATUS_OK)
        status = give_attend_layer(step, group, layer, text);
    if (status == STATUS_OK)
        status = step->ops->synchronize(step->device, text);
    if (status == STATUS_OK)
        status = read_outputs(step, group, outputs, text);
    return status;
}

enum status step_run(struct step *step, float *const *outputs, struct status_text *text) {
    enum status status = STATUS_OK;
    for (uint32_t g = 0; g < step->group_count && status == STATUS_OK; g++)
        status = poison_outputs(step, g, text);
    if (status == STATUS_OK)
        status = step_append(step, text);
    if (status == STATUS_OK)
        status = step_attend(step, text);
    if (status == STATUS_OK)
        status = step->ops->synchronize(step->device, text);
    for (uint32_t g = 0; g < step->group_count && status == STATUS_OK; g++)
        status = read_outputs(step, g, outputs[g], text);
    return status;
}

const char *step_kernel(const struct step *step) {
    return step->kernel;
}

const float *step_queries(const struct step *step, uint32_t group) {
    return step->groups[group].queries;
}

const float *step_sinks(const struct step *step, uint32_t group) {
    return step->groups[group].sinks;
}

float step_softmax_scale(const struct step *step, uint32_t group) {
    return step->groups[group].softmax_scale;
}
