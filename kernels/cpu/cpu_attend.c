/* Decode attention: workers go through their segments and leave partial results, then every row's
 * partials are merged. Two kernels: "tiled" (cpu_tile.c) and "simple", one row at a time through
 * the plain codecs, which serves every shape and is easy to see right. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cpu_device.h"

const char *const cpu_kernels[] = {"tiled", "simple", NULL};

/* log2(e): scores are kept in powers of two. */
static const float log2_e = 1.44269504088896340736f;

/* A segment's partial result: [heads] largest, [heads] sums, [heads][v stride] outputs. */
static uint64_t partial_floats(uint32_t heads, uint32_t v_dim) {
    return cpu_tile_aligned(2 * (uint64_t)heads + (uint64_t)heads * cpu_tile_stride(v_dim));
}

/* Outputs first, so that they are aligned. */
struct partial {
    float *outputs;
    float *largest;
    float *sums;
};

static struct partial partial_at(const struct backend_attend *work, uint32_t heads,
                                 uint32_t segment) {
    const uint32_t v_dim = work->cache.page.shape.v_dim;
    float *base = (float *)work->dev_workspace + partial_floats(heads, v_dim) * segment;
    float *largest = base + (uint64_t)heads * cpu_tile_stride(v_dim);
    return (struct partial){.outputs = base, .largest = largest, .sums = largest + heads};
}

enum status cpu_attend_check(struct backend_device *device, const char *kernel,
                             const struct page_layout *page, uint32_t query_heads, bool selected,
                             struct status_text *text) {
    (void)device;
    bool known = false;
    for (const char *const *name = cpu_kernels; *name != NULL; name++)
        known = known || strcmp(*name, kernel) == 0;
    if (!known)
        return status_set(text, STATUS_REFUSED, "kernel %s: the cpu backend has tiled and simple",
                          kernel);
    if (query_heads == 0 || query_heads % page->shape.kv_heads != 0)
        return status_set(text, STATUS_REFUSED,
                          "%u query heads over %u KV heads: a whole number per KV head is needed",
                          query_heads, page->shape.kv_heads);
    (void)selected; /* both kernels read either */
    return STATUS_OK;
}

uint32_t cpu_attend_workers(struct backend_device *device, const char *kernel,
                            const struct page_layout *page, uint32_t query_heads) {
    (void)kernel;
    (void)page;
    (void)query_heads;
    return device->threads * CPU_WORKERS_PER_THREAD;
}

uint64_t cpu_attend_workspace_bytes(struct backend_device *device, const char *kernel,
                                    const struct page_layout *page, uint32_t query_heads,
                                    uint32_t segment_count, uint32_t page_count) {
    (void)device;
    (void)kernel;
    (void)page_count;
    const uint32_t heads = query_heads / page->shape.kv_heads;
    return partial_floats(heads, page->shape.v_dim) * sizeof(float) * segment_count;
}

/* What one thread needs beside the partials. */
struct scratch {
    float *queries;
    float *tile;
    float *scales;
    float *weights;
    float *lane_sums;
};

/* One allocation; NULL without memory. */
static float *allocate_scratch(const struct page_shape *shape, uint32_t heads,
                               struct scratch *out) {
    const uint32_t k_stride = cpu_tile_stride(shape->k_dim);
    const uint32_t v_stride = cpu_tile_stride(shape->v_dim);
    const uint32_t wider = k_stride > v_stride ? k_stride : v_stride;
    const uint64_t queries = cpu_tile_aligned((uint64_t)heads * k_stride);
    const uint64_t tile = cpu_tile_aligned((uint64_t)CPU_TILE_TOKENS * wider);
    const uint64_t scales =
        cpu_tile_aligned((uint64_t)CPU_TILE_TOKENS * cpu_tile_stride(wider / 16));
    const uint64_t weights = cpu_tile_aligned((uint64_t)heads * CPU_TILE_TOKENS);
    const uint64_t lane_sums = cpu_tile_aligned((uint64_t)heads * CPU_TILE_ROW_VALUES);
    const uint64_t bytes = (queries + tile + scales + weights + lane_sums) * sizeof(float);
    float *base = aligned_alloc(CPU_TILE_ALIGNMENT, bytes);
    if (base == NULL)
        return NULL;
    memset(base, 0, bytes);
    out->queries = base;
    out->tile = out->queries + queries;
    out->scales = out->tile + tile;
    out->weights = out->scales + scales;
    out->lane_sums = out->weights + weights;
    return base;
}

