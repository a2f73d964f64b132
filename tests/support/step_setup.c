/* The set-up of tests of steps. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "step_setup.h"

const struct backend_ops *cpu;
struct backend_device *device;

int step_setup_open(void **state) {
    (void)state;
    cpu = backend_find("cpu");
    return cpu != NULL &&
                   cpu->open(&(struct backend_options){.threads = 2}, &device, NULL) == STATUS_OK
               ? 0
               : -1;
}

int step_setup_close(void **state) {
    (void)state;
    cpu->close(device);
    device = NULL;
    return 0;
}

struct pool *step_setup_pool(const struct backend_ops *ops, const struct pool_request *request) {
    struct pool *pool = NULL;
    struct status_text text = {{0}};
    if (pool_create(ops, device, request, NULL, &pool, &text) != STATUS_OK ||
        pool_fill(pool, NULL, &text) != STATUS_OK)
        fail_msg("%s", text.line);
    return pool;
}

struct step *step_setup_step(const struct backend_ops *ops, struct pool *pool, uint64_t seed,
                             enum options_data data) {
    struct step *step = NULL;
    struct status_text text = {{0}};
    if (step_create(ops, device, pool, NULL, seed, data, &step, &text) != STATUS_OK)
        fail_msg("%s", text.line);
    return step;
}
