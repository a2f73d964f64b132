/* What a table of kernels holds in a build for the interpreter: a kernel's name, to be found among
 * the entries of a PTX module. */
#ifndef PTX_ENTRY_H
#define PTX_ENTRY_H

#include <stdint.h>

struct ptx_entry {
    const char *spelling; /* ends in "kernel = NAME]" or, with clang, "kernel = &NAME]" */
    uint32_t arguments_bytes;
};

#endif
