/* Which source knows the device. */
#include "telemetry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "telemetry_nvml.h"
#include "telemetry_os.h"

struct telemetry {
    char source[600];
    struct telemetry_nvml *nvml; /* NULL: not of an NVIDIA GPU, or NVML is not here */
    bool has_os;
    struct telemetry_os os;
};

struct telemetry *telemetry_open(const struct backend_facts *facts) {
    struct telemetry *telemetry = calloc(1, sizeof *telemetry);
    if (telemetry == NULL)
        return NULL;
    struct status_text why = {""};
    if (facts->pci_bus_id[0] != '\0') {
        telemetry->nvml = telemetry_nvml_open(getenv("KVGAUGE_NVML"), facts->pci_bus_id, &why);
        const char *name = telemetry->nvml != NULL ? telemetry_nvml_name(telemetry->nvml) : "";
        if (telemetry->nvml == NULL)
            (void)snprintf(telemetry->source, sizeof telemetry->source, "none: %s", why.line);
        else if (name[0] == '\0')
            (void)snprintf(telemetry->source, sizeof telemetry->source, "NVML");
        else
            (void)snprintf(telemetry->source, sizeof telemetry->source, "NVML (%s)", name);
    } else if (strcmp(facts->backend, "cpu") == 0) {
        telemetry->has_os = true;
        telemetry_os_open("", &telemetry->os);
        (void)snprintf(telemetry->source, sizeof telemetry->source, "Linux");
    } else {
        (void)snprintf(telemetry->source, sizeof telemetry->source,
                       "none: where this device is on the bus is not known");
    }
    return telemetry;
}

void telemetry_close(struct telemetry *telemetry) {
    if (telemetry == NULL)
        return;
    telemetry_nvml_close(telemetry->nvml);
    free(telemetry);
}

const char *telemetry_source(const struct telemetry *telemetry) {
    return telemetry != NULL ? telemetry->source : "none";
}

void telemetry_read(struct telemetry *telemetry, uint32_t wanted, struct telemetry_sample *out) {
    *out = (struct telemetry_sample){0};
    if (telemetry == NULL)
        return;
    if (telemetry->nvml != NULL)
        telemetry_nvml_read(telemetry->nvml, wanted, out);
    if (telemetry->has_os)
        telemetry_os_read(&telemetry->os, wanted, out);
}
