/* NVML, opened at run time: no header and no library of NVIDIA's is needed to build. Each call may
 * be missing, not supported or answer nonsense: then its fields are not known. */
#ifndef TELEMETRY_NVML_H
#define TELEMETRY_NVML_H

#include <stdint.h>

#include "status.h"
#include "telemetry_sample.h"

struct telemetry_nvml; /* opaque */

/* The device at this PCI bus id. NULL, and one line why, when the library, a call that nothing
 * works without, or the device is not there. `path` NULL: libnvidia-ml.so.1. */
struct telemetry_nvml *telemetry_nvml_open(const char *path, const char *pci_bus_id,
                                           struct status_text *text);
void telemetry_nvml_close(struct telemetry_nvml *nvml); /* NULL is fine */
/* The product's name as NVML has it; "" where it has none that can be printed. */
const char *telemetry_nvml_name(const struct telemetry_nvml *nvml);
/* Adds what is known of the wanted fields to *out. */
void telemetry_nvml_read(struct telemetry_nvml *nvml, uint32_t wanted,
                         struct telemetry_sample *out);

#endif
