/* The list of backends built into this program. */
#include "backend.h"

#include "cpu/cpu.h"

#include <string.h>

static const struct backend_ops *const backends[] = {&cpu_backend_ops, NULL};

const struct backend_ops *const *backend_list(void) {
    return backends;
}

const struct backend_ops *backend_find(const char *name) {
    for (const struct backend_ops *const *ops = backends; *ops != NULL; ops++)
        if (strcmp((*ops)->name, name) == 0)
            return *ops;
    return NULL;
}
