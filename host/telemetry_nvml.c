/* The few calls of NVML that telemetry needs, and what of their answers can be believed. Names,
 * arguments and values are those of NVIDIA's nvml.h and "NVML API Reference Guide" (vR580). */
#include "telemetry_nvml.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "library.h"

enum {
    NVML_SUCCESS = 0,
    NVML_ERROR_INSUFFICIENT_SIZE = 7,
    NVML_TEMPERATURE_GPU = 0,
    NVML_CLOCK_SM = 1,
    NVML_CLOCK_MEM = 2,
    NVML_PERF_POLICY_POWER = 0,
    NVML_PERF_POLICY_THERMAL = 1,
    NVML_PERF_POLICY_BOARD_LIMIT = 3,
    NVML_FEATURE_ENABLED = 1,
    NVML_NAME_BYTES = 96, /* NVML_DEVICE_NAME_V2_BUFFER_SIZE */

    /* what no device of this kind gets past */
    MOST_CLOCK_MHZ = 10000,
    MOST_TEMPERATURE_C = 150,
    MOST_POWER_MW = 10 * 1000 * 1000,

    ROOM_PROCESSES = 64, /* to begin with */
    MOST_PROCESSES = 4096,
    PROCESS_TRIES = 4
};
#define NVML_VALUE_NOT_AVAILABLE UINT64_MAX
/* Of one process: far above any memory, and so that all of them add up; NVML_VALUE_NOT_AVAILABLE is
 * more. */
#define MOST_BYTES ((uint64_t)1 << 50)
/* Reasons above are no reasons: NVML has had nine in ten years. */
#define MOST_REASONS ((uint64_t)0xFFFF)

/* nvmlProcessInfo_t of the calls that end in _v2 and _v3 */
struct nvml_process {
    unsigned pid;
    unsigned long long used_bytes;
    unsigned gpu_instance, compute_instance;
};
struct nvml_violation {
    unsigned long long reference_us, violation_ns;
};

struct nvml_calls {
    int (*init)(void);
    int (*shutdown)(void);
    int (*by_bus_id)(const char *bus_id, void **device);
    int (*name)(void *device, char *out, unsigned bytes);
    int (*clock)(void *device, int which, unsigned *mhz);
    int (*temperature)(void *device, int sensor, unsigned *celsius);
    int (*power)(void *device, unsigned *mw);
    int (*energy)(void *device, unsigned long long *mj);
    int (*reasons)(void *device, unsigned long long *bits);
    int (*violation)(void *device, int policy, struct nvml_violation *out);
    int (*mig_mode)(void *device, unsigned *now, unsigned *pending);
    int (*compute)(void *device, unsigned *count, struct nvml_process *out);
    int (*graphics)(void *device, unsigned *count, struct nvml_process *out);
};

struct telemetry_nvml {
    void *library;
    struct nvml_calls calls; /* NULL where the library has no such call */
    bool started;
    void *device;
    char name[NVML_NAME_BYTES];
    /* The device is one of several cut out of the chip: what the chip draws is not its own. */
    bool is_part;
    uint64_t last_energy_mj;
    bool energy_lies; /* it went backwards once */
};

#define CALL(member) offsetof(struct nvml_calls, member)
/* Of two rows with one place the first that the library has counts. */
static const struct {
    const char *symbol;
    size_t at;
    bool needed;
} symbols[] = {
    {"nvmlInit_v2", CALL(init), true},
    {"nvmlShutdown", CALL(shutdown), true},
    {"nvmlDeviceGetHandleByPciBusId_v2", CALL(by_bus_id), true},
    {"nvmlDeviceGetName", CALL(name), false},
    {"nvmlDeviceGetClockInfo", CALL(clock), false},
    {"nvmlDeviceGetTemperature", CALL(temperature), false},
    {"nvmlDeviceGetPowerUsage", CALL(power), false},
    {"nvmlDeviceGetTotalEnergyConsumption", CALL(energy), false},
    {"nvmlDeviceGetCurrentClocksEventReasons", CALL(reasons), false},
    {"nvmlDeviceGetCurrentClocksThrottleReasons", CALL(reasons), false}, /* before R535 */
    {"nvmlDeviceGetViolationStatus", CALL(violation), false},
    {"nvmlDeviceGetMigMode", CALL(mig_mode), false},
    {"nvmlDeviceGetComputeRunningProcesses_v3", CALL(compute), false},
    {"nvmlDeviceGetComputeRunningProcesses_v2", CALL(compute), false},
    {"nvmlDeviceGetGraphicsRunningProcesses_v3", CALL(graphics), false},
    {"nvmlDeviceGetGraphicsRunningProcesses_v2", CALL(graphics), false},
};

