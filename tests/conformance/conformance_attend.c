/* Attends a case's cache and judges the outputs. */
#include "conformance.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend_check.h"
#include "reference.h"

/* More query heads than this per KV head and sequence: the first, the last and some between. */
enum { HEADS_CHECKED = 16, SEED = 21 };

/* Device memory of one attend, freed with it. */
struct attend_memory {
    struct backend_memory queries, sinks, outputs, plan, workspace, selected, lengths;
};

uint64_t conformance_output_count(const struct conformance_world *world) {
    const struct conformance_case *which = world->which;
    return (uint64_t)world->seqs * which->kv_heads * which->group_size * which->v_dim;
}

static enum status upload(struct conformance_world *world, const void *from, uint64_t bytes,
                          const char *what, struct backend_memory *out, struct status_text *text) {
    const enum status status = world->ops->memory_allocate(world->device, bytes, what, out, text);
    return status == STATUS_OK
               ? world->ops->memory_write(world->device, out->dev_address, from, bytes, text)
               : status;
}

static uint64_t aligned(uint64_t bytes) {
    return (bytes + PAGE_ALIGNMENT_BYTES - 1) / PAGE_ALIGNMENT_BYTES * PAGE_ALIGNMENT_BYTES;
}

static enum status upload_plan(struct conformance_world *world, const struct plan *plan,
                               struct backend_memory *memory, struct backend_plan *out,
                               struct status_text *text) {
    const uint64_t segment_bytes = plan->segment_count * sizeof plan->segments[0];
    const uint64_t row_bytes = ((uint64_t)plan->row_count + 1) * sizeof(uint32_t);
    const uint64_t worker_bytes = ((uint64_t)plan->worker_count + 1) * sizeof(uint32_t);
    const uint64_t row_at = aligned(segment_bytes), worker_at = row_at + aligned(row_bytes);
    uint8_t *image = calloc(1, worker_at + worker_bytes);
    if (image == NULL)
        return status_set(text, STATUS_OUT_OF_MEMORY, "no memory for a plan");
    memcpy(image, plan->segments, segment_bytes);
    memcpy(image + row_at, plan->row_first, row_bytes);
    memcpy(image + worker_at, plan->worker_first, worker_bytes);
    const enum status status = upload(world, image, worker_at + worker_bytes, "plan", memory, text);
    free(image);
    const uint8_t *dev = memory->dev_address;
    if (status == STATUS_OK)
        *out = (struct backend_plan){
            .dev_segments = (const struct backend_segment *)dev,
            .dev_row_first = (const uint32_t *)(dev + row_at),
            .dev_worker_first = (const uint32_t *)(dev + worker_at),
            .segment_count = plan->segment_count,
            .row_count = plan->row_count,
            .worker_count = plan->worker_count,
            .host_segments = plan->segments,
            .host_row_first = plan->row_first,
        };
    return status;
}

enum status conformance_select_some(struct conformance_world *world, uint32_t top_k, bool ascending,
                                    struct status_text *text) {
    struct generate_random random;
    generate_random_seed(&random, SEED + top_k);
    free(world->selected);
    world->selected_stride = top_k;
    world->selected = malloc((uint64_t)world->seqs * top_k * sizeof *world->selected);
    if (world->selected == NULL)
        return status_set(text, STATUS_OUT_OF_MEMORY, "no memory for selected tokens");
    memset(world->selected, 0xFF, (uint64_t)world->seqs * top_k * sizeof *world->selected);
    for (uint32_t s = 0; s < world->seqs; s++) {
        int32_t *list = world->selected + (uint64_t)s * top_k;
        const uint64_t length = world->lengths[s], wanted = length < top_k ? length : top_k;
        uint64_t count = 0;
        /* each token in turn with the chance that leaves all sets alike */
        for (uint64_t t = 0; t < length; t++)
            if (generate_random_below(&random, length - t) < wanted - count)
                list[count++] = (int32_t)t;
        for (uint64_t i = count; i > 1 && !ascending; i--) {
            const uint64_t other = generate_random_below(&random, i);
            const int32_t token = list[i - 1];
            list[i - 1] = list[other];
            list[other] = token;
        }
    }
    return STATUS_OK;
}

