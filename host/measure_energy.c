/* Steps without a pause, and a look at the counters between bursts of them. */
#include "measure_energy.h"

#include "interrupt.h"
#include "progress.h"

#define ENERGY_LEAST_NS ((uint64_t)1000 * 1000 * 1000)
#define ENERGY_MOST_NS ((uint64_t)5 * 1000 * 1000 * 1000)
/* Work between two looks: long against a look, short against a second. */
#define ENERGY_BURST_NS ((uint64_t)40 * 1000 * 1000)
enum { ENERGY_MOST_BURST = 10000 };
/* No device that this program knows draws as much. */
#define ENERGY_MOST_W 10000.0

static void add_energy(struct measure_energy_meter *meter, const struct telemetry_sample *sample,
                       uint64_t now_ns, uint64_t steps, bool first) {
    if (!telemetry_knows(sample, TELEMETRY_ENERGY) ||
        (!first && sample->energy_uj < meter->last_uj))
        meter->broken = true;
    if (meter->broken)
        return;
    if (!first && sample->energy_uj > meter->last_uj) {
        if (meter->jumps++ == 0) {
            meter->from_uj = sample->energy_uj;
            meter->from_ns = now_ns;
            meter->from_steps = steps;
        }
        meter->to_uj = sample->energy_uj;
        meter->to_ns = now_ns;
        meter->to_steps = steps;
    }
    meter->last_uj = sample->energy_uj;
}

void measure_energy_meter_add(struct measure_energy_meter *meter,
                              const struct telemetry_sample *sample, uint64_t now_ns,
                              uint64_t steps) {
    const bool first = !meter->started;
    if (first)
        meter->start_ns = now_ns;
    meter->started = true;
    add_energy(meter, sample, now_ns, steps, first);
    if (telemetry_knows(sample, TELEMETRY_POWER) &&
        now_ns - meter->start_ns >= ENERGY_LEAST_NS / 2) {
        meter->power_sum_w += sample->power_w;
        meter->power_readings++;
    }
    meter->last_ns = now_ns;
    meter->steps = steps;
}

/* Jumps after the one that starts the count. */
static bool jumps_enough(const struct measure_energy_meter *meter) {
    return meter->jumps > MEASURE_ENERGY_LEAST_JUMPS;
}

bool measure_energy_meter_done(const struct measure_energy_meter *meter) {
    const uint64_t passed_ns = meter->last_ns - meter->start_ns;
    /* a counter that stood still for a second is none */
    const bool none = meter->broken || meter->jumps == 0;
    const bool enough =
        none ? meter->power_readings >= MEASURE_ENERGY_LEAST_READINGS : jumps_enough(meter);
    return passed_ns >= ENERGY_MOST_NS || (passed_ns >= ENERGY_LEAST_NS && enough);
}

static bool power_is_possible(double w) {
    return w > 0 && w <= ENERGY_MOST_W;
}

void measure_energy_meter_finish(const struct measure_energy_meter *meter,
                                 struct measure_energy *out) {
    if (!meter->broken && jumps_enough(meter) && meter->to_steps > meter->from_steps &&
        meter->to_ns > meter->from_ns) {
        const double j = (double)(meter->to_uj - meter->from_uj) * 1e-6;
        const double w = j * 1e9 / (double)(meter->to_ns - meter->from_ns);
        if (!power_is_possible(w))
            return; /* what counted so says nothing of the power either */
        out->has_power = out->has_energy = true;
        out->power_w = w;
        out->step_j = j / (double)(meter->to_steps - meter->from_steps);
        return;
    }
    if (meter->power_readings < MEASURE_ENERGY_LEAST_READINGS || meter->steps == 0)
        return;
    out->has_power = out->has_energy = true;
    out->power_w = meter->power_sum_w / meter->power_readings;
    out->step_j =
        out->power_w * (double)(meter->last_ns - meter->start_ns) * 1e-9 / (double)meter->steps;
}

