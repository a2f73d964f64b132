/* Private to the step: what step.c builds and step_bytes.c counts. */
#ifndef STEP_STATE_H
#define STEP_STATE_H

#include "step.h"

struct step_group {
    struct plan plan; /* host copy */
    struct backend_plan dev_plan;
    struct backend_memory plan_memory;
    struct backend_memory io_memory; /* queries, sinks, outputs */
    float *queries;                  /* [seqs][query_heads][k_dim] */
    float *sinks;                    /* [query_heads], or NULL */
    float *dev_queries;
    float *dev_sinks;
    float *dev_outputs;
    uint64_t output_bytes;
    float softmax_scale;
};

struct step {
    const struct backend_ops *ops;
    struct backend_device *device;
    struct pool *pool;
    const char *kernel;
    uint32_t group_count;
    struct step_group *groups;
    struct backend_memory workspace; /* the largest group's, shared by all */
    uint64_t plan_bytes;
    /* NULL where the backend records nothing */
    struct backend_recording *recorded_append, *recorded_attend;
};

#endif