/* How many places of a sequence's list attention reads, or how many tokens. */
static uint64_t places_of(const struct conformance_world *world, uint32_t seq) {
    const uint64_t length = world->lengths[seq];
    return world->selected != NULL && length > world->selected_stride ? world->selected_stride
                                                                      : length;
}

static enum status upload_selected(struct conformance_world *world, struct attend_memory *memory,
                                   struct backend_attend *work, struct status_text *text) {
    if (world->selected == NULL)
        return STATUS_OK;
    enum status status = upload(world, world->selected,
                                (uint64_t)world->seqs * world->selected_stride * sizeof(int32_t),
                                "selected tokens", &memory->selected, text);
    if (status == STATUS_OK)
        status = upload(world, world->lengths, world->seqs * sizeof(uint64_t), "lengths",
                        &memory->lengths, text);
    work->dev_selected = memory->selected.dev_address;
    work->selected_stride = world->selected_stride;
    work->dev_lengths = memory->lengths.dev_address;
    return status;
}

static enum status make_inputs(struct conformance_world *world, struct status_text *text) {
    const struct conformance_case *which = world->which;
    const uint32_t heads = which->kv_heads * which->group_size;
    free(world->queries);
    free(world->sinks);
    free(world->outputs);
    world->queries = malloc((uint64_t)world->seqs * heads * which->k_dim * sizeof(float));
    world->sinks = which->sinks ? malloc(heads * sizeof(float)) : NULL;
    world->outputs = malloc(conformance_output_count(world) * sizeof(float));
    if (world->queries == NULL || world->outputs == NULL || (which->sinks && world->sinks == NULL))
        return status_set(text, STATUS_OUT_OF_MEMORY, "no memory for queries and outputs");
    generate_queries(SEED, which->k_dim, which->data, world->seqs, heads, which->k_dim,
                     world->queries);
    if (which->sinks)
        generate_sinks(SEED, which->k_dim, heads, world->sinks);
    return STATUS_OK;
}

/* Everything an attend needs, outputs and workspace poisoned. */
static enum status prepare(struct conformance_world *world, const struct plan *plan,
                           struct attend_memory *memory, struct backend_attend *work,
                           struct status_text *text) {
    const struct conformance_case *which = world->which;
    const struct backend_ops *ops = world->ops;
    const uint32_t heads = which->kv_heads * which->group_size;
    const uint64_t output_bytes = conformance_output_count(world) * sizeof(float);
    const uint64_t workspace_bytes =
        ops->attend_workspace_bytes(world->device, work->kernel, &world->cache.page, heads,
                                    plan->segment_count, world->cache.page_count);
    if (which->far && workspace_bytes >= (uint64_t)1 << 32)
        return status_set(text, STATUS_REFUSED,
                          "%s works on a copy of all pages, and far ones are mostly none",
                          work->kernel);
    enum status status = upload_plan(world, plan, &memory->plan, &work->plan, text);
    if (status == STATUS_OK)
        status = upload(world, world->queries,
                        (uint64_t)world->seqs * heads * which->k_dim * sizeof(float), "queries",
                        &memory->queries, text);
    if (status == STATUS_OK && which->sinks)
        status = upload(world, world->sinks, heads * sizeof(float), "sinks", &memory->sinks, text);
    if (status == STATUS_OK)
        status = ops->memory_allocate(world->device, output_bytes + CONFORMANCE_GUARD_BYTES,
                                      "outputs", &memory->outputs, text);
    if (status == STATUS_OK)
        status = ops->memory_allocate(world->device, workspace_bytes + CONFORMANCE_GUARD_BYTES,
                                      "workspace", &memory->workspace, text);
    if (status == STATUS_OK)
        status = ops->memory_fill(world->device, memory->outputs.dev_address, 0xFF,
                                  output_bytes + CONFORMANCE_GUARD_BYTES, text);
    if (status == STATUS_OK)
        status = ops->memory_fill(world->device, memory->workspace.dev_address, 0xFF,
                                  workspace_bytes + CONFORMANCE_GUARD_BYTES, text);
    work->cache = world->cache;
    work->query_heads = heads;
    work->softmax_scale = (float)(1.0 / sqrt((double)which->k_dim));
    work->dev_queries = memory->queries.dev_address;
    work->dev_sinks = memory->sinks.dev_address;
    work->dev_outputs = memory->outputs.dev_address;
    work->dev_workspace = memory->workspace.dev_address;
    return status;
}

