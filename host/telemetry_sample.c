/* Names, differences and words of samples. */
#include "telemetry_sample.h"

#include <stdio.h>

#include "number.h"
#include "words.h"

/* /proc/stat counts in hundredths of a second: less than this says nothing. */
enum { LEAST_TICKS = 20 };

const char *telemetry_reason_name(enum telemetry_reason reason) {
    static const char *const names[] = {"power cap",
                                        "hardware slowdown",
                                        "thermal slowdown",
                                        "software thermal slowdown",
                                        "hardware thermal slowdown",
                                        "power brake",
                                        "board limit",
                                        "sync boost",
                                        "application clocks setting",
                                        "display clocks setting",
                                        "another reason"};
    _Static_assert(sizeof names / sizeof names[0] == TELEMETRY_REASON_COUNT, "one name each");
    return names[reason];
}

const char *telemetry_field_name(enum telemetry_field field) {
    static const char *const names[] = {
        "SM clock",        "memory clock",   "core clocks",      "temperature",
        "power",           "energy counter", "throttle reasons", "slowdown counter",
        "other processes", "others' memory", "own memory",       "load by others"};
    _Static_assert(sizeof names / sizeof names[0] == TELEMETRY_FIELDS, "one name each");
    return names[field];
}

uint32_t telemetry_slowdowns(const struct telemetry_sample *before,
                             const struct telemetry_sample *after) {
    uint32_t seen = 0;
    for (uint32_t reason = 0; reason < TELEMETRY_REASON_COUNT; reason++)
        if ((before->counted & after->counted & (uint32_t)1 << reason) != 0 &&
            after->slowdowns[reason] > before->slowdowns[reason])
            seen |= (uint32_t)1 << reason;
    return seen;
}

bool telemetry_other_load(const struct telemetry_sample *before,
                          const struct telemetry_sample *after, double *share) {
    if (!telemetry_knows(before, TELEMETRY_LOAD) || !telemetry_knows(after, TELEMETRY_LOAD) ||
        after->load_all_ticks < before->load_all_ticks + LEAST_TICKS)
        return false;
    const double all = (double)(after->load_all_ticks - before->load_all_ticks);
    /* the two files are not read at the same moment: a little below 0 is 0 */
    const uint64_t other = after->load_other_ticks > before->load_other_ticks
                               ? after->load_other_ticks - before->load_other_ticks
                               : 0;
    *share = (double)other / all;
    return *share <= 1;
}

void telemetry_reasons_words(uint32_t reasons, char *out, size_t bytes) {
    out[0] = '\0';
    for (uint32_t reason = 0; reason < TELEMETRY_REASON_COUNT; reason++)
        if ((reasons & (uint32_t)1 << reason) != 0)
            words_add(out, bytes, ", ", "%s", telemetry_reason_name((enum telemetry_reason)reason));
    if (out[0] == '\0')
        (void)snprintf(out, bytes, "none");
}

static void bytes_words(uint64_t number, char *out, size_t bytes) {
    char words[NUMBER_TEXT_BYTES];
    number_bytes_words(number, words);
    (void)snprintf(out, bytes, "%s", words);
}

void telemetry_field_words(const struct telemetry_sample *sample, enum telemetry_field field,
                           char *out, size_t bytes) {
    out[0] = '\0';
    if (!telemetry_knows(sample, field))
        return;
    switch (field) {
    case TELEMETRY_SM_CLOCK:
        (void)snprintf(out, bytes, "%.0f MHz", sample->sm_clock_mhz);
        break;
    case TELEMETRY_MEMORY_CLOCK:
        (void)snprintf(out, bytes, "%.0f MHz", sample->memory_clock_mhz);
        break;
    case TELEMETRY_CORE_CLOCKS:
        (void)snprintf(out, bytes, "%.0f to %.0f MHz", sample->core_clock_least_mhz,
                       sample->core_clock_most_mhz);
        break;
    case TELEMETRY_TEMPERATURE:
        (void)snprintf(out, bytes, "%.0f C", sample->temperature_c);
        break;
    case TELEMETRY_POWER:
        (void)snprintf(out, bytes, "%.1f W", sample->power_w);
        break;
    case TELEMETRY_ENERGY:
        (void)snprintf(out, bytes, "%.3f J", (double)sample->energy_uj * 1e-6);
        break;
    case TELEMETRY_REASONS:
        telemetry_reasons_words(sample->reasons, out, bytes);
        break;
    case TELEMETRY_OTHER_PROCESSES:
        (void)snprintf(out, bytes, "%llu", (unsigned long long)sample->other_processes);
        break;
    case TELEMETRY_OTHER_BYTES:
        bytes_words(sample->other_bytes, out, bytes);
        break;
    case TELEMETRY_OWN_BYTES:
        bytes_words(sample->own_bytes, out, bytes);
        break;
    case TELEMETRY_SLOWDOWNS:
    case TELEMETRY_LOAD:
    case TELEMETRY_FIELDS:
        break;
    }
}
