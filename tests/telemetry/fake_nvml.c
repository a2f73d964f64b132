/* A library in the place of NVML, with one device at bus id 0000:41:00.0. KVGAUGE_FAKE_NVML says
 * how it answers: good (or nothing)  every figure as below, energy 1 J more at each call
 *   unsupported        every call says so
 *   nonsense           figures that no device has, strings without an end, lists longer than asked
 *   endless_name       the name fills its place and has no end
 *   init_fails, lost   the library does not start; the device is gone after it was found
 *   grows, endless     the list of processes is longer at every call; never fits
 *   stranger           this process is not in the list
 *   alone, part        nobody else; the device is one part of several
 *   backwards          energy gets less
 *   hot                slowed down, more at every look
 *   short              slowed down, uncounted, where nobody asks for clocks before the reasons: at
 *                      neither end of a measurement, only in between
 *   old                calls of drivers before R535 alone (with FAKE_NVML_OLD)
 * With FAKE_NVML_OLD it has what NVML had in 2021; with FAKE_NVML_BARE only what nothing works
 * without; with FAKE_NVML_EMPTY not even that. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SUCCESS = 0, NOT_SUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7, NO_DRIVER = 9, LOST = 15 };
#define GIB ((unsigned long long)1 << 30)

struct process {
    unsigned pid;
    unsigned long long used_bytes;
    unsigned gpu_instance, compute_instance;
};
struct violation {
    unsigned long long reference_us, violation_ns;
};

int nvmlInit_v2(void);
int nvmlShutdown(void);
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, void **device);
int nvmlDeviceGetName(void *device, char *out, unsigned bytes);
int nvmlDeviceGetClockInfo(void *device, int which, unsigned *mhz);
int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *celsius);
int nvmlDeviceGetPowerUsage(void *device, unsigned *mw);
int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *mj);
int nvmlDeviceGetCurrentClocksEventReasons(void *device, unsigned long long *bits);
int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *bits);
int nvmlDeviceGetViolationStatus(void *device, int policy, struct violation *out);
int nvmlDeviceGetMigMode(void *device, unsigned *now, unsigned *pending);
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, struct process *out);
int nvmlDeviceGetComputeRunningProcesses_v2(void *device, unsigned *count, struct process *out);
int nvmlDeviceGetGraphicsRunningProcesses_v3(void *device, unsigned *count, struct process *out);
int fake_nvml_no_symbol(void);

#ifdef FAKE_NVML_EMPTY

int fake_nvml_no_symbol(void) {
    return 0;
}

#else

static int the_device;
static unsigned long long energy_mj, slowed_ns;
static unsigned lists;
static int asked_clocks;

static int is(const char *mood) {
    const char *told = getenv("KVGAUGE_FAKE_NVML");
    return told != NULL && strcmp(told, mood) == 0;
}
int nvmlInit_v2(void) {
    energy_mj = 5000000;
    slowed_ns = lists = 0;
    asked_clocks = 0;
    return is("init_fails") ? NO_DRIVER : SUCCESS;
}

int nvmlShutdown(void) {
    return SUCCESS;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, void **device) {
    if (strcmp(bus_id, "0000:41:00.0") != 0)
        return NOT_FOUND;
    *device = &the_device;
    return SUCCESS;
}

#ifndef FAKE_NVML_BARE

/* What every call about the device starts with. */
static int state_of(const void *device) {
    return device != &the_device ? NOT_FOUND
           : is("unsupported")   ? NOT_SUPPORTED
           : is("lost")          ? LOST
                                 : SUCCESS;
}

int nvmlDeviceGetName(void *device, char *out, unsigned bytes) {
    static const char name[] = "Fake GPU of NVML";
    memset(out, 'A', bytes);
    if (state_of(device) == SUCCESS && !is("nonsense") && !is("endless_name"))
        memcpy(out, name, sizeof name);
    if (is("nonsense"))
        out[7] = '\x1b';
    return state_of(device);
}

