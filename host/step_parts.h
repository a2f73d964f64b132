/* Private to the step: what step.c puts together. step_attend.c does attention, step_index.c the
 * choice of what sparse attention reads, step_slots.c recurrent state; step_bytes.c counts. */
#ifndef STEP_PARTS_H
#define STEP_PARTS_H

#include "model_reads.h"
#include "step.h"

/* How the rows of one group are cut: all of them, or those that an index chose. */
struct step_plan {
    struct plan plan; /* host copy; zeroed: no layer reads so */
    struct backend_plan dev_plan;
    struct backend_memory memory;
};

struct step_attention {
    struct step_plan all, chosen;
    uint32_t index; /* the group that chooses, or MODEL_READS_NONE */
    const char *kernel;
    struct backend_memory io_memory; /* queries, sinks, outputs */
    float *queries;                  /* [seqs][query_heads][k_dim] */
    float *sinks;                    /* [query_heads], or NULL */
    float *dev_queries;
    float *dev_sinks;
    float *dev_outputs;
    uint64_t output_bytes;
    float softmax_scale;
};

struct step_index {
    uint32_t heads, top_k;
    uint64_t score_stride, longest;
    struct backend_memory memory;
    float *queries; /* [seqs][heads][key_dim] */
    float *weights; /* [seqs][heads] */
    float *dev_queries;
    float *dev_weights;
    float *dev_scores;     /* [seqs][score_stride] */
    int32_t *dev_selected; /* [seqs][top_k] */
};

struct step_slots {
    struct backend_state_step work; /* without the layer's own addresses */
    struct step_slots_inputs inputs;
    struct backend_memory memory;
};

struct step_group {
    struct step_attention attention; /* zeroed where the group has none; likewise the others */
    struct step_index index;
    struct step_slots slots;
    struct backend_recording *recorded; /* step_group_run; NULL until asked for */
};

struct step {
    const struct backend_ops *ops;
    struct backend_device *device;
    struct pool *pool;
    const char *asked_kernel; /* NULL: the first that can, group by group */
    char kernel[64];          /* what that came to */
    char remark[256];         /* why it is not the backend's default everywhere; "" if it is */
    uint32_t group_count;
    struct step_group *groups;
    struct backend_memory workspace; /* the largest group's, shared by all */
    uint64_t plan_bytes;
    uint64_t index_bytes; /* scores and choices */
    /* NULL where the backend records nothing */
    struct backend_recording *recorded_append, *recorded_attend;
};

/* Inputs of a step come from another stream than what the pool holds. */
#define STEP_INPUTS ((uint64_t)0x5354455053544550u)

static inline uint64_t step_align_up(uint64_t bytes) {
    return (bytes + PAGE_ALIGNMENT_BYTES - 1) / PAGE_ALIGNMENT_BYTES * PAGE_ALIGNMENT_BYTES;
}

/* Whether the rows of `group` are attended. */
static inline bool step_attends(const struct step *step, uint32_t group) {
    return model_reads_attends(pool_group(step->pool, group)->kind);
}

/* *workspace_bytes grows to what the group's kernel needs. */
enum status step_attend_create(struct step *step, uint32_t group, uint64_t seed,
                               enum options_data data, uint64_t *workspace_bytes,
                               struct status_text *text);
void step_attend_destroy(struct step *step, uint32_t group);
/* The work of one reader, and its start on the device; the index has chosen before. */
void step_attend_describe(const struct step *step, uint32_t group, uint32_t reader,
                          struct backend_attend *out);
enum status step_attend_give(const struct step *step, uint32_t group, uint32_t reader,
                             struct status_text *text);
/* The last reader of an owner layer: what its outputs hold after a step. */
uint32_t step_attend_reader(const struct step *step, uint32_t group, uint32_t layer);

enum status step_index_create(struct step *step, uint32_t group, uint64_t seed,
                              enum options_data data, struct status_text *text);
void step_index_destroy(struct step *step, uint32_t group);
void step_index_describe(const struct step *step, uint32_t group, uint32_t layer,
                         struct backend_index_score *out);
/* Whether a step scores this layer: a reader rests on its choice, or no group on the index at all.
 */
bool step_index_is_asked(const struct step *step, uint32_t group, uint32_t layer);
/* Scores one layer's keys and chooses among them. */
enum status step_index_give(const struct step *step, uint32_t group, uint32_t layer,
                            struct status_text *text);

enum status step_slots_create(struct step *step, uint32_t group, uint64_t seed,
                              struct status_text *text);
void step_slots_destroy(struct step *step, uint32_t group);
enum status step_slots_give(const struct step *step, uint32_t group, uint32_t layer,
                            struct status_text *text);

#endif
