/* What the runner does differently when several ranks run a case together: memory they share, the
 * points where they wait for each other. With one rank nothing. */
#ifndef RUNNER_RANKS_H
#define RUNNER_RANKS_H

#include "measure.h"
#include "memory.h"
#include "ranks.h"

/* As memory_budget_make, after all ranks gave back what they had: ranks on one machine's memory
 * have equal parts of what is free, and all go by the smallest budget, so that all cut the same
 * batches. --budget is each rank's. */
void runner_ranks_budget(const struct ranks *ranks, const struct backend_ops *ops,
                         struct backend_device *device, const struct options *options,
                         struct memory_budget *out);

/* The ranks as a team that samples together; `ranks` must outlive it. */
struct measure_team runner_ranks_team(const struct ranks *ranks);

#endif