static enum status resolve(struct telemetry_nvml *nvml, const char *path,
                           struct status_text *text) {
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        char *place = (char *)&nvml->calls + symbols[i].at;
        void *found = NULL;
        memcpy(&found, place, sizeof found);
        if (found != NULL)
            continue;
        if (!library_find(nvml->library, symbols[i].symbol, place) && symbols[i].needed)
            return status_set(text, STATUS_MISSING, "%s has no %s", path, symbols[i].symbol);
    }
    return STATUS_OK;
}

/* A text that somebody else wrote: ended by us, and none if it cannot be printed. */
static void read_name(struct telemetry_nvml *nvml) {
    char name[NVML_NAME_BYTES + 1] = "";
    if (nvml->calls.name == NULL ||
        nvml->calls.name(nvml->device, name, NVML_NAME_BYTES) != NVML_SUCCESS)
        return;
    name[NVML_NAME_BYTES - 1] = '\0';
    for (const char *at = name; *at != '\0'; at++)
        if ((unsigned char)*at < ' ' || (unsigned char)*at > '~')
            return;
    memcpy(nvml->name, name, sizeof nvml->name);
}

static enum status open_device(struct telemetry_nvml *nvml, const char *path,
                               const char *pci_bus_id, struct status_text *text) {
    enum status status = library_open(path, &nvml->library, text);
    if (status == STATUS_OK)
        status = resolve(nvml, path, text);
    if (status != STATUS_OK)
        return status;
    const int started = nvml->calls.init();
    if (started != NVML_SUCCESS)
        return status_set(text, STATUS_MISSING, "nvmlInit_v2 says error %d", started);
    nvml->started = true;
    const int found = nvml->calls.by_bus_id(pci_bus_id, &nvml->device);
    if (found != NVML_SUCCESS || nvml->device == NULL)
        return status_set(text, STATUS_MISSING, "NVML finds no device at %s (error %d)", pci_bus_id,
                          found);
    unsigned now = 0, pending = 0;
    nvml->is_part = nvml->calls.mig_mode != NULL &&
                    nvml->calls.mig_mode(nvml->device, &now, &pending) == NVML_SUCCESS &&
                    now == NVML_FEATURE_ENABLED;
    read_name(nvml);
    return STATUS_OK;
}

struct telemetry_nvml *telemetry_nvml_open(const char *path, const char *pci_bus_id,
                                           struct status_text *text) {
    struct telemetry_nvml *nvml = calloc(1, sizeof *nvml);
    if (nvml == NULL) {
        (void)status_set(text, STATUS_OUT_OF_MEMORY, "no host memory for NVML");
        return NULL;
    }
    if (open_device(nvml, path != NULL ? path : "libnvidia-ml.so.1", pci_bus_id, text) == STATUS_OK)
        return nvml;
    telemetry_nvml_close(nvml);
    return NULL;
}

void telemetry_nvml_close(struct telemetry_nvml *nvml) {
    if (nvml == NULL)
        return;
    if (nvml->started)
        (void)nvml->calls.shutdown();
    library_close(nvml->library);
    free(nvml);
}

const char *telemetry_nvml_name(const struct telemetry_nvml *nvml) {
    return nvml->name;
}

static void know(struct telemetry_sample *out, enum telemetry_field field) {
    out->known |= telemetry_bit(field);
}

static void read_clock(struct telemetry_nvml *nvml, int which, enum telemetry_field field,
                       double *to, struct telemetry_sample *out) {
    unsigned mhz = 0;
    if (nvml->calls.clock == NULL || nvml->calls.clock(nvml->device, which, &mhz) != NVML_SUCCESS ||
        mhz == 0 || mhz > MOST_CLOCK_MHZ)
        return;
    *to = mhz;
    know(out, field);
}

static void read_temperature(struct telemetry_nvml *nvml, struct telemetry_sample *out) {
    unsigned celsius = 0;
    if (nvml->calls.temperature == NULL ||
        nvml->calls.temperature(nvml->device, NVML_TEMPERATURE_GPU, &celsius) != NVML_SUCCESS ||
        celsius == 0 || celsius > MOST_TEMPERATURE_C)
        return;
    out->temperature_c = celsius;
    know(out, TELEMETRY_TEMPERATURE);
}

