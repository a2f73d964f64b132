/* From samples to what a row says. */
#include "telemetry_watch.h"

#include <stdio.h>

#include "progress.h"
#include "words.h"

#define WATCH_WAKE_NS ((uint64_t)200 * 1000 * 1000)
#define WATCH_LOOK_NS ((uint64_t)500 * 1000 * 1000)
/* Energy is measure_energy's, whose readings may not be far apart. */
#define WATCH_FIELDS (TELEMETRY_ALL & ~telemetry_bit(TELEMETRY_ENERGY))

static enum status wake(const struct backend_ops *ops, struct backend_device *device,
                        struct step *step, struct status_text *text) {
    const uint64_t start_ns = progress_now_ns();
    enum status status = STATUS_OK;
    while (status == STATUS_OK && progress_now_ns() - start_ns < WATCH_WAKE_NS) {
        status = step_append(step, text);
        if (status == STATUS_OK)
            status = step_attend(step, text);
        if (status == STATUS_OK)
            status = ops->synchronize(device, text);
    }
    return status;
}

enum status telemetry_watch_begin(const struct backend_ops *ops, struct backend_device *device,
                                  struct step *step, struct telemetry *telemetry,
                                  struct telemetry_watch *out, struct status_text *text) {
    *out = (struct telemetry_watch){.telemetry = telemetry};
    enum status status = STATUS_OK;
    if (ops->clock_mhz != NULL) {
        status = wake(ops, device, step, text);
        if (status == STATUS_OK)
            status = ops->clock_mhz(device, &out->counted_before_mhz, text);
    }
    telemetry_read(telemetry, WATCH_FIELDS, &out->before);
    return status;
}

void telemetry_watch_look(void *watch) {
    struct telemetry_watch *const self = watch;
    const uint64_t now_ns = progress_now_ns();
    if (now_ns < self->next_look_ns)
        return;
    self->next_look_ns = now_ns + WATCH_LOOK_NS;
    struct telemetry_sample now;
    telemetry_read(self->telemetry, telemetry_bit(TELEMETRY_REASONS), &now);
    self->reasons |= now.reasons;
}

enum status telemetry_watch_end(const struct backend_ops *ops, struct backend_device *device,
                                struct telemetry_watch *watch, struct status_text *text) {
    enum status status = STATUS_OK;
    if (ops->clock_mhz != NULL)
        status = ops->clock_mhz(device, &watch->counted_after_mhz, text);
    telemetry_read(watch->telemetry, WATCH_FIELDS, &watch->after);
    return status;
}

static void add_clock(struct telemetry_summary *out, const struct telemetry_sample *sample,
                      enum telemetry_field field, const char *what) {
    char words[64];
    telemetry_field_words(sample, field, words, sizeof words);
    if (words[0] != '\0')
        words_add(out->clocks, sizeof out->clocks, ", ", "%s %s", what, words);
}

static void set_clocks(const struct telemetry_watch *watch, const struct telemetry_sample *working,
                       struct telemetry_summary *out) {
    add_clock(out, working, TELEMETRY_SM_CLOCK, "sm");
    add_clock(out, working, TELEMETRY_MEMORY_CLOCK, "memory");
    add_clock(out, working, TELEMETRY_CORE_CLOCKS, "cores");
    if (watch->counted_before_mhz > 0 && watch->counted_after_mhz > 0)
        words_add(out->clocks, sizeof out->clocks, ", ", "sm counted %.0f to %.0f MHz",
                  watch->counted_before_mhz, watch->counted_after_mhz);
}

static void set_reasons(const struct telemetry_watch *watch, const struct measure_energy *energy,
                        struct telemetry_summary *out) {
    const struct telemetry_sample *before = &watch->before, *after = &watch->after;
    const uint32_t reasons = before->reasons | watch->reasons | after->reasons | energy->reasons |
                             telemetry_slowdowns(before, after);
    const uint32_t telling = telemetry_bit(TELEMETRY_REASONS) | telemetry_bit(TELEMETRY_SLOWDOWNS);
    out->has_reasons = (before->known & after->known & telling) != 0 || reasons != 0;
    for (uint32_t reason = 0; reason < TELEMETRY_REASON_COUNT; reason++)
        if ((reasons & (uint32_t)1 << reason) != 0)
            out->reasons[out->reason_count++] =
                telemetry_reason_name((enum telemetry_reason)reason);
    char words[160];
    if ((reasons & TELEMETRY_THROTTLED) != 0) {
        telemetry_reasons_words(reasons & TELEMETRY_THROTTLED, words, sizeof words);
        (void)snprintf(out->throttled, sizeof out->throttled, "throttled: %s", words);
    }
    const double from = watch->counted_before_mhz, to = watch->counted_after_mhz;
    if (from > 0 && to > 0 && to < from * (100 - TELEMETRY_WATCH_FALL_PERCENT) / 100)
        words_add(out->throttled, sizeof out->throttled, ", ",
                  "%sthe SM clock fell by %.0f %% from %.0f to %.0f MHz",
                  out->throttled[0] == '\0' ? "throttled: " : "", 100 * (1 - to / from), from, to);
}

void telemetry_watch_summary(const struct telemetry_watch *watch,
                             const struct measure_energy *energy, struct telemetry_summary *out) {
    const struct telemetry_sample *after = &watch->after;
    *out = (struct telemetry_summary){0};
    /* What was read while the device worked, else what was read right behind the work. */
    set_clocks(watch, energy->busy.known != 0 ? &energy->busy : after, out);
    set_reasons(watch, energy, out);
    out->has_temperature = telemetry_knows(after, TELEMETRY_TEMPERATURE);
    out->temperature_c = after->temperature_c;
    /* Whoever was there at either end. */
    const struct telemetry_sample *most =
        watch->before.other_processes > after->other_processes ? &watch->before : after;
    out->has_other_processes = telemetry_knows(&watch->before, TELEMETRY_OTHER_PROCESSES) &&
                               telemetry_knows(after, TELEMETRY_OTHER_PROCESSES);
    out->other_processes = most->other_processes;
    out->has_other_bytes = out->has_other_processes && telemetry_knows(most, TELEMETRY_OTHER_BYTES);
    out->other_bytes = most->other_bytes;
    double share = 0;
    out->has_other_load = telemetry_other_load(&watch->before, after, &share);
    out->other_load_percent = 100 * share;
}
