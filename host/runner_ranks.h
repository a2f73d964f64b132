/* What the runner does differently when several ranks run a case together: memory they share, the
 * points where they wait for each other. With one rank nothing. */
#ifndef RUNNER_RANKS_H
#define RUNNER_RANKS_H

#include "measure.h"
#include "memory.h"
#include "ranks.h"

/* The device's facts after all ranks gave back what they had: ranks on one machine's memory have
 * equal parts of what is free. */
void runner_ranks_facts(const struct ranks *ranks, const struct backend_ops *ops,
                        struct backend_device *device, struct backend_facts *out);
/* All go by the smallest budget, so that all cut the same batches; nobody allocates before all have
 * looked. --budget is each rank's. */
void runner_ranks_least(const struct ranks *ranks, struct memory_budget *budget);

/* The ranks as a team that samples together; `ranks` must outlive it. */
struct measure_team runner_ranks_team(const struct ranks *ranks);

#endif
