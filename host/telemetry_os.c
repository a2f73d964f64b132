/* Files of /sys and /proc, none of which has to be there. */
#include "telemetry_os.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "system_file.h"

#define CPU_FOLDER "/sys/devices/system/cpu"
#define HWMON_FOLDER "/sys/class/hwmon"
#define THERMAL_FOLDER "/sys/class/thermal"
#define POWERCAP_FOLDER "/sys/class/powercap"

enum {
    LEAST_CLOCK_KHZ = 10 * 1000,
    MOST_CLOCK_KHZ = 10 * 1000 * 1000,
    MOST_TEMPERATURE_MC = 150 * 1000,
    PATH_BYTES = TELEMETRY_OS_PATH_BYTES
};

static void know(struct telemetry_sample *out, enum telemetry_field field) {
    out->known |= telemetry_bit(field);
}

/* A file of one whole number, which "-40000" and "n/a" are not. */
static bool read_number(const char *path, uint64_t *out) {
    char line[64];
    if (!system_file_line(path, line, sizeof line) || isdigit((unsigned char)line[0]) == 0)
        return false;
    char *end;
    *out = strtoull(line, &end, 10);
    return *end == '\0';
}

/* ROOT FOLDER/NAME/FILE; false when it does not fit. */
static bool path_of(const struct telemetry_os *os, const char *folder, const char *name,
                    const char *file, char *out) {
    const int length = snprintf(out, PATH_BYTES, "%s%s/%s/%s", os->root, folder, name, file);
    return length > 0 && length < PATH_BYTES;
}

typedef void (*on_entry)(struct telemetry_os *os, const char *name, void *context);

/* Every entry of a folder whose name starts so, in no order; none when the folder is not there. */
static void each_entry(struct telemetry_os *os, const char *folder, const char *starts,
                       on_entry what, void *context) {
    char path[PATH_BYTES];
    (void)snprintf(path, sizeof path, "%s%s", os->root, folder);
    DIR *entries = opendir(path);
    if (entries == NULL)
        return;
    const struct dirent *entry;
    while ((entry = readdir(entries)) != NULL)
        if (strncmp(entry->d_name, starts, strlen(starts)) == 0)
            what(os, entry->d_name, context);
    (void)closedir(entries);
}

/* "cpu12" and not "cpufreq". */
static bool is_core(const char *name) {
    return isdigit((unsigned char)name[strlen("cpu")]) != 0;
}

static void on_core_clock(struct telemetry_os *os, const char *name, void *context) {
    struct telemetry_sample *out = context;
    char path[PATH_BYTES];
    uint64_t khz;
    if (!is_core(name) || !path_of(os, CPU_FOLDER, name, "cpufreq/scaling_cur_freq", path) ||
        !read_number(path, &khz) || khz < LEAST_CLOCK_KHZ || khz > MOST_CLOCK_KHZ)
        return;
    const double mhz = (double)khz * 1e-3;
    if (!telemetry_knows(out, TELEMETRY_CORE_CLOCKS) || mhz < out->core_clock_least_mhz)
        out->core_clock_least_mhz = mhz;
    if (mhz > out->core_clock_most_mhz)
        out->core_clock_most_mhz = mhz;
    know(out, TELEMETRY_CORE_CLOCKS);
}

/* Intel's counts of being too hot, of all cores and their packages. */
static void on_core_slowdown(struct telemetry_os *os, const char *name, void *context) {
    static const char *const files[] = {"thermal_throttle/core_throttle_count",
                                        "thermal_throttle/package_throttle_count"};
    struct telemetry_sample *out = context;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char path[PATH_BYTES];
        uint64_t count;
        if (!is_core(name) || !path_of(os, CPU_FOLDER, name, files[i], path) ||
            !read_number(path, &count))
            continue;
        out->slowdowns[TELEMETRY_THERMAL] += count;
        out->counted |= (uint32_t)1 << TELEMETRY_THERMAL;
        know(out, TELEMETRY_SLOWDOWNS);
    }
}

