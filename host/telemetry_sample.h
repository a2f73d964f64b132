/* One look at a device: which figures, in which units, and their words. Knows nothing of where they
 * come from. */
#ifndef TELEMETRY_SAMPLE_H
#define TELEMETRY_SAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum telemetry_field {
    TELEMETRY_SM_CLOCK,
    TELEMETRY_MEMORY_CLOCK,
    TELEMETRY_CORE_CLOCKS, /* a CPU's, the slowest and the fastest core */
    TELEMETRY_TEMPERATURE,
    TELEMETRY_POWER,
    TELEMETRY_ENERGY,
    TELEMETRY_REASONS,         /* why clocks are lower than they could be, at this moment */
    TELEMETRY_SLOWDOWNS,       /* the same, counted since long ago: for differences */
    TELEMETRY_OTHER_PROCESSES, /* on the GPU, this one not among them */
    TELEMETRY_OTHER_BYTES,
    TELEMETRY_OWN_BYTES,
    TELEMETRY_LOAD, /* of a CPU, this process's own apart: for differences */
    TELEMETRY_FIELDS
};
enum { TELEMETRY_ALL = (1 << TELEMETRY_FIELDS) - 1 };
static inline uint32_t telemetry_bit(enum telemetry_field field) {
    return (uint32_t)1 << field;
}

/* Reasons for a clock that is lower than it could be, as bits. Those before TELEMETRY_SYNC_BOOST
 * slow a device down below what it was set to. */
enum telemetry_reason {
    TELEMETRY_POWER_CAP,
    TELEMETRY_HARDWARE_SLOWDOWN,
    TELEMETRY_THERMAL, /* which kind is not told */
    TELEMETRY_SOFTWARE_THERMAL,
    TELEMETRY_HARDWARE_THERMAL,
    TELEMETRY_POWER_BRAKE,
    TELEMETRY_BOARD_LIMIT,
    TELEMETRY_SYNC_BOOST,
    TELEMETRY_APPLICATION_CLOCKS,
    TELEMETRY_DISPLAY_CLOCKS,
    TELEMETRY_OTHER_REASON, /* a bit that had no name when this was written */
    TELEMETRY_REASON_COUNT
};
enum { TELEMETRY_THROTTLED = (1 << TELEMETRY_SYNC_BOOST) - 1 };
const char *telemetry_reason_name(enum telemetry_reason reason); /* "power cap" */

struct telemetry_sample {
    uint32_t known; /* telemetry_bit of each; what is not known is 0 below */
    double sm_clock_mhz;
    double memory_clock_mhz;
    double core_clock_least_mhz;
    double core_clock_most_mhz;
    double temperature_c;
    double power_w;
    uint64_t energy_uj;                         /* since some moment before this program started */
    uint32_t reasons;                           /* bits of enum telemetry_reason; idle is none */
    uint32_t counted;                           /* with SLOWDOWNS: which reasons are counted in: */
    uint64_t slowdowns[TELEMETRY_REASON_COUNT]; /* any unit; more than before: it happened */
    uint64_t other_processes;
    uint64_t other_bytes;
    uint64_t own_bytes;
    uint64_t load_all_ticks;   /* processor time that passed on all cores */
    uint64_t load_other_ticks; /* of it, in use by others */
};

static inline bool telemetry_knows(const struct telemetry_sample *sample,
                                   enum telemetry_field field) {
    return (sample->known & telemetry_bit(field)) != 0;
}

/* Reasons of which `after` counted more than `before`; 0 where either does not count. */
uint32_t telemetry_slowdowns(const struct telemetry_sample *before,
                             const struct telemetry_sample *after);
/* The share of all cores' time, 0..1, that others used in between. False: not known, or too short.
 */
bool telemetry_other_load(const struct telemetry_sample *before,
                          const struct telemetry_sample *after, double *share);

/* Comma separated: "power cap, sync boost"; "none". */
void telemetry_reasons_words(uint32_t reasons, char *out, size_t bytes);
/* "SM clock", "temperature" ... */
const char *telemetry_field_name(enum telemetry_field field);
/* "1980 MHz", "55 C", "2 (1.20 GiB)"; "" for what is not known and for what differences are for. */
void telemetry_field_words(const struct telemetry_sample *sample, enum telemetry_field field,
                           char *out, size_t bytes);

#endif
