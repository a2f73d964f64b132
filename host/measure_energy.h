/* What a decode step of one pool takes in energy: a pass of its own behind the measurement, because
 * formats alternate there sample by sample. KV work alone: appends, states, scores, attention. */
#ifndef MEASURE_ENERGY_H
#define MEASURE_ENERGY_H

#include <stdbool.h>
#include <stdint.h>

#include "backend.h"
#include "status.h"
#include "step.h"
#include "telemetry.h"

enum {
    /* A counter of energy goes up in jumps, ten times a second on some GPUs: so many of them at
     * least make a figure. */
    MEASURE_ENERGY_LEAST_JUMPS = 10,
    MEASURE_ENERGY_LEAST_READINGS = 4 /* of the power, where nothing counts energy */
};

struct measure_energy {
    bool has_power;
    double power_w; /* mean: by the energy counter, else by readings of the power */
    bool has_energy;
    double step_j; /* one decode step of all sequences */
    /* the fastest clocks, and the last of everything else, seen while the device worked */
    struct telemetry_sample busy;
    uint32_t reasons; /* all that were seen while it worked */
};

/* Makes energy and power of readings between steps. Zeroed at the start. */
struct measure_energy_meter {
    uint64_t start_ns; /* of the first reading */
    bool started;
    /* energy, between the first jump seen and the last one */
    bool broken; /* a reading failed, or was lower than the one before */
    uint32_t jumps;
    uint64_t last_uj;
    uint64_t from_uj, from_ns, from_steps;
    uint64_t to_uj, to_ns, to_steps;
    /* power, of the pass's second half: what a device shows is a mean over up to a second */
    double power_sum_w;
    uint32_t power_readings;
    uint64_t steps, last_ns; /* of all readings */
};

/* One reading at now_ns (monotonic), `steps` steps after the start. */
void measure_energy_meter_add(struct measure_energy_meter *meter,
                              const struct telemetry_sample *sample, uint64_t now_ns,
                              uint64_t steps);
/* The pass may end: about a second; until there are jumps enough, five. */
bool measure_energy_meter_done(const struct measure_energy_meter *meter);
/* Sets power and energy of *out, where they are known; leaves the rest alone. */
void measure_energy_meter_finish(const struct measure_energy_meter *meter,
                                 struct measure_energy *out);

/* Runs steps for about a second where energy or power is known; at once, with nothing known,
 * elsewhere. */
enum status measure_energy_run(const struct backend_ops *ops, struct backend_device *device,
                               struct step *step, struct telemetry *telemetry,
                               struct measure_energy *out, struct status_text *text);

#endif