int nvmlDeviceGetClockInfo(void *device, int which, unsigned *mhz) {
    asked_clocks = 1;
    *mhz = which == 1 ? 1980 : which == 2 ? 2619 : 1;
    if (is("nonsense"))
        *mhz = which == 1 ? 0 : 4000000000u;
    return state_of(device);
}

int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *celsius) {
    *celsius = is("nonsense") ? 4000000000u : sensor == 0 ? 55 : 1;
    return state_of(device);
}

int nvmlDeviceGetPowerUsage(void *device, unsigned *mw) {
    *mw = is("nonsense") ? 0xFFFFFFFFu : 350500;
    return state_of(device);
}

int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *mj) {
    energy_mj += is("backwards") ? (unsigned long long)-1000 : 1000;
    *mj = is("nonsense") ? UINT64_MAX : energy_mj;
    return state_of(device);
}

static int answer_reasons(void *device, unsigned long long *bits) {
    const int hot = is("hot") || (is("short") && !asked_clocks);
    asked_clocks = 0;
    *bits = is("nonsense") ? UINT64_MAX : hot ? 0x4 | 0x40 | 0x200 : 0x1 | 0x2;
    return state_of(device);
}
#ifdef FAKE_NVML_OLD
int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *bits) {
    return answer_reasons(device, bits);
}
#else
int nvmlDeviceGetCurrentClocksEventReasons(void *device, unsigned long long *bits) {
    return answer_reasons(device, bits);
}

int nvmlDeviceGetViolationStatus(void *device, int policy, struct violation *out) {
    slowed_ns += is("hot") ? 1000000 : 0;
    /* thermal alone goes on, and only when it is hot */
    *out = (struct violation){1, policy == 1 ? 77 + slowed_ns : 5};
    if (is("nonsense"))
        out->violation_ns = UINT64_MAX;
    return state_of(device);
}

int nvmlDeviceGetMigMode(void *device, unsigned *now, unsigned *pending) {
    *now = is("part") ? 1 : 0;
    *pending = 0;
    return state_of(device);
}
#endif

static int answer_list(void *device, const struct process *list, unsigned length, unsigned *count,
                       struct process *out) {
    const unsigned room = *count;
    if (is("nonsense")) { /* fine, and more than there was room for */
        *count = 4000000000u;
        return SUCCESS;
    }
    lists++;
    if (is("endless"))
        length = room + 1;
    if (is("grows") && lists < 3)
        length = room + 1 + lists; /* more than at the call before */
    *count = length;
    if (state_of(device) != SUCCESS)
        return state_of(device);
    if (length > room)
        return TOO_SMALL;
    memcpy(out, list, length * sizeof *list);
    return SUCCESS;
}

static int answer_compute(void *device, unsigned *count, struct process *out) {
    const unsigned own = (unsigned)getpid();
    const struct process list[] = {{own + 1, 2 * GIB, 0, 0},
                                   {own, 3 * GIB, 0, 0},
                                   {own + 2, is("grows") ? UINT64_MAX : GIB, 0, 0}};
    if (is("alone"))
        return answer_list(device, list + 1, 1, count, out);
    if (is("stranger"))
        return answer_list(device, list, 1, count, out);
    return answer_list(device, list, 3, count, out);
}
#ifdef FAKE_NVML_OLD
int nvmlDeviceGetComputeRunningProcesses_v2(void *device, unsigned *count, struct process *out) {
    return answer_compute(device, count, out);
}
#else
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, struct process *out) {
    return answer_compute(device, count, out);
}

/* One of them draws too. */
int nvmlDeviceGetGraphicsRunningProcesses_v3(void *device, unsigned *count, struct process *out) {
    const struct process list[] = {{(unsigned)getpid() + 1, 2 * GIB, 0, 0}};
    return answer_list(device, list, is("alone") || is("stranger") ? 0 : 1, count, out);
}
#endif

#endif
#endif
