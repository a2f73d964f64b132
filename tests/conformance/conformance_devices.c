/* Opens one device of every backend, once per program, and knows what the environment asks of the
 * suite. */
#include "conformance_devices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct conformance_device conformance_devices[CONFORMANCE_MAX_DEVICES];
size_t conformance_devices_count;

/* CONFORMANCE_BACKEND: a test build's own backend, alone, instead of those that are built in. */
static const struct backend_ops *const *all_backends(void) {
#ifdef CONFORMANCE_BACKEND
    extern const struct backend_ops CONFORMANCE_BACKEND;
    static const struct backend_ops *const alone[] = {&CONFORMANCE_BACKEND, NULL};
    return alone;
#else
    return backend_list();
#endif
}

int conformance_devices_open(void **state) {
    (void)state;
    for (const struct backend_ops *const *ops = all_backends(); *ops != NULL; ops++) {
        struct status_text text = {{0}};
        struct backend_device *device;
        if ((*ops)->open(&(struct backend_options){0}, &device, &text) != STATUS_OK) {
            (void)printf("skipped: backend %s: %s\n", (*ops)->name, text.line);
            continue;
        }
        if (conformance_devices_count == CONFORMANCE_MAX_DEVICES)
            return -1;
        conformance_devices[conformance_devices_count++] =
            (struct conformance_device){*ops, device};
    }
    return conformance_devices_count > 0 ? 0 : -1;
}

int conformance_devices_close(void **state) {
    (void)state;
    for (size_t b = 0; b < conformance_devices_count; b++)
        conformance_devices[b].ops->close(conformance_devices[b].device);
    return 0;
}

size_t conformance_told(const char *variable, size_t otherwise) {
    const char *told = getenv(variable);
    return told != NULL ? (size_t)strtoul(told, NULL, 10) : otherwise;
}

bool conformance_is_named(const char *variable, const char *name) {
    const char *list = getenv(variable);
    const size_t length = strlen(name);
    for (const char *at = list; at != NULL && *at != '\0'; at += strcspn(at, ",")) {
        at += *at == ',';
        if (strncmp(at, name, length) == 0 && (at[length] == ',' || at[length] == '\0'))
            return true;
    }
    return list == NULL;
}

bool conformance_has_format(uint32_t format) {
    return conformance_is_named("KVGAUGE_CONFORMANCE_FORMATS",
                                format_get((enum format_id)format)->name);
}

bool conformance_has_dims(uint32_t k_dim, uint32_t v_dim) {
    char name[32];
    (void)snprintf(name, sizeof name, "%u/%u", k_dim, v_dim);
    return conformance_is_named("KVGAUGE_CONFORMANCE_DIMS", name);
}

struct conformance_case conformance_plain(enum format_id format, uint32_t k_dim, uint32_t v_dim,
                                          bool latent) {
    return (struct conformance_case){.k_format = format,
                                     .v_format = format,
                                     .k_dim = k_dim,
                                     .v_dim = v_dim,
                                     .v_in_k = latent,
                                     .kv_heads = latent ? 1 : 2,
                                     .group_size = latent ? 16 : 4,
                                     .page_tokens = 16,
                                     .lengths = CONFORMANCE_RAGGED,
                                     .tile_tokens = 64,
                                     .workers = 3};
}