static bool good_temperature(const char *path, uint64_t *millidegrees) {
    return read_number(path, millidegrees) && *millidegrees > 0 &&
           *millidegrees <= MOST_TEMPERATURE_MC;
}

/* The hottest of several is what limits: packages each have a sensor. */
struct hottest {
    const char *folder, *kind, *value; /* the file that names a sensor, and its reading */
    const char *const *names;          /* NULL-terminated */
    uint64_t millidegrees;
};

static void on_sensor(struct telemetry_os *os, const char *name, void *context) {
    struct hottest *hottest = context;
    char path[PATH_BYTES], kind[64];
    uint64_t millidegrees;
    if (!path_of(os, hottest->folder, name, hottest->kind, path) ||
        !system_file_line(path, kind, sizeof kind))
        return;
    bool ours = false;
    for (const char *const *known = hottest->names; *known != NULL; known++)
        ours = ours || strncmp(kind, *known, strlen(*known)) == 0;
    if (!ours || !path_of(os, hottest->folder, name, hottest->value, path) ||
        !good_temperature(path, &millidegrees) || millidegrees <= hottest->millidegrees)
        return;
    hottest->millidegrees = millidegrees;
    (void)snprintf(os->temperature_path, sizeof os->temperature_path, "%s", path);
}

static void find_temperature(struct telemetry_os *os) {
    static const char *const chips[] = {"coretemp", "k10temp", "zenpower", "cpu_thermal", NULL};
    static const char *const zones[] = {"x86_pkg_temp", "cpu", "soc", NULL};
    struct hottest hottest = {HWMON_FOLDER, "name", "temp1_input", chips, 0};
    each_entry(os, HWMON_FOLDER, "hwmon", on_sensor, &hottest);
    if (os->temperature_path[0] != '\0')
        return;
    hottest = (struct hottest){THERMAL_FOLDER, "type", "temp", zones, 0};
    each_entry(os, THERMAL_FOLDER, "thermal_zone", on_sensor, &hottest);
}

/* A part of the energy is worse than none: a zone that is there and cannot be read ends it. */
static void on_zone(struct telemetry_os *os, const char *name, void *context) {
    bool *whole = context;
    char path[PATH_BYTES], kind[32];
    if (!path_of(os, POWERCAP_FOLDER, name, "name", path) ||
        !system_file_line(path, kind, sizeof kind))
        return;
    if (strncmp(kind, "package-", strlen("package-")) != 0 && strcmp(kind, "dram") != 0)
        return;
    if (os->zone_count == TELEMETRY_OS_ZONES) {
        *whole = false;
        return;
    }
    struct telemetry_os_zone zone = {0};
    *whole = path_of(os, POWERCAP_FOLDER, name, "max_energy_range_uj", path) &&
             read_number(path, &zone.range_uj) && zone.range_uj > 0 &&
             path_of(os, POWERCAP_FOLDER, name, "energy_uj", zone.path) &&
             read_number(zone.path, &zone.last_uj) && zone.last_uj <= zone.range_uj && *whole;
    os->zones[os->zone_count++] = zone;
}

void telemetry_os_open(const char *root, struct telemetry_os *out) {
    *out = (struct telemetry_os){0};
    (void)snprintf(out->root, sizeof out->root, "%s", root);
    find_temperature(out);
    bool whole = true;
    each_entry(out, POWERCAP_FOLDER, "intel-rapl:", on_zone, &whole);
    if (!whole)
        out->zone_count = 0;
}