/* Nothing may be written behind what was promised. */
static enum status check_guard(struct conformance_world *world, const struct backend_memory *memory,
                               const char *what, struct status_text *text) {
    uint8_t guard[CONFORMANCE_GUARD_BYTES];
    const uint64_t at = memory->bytes - CONFORMANCE_GUARD_BYTES;
    enum status status = world->ops->memory_read(
        world->device, guard, (const uint8_t *)memory->dev_address + at, sizeof guard, text);
    for (size_t i = 0; i < sizeof guard && status == STATUS_OK; i++)
        if (guard[i] != 0xFF)
            status = status_set(text, STATUS_WRONG, "byte %zu behind the %s was written", i, what);
    return status;
}

enum status conformance_attend(struct conformance_world *world, const char *kernel,
                               struct status_text *text) {
    const struct conformance_case *which = world->which;
    const struct backend_ops *ops = world->ops;
    enum status status =
        ops->attend_check(world->device, kernel, &world->cache.page,
                          which->kv_heads * which->group_size, world->selected != NULL, text);
    if (status == STATUS_OK)
        status = make_inputs(world, text);
    if (status != STATUS_OK)
        return status;
    world->kernel = kernel;
    struct attend_memory memory = {0};
    struct backend_attend work = {.kernel = kernel};
    struct plan plan = {0};
    uint64_t places[CONFORMANCE_MAX_SEQS];
    for (uint32_t s = 0; s < world->seqs; s++)
        places[s] = places_of(world, s);
    status = plan_create(places, world->seqs, which->kv_heads, which->window_tokens,
                         which->tile_tokens, which->workers, &plan, text);
    if (status == STATUS_OK)
        status = prepare(world, &plan, &memory, &work, text);
    if (status == STATUS_OK)
        status = upload_selected(world, &memory, &work, text);
    if (status == STATUS_OK) {
        status = backend_check_attend(ops, world->device, &work, text);
        if (status == STATUS_OK)
            status = ops->attend(world->device, &work, text);
        const enum status waited = ops->synchronize(world->device, text);
        status = status == STATUS_OK ? waited : status;
        const enum status read = ops->memory_read(
            world->device, world->outputs, memory.outputs.dev_address,
            conformance_output_count(world) * sizeof(float), status == STATUS_OK ? text : NULL);
        status = status == STATUS_OK ? read : status;
    }
    if (status == STATUS_OK)
        status = check_guard(world, &memory.outputs, "outputs", text);
    if (status == STATUS_OK)
        status = check_guard(world, &memory.workspace, "workspace", text);
    struct backend_memory *const all[] = {&memory.queries, &memory.sinks,     &memory.outputs,
                                          &memory.plan,    &memory.workspace, &memory.selected,
                                          &memory.lengths};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        ops->memory_free(world->device, all[i]);
    plan_destroy(&plan);
    return status;
}

