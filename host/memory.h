/* How much memory may be planned for, and where that number came from: what the backend says is
 * free (on the host MemAvailable of /proc/meminfo, or the cgroup's limit where it is lower; on a
 * GPU what cudaMemGetInfo says, or MemAvailable where it shares the host's memory) less a safety
 * margin. */
#ifndef MEMORY_H
#define MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "backend.h"
#include "status.h"

struct memory_budget {
    uint64_t free_bytes;   /* what the device says is free */
    uint64_t margin_bytes; /* kept back for others */
    uint64_t budget_bytes; /* what a plan may use */
    char source[192];      /* "MemAvailable 22.9 GiB less a margin of 1.0 GiB" or "--budget" */
};

/* asked_bytes: --budget, or 0 when not given. weights_bytes are taken off. */
void memory_budget_make(const struct backend_facts *facts, bool asked, uint64_t asked_bytes,
                        uint64_t weights_bytes, struct memory_budget *out);

/* What is left of a budget after taken_bytes of it were taken: never more than that, and less where
 * the device has less to give now. */
void memory_budget_left(const struct memory_budget *whole, const struct backend_facts *now,
                        uint64_t taken_bytes, struct memory_budget *out);

/* Resident bytes of [address, address + bytes) by mincore, in whole OS pages; false where the
 * system cannot tell. */
bool memory_resident_bytes(const void *address, uint64_t bytes, uint64_t *out);

#endif
