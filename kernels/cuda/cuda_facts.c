/* What the runtime, the driver and /proc say about the device; nothing is assumed where they are
 * silent. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "cuda_device.h"
#include "system_file.h"

/* "580.65.06" out of the line
 * "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul 27 ..."; "" without it. */
static void driver_release(char *out, size_t bytes) {
    out[0] = '\0';
    char line[256], *rest = NULL;
    if (!system_file_line("/proc/driver/nvidia/version", line, sizeof line))
        return;
    for (char *word = strtok_r(line, " \t", &rest); word != NULL;
         word = strtok_r(NULL, " \t", &rest)) {
        if (isdigit((unsigned char)word[0]) && strchr(word, '.') != NULL &&
            word[strspn(word, "0123456789.")] == '\0') {
            (void)snprintf(out, bytes, "%s", word);
            return;
        }
    }
}

static void version_words(int version, char *out, size_t bytes) {
    if (version > 0)
        (void)snprintf(out, bytes, "CUDA %d.%d", version / 1000, version % 1000 / 10);
    else
        (void)snprintf(out, bytes, "no CUDA");
}

enum status cuda_missing(cudaError_t error, const char *call, const struct backend_options *options,
                         struct status_text *text) {
    int driver = 0, runtime = 0;
    (void)cudaDriverGetVersion(&driver);
    (void)cudaRuntimeGetVersion(&runtime);
    (void)cudaGetLastError();
    char words[32], built[32];
    version_words(driver, words, sizeof words);
    version_words(runtime, built, sizeof built);
    return status_set(
        text, STATUS_MISSING,
        "--device cuda:%u: %s%s; %s says %s (%s); this program was built with %s", options->ordinal,
        driver > 0 ? "the driver is made for " : "no NVIDIA driver here", driver > 0 ? words : "",
        call, cudaGetErrorName(error), cudaGetErrorString(error), built);
}

static enum status read_attribute(struct backend_device *device, enum cudaDeviceAttr attribute,
                                  uint32_t *out, struct status_text *text) {
    int value = 0;
    const enum status status =
        cuda_check(device, cudaDeviceGetAttribute(&value, attribute, device->ordinal),
                   "cudaDeviceGetAttribute", 0, text);
    *out = value > 0 ? (uint32_t)value : 0;
    return status;
}

static enum status read_names(struct backend_device *device, struct status_text *text) {
    /* The name alone: other fields move and go from one toolkit to the next. */
    struct cudaDeviceProp properties;
    enum status status = cuda_check(device, cudaGetDeviceProperties(&properties, device->ordinal),
                                    "cudaGetDeviceProperties", 0, text);
    if (status != STATUS_OK)
        return status;
    (void)snprintf(device->name, sizeof device->name, "%.*s", (int)sizeof device->name - 1,
                   properties.name);
    /* What is not told is not known: telemetry alone would have used it. */
    if (cudaDeviceGetPCIBusId(device->pci_bus_id, sizeof device->pci_bus_id, device->ordinal) !=
        cudaSuccess) {
        (void)cudaGetLastError();
        device->pci_bus_id[0] = '\0';
    }
    int version = 0;
    status = cuda_check(device, cudaDriverGetVersion(&version), "cudaDriverGetVersion", 0, text);
    char release[18], words[32]; /* with ", " and 12 of the words, what device->driver holds */
    driver_release(release, sizeof release);
    version_words(version, words, sizeof words);
    (void)snprintf(device->driver, sizeof device->driver, "%s%s%.12s", release,
                   release[0] != '\0' ? ", " : "", words);
    return status;
}

