/* The words of kernels/gpu/gpu_lang.cuh for a build that needs the kernels' host side alone: what
 * tests/simt makes of them, except that kernels are read and never emitted, and that GPU_ENTRY is a
 * kernel's name, by which the interpreter finds what nvcc made of it. */
#ifndef PTX_KERNEL_HOST_H
#define PTX_KERNEL_HOST_H

#include "../../simt/simt_lang.h"

#include "ptx_entry.h"

#undef GPU_KERNEL
/* gnu_inline: a body to inline and nothing else, so that no object code comes of it. */
#define GPU_KERNEL(threads, blocks) extern inline __attribute__((gnu_inline)) void
#undef GPU_ENTRY
#define GPU_ENTRY(arguments, ...) (static_cast<const void *>(&ptx_entry_of<arguments, __VA_ARGS__>))

template <class Arguments, void (*kernel)(Arguments)> constexpr const char *ptx_entry_spelling() {
    return __PRETTY_FUNCTION__;
}
template <class Arguments, void (*kernel)(Arguments)>
inline constexpr ptx_entry ptx_entry_of = {ptx_entry_spelling<Arguments, kernel>(),
                                           sizeof(Arguments)};

#endif
