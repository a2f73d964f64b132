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

/* Throws ptx_failure unless the bytes lie in one allocation and are aligned to their number. */
void ptx_memory_check(uint64_t address, uint32_t bytes, const char *what);
#endif
#endif
