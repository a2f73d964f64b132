/* The devices the suite runs on: one of every backend that opens. Those that do not are printed as
 * skipped. The two functions are a cmocka group's setup and teardown. */
#ifndef CONFORMANCE_DEVICES_H
#define CONFORMANCE_DEVICES_H

#include <stddef.h>

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

/* Grouped queries (a latent: 16 heads over one row), ragged lengths, pages of 16, no window. */
struct conformance_case conformance_plain(enum format_id format, uint32_t k_dim, uint32_t v_dim,
                                          bool latent);

#endif
