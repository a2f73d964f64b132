/* The only file that knows MPI. Errors inside MPI end all ranks (its default), so nothing here
 * fails once the ranks have found each other. */
#include <mpi.h>

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "ranks_parts.h"

/* Values of one call of MPI, whose counts are ints. */
#define RANKS_MOST_VALUES ((uint64_t)1 << 28)

const char *ranks_library(void) {
    static char name[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    if (name[0] == '\0')
        (void)MPI_Get_library_version(name, &length);
    name[strcspn(name, ",\n")] = '\0';
    return name;
}

static void find_machine(struct ranks *out) {
    MPI_Comm local;
    int rank = 0, count = 1;
    (void)MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, (int)out->rank, MPI_INFO_NULL,
                              &local);
    (void)MPI_Comm_rank(local, &rank);
    (void)MPI_Comm_size(local, &count);
    out->local_rank = (uint32_t)rank;
    out->local_count = (uint32_t)count;
    out->machine = out->rank;
    (void)MPI_Bcast(&out->machine, 1, MPI_UINT32_T, 0, local);
    (void)MPI_Comm_free(&local);
}

enum status ranks_start(uint32_t launched, struct ranks *out, struct status_text *text) {
    int threads = 0, rank = 0, count = 1;
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &threads) != MPI_SUCCESS)
        return status_set(text, STATUS_MISSING, "MPI does not start");
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    (void)MPI_Comm_size(MPI_COMM_WORLD, &count);
    if ((uint32_t)count != launched) {
        (void)MPI_Finalize();
        return status_set(text, STATUS_MISSING,
                          "%u processes were started together, and %s sees %d of them: start them "
                          "with its own mpirun, or with srun --mpi=pmix",
                          launched, ranks_library(), count);
    }
    out->rank = (uint32_t)rank;
    out->count = (uint32_t)count;
    find_machine(out);
    return STATUS_OK;
}

void ranks_close(const struct ranks *ranks) {
    if (ranks->count > 1)
        (void)MPI_Finalize();
}

void ranks_barrier(const struct ranks *ranks) {
    if (ranks->count > 1)
        (void)MPI_Barrier(MPI_COMM_WORLD);
}

void ranks_gather(const struct ranks *ranks, const void *mine, size_t bytes, void *all) {
    if (ranks->count == 1)
        memcpy(all, mine, bytes);
    else
        (void)MPI_Allgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, MPI_COMM_WORLD);
}

void ranks_broadcast(const struct ranks *ranks, uint32_t from, void *bytes, size_t count) {
    for (size_t done = 0; done < count && ranks->count > 1;) {
        const size_t piece =
            count - done < RANKS_MOST_VALUES ? count - done : (size_t)RANKS_MOST_VALUES;
        (void)MPI_Bcast((char *)bytes + done, (int)piece, MPI_BYTE, (int)from, MPI_COMM_WORLD);
        done += piece;
    }
}

void ranks_sum(const struct ranks *ranks, const float *values, float *sums, uint64_t count) {
    if (ranks->count == 1) {
        memcpy(sums, values, count * sizeof *sums);
        return;
    }
    for (uint64_t done = 0; done < count;) {
        const uint64_t piece = count - done < RANKS_MOST_VALUES ? count - done : RANKS_MOST_VALUES;
        (void)MPI_Allreduce(values + done, sums + done, (int)piece, MPI_FLOAT, MPI_SUM,
                            MPI_COMM_WORLD);
        done += piece;
    }
}
