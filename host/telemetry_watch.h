/* The circumstances of one measurement: looks at the device before, behind and while it works, and
 * says what a row should know of it. */
#ifndef TELEMETRY_WATCH_H
#define TELEMETRY_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "backend.h"
#include "measure_energy.h"
#include "status.h"
#include "step.h"
#include "telemetry.h"

/* A clock that ends below 95 % of where it began makes a row throttled. */
enum { TELEMETRY_WATCH_FALL_PERCENT = 5 };

struct telemetry_watch {
    struct telemetry *telemetry;
    struct telemetry_sample before, after;
    double counted_before_mhz, counted_after_mhz; /* by the device itself; 0: not known */
    uint32_t reasons;                             /* seen by telemetry_watch_look */
    uint64_t next_look_ns;                        /* by progress_now_ns */
};

/* What the columns of a row say. Empty or false: not known. */
struct telemetry_summary {
    char clocks[192]; /* "sm 1980 MHz, memory 2619 MHz, sm counted 1978 to 1975 MHz" */
    bool has_temperature;
    double temperature_c;
    bool has_other_processes;
    uint64_t other_processes;
    bool has_other_bytes;
    uint64_t other_bytes;
    bool has_other_load;
    double other_load_percent;
    bool has_reasons; /* somebody would tell */
    const char *reasons[TELEMETRY_REASON_COUNT];
    uint32_t reason_count;
    char throttled[256]; /* a sentence; "": it was not, as far as anybody tells */
};

/* Where the device counts its own clock, a fifth of a second of `step` wakes it up first: an idle
 * GPU is slow. `telemetry` may be NULL; it is used until the watch ends. */
enum status telemetry_watch_begin(const struct backend_ops *ops, struct backend_device *device,
                                  struct step *step, struct telemetry *telemetry,
                                  struct telemetry_watch *out, struct status_text *text);
/* For measure_limits.look: `watch` is a struct telemetry_watch. Asks for the throttle reasons,
 * twice a second at most however often it is called: one that is over before the end is on the row
 * then, on a device that does not count them, too. */
void telemetry_watch_look(void *watch);
/* Right behind the last timed step. */
enum status telemetry_watch_end(const struct backend_ops *ops, struct backend_device *device,
                                struct telemetry_watch *watch, struct status_text *text);
/* With what was seen while one contender worked alone (all zero: nothing was). */
void telemetry_watch_summary(const struct telemetry_watch *watch,
                             const struct measure_energy *energy, struct telemetry_summary *out);

#endif
