/* Timed reads of one region after the other. */
#include "spill.h"

#include "measure.h"
#include "memory.h"

/* Enough to be cold, little enough to cost nothing. */
#define SPILL_CEILING_BYTES ((uint64_t)512 << 20)

/* The region at `done` of `bytes`: the last one takes what is too little for one of its own. */
static uint64_t region_bytes(uint64_t bytes, uint64_t done) {
    const uint64_t left = bytes - done;
    return left < 2 * SPILL_REGION_BYTES ? left : SPILL_REGION_BYTES;
}

static enum status read_twice(const struct backend_ops *ops, struct backend_device *device,
                              const uint8_t *dev_from, uint64_t bytes, double *best,
                              struct status_text *text) {
    *best = 0;
    enum status status = STATUS_OK;
    for (int round = 0; round < 2; round++)
        for (uint64_t done = 0; done < bytes && status == STATUS_OK;) {
            double speed = 0;
            const uint64_t region = region_bytes(bytes, done);
            status = measure_stream(ops, device, dev_from + done, region, &speed, text);
            *best = speed > *best ? speed : *best;
            done += region;
        }
    return status;
}

enum status spill_ceiling(const struct backend_ops *ops, struct backend_device *device,
                          uint64_t bytes, uint64_t most_bytes, double *gb_per_s,
                          struct status_text *text) {
    *gb_per_s = 0;
    uint64_t size = bytes < most_bytes ? bytes : most_bytes;
    size = size < SPILL_CEILING_BYTES ? size : SPILL_CEILING_BYTES;
    if (size < SPILL_LEAST_BYTES)
        return STATUS_OK;
    struct backend_memory memory;
    enum status status =
        ops->memory_allocate(device, size, "memory to measure the ceiling", &memory, text);
    if (status == STATUS_OK)
        status = ops->memory_fill(device, memory.dev_address, 0x5a, size, text);
    if (status == STATUS_OK)
        status = read_twice(ops, device, memory.dev_address, size, gb_per_s, text);
    ops->memory_free(device, &memory);
    return status;
}

/* The best of up to SPILL_READS readings; one is enough for a region that is not far slower. */
static enum status read_region(const struct backend_ops *ops, struct backend_device *device,
                               const uint8_t *dev_from, uint64_t bytes, double least,
                               double *gb_per_s, struct status_text *text) {
    *gb_per_s = 0;
    enum status status = STATUS_OK;
    for (int reading = 0; reading < SPILL_READS && status == STATUS_OK; reading++) {
        double speed = 0;
        status = measure_stream(ops, device, dev_from, bytes, &speed, text);
        *gb_per_s = speed > *gb_per_s ? speed : *gb_per_s;
        if (*gb_per_s >= least)
            break;
    }
    return status;
}

/* Bytes of a region that are not in memory; false where nobody tells. */
static bool missing_bytes(const struct backend_ops *ops, struct backend_device *device,
                          const uint8_t *dev_from, uint64_t bytes, uint64_t *missing) {
    const void *host = ops->memory_host != NULL ? ops->memory_host(device, dev_from) : NULL;
    uint64_t resident;
    *missing = 0;
    if (host == NULL || !memory_resident_bytes(host, bytes, &resident))
        return false;
    *missing = resident < bytes ? bytes - resident : 0;
    return true;
}

static void note_region(struct spill_report *out, uint64_t bytes, double speed, bool far_slower,
                        bool told, uint64_t missing) {
    const bool spilled = told ? missing > 0 : far_slower;
    if (out->region_count == 0 || speed < out->slowest_gb_per_s)
        out->slowest_gb_per_s = speed;
    if (spilled && out->spilled_bytes == 0)
        out->spilled_offset_bytes = out->read_bytes;
    out->spilled_bytes += spilled ? bytes : 0;
    out->missing_bytes += missing;
    out->busy = out->busy || (far_slower && !spilled);
    out->read_bytes += bytes;
    out->region_count++;
}

enum status spill_read(const struct backend_ops *ops, struct backend_device *device,
                       const void *dev_from, uint64_t bytes, double ceiling_gb_per_s,
                       bool (*should_stop)(void), struct spill_report *out,
                       struct status_text *text) {
    const bool judged = ceiling_gb_per_s > 0 && bytes >= SPILL_LEAST_BYTES;
    *out = (struct spill_report){.ceiling_gb_per_s = judged ? ceiling_gb_per_s : 0};
    const double least = out->ceiling_gb_per_s / SPILL_FACTOR;
    while (out->read_bytes < bytes) {
        if (should_stop != NULL && should_stop())
            return status_set(text, STATUS_INTERRUPTED, "interrupted while reading the pages");
        const uint8_t *dev_region = (const uint8_t *)dev_from + out->read_bytes;
        const uint64_t region = region_bytes(bytes, out->read_bytes);
        /* Before the reading, which brings it in. */
        uint64_t missing;
        const bool told = missing_bytes(ops, device, dev_region, region, &missing);
        double speed;
        const enum status status =
            read_region(ops, device, dev_region, region, least, &speed, text);
        if (status != STATUS_OK)
            return status;
        note_region(out, region, speed, speed < least, told, missing);
    }
    return STATUS_OK;
}
