/* The devices the suite runs on: one of every backend that opens. Those that do not are printed as
 * skipped. The two functions are a cmocka group's setup and teardown. */
#ifndef CONFORMANCE_DEVICES_H
#define CONFORMANCE_DEVICES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "conformance.h"

struct conformance_device {
    const struct backend_ops *ops;
    struct backend_device *device;
};

enum { CONFORMANCE_MAX_DEVICES = 4 };
extern struct conformance_device conformance_devices[CONFORMANCE_MAX_DEVICES];
extern size_t conformance_devices_count;

int conformance_devices_open(void **state); /* fails when no backend opens */
int conformance_devices_close(void **state);

/* A number from the environment, or the other. */
size_t conformance_told(const char *variable, size_t otherwise);
/* Whether a list with commas in the environment has that name; where there is no list, it has all.
 */
bool conformance_is_named(const char *variable, const char *name);
/* KVGAUGE_CONFORMANCE_FORMATS and KVGAUGE_CONFORMANCE_DIMS (128/128, ...) */
bool conformance_has_format(uint32_t format);
bool conformance_has_dims(uint32_t k_dim, uint32_t v_dim);

/* Grouped queries (a latent: 16 heads over one row), ragged lengths, pages of 16, no window. */
struct conformance_case conformance_plain(enum format_id format, uint32_t k_dim, uint32_t v_dim,
                                          bool latent);

#endif
