/* One case's weights, between options, budget and weights_read. */
#include "run_weights.h"

#include <stdio.h>

#include "interrupt.h"

enum status run_weights_open(const struct backend_ops *ops, struct backend_device *device,
                             const char *kernel, const struct run_case_list *cases,
                             struct status_text *text) {
    if (ops->libraries_open == NULL)
        return STATUS_OK;
    enum status status = ops->libraries_open(device, kernel, BACKEND_WEIGHTS_NONE, text);
    for (size_t i = 0; i < cases->count && status == STATUS_OK; i++) {
        const struct options *one = cases->cases[i].options;
        enum backend_weights format;
        if (one->weights_read_bytes > 0 &&
            weights_read_format(ops, one->weights_format, &format, NULL) == STATUS_OK)
            status = ops->libraries_open(device, NULL, format, text);
    }
    return status;
}

enum status run_weights_plan(const struct backend_ops *ops, struct backend_device *device,
                             const struct options *given, const struct backend_facts *facts,
                             const struct run_case *one, struct weights_read_shape *shape,
                             struct status_text *text) {
    const struct options *options = one->options;
    enum backend_weights format;
    struct memory_budget whole;
    *shape = (struct weights_read_shape){0};
    if (options->weights_read_bytes == 0 || one->refused != STATUS_OK)
        return STATUS_OK;
    enum status status = weights_read_format(ops, options->weights_format, &format, text);
    if (status == STATUS_OK)
        status = weights_read_plan(&one->model, options->tp, options->weights_read_bytes, format,
                                   (uint32_t)one->seqs, ops->product_workspace_bytes(device), shape,
                                   text);
    if (status != STATUS_OK)
        return status;
    memory_budget_make(facts, given->budget_given, given->budget_bytes, 0, &whole);
    return weights_read_fits(shape, &whole, text);
}

bool run_weights_overtaken(const struct run_case *one, const struct options_format *format,
                           const struct weights_read_shape *shape, uint64_t *tokens) {
    struct options_format resolved;
    const struct formula_storage storage = run_case_storage(one, format, &resolved);
    *tokens = 0;
    return shape->read_bytes > 0 &&
           step_share_overtakes(&one->model, &storage, one->seqs, shape->read_bytes, tokens);
}

void run_weights_budget(const struct options *options, const struct backend_facts *facts,
                        const struct weights_read_shape *shape, struct memory_budget *out) {
    const uint64_t weights_bytes =
        options->weights_bytes > shape->total_bytes ? options->weights_bytes : shape->total_bytes;
    memory_budget_make(facts, options->budget_given, options->budget_bytes, weights_bytes, out);
}

enum status run_weights_take(const struct backend_ops *ops, struct backend_device *device,
                             const struct options *options, const struct backend_facts *facts,
                             struct result_weights *weights, struct weights_read **out,
                             struct status_text *text) {
    struct memory_budget whole;
    memory_budget_make(facts, options->budget_given, options->budget_bytes, 0, &whole);
    const enum status status =
        weights_read_create(ops, device, &weights->shape, options->seed, &whole, interrupt_asked,
                            out, &weights->error, text);
    if (status == STATUS_OK || status == STATUS_WRONG) {
        struct backend_facts now;
        ops->facts(device, &now);
        (void)snprintf(weights->library, sizeof weights->library, "%s", now.blas);
    }
    return status;
}
