/* Which compilation of cpu_tile.c this processor runs. */
#include "cpu_tile.h"

#if defined(__aarch64__)
extern const struct cpu_tile_ops cpu_tile_neon;
#else
extern const struct cpu_tile_ops cpu_tile_generic;
#endif
#if defined(__x86_64__)
extern const struct cpu_tile_ops cpu_tile_avx2;
extern const struct cpu_tile_ops cpu_tile_avx512;
#endif

const struct cpu_tile_ops *cpu_tile_choose(void) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return &cpu_tile_avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return &cpu_tile_avx2;
#endif
#if defined(__aarch64__)
    return &cpu_tile_neon;
#else
    return &cpu_tile_generic;
#endif
}
