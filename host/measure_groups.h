/* Where a step's time goes: every group of a model by itself, all its layers, appends and state
 * steps included, in a pass of its own behind the measurement of whole steps. Groups do not add up
 * to the step exactly: by themselves they find other things in the caches. */
#ifndef MEASURE_GROUPS_H
#define MEASURE_GROUPS_H

#include <stdint.h>

#include "backend.h"
#include "step.h"

/* ns[g]: the median of a few rounds over all groups, every second one backwards. */
enum status measure_groups(const struct backend_ops *ops, struct backend_device *device,
                           struct step *step, uint32_t group_count, double *ns,
                           struct status_text *text);

#endif
