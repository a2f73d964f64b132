/* Processes that measure one tensor-parallel model together, one device each: how many were
 * started, who this one is, and the few things they have to agree on. Only ranks_mpi.c knows MPI;
 * a build without it has ranks_none.c. Every function but ranks_library and ranks_launched must be
 * called by all ranks in the same order; with one rank it does nothing that takes time. An error
 * inside MPI ends all ranks. */
#ifndef RANKS_H
#define RANKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "status.h"

enum { RANKS_MOST = 64 };

struct ranks {
    uint32_t count;                   /* 1: alone */
    uint32_t rank;                    /* rank 0 writes, the others are silent */
    uint32_t local_count, local_rank; /* of those on the same machine */
    uint32_t machine;                 /* the lowest rank that runs there */
};

/* "Open MPI 4.1.4", or "" in a build without MPI. */
const char *ranks_library(void);

/* MPI is started only where a launcher (mpirun, srun) started several processes; a plain program
 * is one rank at once. STATUS_MISSING: several were started, and this build has no MPI or one that
 * does not see them. `out` is always safe to use and to close. */
enum status ranks_open(struct ranks *out, struct status_text *text);
void ranks_close(const struct ranks *ranks);

/* How many processes the launcher says it started together; 1 without one. */
uint32_t ranks_launched(void);

/* Where ranks may have come to different ends: all leave with the status of one, the worst, and
 * with its text, in front of which stands "rank N: " unless all say the same. */
enum status ranks_agree(const struct ranks *ranks, enum status mine, struct status_text *text);
bool ranks_any(const struct ranks *ranks, bool mine);
uint64_t ranks_least(const struct ranks *ranks, uint64_t mine);
bool ranks_same(const struct ranks *ranks, uint64_t mine); /* as on every other rank */

void ranks_barrier(const struct ranks *ranks);
/* all: [count][bytes], on every rank. */
void ranks_gather(const struct ranks *ranks, const void *mine, size_t bytes, void *all);
void ranks_broadcast(const struct ranks *ranks, uint32_t from, void *bytes, size_t count);
/* sums[i] = the sum over ranks of values[i]. */
void ranks_sum(const struct ranks *ranks, const float *values, float *sums, uint64_t count);

/* Threads for a rank on the cpu backend: the cores it may use, shared with the ranks of its
 * machine that may use some of the same. */
uint32_t ranks_threads(const struct ranks *ranks);

#endif
