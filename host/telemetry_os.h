/* What Linux shows of a CPU without root, as files below a root folder ("" on a machine; tests give
 * a made-up tree). Each is there or not, by itself:
 * - clocks: cpufreq/scaling_cur_freq of every core below /sys/devices/system/cpu;
 * - temperature: the hottest first sensor of coretemp, k10temp, zenpower, cpu_thermal below
 *   /sys/class/hwmon, else a thermal zone of the package or the cpu;
 * - energy: package and dram zones of /sys/class/powercap/intel-rapl:N (root's alone on many
 *   machines: then not known);
 * - slowdowns: the thermal_throttle counts of the cores;
 * - load: /proc/stat less /proc/self/stat. */
#ifndef TELEMETRY_OS_H
#define TELEMETRY_OS_H

#include <stdbool.h>
#include <stdint.h>

#include "telemetry_sample.h"

enum { TELEMETRY_OS_PATH_BYTES = 512, TELEMETRY_OS_ZONES = 32 };

/* One energy counter: wraps past range_uj. */
struct telemetry_os_zone {
    char path[TELEMETRY_OS_PATH_BYTES];
    uint64_t range_uj;
    uint64_t last_uj;
};

struct telemetry_os {
    char root[TELEMETRY_OS_PATH_BYTES / 4];
    char temperature_path[TELEMETRY_OS_PATH_BYTES]; /* a file of millidegrees; "" without any */
    struct telemetry_os_zone zones[TELEMETRY_OS_ZONES];
    uint32_t zone_count; /* 0: energy is not known */
    uint64_t energy_uj;  /* of all zones since open */
};

void telemetry_os_open(const char *root, struct telemetry_os *out);
/* Adds what is known of the wanted fields to *out. Energy counts across one wrap between two reads:
 * they may not be further apart than a counter takes to come round (minutes). */
void telemetry_os_read(struct telemetry_os *os, uint32_t wanted, struct telemetry_sample *out);

#endif
