/* Rounds over the groups of one step. */
#include "measure_groups.h"

#include "interrupt.h"
#include "measure.h"
#include "model.h"

enum { GROUPS_ROUNDS = 5, GROUPS_MARK_START = 0, GROUPS_MARK_END = 1 };

static enum status time_group(const struct backend_ops *ops, struct backend_device *device,
                              struct step *step, uint32_t g, uint64_t *ns,
                              struct status_text *text) {
    enum status status = ops->mark(device, GROUPS_MARK_START, text);
    if (status == STATUS_OK)
        status = step_group_run(step, g, text);
    if (status == STATUS_OK)
        status = ops->mark(device, GROUPS_MARK_END, text);
    if (status == STATUS_OK)
        status = ops->synchronize(device, text);
    if (status != STATUS_OK)
        return status;
    *ns = ops->elapsed_ns(device, GROUPS_MARK_START, GROUPS_MARK_END);
    *ns = measure_is_time(*ns) ? *ns : 0; /* one of several: the median is another's */
    return STATUS_OK;
}

enum status measure_groups(const struct backend_ops *ops, struct backend_device *device,
                           struct step *step, uint32_t group_count, double *ns,
                           struct status_text *text) {
    uint64_t samples[MODEL_MAX_GROUPS][GROUPS_ROUNDS + 1];
    enum status status = STATUS_OK;
    /* round 0 is not counted: a device that records does so then */
    for (uint32_t round = 0; round <= GROUPS_ROUNDS; round++)
        for (uint32_t i = 0; i < group_count && status == STATUS_OK; i++) {
            const uint32_t g = round % 2 == 0 ? i : group_count - 1 - i;
            status = interrupt_asked()
                         ? status_set(text, STATUS_INTERRUPTED, "interrupted while measuring")
                         : time_group(ops, device, step, g, &samples[g][round], text);
        }
    for (uint32_t g = 0; g < group_count && status == STATUS_OK; g++) {
        struct writer_summary summary;
        status = measure_summarise(samples[g] + 1, GROUPS_ROUNDS, &summary, text);
        ns[g] = summary.median;
    }
    return status;
}