static void read_power(struct telemetry_nvml *nvml, struct telemetry_sample *out) {
    unsigned mw = 0;
    if (nvml->is_part || nvml->calls.power == NULL ||
        nvml->calls.power(nvml->device, &mw) != NVML_SUCCESS || mw == 0 || mw > MOST_POWER_MW)
        return;
    out->power_w = mw * 1e-3;
    know(out, TELEMETRY_POWER);
}

/* A counter that ever went backwards is not believed again. */
static void read_energy(struct telemetry_nvml *nvml, struct telemetry_sample *out) {
    unsigned long long mj = 0;
    if (nvml->is_part || nvml->energy_lies || nvml->calls.energy == NULL ||
        nvml->calls.energy(nvml->device, &mj) != NVML_SUCCESS || mj == 0 || mj > UINT64_MAX / 1000)
        return;
    nvml->energy_lies = mj < nvml->last_energy_mj;
    nvml->last_energy_mj = mj;
    if (nvml->energy_lies)
        return;
    out->energy_uj = (uint64_t)mj * 1000;
    know(out, TELEMETRY_ENERGY);
}

static void read_reasons(struct telemetry_nvml *nvml, struct telemetry_sample *out) {
    static const struct {
        uint64_t bit;
        enum telemetry_reason reason;
    } named[] = {
        {0x2, TELEMETRY_APPLICATION_CLOCKS}, {0x4, TELEMETRY_POWER_CAP},
        {0x8, TELEMETRY_HARDWARE_SLOWDOWN},  {0x10, TELEMETRY_SYNC_BOOST},
        {0x20, TELEMETRY_SOFTWARE_THERMAL},  {0x40, TELEMETRY_HARDWARE_THERMAL},
        {0x80, TELEMETRY_POWER_BRAKE},       {0x100, TELEMETRY_DISPLAY_CLOCKS},
    };
    unsigned long long bits = 0;
    if (nvml->calls.reasons == NULL || nvml->calls.reasons(nvml->device, &bits) != NVML_SUCCESS ||
        bits > MOST_REASONS)
        return;
    uint64_t left = bits & ~(uint64_t)1; /* 1 is idle */
    for (size_t i = 0; i < sizeof named / sizeof named[0]; i++)
        if ((left & named[i].bit) != 0) {
            out->reasons |= (uint32_t)1 << named[i].reason;
            left &= ~named[i].bit;
        }
    out->reasons |= left != 0 ? (uint32_t)1 << TELEMETRY_OTHER_REASON : 0;
    know(out, TELEMETRY_REASONS);
}

static void read_violations(struct telemetry_nvml *nvml, struct telemetry_sample *out) {
    static const struct {
        int policy;
        enum telemetry_reason reason;
    } policies[] = {{NVML_PERF_POLICY_POWER, TELEMETRY_POWER_CAP},
                    {NVML_PERF_POLICY_THERMAL, TELEMETRY_THERMAL},
                    {NVML_PERF_POLICY_BOARD_LIMIT, TELEMETRY_BOARD_LIMIT}};
    for (size_t i = 0; i < sizeof policies / sizeof policies[0]; i++) {
        struct nvml_violation violation = {0};
        if (nvml->calls.violation == NULL ||
            nvml->calls.violation(nvml->device, policies[i].policy, &violation) != NVML_SUCCESS ||
            violation.violation_ns == NVML_VALUE_NOT_AVAILABLE)
            continue;
        out->slowdowns[policies[i].reason] = violation.violation_ns;
        out->counted |= (uint32_t)1 << policies[i].reason;
        know(out, TELEMETRY_SLOWDOWNS);
    }
}

typedef int (*list_call)(void *device, unsigned *count, struct nvml_process *out);

/* A list that may have grown since it was counted; NULL when no answer can be had or believed. */
static struct nvml_process *list_processes(struct telemetry_nvml *nvml, list_call call,
                                           unsigned *count) {
    unsigned room = ROOM_PROCESSES;
    for (int attempt = 0; call != NULL && attempt < PROCESS_TRIES; attempt++) {
        struct nvml_process *list = calloc(room, sizeof *list);
        if (list == NULL)
            return NULL;
        *count = room;
        const int answer = call(nvml->device, count, list);
        if (answer == NVML_SUCCESS && *count <= room)
            return list;
        free(list);
        if (answer != NVML_ERROR_INSUFFICIENT_SIZE || *count > MOST_PROCESSES)
            return NULL;
        room = *count > room ? *count + ROOM_PROCESSES : room * 2;
    }
    return NULL;
}

