/* Attention of one group: kernel, plans, queries and outputs; one call per reading layer. */
#include "step_parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rotate.h"

/* Tokens in one tile of the plan: small enough to balance short sequences, large enough that a
 * segment's start costs nothing. */
enum { STEP_TILE_TOKENS = 64 };

static enum status upload_plan(struct step *step, struct step_plan *cut, struct status_text *text) {
    const struct plan *plan = &cut->plan;
    const uint64_t segment_bytes =
        step_align_up((uint64_t)plan->segment_count * sizeof plan->segments[0]);
    const uint64_t row_bytes = step_align_up(((uint64_t)plan->row_count + 1) * sizeof(uint32_t));
    const uint64_t worker_bytes =
        step_align_up(((uint64_t)plan->worker_count + 1) * sizeof(uint32_t));
    const uint64_t bytes = segment_bytes + row_bytes + worker_bytes;
    enum status status =
        step->ops->memory_allocate(step->device, bytes, "the attention plan", &cut->memory, text);
    if (status != STATUS_OK)
        return status;
    step->plan_bytes += bytes;
    uint8_t *base = cut->memory.dev_address;
    cut->dev_plan = (struct backend_plan){
        .dev_segments = (const struct backend_segment *)base,
        .dev_row_first = (const uint32_t *)(base + segment_bytes),
        .dev_worker_first = (const uint32_t *)(base + segment_bytes + row_bytes),
        .segment_count = plan->segment_count,
        .row_count = plan->row_count,
        .worker_count = plan->worker_count,
        .host_segments = plan->segments,
        .host_row_first = plan->row_first,
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
    struct step_attention *attention = &step->groups[index].attention;
    const struct model_group *model = pool_group(step->pool, index);
    const struct page_shape *shape = &pool_group_page(step->pool, index)->shape;
    const uint32_t seqs = pool_seqs(step->pool);
    const uint64_t query_bytes = (uint64_t)seqs * model->query_heads * shape->k_dim * sizeof(float);
    const uint64_t sink_bytes = model->sinks ? (uint64_t)model->query_heads * sizeof(float) : 0;
    attention->output_bytes = (uint64_t)seqs * model->query_heads * shape->v_dim * sizeof(float);
    attention->queries = malloc(query_bytes);
    attention->sinks = model->sinks ? malloc(sink_bytes) : NULL;
    if (attention->queries == NULL || (model->sinks && attention->sinks == NULL))
        return status_set(text, STATUS_OUT_OF_MEMORY,
                          "no host memory for %llu bytes of queries and sinks",
                          (unsigned long long)(query_bytes + sink_bytes));
    generate_queries(seed, index, data, seqs, model->query_heads, shape->k_dim, attention->queries);
    rotate_queries(attention->queries, query_bytes / sizeof(float),
                   pool_rotate_points(step->pool, index));
    if (model->sinks)
        generate_sinks(seed, index, model->query_heads, attention->sinks);
    enum status status = step->ops->memory_allocate(
        step->device,
        step_align_up(query_bytes) + step_align_up(sink_bytes) + attention->output_bytes,
        "queries and outputs", &attention->io_memory, text);
    if (status != STATUS_OK)
        return status;
    uint8_t *base = attention->io_memory.dev_address;
    attention->dev_queries = (float *)base;
    attention->dev_sinks = model->sinks ? (float *)(base + step_align_up(query_bytes)) : NULL;
    attention->dev_outputs =
        (float *)(base + step_align_up(query_bytes) + step_align_up(sink_bytes));
    status = step->ops->memory_write(step->device, attention->dev_queries, attention->queries,
                                     query_bytes, text);
    if (status == STATUS_OK && model->sinks)
        status = step->ops->memory_write(step->device, attention->dev_sinks, attention->sinks,
                                         sink_bytes, text);
    return status;
}

/* As many workers as there is work for: fewer tokens each than this, and what a segment costs by
 * itself (its start, its partial result) is no longer small beside them. */
enum { STEP_LEAST_TOKENS = 256 };

static uint32_t useful_workers(const struct step *step, const char *kernel,
                               const struct page_layout *page, uint32_t query_heads,
                               const uint64_t *rows, uint64_t most_rows) {
    const uint32_t workers = step->ops->attend_workers(step->device, kernel, page, query_heads);
    uint64_t tokens = 0;
    for (uint32_t s = 0; s < pool_seqs(step->pool); s++)
        tokens += most_rows > 0 && rows[s] > most_rows ? most_rows : rows[s];
    const uint64_t heads = (uint64_t)pool_seqs(step->pool) * page->shape.kv_heads;
    uint64_t most = tokens * page->shape.kv_heads / STEP_LEAST_TOKENS;
    most = most > heads ? most : heads; /* a row each makes no partial results */
    return most < workers ? (uint32_t)most : workers;
}

/* Cuts the rows of all sequences: the last `window` (0: all) of lengths[s]. */
static enum status make_plan(struct step *step, uint32_t index, const uint64_t *lengths,
                             uint64_t window, struct step_plan *out, uint64_t *workspace_bytes,
                             struct status_text *text) {
    const struct step_attention *attention = &step->groups[index].attention;
    const uint32_t query_heads = pool_group(step->pool, index)->query_heads;
    const struct page_layout *page = pool_group_page(step->pool, index);
    const uint32_t workers =
        useful_workers(step, attention->kernel, page, query_heads, lengths, window);
    enum status status = plan_create(lengths, pool_seqs(step->pool), page->shape.kv_heads, window,
                                     STEP_TILE_TOKENS, workers, &out->plan, text);
    if (status == STATUS_OK)
        status = upload_plan(step, out, text);
    if (status != STATUS_OK)
        return status;
    const uint64_t bytes = step->ops->attend_workspace_bytes(
        step->device, attention->kernel, page, query_heads, out->plan.segment_count,
        pool_group_pages(step->pool, index)->page_count);
    if (bytes > *workspace_bytes)
        *workspace_bytes = bytes;
    return STATUS_OK;
}

/* At most top_k rows of each sequence are chosen; the plan's places count from 0. */
static enum status make_chosen_plan(struct step *step, uint32_t index, uint64_t *workspace_bytes,
                                    struct status_text *text) {
    struct step_attention *attention = &step->groups[index].attention;
    const uint32_t seqs = pool_seqs(step->pool);
    const uint64_t *rows = pool_group_rows(step->pool, index);
    const uint32_t top_k = model_reads_top_k(pool_group(step->pool, attention->index));
    uint64_t *chosen = malloc(seqs * sizeof *chosen);
    if (chosen == NULL)
        return status_set(text, STATUS_OUT_OF_MEMORY, "no host memory for %u lengths", seqs);
    for (uint32_t s = 0; s < seqs; s++)
        chosen[s] = rows[s] < top_k ? rows[s] : top_k;
    const enum status status =
        make_plan(step, index, chosen, 0, &attention->chosen, workspace_bytes, text);
    free(chosen);
    return status;
}

/* The kernel asked for, or the first that can; why the default cannot is kept. */
static enum status choose_kernel(struct step *step, uint32_t index, bool selected,
                                 struct status_text *text) {
    struct step_attention *attention = &step->groups[index].attention;
    const struct page_layout *page = pool_group_page(step->pool, index);
    const struct model_group *model = pool_group(step->pool, index);
    const char *const *name = step->ops->kernels;
    attention->kernel = step->asked_kernel != NULL ? step->asked_kernel : *name;
    struct status_text why = {""};
    enum status status = step->ops->attend_check(step->device, attention->kernel, page,
                                                 model->query_heads, selected, &why);
    if (status != STATUS_OK && (step->asked_kernel != NULL || status != STATUS_REFUSED))
        return status_set(text, status, "%s", why.line);
    uint32_t automatic = 0;
    while (step->ops->kernels[automatic] != NULL)
        automatic++;
    automatic -= step->ops->kernels_by_name;
    while (status == STATUS_REFUSED && ++name < step->ops->kernels + automatic) {
        attention->kernel = *name;
        status = step->ops->attend_check(step->device, attention->kernel, page, model->query_heads,
                                         selected, NULL);
    }
    if (status != STATUS_OK)
        return status_set(text, status, "%s", why.line);
    if (why.line[0] != '\0' && step->remark[0] == '\0')
        (void)snprintf(step->remark, sizeof step->remark, "kernel %s, not %s: %.180s",
                       attention->kernel, step->ops->kernels[0], why.line);
    return STATUS_OK;
}

enum status step_attend_create(struct step *step, uint32_t index, uint64_t seed,
                               enum options_data data, uint64_t *workspace_bytes,
                               struct status_text *text) {
    struct step_attention *attention = &step->groups[index].attention;
    const struct model_group *model = pool_group(step->pool, index);
    const struct page_layout *page = pool_group_page(step->pool, index);
    const uint32_t chooser = model_reads_index_of(pool_model(step->pool), index);
    const bool sparse = chooser != MODEL_READS_NONE && pool_group_has_rows(step->pool, chooser);
    const uint32_t sparse_readers =
        sparse ? model_reads_sparse_readers(pool_model(step->pool), index) : 0;
    attention->index = sparse ? chooser : MODEL_READS_NONE;
    attention->softmax_scale = (float)(1.0 / sqrt((double)page->shape.k_dim));
    enum status status = choose_kernel(step, index, sparse, text);
    if (status == STATUS_OK && sparse_readers < model->read_by_layers)
        status = make_plan(step, index, pool_group_rows(step->pool, index),
                           pool_group_pages(step->pool, index)->window_tokens, &attention->all,
                           workspace_bytes, text);
    if (status == STATUS_OK && sparse)
        status = make_chosen_plan(step, index, workspace_bytes, text);
    return status == STATUS_OK ? upload_io(step, index, seed, data, text) : status;
}

void step_attend_destroy(struct step *step, uint32_t index) {
    struct step_attention *attention = &step->groups[index].attention;
    struct step_plan *plans[] = {&attention->all, &attention->chosen};
    for (int i = 0; i < 2; i++) {
        plan_destroy(&plans[i]->plan);
        step->ops->memory_free(step->device, &plans[i]->memory);
    }
    step->ops->memory_free(step->device, &attention->io_memory);
    free(attention->queries);
    free(attention->sinks);
}

/* The index layer that chooses for a reader; MODEL_READS_NONE: it reads all. */
static uint32_t chooser_of(const struct step *step, uint32_t g, uint32_t reader) {
    return step->groups[g].attention.index == MODEL_READS_NONE
               ? MODEL_READS_NONE
               : model_reads_index_layer(pool_model(step->pool), g, reader);
}

void step_attend_describe(const struct step *step, uint32_t g, uint32_t reader,
                          struct backend_attend *out) {
    const struct step_attention *attention = &step->groups[g].attention;
    const struct model_group *model = pool_group(step->pool, g);
    *out = (struct backend_attend){
        .kernel = attention->kernel,
        .query_heads = model->query_heads,
        .softmax_scale = attention->softmax_scale,
        .dev_queries = attention->dev_queries,
        .dev_sinks = attention->dev_sinks,
        .dev_outputs = attention->dev_outputs,
        .plan = attention->all.dev_plan,
        .dev_workspace = step->workspace.dev_address,
    };
    pool_cache(step->pool, g, model_reads_layer(model, reader), &out->cache);
    if (chooser_of(step, g, reader) == MODEL_READS_NONE)
        return;
    out->plan = attention->chosen.dev_plan;
    out->dev_selected = step->groups[attention->index].index.dev_selected;
    out->selected_stride = step->groups[attention->index].index.top_k;
    out->dev_lengths = pool_group_dev_rows(step->pool, g);
}

enum status step_attend_give(const struct step *step, uint32_t g, uint32_t reader,
                             struct status_text *text) {
    struct backend_attend work;
    step_attend_describe(step, g, reader, &work);
    return step->ops->attend(step->device, &work, text);
}

uint32_t step_attend_reader(const struct step *step, uint32_t g, uint32_t layer) {
    const struct model_group *model = pool_group(step->pool, g);
    uint32_t reader = model->read_by_layers - 1;
    while (reader > 0 && model_reads_layer(model, reader) > layer)
        reader--;
    return reader;
}

bool step_chosen_by(const struct step *step, uint32_t g, uint32_t layer, uint32_t *index_group,
                    uint32_t *index_layer) {
    *index_group = step->groups[g].attention.index;
    *index_layer = chooser_of(step, g, step_attend_reader(step, g, layer));
    return *index_layer != MODEL_READS_NONE;
}

const char *step_group_kernel(const struct step *step, uint32_t g) {
    return step->groups[g].attention.kernel;
}

const float *step_queries(const struct step *step, uint32_t g) {
    return step->groups[g].attention.queries;
}

const float *step_sinks(const struct step *step, uint32_t g) {
    return step->groups[g].attention.sinks;
}

float step_softmax_scale(const struct step *step, uint32_t g) {
    return step->groups[g].attention.softmax_scale;
}
