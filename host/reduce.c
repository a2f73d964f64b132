/* The buffers, the sums, and whether they are right. */
#include "reduce.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model_reads.h"

/* A head's values where the cache keeps one row for K and V. */
enum { REDUCE_SHARED_V_DIM = 128 };

struct reduce {
    const struct backend_ops *ops;
    struct backend_device *device;
    const struct ranks *ranks;
    uint32_t group_count;
    uint32_t layers[MODEL_MAX_GROUPS];
    uint64_t group_values[MODEL_MAX_GROUPS]; /* of one layer */
    uint64_t most_values;
    struct backend_memory memory;
    float *dev_values; /* [most_values], and behind them the sums where they are copied there */
    float *dev_sums;
    float *values; /* [most_values], host: what the device has, where the host does not reach it */
    float *sums;   /* [most_values] */
};

/* Layers of a group whose outputs are summed. Compressed entries are attended together with the
 * window of the same layer. */
static uint32_t summed_layers(const struct model *whole, uint32_t g) {
    const struct model_group *group = &whole->groups[g];
    bool beside_window = false;
    for (uint32_t other = 0; other < whole->group_count; other++)
        beside_window = beside_window || whole->groups[other].kind == MODEL_WINDOW;
    if (group->kind == MODEL_COMPRESSED && beside_window)
        return 0;
    return model_reads_attends(group->kind) || group->kind == MODEL_STATE ? group->read_by_layers
                                                                          : 0;
}

/* What one of them puts out for a sequence, all ranks together. */
static uint64_t output_values(const struct model_group *group) {
    if (group->kind == MODEL_STATE)
        return (uint64_t)group->heads * group->state_rows;
    return (uint64_t)group->query_heads * (group->v_dim > 0 ? group->v_dim : REDUCE_SHARED_V_DIM);
}

uint64_t reduce_bytes(const struct model *whole, uint64_t seqs) {
    uint64_t values = 0;
    for (uint32_t g = 0; g < whole->group_count; g++)
        values += output_values(&whole->groups[g]) * summed_layers(whole, g);
    return values * seqs * sizeof(float);
}

/* Small whole numbers, so that any order of adding gives the same sum. */
static float known_value(uint64_t at, uint32_t rank) {
    return (float)(at % 251 + 1) * (float)(rank + 1);
}

static enum status allocate(struct reduce *reduce, struct status_text *text) {
    const struct backend_ops *ops = reduce->ops;
    const uint64_t bytes = reduce->most_values * sizeof(float);
    enum status status = ops->memory_allocate(
        reduce->device, 2 * bytes, "outputs to sum over the ranks", &reduce->memory, text);
    if (status != STATUS_OK)
        return status;
    reduce->dev_values = reduce->memory.dev_address;
    reduce->dev_sums = reduce->dev_values + reduce->most_values;
    reduce->values = malloc(bytes);
    reduce->sums = malloc(bytes);
    if (reduce->values == NULL || reduce->sums == NULL)
        return status_set(text, STATUS_OUT_OF_MEMORY, "no host memory for the sum over the ranks");
    for (uint64_t i = 0; i < reduce->most_values; i++) {
        reduce->values[i] = known_value(i, reduce->ranks->rank);
        reduce->sums[i] = NAN;
    }
    return ops->memory_write(reduce->device, reduce->dev_values, reduce->values, bytes, text);
}

static enum status sum_layer(struct reduce *reduce, uint64_t values, struct status_text *text) {
    const struct backend_ops *ops = reduce->ops;
    const float *host_values =
        ops->memory_host != NULL ? ops->memory_host(reduce->device, reduce->dev_values) : NULL;
    const bool copied = host_values == NULL;
    enum status status = STATUS_OK;
    if (copied)
        status = ops->memory_read(reduce->device, reduce->values, reduce->dev_values,
                                  values * sizeof(float), text);
    /* Also after a failure: the others wait in it. */
    ranks_sum(reduce->ranks, copied ? reduce->values : host_values, reduce->sums, values);
    if (copied && status == STATUS_OK)
        status = ops->memory_write(reduce->device, reduce->dev_sums, reduce->sums,
                                   values * sizeof(float), text);
    return status;
}

enum status reduce_run(void *context, struct status_text *text) {
    struct reduce *reduce = context;
    /* What ran before may still be at work on the device. */
    enum status status = reduce->ops->synchronize(reduce->device, text);
    for (uint32_t g = 0; g < reduce->group_count; g++)
        for (uint32_t layer = 0; layer < reduce->layers[g]; layer++) {
            struct status_text why = {""};
            const enum status summed = sum_layer(reduce, reduce->group_values[g], &why);
            if (summed != STATUS_OK && status == STATUS_OK)
                status = status_set(text, summed, "%s", why.line);
        }
    return status;
}

/* The sums of the longest layer, as every rank has them after reduce_run. */
static enum status check_sums(const struct reduce *reduce, struct status_text *text) {
    const uint32_t count = reduce->ranks->count;
    const float ranks_sum_up_to = (float)count * (float)(count + 1) / 2;
    for (uint64_t i = 0; i < reduce->most_values; i++) {
        const float right = known_value(i, 0) * ranks_sum_up_to;
        if (reduce->sums[i] != right)
            return status_set(text, STATUS_WRONG,
                              "the sum over %u ranks is wrong: value %llu is %g and must be %g",
                              count, (unsigned long long)i, (double)reduce->sums[i], (double)right);
    }
    return STATUS_OK;
}

enum status reduce_create(const struct backend_ops *ops, struct backend_device *device,
                          const struct ranks *ranks, const struct model *whole, uint64_t seqs,
                          struct reduce **out, struct status_text *text) {
    *out = NULL;
    struct reduce *reduce = calloc(1, sizeof *reduce);
    enum status status = STATUS_OK;
    if (reduce == NULL)
        status =
            status_set(text, STATUS_OUT_OF_MEMORY, "no host memory for the sum over the ranks");
    else {
        *reduce = (struct reduce){
            .ops = ops, .device = device, .ranks = ranks, .group_count = whole->group_count};
        for (uint32_t g = 0; g < whole->group_count; g++) {
            reduce->layers[g] = summed_layers(whole, g);
            reduce->group_values[g] = seqs * output_values(&whole->groups[g]);
            if (reduce->layers[g] > 0 && reduce->group_values[g] > reduce->most_values)
                reduce->most_values = reduce->group_values[g];
        }
        reduce->most_values = reduce->most_values > 0 ? reduce->most_values : 1;
        status = allocate(reduce, text);
    }
    status = ranks_agree(ranks, status, text);
    if (status == STATUS_OK) {
        status = reduce_run(reduce, text);
        if (status == STATUS_OK)
            status = check_sums(reduce, text);
        status = ranks_agree(ranks, status, text);
    }
    if (status == STATUS_OK)
        *out = reduce;
    else
        reduce_destroy(reduce);
    return status;
}

void reduce_destroy(struct reduce *reduce) {
    if (reduce == NULL)
        return;
    reduce->ops->memory_free(reduce->device, &reduce->memory);
    free(reduce->values);
    free(reduce->sums);
    free(reduce);
}
