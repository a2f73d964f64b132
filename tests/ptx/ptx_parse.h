/* From the text that nvcc -ptx writes to modules and kernels. */
#ifndef PTX_PARSE_H
#define PTX_PARSE_H

#include "ptx_program.h"

/* What is wrong throws ptx_failure, with line and text. `path` is for messages. */
std::unique_ptr<ptx_module> ptx_parse_module(std::string text, const std::string &path);
std::unique_ptr<ptx_kernel> ptx_parse_kernel(const ptx_module &module, const ptx_entry_text &entry);

/* An instruction as it stands in the text, in one line. */
std::string ptx_instruction_text(const ptx_kernel &kernel, const ptx_instruction &instruction);
/* "x.ptx:12", and the line of the kernel's source where the text has it: "x.ptx:12 (a.cuh:3 in
 * b.cuh:4)". */
std::string ptx_instruction_place(const ptx_kernel &kernel, const ptx_instruction &instruction);

#endif
