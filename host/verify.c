/* Samples outputs, computes four references for each (stored, K stored, V stored, none stored). */
#include "verify_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "generate.h"
#include "interrupt.h"
#include "model_reads.h"
#include "reference.h"
#include "stored.h"

/* 0 for groups that are not attended. */
uint64_t verify_outputs(const struct pool *pool, uint32_t g) {
    const struct model_group *group = pool_group(pool, g);
    return model_reads_attends(group->kind)
               ? (uint64_t)group->layers * pool_seqs(pool) * group->query_heads
               : 0;
}

/* The rows of one sequence that a layer reads; of a choice, places in its list. */
static void rows_range(const struct verifier *v, uint32_t g, uint32_t layer, uint32_t seq,
                       uint64_t *first, uint64_t *count) {
    const uint64_t window = pool_group_pages(v->pool, g)->window_tokens;
    const uint64_t rows = pool_group_rows(v->pool, g)[seq];
    uint32_t index_group, index_layer;
    *first = window > 0 && rows > window ? rows - window : 0;
    *count = rows - *first;
    if (step_chosen_by(v->step, g, layer, &index_group, &index_layer)) {
        const uint32_t top_k = model_reads_top_k(pool_group(v->pool, index_group));
        *count = rows < top_k ? rows : top_k;
    }
}

/* Which outputs: the i-th of all, group by group. */
static struct verify_sample sample_at(const struct pool *pool, uint64_t index) {
    struct verify_sample sample = {0};
    while (index >= verify_outputs(pool, sample.group))
        index -= verify_outputs(pool, sample.group++);
    const uint32_t heads = pool_group(pool, sample.group)->query_heads;
    const uint32_t seqs = pool_seqs(pool);
    sample.query_head = (uint32_t)(index % heads);
    sample.seq = (uint32_t)(index / heads % seqs);
    sample.layer = (uint32_t)(index / heads / seqs);
    return sample;
}

