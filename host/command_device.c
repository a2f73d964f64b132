/* `kvgauge device`: the facts a run is planned with, and the ceilings measured now. */
#include "commands.h"

#include <string.h>

#include "measure.h"
#include "memory.h"
#include "number.h"
#include "session.h"
#include "telemetry.h"
#include "words.h"

static void print_bytes(const char *what, uint64_t bytes, const char *more) {
    char words[NUMBER_TEXT_BYTES];
    number_bytes_words(bytes, words);
    (void)printf("%-24s %s%s%s\n", what, words, more[0] != '\0' ? "  " : "", more);
}

static void print_facts(const struct session *session, const struct options *options) {
    const struct backend_facts *facts = &session->facts;
    (void)printf("%-24s %s\n", "backend", facts->backend);
    (void)printf("%-24s %s\n", "device", facts->device);
    if (facts->driver[0] != '\0')
        (void)printf("%-24s %s\n", "driver", facts->driver);
    if (facts->threads > 0)
        (void)printf("%-24s %u (threads in use: %u)\n", "cores", facts->compute_units,
                     facts->threads);
    else
        (void)printf("%-24s %u\n", "multiprocessors", facts->compute_units);
    (void)printf("%-24s %s\n", "instruction set", facts->instruction_set);
    print_bytes("last-level cache", facts->llc_bytes, facts->llc_source);
    print_bytes("memory", facts->memory_total_bytes,
                facts->integrated ? "shared with the host" : "");
    print_bytes("memory free", facts->memory_free_bytes, facts->memory_source);
    struct memory_budget budget;
    memory_budget_make(facts, options->budget_given, options->budget_bytes, options->weights_bytes,
                       &budget);
    print_bytes("budget", budget.budget_bytes, budget.source);
}

static enum status print_sweep(const struct session *session, struct status_text *text) {
    struct measure_sweep sweep;
    const enum status status = measure_sweep_run(session->ops, session->device, &sweep, text);
    if (status != STATUS_OK)
        return status;
    (void)printf("%-24s best of 5 windows of each size\n", "streaming read sweep");
    for (uint32_t i = 0; i < sweep.count; i++) {
        char words[NUMBER_TEXT_BYTES];
        number_bytes_words(sweep.bytes[i], words);
        (void)printf("    %12s         %.1f GB/s\n", words, sweep.gb_per_s[i]);
    }
    print_bytes("caches stop helping at", sweep.plateau_bytes, "(sweep plateau)");
    (void)printf("%-24s %.1f GB/s\n", "read ceiling", sweep.gb_per_s[sweep.count - 1]);
    return STATUS_OK;
}

static void print_clock(const struct session *session) {
    double mhz = 0;
    struct status_text why = {""};
    if (session->ops->clock_mhz == NULL)
        return;
    const enum status status = session->ops->clock_mhz(session->device, &mhz, &why);
    if (status == STATUS_OK && mhz > 0)
        (void)printf("%-24s %.0f MHz\n", "SM clock, counted", mhz);
    else
        (void)printf("%-24s not known%s%s\n", "SM clock, counted", why.line[0] != '\0' ? ": " : "",
                     why.line);
}

/* What is known, a line each, then the names of what is not. */
static void print_telemetry(const struct session *session) {
    static const enum telemetry_field of_gpu[] = {
        TELEMETRY_SM_CLOCK,        TELEMETRY_MEMORY_CLOCK, TELEMETRY_TEMPERATURE,
        TELEMETRY_POWER,           TELEMETRY_ENERGY,       TELEMETRY_REASONS,
        TELEMETRY_OTHER_PROCESSES, TELEMETRY_OTHER_BYTES,  TELEMETRY_OWN_BYTES};
    static const enum telemetry_field of_cpu[] = {TELEMETRY_CORE_CLOCKS, TELEMETRY_TEMPERATURE,
                                                  TELEMETRY_ENERGY};
    const bool cpu = strcmp(session->facts.backend, "cpu") == 0;
    const enum telemetry_field *fields = cpu ? of_cpu : of_gpu;
    const size_t count = cpu ? sizeof of_cpu / sizeof of_cpu[0] : sizeof of_gpu / sizeof of_gpu[0];
    struct telemetry *telemetry = telemetry_open(&session->facts);
    struct telemetry_sample sample;
    telemetry_read(telemetry, TELEMETRY_ALL, &sample);
    (void)printf("%-24s %s\n", "telemetry", telemetry_source(telemetry));
    char unknown[256] = "";
    for (size_t i = 0; i < count; i++) {
        char words[160];
        telemetry_field_words(&sample, fields[i], words, sizeof words);
        const char *name = telemetry_field_name(fields[i]);
        if (words[0] != '\0')
            (void)printf("    %-20s %s\n", name, words);
        else
            words_add(unknown, sizeof unknown, ", ", "%s", name);
    }
    if (unknown[0] != '\0')
        (void)printf("    %-20s %s\n", "not known", unknown);
    telemetry_close(telemetry);
}

/* Device 0, 1, ... of a backend until one is missing; how many there are. */
static uint32_t list_backend(const struct backend_ops *ops, const struct options *options) {
    for (uint32_t ordinal = 0;; ordinal++) {
        const struct backend_options wanted = {.threads = options->threads, .ordinal = ordinal};
        struct backend_device *device;
        struct status_text text = {""};
        if (ops->open(&wanted, &device, &text) != STATUS_OK) {
            if (ordinal == 0)
                (void)printf("%-8s not here: %s\n", ops->name, text.line);
            return ordinal;
        }
        struct backend_facts facts;
        ops->facts(device, &facts);
        ops->close(device);
        char name[32];
        (void)snprintf(name, sizeof name, "%s:%u", facts.backend, ordinal);
        (void)printf("%-8s %s\n", ordinal > 0 ? name : facts.backend, facts.device);
    }
}

static int list_devices(const struct options *options) {
    uint32_t found = 0;
    for (const struct backend_ops *const *ops = backend_list(); *ops != NULL; ops++)
        found += list_backend(*ops, options);
    return found > 0 ? 0 : 3;
}

int command_device(const struct options *options) {
    if (options->list)
        return list_devices(options);
    struct status_text text = {""};
    struct session session = {0};
    enum status status = session_open(options, &session, &text);
    if (status == STATUS_OK) {
        session_say_fallback(&session);
        print_facts(&session, options);
        print_telemetry(&session);
        status = print_sweep(&session, &text);
        if (status == STATUS_OK)
            print_clock(&session); /* behind work: an idle GPU is slow */
        if (fflush(stdout) != 0 && status == STATUS_OK)
            status = status_set(&text, STATUS_IO, "stdout: writing failed");
    }
    if (status != STATUS_OK)
        (void)fprintf(stderr, "kvgauge: %s\n", text.line);
    session_close(&session);
    return session_exit_code(status);
}
