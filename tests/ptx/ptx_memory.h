/* The global memory that kernels may touch: what has been allocated here, and nothing else. */
#ifndef PTX_MEMORY_H
#define PTX_MEMORY_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* 0xFF, on 256 bytes; NULL: no memory, or 0 bytes asked. */
void *ptx_memory_allocate(uint64_t bytes, const char *what);
void ptx_memory_free(void *memory); /* NULL is fine */

#ifdef __cplusplus
}

/* Where the last address was found: most likely the next one is there too. */
struct ptx_memory_range {
    uint64_t start, bytes;
};
extern struct ptx_memory_range ptx_memory_last;
void ptx_memory_find(uint64_t address, uint32_t bytes, const char *what);

/* Throws ptx_failure unless the bytes lie in one allocation and are aligned to their number. */
inline void ptx_memory_check(uint64_t address, uint32_t bytes, const char *what) {
    const uint64_t offset = address - ptx_memory_last.start;
    if (offset >= ptx_memory_last.bytes || bytes > ptx_memory_last.bytes - offset ||
        address % bytes != 0)
        ptx_memory_find(address, bytes, what);
}
#endif
#endif
