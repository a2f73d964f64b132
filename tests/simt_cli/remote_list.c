/* The program's list of backends, with the shim in the place of a GPU: its memory is not to be read
 * in place, as a GPU's is not, and KVGAUGE_REMOTE_FAULT plants a fault that `run` must notice:
 *   output   one attention output is wrong
 *   code     one stored byte is not what was appended
 *   idle     attention is not launched at all
 *   launch   a launch of attention fails
 *   memory   the third allocation finds no memory
 * It sits on the bus where tests/telemetry's NVML has its device. */
#include <stdlib.h>
#include <string.h>

#include "backend.h"
#include "backend_build.h"
#include "cpu.h"
#include "simt_backend.h"

static struct backend_ops remote;
static unsigned allocations;

static bool fault(const char *name) {
    const char *planted = getenv("KVGAUGE_REMOTE_FAULT");
    return planted != NULL && strcmp(planted, name) == 0;
}

static enum status allocate(struct backend_device *device, uint64_t bytes, const char *what,
                            struct backend_memory *out, struct status_text *text) {
    if (fault("memory") && ++allocations == 3) {
        *out = (struct backend_memory){0};
        return status_set(text, STATUS_OUT_OF_MEMORY, "%s: %llu bytes were asked, none are there",
                          what, (unsigned long long)bytes);
    }
    return simt_backend_ops.memory_allocate(device, bytes, what, out, text);
}

static enum status append(struct backend_device *device, const struct backend_append *work,
                          struct format_replaced *replaced, struct status_text *text) {
    const enum status status = simt_backend_ops.append(device, work, replaced, text);
    if (status == STATUS_OK && fault("code")) {
        /* the first K code of the first sequence's first page */
        const int32_t page = work->cache.dev_page_table[0];
        work->cache.dev_pages[(uint64_t)page * work->cache.page.stride_bytes + 1] = 0x77u;
    }
    return status;
}

static enum status attend(struct backend_device *device, const struct backend_attend *work,
                          struct status_text *text) {
    if (fault("idle"))
        return STATUS_OK;
    if (fault("launch"))
        return status_set(text, STATUS_IO, "cudaLaunchKernel: planted");
    const enum status status = simt_backend_ops.attend(device, work, text);
    if (status == STATUS_OK && fault("output"))
        work->dev_outputs[7] += 1.0f;
    return status;
}

static void facts(struct backend_device *device, struct backend_facts *out) {
    simt_backend_ops.facts(device, out);
    (void)strcpy(out->pci_bus_id, "0000:41:00.0");
}

const struct backend_ops *const *backend_list(void) {
    static const struct backend_ops *const backends[] = {&cpu_backend_ops, &remote, NULL};
    if (remote.name == NULL) {
        remote = simt_backend_ops;
        remote.memory_host = NULL;
        remote.facts = facts;
        remote.memory_allocate = allocate;
        remote.append = append;
        remote.attend = attend;
    }
    return backends;
}

const struct backend_ops *backend_find(const char *name) {
    for (const struct backend_ops *const *ops = backend_list(); *ops != NULL; ops++)
        if (strcmp((*ops)->name, name) == 0)
            return *ops;
    return NULL;
}

const char *backend_cuda_version(void) {
    return "";
}

const char *backend_cuda_targets(void) {
    return "";
}
