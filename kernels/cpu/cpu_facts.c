/* What the machine says about itself: /proc and /sys, with nothing assumed where they are silent.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu_device.h"
#include "system_file.h"

uint32_t cpu_usable_threads(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 1;
    const int count = CPU_COUNT(&set);
    return count > 0 ? (uint32_t)count : 1;
}

/* "32768K", "32M". */
static uint64_t parse_cache_size(const char *text) {
    char *end;
    const unsigned long long number = strtoull(text, &end, 10);
    return *end == 'K' ? number << 10 : *end == 'M' ? number << 20 : number;
}

uint64_t cpu_sysfs_llc_bytes(void) {
    uint64_t largest = 0;
    for (int index = 0; index < 8; index++) {
        char path[96], line[64];
        (void)snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", index);
        if (!system_file_line(path, line, sizeof line))
            break;
        const uint64_t bytes = parse_cache_size(line);
        largest = bytes > largest ? bytes : largest;
    }
    return largest;
}

/* The value of "key   : value" or "Key: value kB" in a /proc file. */
static bool read_key(const char *path, const char *key, char *out, size_t bytes) {
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return false;
    char line[512];
    bool found = false;
    while (!found && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, key, strlen(key)) != 0)
            continue;
        const char *value = strchr(line, ':');
        if (value == NULL)
            continue;
        value += 1 + strspn(value + 1, " \t");
        (void)snprintf(out, bytes, "%.*s", (int)strcspn(value, "\n"), value);
        found = true;
    }
    (void)fclose(file);
    return found;
}

static uint64_t read_kib(const char *key) {
    char value[64];
    if (!read_key("/proc/meminfo", key, value, sizeof value))
        return 0;
    return strtoull(value, NULL, 10) * 1024;
}

/* cgroup v2: what the group may still take; UINT64_MAX without a limit. */
static uint64_t cgroup_free_bytes(void) {
    char limit[64], used[64];
    if (!system_file_line("/sys/fs/cgroup/memory.max", limit, sizeof limit) ||
        !system_file_line("/sys/fs/cgroup/memory.current", used, sizeof used) ||
        strcmp(limit, "max") == 0)
        return UINT64_MAX;
    const uint64_t limit_bytes = strtoull(limit, NULL, 10);
    const uint64_t used_bytes = strtoull(used, NULL, 10);
    return limit_bytes > used_bytes ? limit_bytes - used_bytes : 0;
}

static void read_name(char *out, size_t bytes) {
    if (read_key("/proc/cpuinfo", "model name", out, bytes))
        return;
    char implementer[32], part[32];
    if (read_key("/proc/cpuinfo", "CPU implementer", implementer, sizeof implementer) &&
        read_key("/proc/cpuinfo", "CPU part", part, sizeof part))
        (void)snprintf(out, bytes, "CPU implementer %s part %s", implementer, part);
    else
        (void)snprintf(out, bytes, "unnamed CPU");
}

void cpu_facts(struct backend_device *device, struct backend_facts *out) {
    *out = (struct backend_facts){.backend = "cpu",
                                  .compute_units = cpu_usable_threads(),
                                  .threads = device->threads,
                                  .llc_bytes = device->llc_bytes,
                                  .llc_by_sweep = !device->llc_told};
    read_name(out->device, sizeof out->device);
    (void)snprintf(out->llc_source, sizeof out->llc_source, "%s",
                   device->llc_told        ? "--llc"
                   : device->llc_bytes > 0 ? "largest cache of cpu0 in sysfs"
                                           : "not known: sysfs lists no cache");
    (void)snprintf(out->instruction_set, sizeof out->instruction_set, "%s", device->tile->name);
    (void)snprintf(out->blas, sizeof out->blas, "%s", device->blas.name);
    out->memory_total_bytes = read_kib("MemTotal");
    out->memory_free_bytes = read_kib("MemAvailable");
    const uint64_t cgroup = cgroup_free_bytes();
    if (cgroup < out->memory_free_bytes) {
        out->memory_free_bytes = cgroup;
        (void)snprintf(out->memory_source, sizeof out->memory_source,
                       "cgroup memory.max less memory.current");
    } else {
        (void)snprintf(out->memory_source, sizeof out->memory_source, "MemAvailable");
    }
}
