/* --weights as memory that is really taken: allocated on the device and written once, as a model's
 * weights would lie beside the cache. */
#ifndef WEIGHTS_H
#define WEIGHTS_H

#include <stdbool.h>

#include "backend.h"
#include "memory.h"
#include "status.h"

/* `budget` is the whole one, weights not taken off. With bytes 0 nothing is done. `should_stop`
 * (may be NULL) is asked between pieces. On failure nothing is held; STATUS_OUT_OF_MEMORY names
 * --weights, its value and what there is. */
enum status weights_take(const struct backend_ops *ops, struct backend_device *device,
                         uint64_t bytes, const struct memory_budget *budget,
                         bool (*should_stop)(void), struct backend_memory *out,
                         struct status_text *text);

#endif
