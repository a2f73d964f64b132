/* A whole step against its layers one by one, and the state it leaves against double precision. */
#include "verify_parts.h"

#include <math.h>
#include <stdlib.h>

/* What a whole step leaves of one group, against that layer attended by itself. */
static enum status check_left(struct verifier *v, uint32_t g, const float *left,
                              struct status_text *text) {
    const uint32_t v_dim = pool_group_page(v->pool, g)->shape.v_dim;
    float *alone = verify_allocate_outputs(v, g, text);
    if (alone == NULL)
        return STATUS_OUT_OF_MEMORY;
    const uint32_t layer = step_last_layer(v->step, g);
    enum status status = step_attend_layer(v->step, g, layer, alone, text);
    for (uint64_t at = 0; at < verify_output_values(v, g) && status == STATUS_OK; at += v_dim) {
        double difference = 0, length = 0;
        for (uint64_t i = at; i < at + v_dim; i++) {
            const double apart = (double)left[i] - (double)alone[i];
            difference += apart * apart;
            length += (double)alone[i] * (double)alone[i];
        }
        if (!(sqrt(difference) <= verify_bound(v, g) * sqrt(length)))
            status = status_set(text, STATUS_WRONG,
                                "a whole step leaves other outputs than its last layer by itself: "
                                "group %u layer %u output %llu",
                                g, layer, (unsigned long long)(at / v_dim));
    }
    free(alone);
    return status;
}

/* The state of one sequence in the last layer of each group, before a whole step. */
static enum status take_states(struct verifier *v, struct verify_state *before,
                               struct status_text *text) {
    enum status status = STATUS_OK;
    for (uint32_t g = 0; g < pool_group_count(v->pool) && status == STATUS_OK; g++)
        if (pool_group_slots(v->pool, g) != NULL)
            status = verify_state_take(v, g, pool_group(v->pool, g)->layers - 1,
                                       pool_seqs(v->pool) - 1, &before[g], text);
    return status;
}

static enum status check_state_left(struct verifier *v, const struct verify_state *before,
                                    struct status_text *text) {
    const struct backend_state_shape *shape = &pool_group_slots(v->pool, before->group)->shape;
    const uint64_t count = (uint64_t)shape->heads * shape->rows;
    float *outputs = malloc((count + shape->conv_channels + 1) * sizeof *outputs);
    if (outputs == NULL)
        return status_set(text, STATUS_OUT_OF_MEMORY, "no host memory to verify a state");
    enum status status =
        step_slots_read(v->step, before->group, before->seq, outputs, outputs + count, text);
    if (status == STATUS_OK)
        status = verify_state_check(v, before, outputs, outputs + count, text);
    free(outputs);
    return status;
}

/* A step is measured as a whole, and where the device records it as a recording: it must do what
 * its layers did one by one. */
enum status verify_step(struct verifier *v, struct status_text *text) {
    const uint32_t groups = pool_group_count(v->pool);
    float *left[MODEL_MAX_GROUPS] = {0};
    struct verify_state before[MODEL_MAX_GROUPS] = {0};
    enum status status = take_states(v, before, text);
    for (uint32_t g = 0; g < groups && status == STATUS_OK; g++) {
        if (verify_outputs(v->pool, g) == 0)
            continue;
        left[g] = verify_allocate_outputs(v, g, text);
        status = left[g] != NULL ? STATUS_OK : STATUS_OUT_OF_MEMORY;
    }
    if (status == STATUS_OK)
        status = step_run(v->step, left, text);
    for (uint32_t g = 0; g < groups && status == STATUS_OK; g++) {
        if (before[g].values != NULL)
            status = check_state_left(v, &before[g], text);
        if (status == STATUS_OK && left[g] != NULL)
            status = check_left(v, g, left[g], text);
    }
    for (uint32_t g = 0; g < MODEL_MAX_GROUPS; g++) {
        free(left[g]);
        verify_state_free(&before[g]);
    }
    return status;
}
