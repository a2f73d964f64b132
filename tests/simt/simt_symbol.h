/* From code addresses to lines of source, by addr2line, for messages. */
#ifndef SIMT_SYMBOL_H
#define SIMT_SYMBOL_H

#include <cstddef>
#include <cstdint>

/* Where a call that returns to `pc` stands, from the program's load address. */
uint32_t simt_symbol_offset(const void *pc);
/* "attend_mma.cuh:120": the innermost line that is a kernel's, not the shim's; "pc 0x..." where
 * there is no addr2line. */
void simt_symbol_place(uint32_t offset, char *out, size_t out_bytes);

#endif
