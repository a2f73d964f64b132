/* --weights-read in one case of a run: what it amounts to, the memory it is given and what is left
 * of it for pools. What the weights are and do is weights_read.h's. */
#ifndef RUN_WEIGHTS_H
#define RUN_WEIGHTS_H

#include "memory.h"
#include "result.h"
#include "run_case.h"
#include "weights_read.h"

/* Opens the libraries that the cases, or `kernel` (NULL: the default), call for: before memory is
 * planned, since libraries take some. STATUS_MISSING: one is not here. A format that is not
 * multiplied is the rows' matter. */
enum status run_weights_open(const struct backend_ops *ops, struct backend_device *device,
                             const char *kernel, const struct run_case_list *cases,
                             struct status_text *text);
/* shape->read_bytes stays 0 where none are read. `given` is the command line. Fails as
 * weights_read_format, _plan and _fits do. */
enum status run_weights_plan(const struct backend_ops *ops, struct backend_device *device,
                             const struct options *given, const struct backend_facts *facts,
                             const struct run_case *one, struct weights_read_shape *shape,
                             struct status_text *text);
/* From how many tokens on a cache in this format is read more than they are; false: it never is, or
 * none are read. */
bool run_weights_overtaken(const struct run_case *one, const struct options_format *format,
                           const struct weights_read_shape *shape, uint64_t *tokens);
/* What is left for pools: what is read is part of --weights, as far as those go. */
void run_weights_budget(const struct options *options, const struct backend_facts *facts,
                        const struct weights_read_shape *shape, struct memory_budget *out);
/* Takes and checks them. weights->library and ->error are set where products were computed, wrong
 * ones too. Fails as weights_read_create does. */
enum status run_weights_take(const struct backend_ops *ops, struct backend_device *device,
                             const struct options *options, const struct backend_facts *facts,
                             struct result_weights *weights, struct weights_read **out,
                             struct status_text *text);

#endif
