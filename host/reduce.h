/* The sum over ranks that ends attention in a tensor-parallel layer. In a real step every rank has
 * a part of the output projection's result, [seqs][hidden size], and the parts are added up in
 * every layer. A model here is its cache and has no hidden size; summed in its place are [seqs]
 * rows of fp32 as long as the attention output of all ranks: query heads x v_dim, and for
 * recurrent state heads x rows, once per layer that reads the group. Where K serves as V too
 * (latents, entries) a head's values are taken to be 128 wide, as DeepSeek-V3's are; layers of
 * compressed entries are counted with the windows they have beside them. One buffer of known values
 * stands for all layers. */
#ifndef REDUCE_H
#define REDUCE_H

#include "backend.h"
#include "model.h"
#include "ranks.h"
#include "status.h"

struct reduce; /* opaque */

/* What one rank gives to the sums of one step. */
uint64_t reduce_bytes(const struct model *whole, uint64_t seqs);

/* Allocates the buffer on the device and what MPI needs in host memory, sums once and looks at
 * every value: STATUS_WRONG when the ranks' sum is not what it must be. All ranks call it
 * together, and all get the same status. *out is NULL when it fails. */
enum status reduce_create(const struct backend_ops *ops, struct backend_device *device,
                          const struct ranks *ranks, const struct model *whole, uint64_t seqs,
                          struct reduce **out, struct status_text *text);
void reduce_destroy(struct reduce *reduce); /* NULL is fine */

/* The sums of one step; struct measure_work's `run`, with the reduce as its context. Where the host
 * cannot reach the device's memory, values go through host memory and back: the MPI that is there
 * is not asked whether it knows devices. */
enum status reduce_run(void *reduce, struct status_text *text);

#endif