/* Who was seen, each once: a program may compute and draw. */
struct census {
    const struct nvml_process *lists[2];
    unsigned counts[2];
};

static bool seen_before(const struct census *census, int list, unsigned at) {
    for (int l = 0; l <= list; l++)
        for (unsigned i = 0; i < (l == list ? at : census->counts[l]); i++)
            if (census->lists[l][i].pid == census->lists[list][at].pid)
                return true;
    return false;
}

/* Where this process is not among them although it has a context, pids are of another namespace
 * (a container) or the list is not whole: then nothing is known. */
static void count_processes(const struct census *census, struct telemetry_sample *out) {
    const unsigned own = (unsigned)getpid();
    uint64_t others = 0, other_bytes = 0, own_bytes = 0;
    bool own_seen = false, own_known = true, bytes_known = true;
    for (int l = 0; l < 2; l++)
        for (unsigned i = 0; i < census->counts[l]; i++) {
            const struct nvml_process *one = &census->lists[l][i];
            if (seen_before(census, l, i))
                continue;
            const bool known = one->used_bytes <= MOST_BYTES;
            if (one->pid == own) {
                own_seen = true;
                own_known = known;
                own_bytes = known ? one->used_bytes : 0;
                continue;
            }
            others++;
            bytes_known = bytes_known && known;
            other_bytes += known ? one->used_bytes : 0;
        }
    if (!own_seen)
        return;
    out->other_processes = others;
    know(out, TELEMETRY_OTHER_PROCESSES);
    if (bytes_known) {
        out->other_bytes = other_bytes;
        know(out, TELEMETRY_OTHER_BYTES);
    }
    if (own_known && own_bytes > 0) {
        out->own_bytes = own_bytes;
        know(out, TELEMETRY_OWN_BYTES);
    }
}

static void read_processes(struct telemetry_nvml *nvml, struct telemetry_sample *out) {
    if (nvml->is_part)
        return; /* lists are of one part or of all: not told which */
    struct census census = {0};
    struct nvml_process *compute = list_processes(nvml, nvml->calls.compute, &census.counts[0]);
    struct nvml_process *graphics = list_processes(nvml, nvml->calls.graphics, &census.counts[1]);
    census.lists[0] = compute;
    census.lists[1] = graphics;
    if (graphics == NULL)
        census.counts[1] = 0; /* many drivers have none; those that compute are what counts */
    if (compute != NULL)
        count_processes(&census, out);
    free(compute);
    free(graphics);
}

void telemetry_nvml_read(struct telemetry_nvml *nvml, uint32_t wanted,
                         struct telemetry_sample *out) {
    if ((wanted & telemetry_bit(TELEMETRY_SM_CLOCK)) != 0)
        read_clock(nvml, NVML_CLOCK_SM, TELEMETRY_SM_CLOCK, &out->sm_clock_mhz, out);
    if ((wanted & telemetry_bit(TELEMETRY_MEMORY_CLOCK)) != 0)
        read_clock(nvml, NVML_CLOCK_MEM, TELEMETRY_MEMORY_CLOCK, &out->memory_clock_mhz, out);
    if ((wanted & telemetry_bit(TELEMETRY_TEMPERATURE)) != 0)
        read_temperature(nvml, out);
    if ((wanted & telemetry_bit(TELEMETRY_POWER)) != 0)
        read_power(nvml, out);
    if ((wanted & telemetry_bit(TELEMETRY_ENERGY)) != 0)
        read_energy(nvml, out);
    if ((wanted & telemetry_bit(TELEMETRY_REASONS)) != 0)
        read_reasons(nvml, out);
    if ((wanted & telemetry_bit(TELEMETRY_SLOWDOWNS)) != 0)
        read_violations(nvml, out);
    if ((wanted & (telemetry_bit(TELEMETRY_OTHER_PROCESSES) | telemetry_bit(TELEMETRY_OTHER_BYTES) |
                   telemetry_bit(TELEMETRY_OWN_BYTES))) != 0)
        read_processes(nvml, out);
}