static int compare_u64(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Mean values one reference of one output reads. */
static uint64_t values_per_output(const struct verifier *v) {
    const struct pool *pool = v->pool;
    double values = 0, outputs = 0;
    for (uint32_t g = 0; g < pool_group_count(pool); g++) {
        if (verify_outputs(pool, g) == 0)
            continue;
        const struct page_shape *shape = &pool_group_page(pool, g)->shape;
        const uint32_t seqs = pool_seqs(pool);
        double tokens = 0;
        for (uint32_t s = 0; s < seqs; s++) {
            uint64_t first, count;
            rows_range(v, g, pool_group(pool, g)->layers - 1, s, &first, &count);
            tokens += (double)count;
        }
        const double weight = (double)verify_outputs(pool, g);
        values += weight * tokens / seqs * (shape->k_dim + shape->v_dim);
        outputs += weight;
    }
    return (uint64_t)(values / outputs) + 1;
}

/* Draws distinct outputs and orders them by layer, so that each layer is attended once. Every
 * attended group gets at least one, or a small window group could go unchecked beside a large one.
 */
static enum status draw_samples(struct verifier *v, struct status_text *text) {
    const uint32_t groups = pool_group_count(v->pool);
    for (uint32_t g = 0; g < groups; g++)
        v->output_count += verify_outputs(v->pool, g);
    if (v->output_count == 0)
        return STATUS_OK;
    uint64_t want = v->effort_values / values_per_output(v);
    const uint64_t least = 4 + (uint64_t)groups;
    want = want < least ? least : want;
    want = want > v->output_count ? v->output_count : want;
    uint64_t *indexes = malloc(want * sizeof *indexes);
    v->samples = malloc(want * sizeof *v->samples);
    if (indexes == NULL || v->samples == NULL) {
        free(indexes);
        return status_set(text, STATUS_OUT_OF_MEMORY, "no host memory for %llu samples to verify",
                          (unsigned long long)want);
    }
    struct generate_random random;
    generate_random_seed(&random, v->seed);
    uint64_t start = 0;
    for (uint64_t i = 0; i < want; i++) {
        const uint64_t outputs = i < groups ? verify_outputs(v->pool, (uint32_t)i) : 0;
        if (want == v->output_count)
            indexes[i] = i;
        else if (outputs > 0)
            indexes[i] = start + generate_random_below(&random, outputs);
        else
            indexes[i] = generate_random_below(&random, v->output_count);
        start += outputs;
    }
    qsort(indexes, want, sizeof *indexes, compare_u64);
    for (uint64_t i = 0; i < want; i++)
        if (i == 0 || indexes[i] != indexes[i - 1])
            v->samples[v->sample_count++] = sample_at(v->pool, indexes[i]);
    free(indexes);
    return STATUS_OK;
}

/* What one sampled output says: against the stored bytes, and the format's own errors. */
struct finding {
    double kernel_error;
    enum status codes; /* STATUS_WRONG: token `token` is not stored as the format says */
    uint64_t token;
    struct verify_pooled pooled;
};

static double squared_difference(const double *a, const double *b, uint32_t count) {
    double sum = 0;
    for (uint32_t i = 0; i < count; i++)
        sum += (a[i] - b[i]) * (a[i] - b[i]);
    return sum;
}

static bool check_sample(const struct verifier *v, const struct verify_sample *sample,
                         struct reference_view view, const float *output, struct finding *finding) {
    const struct page_shape *shape = &view.page->shape;
    const struct model_group *model = pool_group(v->pool, sample->group);
    const uint32_t kv_head = sample->query_head / (model->query_heads / shape->kv_heads);
    const uint64_t query_row = (uint64_t)sample->seq * model->query_heads + sample->query_head;
    const float *query = step_queries(v->step, sample->group) + query_row * shape->k_dim;
    const float *sinks = step_sinks(v->step, sample->group);
    const float *sink = sinks != NULL ? sinks + sample->query_head : NULL;
    const float scale = step_softmax_scale(v->step, sample->group);
    uint64_t first, count;
    rows_range(v, sample->group, sample->layer, sample->seq, &first, &count);

    double *scratch = malloc((shape->k_dim + shape->v_dim + count) * sizeof *scratch);
    double *answers = malloc(4 * (size_t)shape->v_dim * sizeof *answers);
    const bool have_memory = scratch != NULL && answers != NULL;
    if (have_memory) {
        finding->codes = stored_check_codes(&view, kv_head, first, count, &finding->token);
        /* Bit 0: K exact; bit 1: V exact. */
        for (uint32_t exact = 0; exact < 4; exact++) {
            view.use_exact_k = (exact & 1) != 0;
            view.use_exact_v = (exact & 2) != 0;
            reference_attend(&view, kv_head, query, scale, sink, first, count, scratch,
                             answers + (size_t)exact * shape->v_dim);
        }
        const double *stored = answers, *truth = answers + 3 * (size_t)shape->v_dim;
        finding->kernel_error = reference_relative_error(output, stored, shape->v_dim);
        for (uint32_t i = 0; i < shape->v_dim; i++)
            finding->pooled.exact += truth[i] * truth[i];
        finding->pooled.both = squared_difference(stored, truth, shape->v_dim);
        finding->pooled.v = squared_difference(answers + shape->v_dim, truth, shape->v_dim);
        finding->pooled.k =
            squared_difference(answers + 2 * (size_t)shape->v_dim, truth, shape->v_dim);
    }
    free(scratch);
    free(answers);
    return have_memory && finding->codes != STATUS_OUT_OF_MEMORY;
}

static enum status check_finite(const float *outputs, uint64_t count, uint32_t g, uint32_t layer,
                                struct status_text *text) {
    for (uint64_t i = 0; i < count; i++)
        if (!isfinite(outputs[i]))
            return status_set(text, STATUS_WRONG,
                              "group %u layer %u: output value %llu was not written or is not "
                              "finite",
                              g, layer, (unsigned long long)i);
    return STATUS_OK;
}

/* Samples [first, last) of one layer against what is stored. */
static bool check_samples(const struct verifier *v, uint64_t first, uint64_t last,
                          const struct backend_cache *cache, const struct stored *stored,
                          const int32_t *selected, const float *outputs, struct finding *findings) {
    const struct verify_sample *samples = v->samples;
    const uint32_t g = samples[first].group, layer = samples[first].layer;
    const struct generate_bank *bank = pool_bank(v->pool, g);
    const uint32_t heads = pool_group(v->pool, g)->query_heads;
    bool have_memory = true;
#pragma omp parallel for schedule(dynamic) reduction(&& : have_memory)
    for (uint64_t i = first; i < last; i++) {
        const uint32_t seq = samples[i].seq;
        const struct reference_view view = {
            .page = &cache->page,
            .pages = stored->pages,
            .page_table = stored->tables + seq * stored->table_step,
            .page_table_columns = pool_group_pages(v->pool, g)->columns,
            .k_tensor_scale = cache->k_tensor_scale,
            .v_tensor_scale = cache->v_tensor_scale,
            .exact_k = bank->k,
            .exact_v = bank->v,
            .exact_rows = bank->rows,
            .exact_first_row = pool_first_row(v->pool, g, layer, seq),
            .selected = selected,
        };
        const uint64_t row = (uint64_t)seq * heads + samples[i].query_head;
        have_memory = check_sample(v, &samples[i], view, outputs + row * cache->page.shape.v_dim,
                                   &findings[i - first]) &&
                      have_memory;
    }
    return have_memory;
}

/* The same for samples of one sequence, which an index may have chosen rows for. */
static enum status find_of_seq(const struct verifier *v, uint64_t first, uint64_t last,
                               const struct backend_cache *cache, const float *outputs,
                               struct finding *findings, struct status_text *text) {
    const struct verify_sample *sample = &v->samples[first];
    const struct pool_pages *tables = pool_group_pages(v->pool, sample->group);
    uint64_t first_row, count;
    uint32_t index_group, index_layer;
    int32_t *selected = NULL;
    enum status status = STATUS_OK;
    rows_range(v, sample->group, sample->layer, sample->seq, &first_row, &count);
    if (step_chosen_by(v->step, sample->group, sample->layer, &index_group, &index_layer)) {
        status = verify_choice(v, index_group, index_layer, sample->seq, &selected, text);
        count = pool_group_rows(v->pool, sample->group)[sample->seq];
    }
    struct stored stored = {0};
    if (status == STATUS_OK && !stored_in_place(v->ops, v->device, cache, tables, &stored))
        status = stored_read(v->ops, v->device, cache, tables, sample->seq, first_row, count,
                             &stored, text);
    if (status == STATUS_OK &&
        !check_samples(v, first, last, cache, &stored, selected, outputs, findings))
        status = status_set(text, STATUS_OUT_OF_MEMORY, "no host memory to verify");
    stored_free(&stored);
    free(selected);
    return status;
}

/* The same, all at once where the host reads the device in place and every row is read, else
 * sequence by sequence. */
static enum status find(const struct verifier *v, uint64_t first, uint64_t last,
                        const float *outputs, struct finding *findings, struct status_text *text) {
    const struct verify_sample *samples = v->samples;
    const uint32_t g = samples[first].group, layer = samples[first].layer;
    struct backend_cache cache;
    struct stored stored;
    uint32_t index_group, index_layer;
    pool_cache(v->pool, g, layer, &cache);
    if (!step_chosen_by(v->step, g, layer, &index_group, &index_layer) &&
        stored_in_place(v->ops, v->device, &cache, pool_group_pages(v->pool, g), &stored))
        return check_samples(v, first, last, &cache, &stored, NULL, outputs, findings)
                   ? STATUS_OK
                   : status_set(text, STATUS_OUT_OF_MEMORY, "no host memory to verify");
    enum status status = STATUS_OK;
    for (uint64_t at = first, end = last; at < last && status == STATUS_OK; at = end) {
        for (end = at; end < last && samples[end].seq == samples[at].seq;)
            end++;
        status = find_of_seq(v, at, end, &cache, outputs, findings + (at - first), text);
    }
    return status;
}

/* All samples of one layer: [first, last) of v->samples. */
static enum status check_layer(struct verifier *v, uint64_t first, uint64_t last,
                               const float *outputs, struct status_text *text) {
    struct finding *findings = calloc(last - first, sizeof *findings);
    enum status status = findings != NULL
                             ? find(v, first, last, outputs, findings, text)
                             : status_set(text, STATUS_OUT_OF_MEMORY, "no host memory to verify");
    for (uint64_t i = first; status == STATUS_OK && i < last; i++) {
        const struct finding *found = &findings[i - first];
        v->pooled.k += found->pooled.k;
        v->pooled.v += found->pooled.v;
        v->pooled.both += found->pooled.both;
        v->pooled.exact += found->pooled.exact;
        if (found->kernel_error > v->result->kernel_error)
            v->result->kernel_error = found->kernel_error;
        if (found->codes == STATUS_WRONG)
            status = status_set(text, STATUS_WRONG,
                                "group %u layer %u sequence %u token %llu is not stored as its "
                                "format makes it of the row (query head %u reads it)",
                                v->samples[i].group, v->samples[i].layer, v->samples[i].seq,
                                (unsigned long long)found->token, v->samples[i].query_head);
        else if (!(found->kernel_error <= v->result->kernel_bound))
            status = status_set(text, STATUS_WRONG,
                                "kernel_error %.3g above the bound %.3g: group %u layer %u "
                                "sequence %u query head %u",
                                found->kernel_error, v->result->kernel_bound, v->samples[i].group,
                                v->samples[i].layer, v->samples[i].seq, v->samples[i].query_head);
    }
    free(findings);
    return status;
}

/* Values of one layer's outputs. */
uint64_t verify_output_values(const struct verifier *v, uint32_t g) {
    return (uint64_t)pool_seqs(v->pool) * pool_group(v->pool, g)->query_heads *
           pool_group_page(v->pool, g)->shape.v_dim;
}

float *verify_allocate_outputs(const struct verifier *v, uint32_t g, struct status_text *text) {
    const uint64_t count = verify_output_values(v, g);
    float *outputs = malloc(count * sizeof *outputs);
    if (outputs == NULL)
        (void)status_set(text, STATUS_OUT_OF_MEMORY, "no host memory for %llu outputs",
                         (unsigned long long)count);
    return outputs;
}

double verify_bound(const struct verifier *v, uint32_t g) {
    const struct page_shape *shape = &pool_group_page(v->pool, g)->shape;
    return reference_bound(step_group_kernel(v->step, g), shape->k_format, shape->v_format);
}

static enum status check_group(struct verifier *v, uint32_t g, uint64_t *next,
                               struct status_text *text) {
    const uint64_t count = verify_output_values(v, g);
    float *outputs = verify_allocate_outputs(v, g, text);
    if (outputs == NULL)
        return STATUS_OUT_OF_MEMORY;
    enum status status = STATUS_OK;
    v->result->kernel_bound = verify_bound(v, g);
    for (uint32_t layer = 0; layer < pool_group(v->pool, g)->layers && status == STATUS_OK;
         layer++) {
        if (interrupt_asked()) {
            status = status_set(text, STATUS_INTERRUPTED, "interrupted while verifying");
            break;
        }
        status = step_attend_layer(v->step, g, layer, outputs, text);
        if (status == STATUS_OK)
            status = check_finite(outputs, count, g, layer, text);
        const uint64_t first = *next;
        while (*next < v->sample_count && v->samples[*next].group == g &&
               v->samples[*next].layer == layer)
            ++*next;
        if (status == STATUS_OK && *next > first)
            status = check_layer(v, first, *next, outputs, text);
    }
    free(outputs);
    return status;
}

/* Index keys that no attention of this model asks for. */
static enum status check_unasked(const struct verifier *v, uint32_t g, struct status_text *text) {
    const uint32_t layers = pool_group(v->pool, g)->layers, seqs = pool_seqs(v->pool);
    enum status status = STATUS_OK;
    for (uint32_t layer = 0; layer < layers && status == STATUS_OK; layer++) {
        int32_t *selected = NULL;
        status = step_choose(v->step, g, layer, text);
        if (status == STATUS_OK)
            status = verify_choice(v, g, layer, layer % seqs, &selected, text);
        free(selected);
    }
    return status;
}

enum status verify_pool(const struct backend_ops *ops, struct backend_device *device,
                        struct pool *pool, struct step *step, uint64_t seed, uint64_t effort_values,
                        struct verify_result *out, struct status_text *text) {
    *out = (struct verify_result){0};
    struct verifier v = {.ops = ops,
                         .device = device,
                         .pool = pool,
                         .step = step,
                         .seed = seed,
                         .effort_values = effort_values,
                         .result = out};
    enum status status = draw_samples(&v, text);
    /* what a step writes is among what is looked at */
    if (status == STATUS_OK)
        status = step_append(step, text);
    uint64_t next = 0;
    for (uint32_t g = 0; g < pool_group_count(pool) && status == STATUS_OK; g++) {
        if (verify_outputs(pool, g) > 0)
            status = check_group(&v, g, &next, text);
        else if (pool_group_has_rows(pool, g))
            status = check_unasked(&v, g, text);
        if (status == STATUS_OK && pool_group_slots(pool, g) != NULL)
            status = verify_slots(&v, g, text);
    }
    if (status == STATUS_OK)
        status = verify_step(&v, text);
    v.checked_count += next;
    out->verified_fraction =
        v.output_count > 0 ? (double)v.checked_count / (double)v.output_count : 0;
    if (v.pooled.exact > 0) {
        out->k_error = sqrt(v.pooled.k / v.pooled.exact);
        out->v_error = sqrt(v.pooled.v / v.pooled.exact);
        out->format_error = sqrt(v.pooled.both / v.pooled.exact);
    }
    free(v.samples);
    return status;
}
