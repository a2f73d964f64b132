/* A build without MPI: one rank, and a plain word where several were started. */
#include <string.h>

#include "ranks_parts.h"

const char *ranks_library(void) {
    return "";
}

enum status ranks_start(uint32_t launched, struct ranks *out, struct status_text *text) {
    (void)out;
    return status_set(text, STATUS_MISSING,
                      "%u processes were started together, and this build has no MPI: install "
                      "libopenmpi-dev and openmpi-bin and build again with -DKVGAUGE_MPI=ON",
                      launched);
}

void ranks_close(const struct ranks *ranks) {
    (void)ranks;
}

void ranks_barrier(const struct ranks *ranks) {
    (void)ranks;
}

void ranks_gather(const struct ranks *ranks, const void *mine, size_t bytes, void *all) {
    (void)ranks;
    memcpy(all, mine, bytes);
}

void ranks_broadcast(const struct ranks *ranks, uint32_t from, void *bytes, size_t count) {
    (void)ranks;
    (void)from;
    (void)bytes;
    (void)count;
}

void ranks_sum(const struct ranks *ranks, const float *values, float *sums, uint64_t count) {
    (void)ranks;
    memcpy(sums, values, count * sizeof *sums);
}