static void read_energy(struct telemetry_os *os, struct telemetry_sample *out) {
    for (uint32_t i = 0; i < os->zone_count; i++) {
        struct telemetry_os_zone *zone = &os->zones[i];
        uint64_t now_uj;
        if (!read_number(zone->path, &now_uj) || now_uj > zone->range_uj) {
            os->zone_count = 0; /* what passes from here on would be missing */
            return;
        }
        const uint64_t wrapped_uj = now_uj < zone->last_uj ? zone->range_uj : 0;
        os->energy_uj += now_uj + wrapped_uj - zone->last_uj;
        zone->last_uj = now_uj;
    }
    if (os->zone_count == 0)
        return;
    out->energy_uj = os->energy_uj;
    know(out, TELEMETRY_ENERGY);
}

static void read_temperature(const struct telemetry_os *os, struct telemetry_sample *out) {
    uint64_t millidegrees;
    if (os->temperature_path[0] == '\0' || !good_temperature(os->temperature_path, &millidegrees))
        return;
    out->temperature_c = (double)millidegrees * 1e-3;
    know(out, TELEMETRY_TEMPERATURE);
}

/* Whole numbers with blanks between them; false unless there are so many. */
static bool read_numbers(const char *from, uint64_t *out, size_t count) {
    for (size_t i = 0; i < count; i++) {
        from += strspn(from, " ");
        char *end;
        if (isdigit((unsigned char)*from) == 0)
            return false;
        out[i] = strtoull(from, &end, 10);
        from = end;
    }
    return true;
}

/* "cpu  user nice system idle iowait irq softirq steal ...": guests are in user already. */
static bool read_all_ticks(const struct telemetry_os *os, uint64_t *all, uint64_t *busy) {
    enum { IDLE = 3, IOWAIT = 4, TIMES = 8 };
    char path[PATH_BYTES], line[512];
    uint64_t times[TIMES];
    (void)snprintf(path, sizeof path, "%s/proc/stat", os->root);
    if (!system_file_line(path, line, sizeof line) || strncmp(line, "cpu ", 4) != 0 ||
        !read_numbers(line + 4, times, TIMES))
        return false;
    *all = 0;
    for (size_t i = 0; i < TIMES; i++)
        *all += times[i];
    *busy = *all - times[IDLE] - times[IOWAIT];
    return true;
}

/* Fields 14 and 15, user and system; the second one is a name that may hold anything. */
static bool read_own_ticks(const struct telemetry_os *os, uint64_t *own) {
    char path[PATH_BYTES], line[1024];
    uint64_t times[2];
    (void)snprintf(path, sizeof path, "%s/proc/self/stat", os->root);
    if (!system_file_line(path, line, sizeof line))
        return false;
    const char *at = strrchr(line, ')');
    for (int field = 3; field <= 14 && at != NULL; field++)
        at = strchr(at + 1, ' ');
    if (at == NULL || !read_numbers(at, times, 2))
        return false;
    *own = times[0] + times[1];
    return true;
}

static void read_load(const struct telemetry_os *os, struct telemetry_sample *out) {
    uint64_t all, busy, own;
    if (!read_own_ticks(os, &own) || !read_all_ticks(os, &all, &busy) || busy < own)
        return;
    out->load_all_ticks = all;
    out->load_other_ticks = busy - own;
    know(out, TELEMETRY_LOAD);
}

void telemetry_os_read(struct telemetry_os *os, uint32_t wanted, struct telemetry_sample *out) {
    if ((wanted & telemetry_bit(TELEMETRY_CORE_CLOCKS)) != 0)
        each_entry(os, CPU_FOLDER, "cpu", on_core_clock, out);
    if ((wanted & telemetry_bit(TELEMETRY_SLOWDOWNS)) != 0)
        each_entry(os, CPU_FOLDER, "cpu", on_core_slowdown, out);
    if ((wanted & telemetry_bit(TELEMETRY_TEMPERATURE)) != 0)
        read_temperature(os, out);
    if ((wanted & telemetry_bit(TELEMETRY_ENERGY)) != 0)
        read_energy(os, out);
    if ((wanted & telemetry_bit(TELEMETRY_LOAD)) != 0)
        read_load(os, out);
}