/* Queries of one row, scaled so that a score is a power of two; the padding stays zero. */
static void scale_queries(const struct backend_attend *work, uint32_t seq, uint32_t kv_head,
                          uint32_t heads, float *out) {
    const uint32_t dim = work->cache.page.shape.k_dim;
    const uint32_t stride = cpu_tile_stride(dim);
    const float scale = work->softmax_scale * log2_e * work->cache.k_tensor_scale;
    const float *queries =
        work->dev_queries + ((uint64_t)seq * work->query_heads + (uint64_t)kv_head * heads) * dim;
    for (uint32_t h = 0; h < heads; h++)
        for (uint32_t i = 0; i < dim; i++)
            out[(uint64_t)h * stride + i] = queries[(uint64_t)h * dim + i] * scale;
}

/* One row at a time: decode K, score every head, rescale, decode V, add. */
static void simple_segment(const struct cpu_tile_job *job) {
    const struct page_layout *page = job->page;
    const struct page_shape *shape = &page->shape;
    const uint32_t k_stride = cpu_tile_stride(shape->k_dim);
    const uint32_t v_stride = cpu_tile_stride(shape->v_dim);
    float *row = job->tile;
    for (uint32_t h = 0; h < job->heads; h++) {
        job->largest[h] = -INFINITY;
        job->sums[h] = 0;
        memset(job->outputs + (uint64_t)h * v_stride, 0, v_stride * sizeof(float));
    }
    for (uint64_t place = 0; place < job->token_count; place++) {
        const uint64_t t =
            job->selected != NULL ? (uint64_t)job->selected[place] : job->first_token + place;
        const uint32_t slot = (uint32_t)(t % shape->page_tokens);
        const uint8_t *base =
            job->pages +
            (uint64_t)job->table[t / shape->page_tokens % job->columns] * page->stride_bytes;
        struct page_place at = page_locate(&page->k, shape->page_tokens, job->kv_head, slot);
        format_decode_row(shape->k_format, base + at.payload_bytes, base + at.scale_bytes,
                          shape->k_dim, 1.0f, row);
        for (uint32_t h = 0; h < job->heads; h++) {
            float score = 0;
            for (uint32_t i = 0; i < shape->k_dim; i++)
                score += job->queries[(uint64_t)h * k_stride + i] * row[i];
            job->weights[h] = score;
        }
        if (!shape->v_in_k) {
            at = page_locate(&page->v, shape->page_tokens, job->kv_head, slot);
            format_decode_row(shape->v_format, base + at.payload_bytes, base + at.scale_bytes,
                              shape->v_dim, 1.0f, row);
        }
        for (uint32_t h = 0; h < job->heads; h++) {
            float *output = job->outputs + (uint64_t)h * v_stride;
            const float score = job->weights[h];
            const float largest = score > job->largest[h] ? score : job->largest[h];
            const float shrink = exp2f(job->largest[h] - largest);
            const float weight = exp2f(score - largest);
            job->largest[h] = largest;
            job->sums[h] = job->sums[h] * shrink + weight;
            for (uint32_t i = 0; i < shape->v_dim; i++)
                output[i] = output[i] * shrink + weight * row[i];
        }
    }
}