enum status cuda_facts_open(struct backend_device *device, struct status_text *text) {
    uint32_t major, minor, l2_bytes, integrated, timeout;
    struct gpu_machine *machine = &device->machine;
    const struct {
        enum cudaDeviceAttr attribute;
        uint32_t *out;
    } wanted[] = {
        {cudaDevAttrComputeCapabilityMajor, &major},
        {cudaDevAttrComputeCapabilityMinor, &minor},
        {cudaDevAttrL2CacheSize, &l2_bytes},
        {cudaDevAttrIntegrated, &integrated},
        {cudaDevAttrKernelExecTimeout, &timeout},
        {cudaDevAttrMultiProcessorCount, &machine->units},
        {cudaDevAttrMaxSharedMemoryPerBlockOptin, &machine->shared_bytes_per_block},
        {cudaDevAttrMaxSharedMemoryPerMultiprocessor, &machine->shared_bytes_per_unit},
        {cudaDevAttrReservedSharedMemoryPerBlock, &machine->shared_reserved_bytes},
    };
    enum status status = read_names(device, text);
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0] && status == STATUS_OK; i++)
        status = read_attribute(device, wanted[i].attribute, wanted[i].out, text);
    if (status != STATUS_OK)
        return status;
    device->l2_bytes = l2_bytes;
    device->integrated = integrated != 0;
    device->capability = (int)(10 * major + minor);
    /* Where a display hangs on the GPU, the driver ends kernels after some seconds. */
    (void)snprintf(device->instruction_set, sizeof device->instruction_set, "sm_%u%u%s", major,
                   minor, timeout != 0 ? ", the driver limits a kernel's time" : "");
    return STATUS_OK;
}

bool cuda_free_bytes(struct backend_device *device, uint64_t *free_bytes, uint64_t *total_bytes,
                     const char **source) {
    struct cuda_meminfo info;
    const bool shared = device->integrated;
    if (shared && cuda_meminfo_read(device->meminfo_path, &info)) {
        *free_bytes = info.available_bytes;
        *total_bytes = info.total_bytes;
        *source = info.huge_pages ? "HugePages_Free x Hugepagesize" : "MemAvailable";
        return true;
    }
    size_t there = 0, total = 0;
    const bool known =
        cuda_check(device, cudaMemGetInfo(&there, &total), "cudaMemGetInfo", 0, NULL) == STATUS_OK;
    *free_bytes = known ? there : 0;
    *total_bytes = known ? total : 0;
    *source = !known   ? "not known: cudaMemGetInfo failed"
              : shared ? "cudaMemGetInfo; /proc/meminfo is not readable"
                       : "cudaMemGetInfo";
    return known;
}

void cuda_facts(struct backend_device *device, struct backend_facts *out) {
    *out = (struct backend_facts){.backend = "cuda",
                                  .compute_units = device->machine.units,
                                  .integrated = device->integrated};
    (void)snprintf(out->device, sizeof out->device, "%s", device->name);
    (void)snprintf(out->driver, sizeof out->driver, "%s", device->driver);
    (void)snprintf(out->pci_bus_id, sizeof out->pci_bus_id, "%s", device->pci_bus_id);
    (void)snprintf(out->blas, sizeof out->blas, "%s", device->blas.name);
    (void)snprintf(out->instruction_set, sizeof out->instruction_set, "%s",
                   device->instruction_set);
    const bool told = device->llc_told_bytes > 0;
    out->llc_bytes = told ? device->llc_told_bytes : device->l2_bytes;
    out->llc_by_sweep = out->llc_bytes == 0;
    (void)snprintf(out->llc_source, sizeof out->llc_source, "%s",
                   told                   ? "--llc"
                   : device->l2_bytes > 0 ? "cudaDevAttrL2CacheSize"
                                          : "not known: the attribute is 0");
    out->memory_taken_bytes = device->taken_bytes;
    const char *source;
    (void)cuda_free_bytes(device, &out->memory_free_bytes, &out->memory_total_bytes, &source);
    char step[40] = "";
    if (device->step_bytes > 0 && !device->integrated)
        (void)snprintf(step, sizeof step, ", in steps of %llu KiB",
                       (unsigned long long)(device->step_bytes >> 10));
    if (device->pieces.step > 0)
        (void)snprintf(step, sizeof step, ", in pieces of %llu MiB",
                       (unsigned long long)(device->pieces.largest >> 20));
    (void)snprintf(out->memory_source, sizeof out->memory_source, "%s%s", source, step);
}