static enum status run_steps(struct step *step, uint64_t count, struct status_text *text) {
    enum status status = STATUS_OK;
    for (uint64_t i = 0; i < count && status == STATUS_OK; i++) {
        status = step_append(step, text);
        if (status == STATUS_OK)
            status = step_attend(step, text);
    }
    return status;
}

/* Clocks go down in every pause: the fastest one seen is that of the work. */
static void see_busy(struct measure_energy *out, const struct telemetry_sample *now) {
    const double sm_mhz = out->busy.sm_clock_mhz, memory_mhz = out->busy.memory_clock_mhz;
    out->reasons |= now->reasons;
    out->busy = *now;
    if (telemetry_knows(now, TELEMETRY_SM_CLOCK) && sm_mhz > now->sm_clock_mhz)
        out->busy.sm_clock_mhz = sm_mhz;
    if (telemetry_knows(now, TELEMETRY_MEMORY_CLOCK) && memory_mhz > now->memory_clock_mhz)
        out->busy.memory_clock_mhz = memory_mhz;
}

/* How many steps make a burst; also the work that wakes the device up. */
static enum status size_burst(const struct backend_ops *ops, struct backend_device *device,
                              struct step *step, uint64_t *burst, struct status_text *text) {
    const uint64_t start_ns = progress_now_ns();
    enum status status = run_steps(step, 1, text);
    if (status == STATUS_OK)
        status = ops->synchronize(device, text);
    const uint64_t ns = progress_now_ns() - start_ns;
    *burst = ns > 0 ? ENERGY_BURST_NS / ns : ENERGY_MOST_BURST;
    *burst = *burst < 1 ? 1 : *burst > ENERGY_MOST_BURST ? ENERGY_MOST_BURST : *burst;
    return status;
}

enum status measure_energy_run(const struct backend_ops *ops, struct backend_device *device,
                               struct step *step, struct telemetry *telemetry,
                               struct measure_energy *out, struct status_text *text) {
    const uint32_t counters = telemetry_bit(TELEMETRY_ENERGY) | telemetry_bit(TELEMETRY_POWER);
    const uint32_t of_work =
        telemetry_bit(TELEMETRY_SM_CLOCK) | telemetry_bit(TELEMETRY_MEMORY_CLOCK) |
        telemetry_bit(TELEMETRY_CORE_CLOCKS) | telemetry_bit(TELEMETRY_TEMPERATURE) |
        telemetry_bit(TELEMETRY_POWER) | telemetry_bit(TELEMETRY_REASONS);
    *out = (struct measure_energy){0};
    struct telemetry_sample sample;
    telemetry_read(telemetry, counters, &sample);
    if (sample.known == 0)
        return STATUS_OK;
    uint64_t burst = 0, steps = 0;
    enum status status = size_burst(ops, device, step, &burst, text);
    struct measure_energy_meter meter = {0};
    telemetry_read(telemetry, telemetry_bit(TELEMETRY_ENERGY), &sample);
    measure_energy_meter_add(&meter, &sample, progress_now_ns(), 0);
    while (status == STATUS_OK && !measure_energy_meter_done(&meter)) {
        if (interrupt_asked())
            return status_set(text, STATUS_INTERRUPTED, "interrupted while measuring energy");
        status = run_steps(step, burst, text);
        /* a GPU works on them now; a CPU has done them */
        telemetry_read(telemetry, of_work, &sample);
        see_busy(out, &sample);
        struct telemetry_sample after;
        if (status == STATUS_OK)
            status = ops->synchronize(device, text);
        telemetry_read(telemetry, telemetry_bit(TELEMETRY_ENERGY), &after);
        after.power_w = sample.power_w;
        after.known |= sample.known & telemetry_bit(TELEMETRY_POWER);
        steps += burst;
        measure_energy_meter_add(&meter, &after, progress_now_ns(), steps);
    }
    if (status == STATUS_OK)
        measure_energy_meter_finish(&meter, out);
    return status;
}