static void run_worker(const struct backend_device *device, const struct backend_attend *work,
                       uint32_t worker, const struct scratch *scratch) {
    const struct backend_cache *cache = &work->cache;
    const uint32_t heads = work->query_heads / cache->page.shape.kv_heads;
    void (*const segment)(const struct cpu_tile_job *) =
        strcmp(work->kernel, "simple") == 0 ? simple_segment : device->tile->segment;
    const struct backend_plan *plan = &work->plan;
    for (uint32_t i = plan->dev_worker_first[worker]; i < plan->dev_worker_first[worker + 1]; i++) {
        const struct backend_segment *piece = &plan->dev_segments[i];
        const struct partial partial = partial_at(work, heads, i);
        scale_queries(work, piece->seq, piece->kv_head, heads, scratch->queries);
        const int32_t *selected = work->dev_selected != NULL
                                      ? work->dev_selected +
                                            (uint64_t)piece->seq * work->selected_stride +
                                            piece->first_token
                                      : NULL;
        const struct cpu_tile_job job = {
            .page = &cache->page,
            .pages = cache->dev_pages,
            .table = cache->dev_page_table + (uint64_t)piece->seq * cache->page_table_columns,
            .columns = cache->page_table_columns,
            .kv_head = piece->kv_head,
            .first_token = selected != NULL ? 0 : piece->first_token,
            .token_count = piece->token_count,
            .selected = selected,
            .heads = heads,
            .queries = scratch->queries,
            .largest = partial.largest,
            .sums = partial.sums,
            .outputs = partial.outputs,
            .tile = scratch->tile,
            .scales = scratch->scales,
            .weights = scratch->weights,
            .lane_sums = scratch->lane_sums,
        };
        segment(&job);
    }
}

/* Merges the partials of one row and query head; the sink joins the denominator here, once. */
static void merge_head(const struct backend_attend *work, uint32_t row, uint32_t heads, uint32_t h,
                       float *output) {
    const uint32_t v_dim = work->cache.page.shape.v_dim;
    const uint32_t v_stride = cpu_tile_stride(v_dim);
    const uint32_t kv_head = row % work->cache.page.shape.kv_heads;
    const uint32_t first = work->plan.dev_row_first[row], end = work->plan.dev_row_first[row + 1];
    float largest = -INFINITY;
    for (uint32_t i = first; i < end; i++)
        largest = fmaxf(largest, partial_at(work, heads, i).largest[h]);
    const float sink =
        work->dev_sinks != NULL ? work->dev_sinks[kv_head * heads + h] * log2_e : -INFINITY;
    largest = fmaxf(largest, sink);
    memset(output, 0, v_dim * sizeof *output);
    if (largest == -INFINITY) { /* no tokens, or NaN and nothing else */
        float sum = 0;
        for (uint32_t i = first; i < end; i++)
            sum += partial_at(work, heads, i).sums[h];
        for (uint32_t j = 0; j < v_dim; j++)
            output[j] = sum;
        return;
    }
    float denominator = exp2f(sink - largest);
    for (uint32_t i = first; i < end; i++) {
        const struct partial partial = partial_at(work, heads, i);
        const float weight = exp2f(partial.largest[h] - largest);
        denominator += weight * partial.sums[h];
        for (uint32_t j = 0; j < v_dim; j++)
            output[j] += weight * partial.outputs[(uint64_t)h * v_stride + j];
    }
    const float scale = work->cache.v_tensor_scale / denominator;
    for (uint32_t j = 0; j < v_dim; j++)
        output[j] *= scale;
}

enum status cpu_attend(struct backend_device *device, const struct backend_attend *work,
                       struct status_text *text) {
    const struct page_shape *shape = &work->cache.page.shape;
    const enum status status =
        cpu_attend_check(device, work->kernel, &work->cache.page, work->query_heads,
                         work->dev_selected != NULL, text);
    if (status != STATUS_OK)
        return status;
    const uint32_t heads = work->query_heads / shape->kv_heads;
    bool have_memory = true;
#pragma omp parallel num_threads(device->threads) reduction(&& : have_memory)
    {
        struct scratch scratch = {0};
        float *base = allocate_scratch(shape, heads, &scratch);
        have_memory = base != NULL;
#pragma omp for schedule(dynamic)
        for (uint32_t worker = 0; worker < work->plan.worker_count; worker++)
            if (base != NULL)
                run_worker(device, work, worker, &scratch);
        free(base);
    }
    if (!have_memory)
        return status_set(text, STATUS_OUT_OF_MEMORY, "no host memory for a thread's tiles");
#pragma omp parallel for num_threads(device->threads) schedule(static)
    for (uint32_t row = 0; row < work->plan.row_count; row++) {
        const uint64_t seq = row / shape->kv_heads, kv_head = row % shape->kv_heads;
        for (uint32_t h = 0; h < heads; h++)
            merge_head(work, row, heads, h,
                       work->dev_outputs +
                           (seq * work->query_heads + kv_head * heads + h) * shape->v_dim);
    }
    return STATUS_OK;
}
