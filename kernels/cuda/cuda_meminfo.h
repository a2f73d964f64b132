/* How much of the host's memory a GPU that shares it may take. There cudaMemGetInfo's free is about
 * MemFree and leaves out the page cache, which the system gives back when asked. Plain C without
 * CUDA, so that every build tests it. */
#ifndef CUDA_MEMINFO_H
#define CUDA_MEMINFO_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct cuda_meminfo {
    uint64_t total_bytes;     /* MemTotal */
    uint64_t available_bytes; /* what may be taken, nothing kept back yet */
    bool huge_pages;          /* available is HugePages_Free x Hugepagesize, not MemAvailable */
};

/* Reads `path` (/proc/meminfo). With huge pages reserved (HugePages_Total > 0) the driver takes its
 * memory from them: NVIDIA's rule for integrated GPUs (DGX Spark, known issues). Swap is never
 * counted: what is swapped out cannot be measured. False, with zeros, when the file cannot be read
 * or a key that is needed is missing, is no number, or is larger than MemTotal. */
bool cuda_meminfo_read(const char *path, struct cuda_meminfo *out);

/* Kept for the rest of the machine whatever is asked, because taking all of it can hang such a
 * machine: a thirty-second of its memory. Plans keep more (host/memory.h); this is what stands when
 * others took memory after the plan was made. */
uint64_t cuda_meminfo_floor_bytes(const struct cuda_meminfo *info);

#ifdef __cplusplus
}
#endif
#endif
