/* What a device says of itself while it works: clocks, temperature, power, energy, why it is slower
 * than it could be, who else is on it. Of an NVIDIA GPU by NVML, where its library is; of a CPU by
 * what Linux shows without root. Every field is known or not, by itself; what is not known is never
 * 0. Nothing is ever set: NVML's init, shutdown and nvmlDeviceGet* are all that is called.
 * KVGAUGE_NVML in the environment names another library than libnvidia-ml.so.1 (for tests).
 * Leaves to its users when to look, and what follows from it. */
#ifndef TELEMETRY_H
#define TELEMETRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend.h"
#include "telemetry_sample.h"

struct telemetry; /* opaque */

/* NULL only when there is no memory. A device that nothing is known of is fine: every sample of it
 * is empty. An NVIDIA GPU is found by its PCI bus id (numbers differ with CUDA_VISIBLE_DEVICES). */
struct telemetry *telemetry_open(const struct backend_facts *facts);
void telemetry_close(struct telemetry *telemetry); /* NULL is fine */

/* "NVML (NVIDIA H100 80GB HBM3)", "Linux", "none: libnvidia-ml.so.1: cannot open ..."; never NULL.
 */
const char *telemetry_source(const struct telemetry *telemetry);

/* What is known now of the fields in `wanted` (telemetry_bit of each, or TELEMETRY_ALL); costs
 * nothing for the others. `telemetry` may be NULL: then nothing is. */
void telemetry_read(struct telemetry *telemetry, uint32_t wanted, struct telemetry_sample *out);

#endif