/* One head of one sequence; `scratch` as reference_attend wants it, `exact` [v_dim]. */
static enum status check_head(const struct conformance_world *world, uint32_t seq, uint32_t head,
                              double *scratch, double *exact, struct status_text *text) {
    const struct conformance_case *which = world->which;
    const uint32_t heads = which->kv_heads * which->group_size;
    const struct reference_view view = {
        .page = &world->cache.page,
        .pages = world->expected,
        .page_table = world->pages.table + (uint64_t)seq * world->pages.columns,
        .page_table_columns = world->pages.columns,
        .k_tensor_scale = world->cache.k_tensor_scale,
        .v_tensor_scale = world->cache.v_tensor_scale,
        .selected = world->selected != NULL
                        ? world->selected + (uint64_t)seq * world->selected_stride
                        : NULL,
    };
    const uint64_t length = places_of(world, seq);
    const uint64_t first = which->window_tokens > 0 && length > which->window_tokens
                               ? length - which->window_tokens
                               : 0;
    const uint64_t row = (uint64_t)seq * heads + head;
    reference_attend(&view, head / which->group_size, world->queries + row * which->k_dim,
                     (float)(1.0 / sqrt((double)which->k_dim)),
                     world->sinks != NULL ? world->sinks + head : NULL, first, length - first,
                     scratch, exact);
    const double bound = reference_bound(world->kernel, which->k_format, which->v_format);
    const double error =
        reference_relative_error(world->outputs + row * which->v_dim, exact, which->v_dim);
    if (error <= bound)
        return STATUS_OK;
    return status_set(text, STATUS_WRONG,
                      "sequence %u query head %u: relative error %.3g where %.3g is allowed", seq,
                      head, error, bound);
}

static bool head_is_checked(uint32_t h, uint32_t group_size) {
    return group_size <= HEADS_CHECKED || h % (group_size / HEADS_CHECKED + 1) == 0 ||
           h == group_size - 1;
}

enum status conformance_check_outputs(const struct conformance_world *world,
                                      struct status_text *text) {
    const struct conformance_case *which = world->which;
    uint64_t longest = 0;
    for (uint32_t s = 0; s < world->seqs; s++)
        longest = world->lengths[s] > longest ? world->lengths[s] : longest;
    const uint64_t scratch_count = (uint64_t)which->k_dim + which->v_dim + longest;
    double *scratch = malloc((scratch_count + which->v_dim) * sizeof *scratch);
    if (scratch == NULL)
        return status_set(text, STATUS_OUT_OF_MEMORY, "no memory for the reference");
    enum status status = STATUS_OK;
    for (uint64_t i = 0; i < conformance_output_count(world) && status == STATUS_OK; i++)
        if (!isfinite(world->outputs[i]))
            status = status_set(text, STATUS_WRONG, "output %llu of %llu is not finite",
                                (unsigned long long)i,
                                (unsigned long long)conformance_output_count(world));
    for (uint32_t s = 0; s < world->seqs; s++)
        for (uint32_t h = 0; h < which->kv_heads * which->group_size && status == STATUS_OK; h++)
            if (head_is_checked(h % which->group_size, which->group_size))
                status = check_head(world, s, h, scratch, scratch + scratch_count, text);
    free(scratch);
    return status;
}

enum status conformance_check_untouched(const struct conformance_world *world,
                                        struct status_text *text) {
    const uint8_t *bytes = (const uint8_t *)world->outputs;
    for (uint64_t i = 0; i < conformance_output_count(world) * sizeof(float); i++)
        if (bytes[i] != 0xFF)
            return status_set(text, STATUS_WRONG, "byte %llu of the outputs was written",
                              (unsigned long long)i);
    return STATUS_OK;
}

enum status conformance_run(const struct backend_ops *ops, struct backend_device *device,
                            const char *kernel, const struct conformance_case *which,
                            struct status_text *text) {
    struct conformance_world world;
    enum status status = conformance_create(ops, device, which, &world, text);
    if (status == STATUS_OK)
        status = conformance_fill(&world, text);
    if (status == STATUS_OK)
        status = conformance_check_bytes(&world, text);
    if (status == STATUS_OK)
        status = conformance_attend(&world, kernel, text);
    if (status == STATUS_OK)
        status = conformance_check_outputs(&world, text);
    /* Attention only reads. */
    if (status == STATUS_OK)
        status = conformance_check_bytes(&world, text);
    conformance_destroy(&world);
    return status;
}
