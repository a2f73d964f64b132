/* Who was started, and agreement, on top of gathering and broadcasting. */
#include "ranks.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ranks_parts.h"

/* What launchers tell each process of a group. */
static const char *const launched_names[] = {
    "OMPI_COMM_WORLD_SIZE", /* Open MPI, PRRTE */
    "PMI_SIZE",             /* MPICH, Intel MPI; srun --mpi=pmi2 */
    "MV2_COMM_WORLD_SIZE",  /* MVAPICH */
};

static uint32_t number_of(const char *name) {
    const char *value = getenv(name);
    const unsigned long number = value != NULL ? strtoul(value, NULL, 10) : 0;
    return number < UINT32_MAX ? (uint32_t)number : 0;
}

uint32_t ranks_launched(void) {
    for (size_t i = 0; i < sizeof launched_names / sizeof launched_names[0]; i++)
        if (number_of(launched_names[i]) > 0)
            return number_of(launched_names[i]);
    /* SLURM_NTASKS is that of the whole job and stands in every shell of it; a step's tasks run
     * side by side, but what is typed into the shell of `srun --pty` is one program. */
    const uint32_t tasks = number_of("SLURM_STEP_NUM_TASKS");
    return tasks > 1 && getenv("SLURM_PTY_PORT") == NULL ? tasks : 1;
}

enum status ranks_open(struct ranks *out, struct status_text *text) {
    *out = (struct ranks){.count = 1, .local_count = 1};
    const uint32_t launched = ranks_launched();
    if (launched <= 1)
        return STATUS_OK;
    if (launched > RANKS_MOST)
        return status_set(text, STATUS_BAD_INPUT, "%u ranks were started; at most %d can be",
                          launched, RANKS_MOST);
    return ranks_start(launched, out, text);
}

/* A wrong answer weighs most, an interrupt least: it may have come because another failed. */
static int weight_of(uint8_t status) {
    return status == STATUS_OK            ? 0
           : status == STATUS_INTERRUPTED ? 1
           : status == STATUS_WRONG       ? 3
                                          : 2;
}

enum status ranks_agree(const struct ranks *ranks, enum status mine, struct status_text *text) {
    if (ranks->count == 1)
        return mine;
    uint8_t all[RANKS_MOST];
    const uint8_t own = (uint8_t)mine;
    ranks_gather(ranks, &own, sizeof own, all);
    uint32_t worst = 0;
    for (uint32_t r = 1; r < ranks->count; r++)
        if (weight_of(all[r]) > weight_of(all[worst]))
            worst = r;
    if (all[worst] == STATUS_OK)
        return STATUS_OK;
    struct status_text said = *text;
    ranks_broadcast(ranks, worst, said.line, sizeof said.line);
    const bool differs = mine != all[worst] || strcmp(said.line, text->line) != 0;
    if (ranks_any(ranks, differs))
        return status_set(text, all[worst], "rank %u: %s", worst, said.line);
    return all[worst];
}

bool ranks_any(const struct ranks *ranks, bool mine) {
    bool all[RANKS_MOST];
    ranks_gather(ranks, &mine, sizeof mine, all);
    bool any = false;
    for (uint32_t r = 0; r < ranks->count; r++)
        any = any || all[r];
    return any;
}

uint64_t ranks_least(const struct ranks *ranks, uint64_t mine) {
    uint64_t all[RANKS_MOST];
    ranks_gather(ranks, &mine, sizeof mine, all);
    uint64_t least = mine;
    for (uint32_t r = 0; r < ranks->count; r++)
        least = all[r] < least ? all[r] : least;
    return least;
}

bool ranks_same(const struct ranks *ranks, uint64_t mine) {
    uint64_t all[RANKS_MOST];
    ranks_gather(ranks, &mine, sizeof mine, all);
    bool same = true;
    for (uint32_t r = 0; r < ranks->count; r++)
        same = same && all[r] == all[0];
    return same;
}

struct cores {
    uint32_t machine;
    cpu_set_t set;
};

uint32_t ranks_threads(const struct ranks *ranks) {
    struct cores mine = {.machine = ranks->machine}, all[RANKS_MOST];
    if (sched_getaffinity(0, sizeof mine.set, &mine.set) != 0)
        CPU_ZERO(&mine.set);
    ranks_gather(ranks, &mine, sizeof mine, all);
    uint32_t sharers = 0;
    for (uint32_t r = 0; r < ranks->count; r++) {
        cpu_set_t both;
        CPU_AND(&both, &mine.set, &all[r].set);
        sharers += all[r].machine == mine.machine && CPU_COUNT(&both) > 0;
    }
    const uint32_t cores = (uint32_t)CPU_COUNT(&mine.set);
    return cores <= sharers || sharers == 0 ? 1 : cores / sharers;
}
