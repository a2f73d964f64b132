/* A backend's product in f32 against sums of whole numbers, which fp32 holds exactly in whatever
 * order they are added: what test_weights_read and tests/cuda judge products by, apart from the
 * harness' own judge. */
#ifndef PRODUCT_EXACT_H
#define PRODUCT_EXACT_H

#include <stdint.h>
#include <stdlib.h>

#include "backend.h"

/* Multiplies [rows][cols] with [batch][cols] on a device whose library is open. Fails the test
 * where a call does, or where an output is another number. cols up to 200,000: 66 a term, 2^24 in
 * all. */
static inline void product_exact(const struct backend_ops *ops, struct backend_device *device,
                                 uint32_t batch, uint32_t rows, uint32_t cols) {
    enum { WEIGHTS, INPUTS, OUTPUTS, WORKSPACE, PARTS };
    const uint64_t values[PARTS] = {(uint64_t)rows * cols, (uint64_t)batch * cols,
                                    (uint64_t)batch * rows,
                                    ops->product_workspace_bytes(device) / sizeof(float)};
    struct backend_memory memory[PARTS] = {{0}};
    float *host[OUTPUTS + 1];
    struct status_text text = {""};
    enum status status = STATUS_OK;
    for (int part = 0; part < PARTS && status == STATUS_OK; part++)
        if (values[part] > 0)
            status = ops->memory_allocate(device, values[part] * sizeof(float), "a product",
                                          &memory[part], &text);
    for (int part = 0; part <= OUTPUTS; part++) {
        host[part] = malloc(values[part] * sizeof(float));
        assert_non_null(host[part]);
    }
    for (uint64_t i = 0; i < values[WEIGHTS]; i++)
        host[WEIGHTS][i] = (float)(i * 7 % 23) - 11;
    for (uint64_t i = 0; i < values[INPUTS]; i++)
        host[INPUTS][i] = (float)(i * 5 % 13) - 6;
    for (int part = 0; part < OUTPUTS && status == STATUS_OK; part++)
        status = ops->memory_write(device, memory[part].dev_address, host[part],
                                   values[part] * sizeof(float), &text);
    if (status == STATUS_OK)
        status = ops->memory_fill(device, memory[OUTPUTS].dev_address, 0xFF, memory[OUTPUTS].bytes,
                                  &text);
    const struct backend_product work = {.format = BACKEND_WEIGHTS_F32,
                                         .batch = batch,
                                         .rows = rows,
                                         .cols = cols,
                                         .dev_weights = memory[WEIGHTS].dev_address,
                                         .dev_inputs = memory[INPUTS].dev_address,
                                         .dev_outputs = memory[OUTPUTS].dev_address,
                                         .dev_workspace = memory[WORKSPACE].dev_address};
    if (status == STATUS_OK)
        status = ops->product(device, &work, &text);
    if (status == STATUS_OK)
        status =
            ops->memory_read(device, host[OUTPUTS], work.dev_outputs, memory[OUTPUTS].bytes, &text);
    if (status != STATUS_OK)
        fail_msg("%s", text.line);
    for (uint32_t b = 0; b < batch; b++)
        for (uint32_t r = 0; r < rows; r++) {
            float sum = 0;
            for (uint32_t c = 0; c < cols; c++)
                sum += host[WEIGHTS][(uint64_t)r * cols + c] * host[INPUTS][(uint64_t)b * cols + c];
            if (host[OUTPUTS][(uint64_t)b * rows + r] != sum)
                fail_msg("%u x %u x %u, sequence %u row %u: %g where %g is expected", batch, rows,
                         cols, b, r, (double)host[OUTPUTS][(uint64_t)b * rows + r], (double)sum);
        }
    for (int part = 0; part < PARTS; part++)
        ops->memory_free(device, &memory[part]);
    for (int part = 0; part <= OUTPUTS; part++)
        free(host[part]);
}

#endif
