/* Decode attention by plain fp32 arithmetic over the reference codecs: every format, any dims, any
 * group size; slow. What the fast kernels are held against. */
#ifndef ATTEND_SIMPLE_H
#define ATTEND_SIMPLE_H

#include "attend_arguments.h"
#include "gpu.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { ATTEND_SIMPLE_THREADS = 128 };

/* The kernel and the shared memory it takes for these dims, 0 when none suffices: for occupancy. */
const void *gpu_attend_simple_entry(void);
uint32_t gpu_attend_simple_shared_bytes(const struct gpu_machine *machine, uint32_t k_dim,
                                        uint32_t v_dim);

/* Whole rows are finished, others left as partial results. head_chunks, tile_tokens and stages of
 * the arguments are not looked at. STATUS_REFUSED when one row does not fit shared memory. */
enum status gpu_attend_simple(const struct gpu_machine *machine,
                              const struct attend_arguments *arguments, struct status_text *text);

#ifdef __cplusplus
}
#endif
#endif
