/* Each figure of NVML by itself: what is taken, and what is not believed. The libraries are this
 * folder's own (fake_nvml.c). */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "telemetry.h"

#define GIB ((uint64_t)1 << 30)
static const uint32_t of_gpu =
    (uint32_t)TELEMETRY_ALL & ~(1u << TELEMETRY_CORE_CLOCKS) & ~(1u << TELEMETRY_LOAD);

static struct telemetry *open_it(const char *library, const char *mood) {
    struct backend_facts facts = {.backend = "cuda", .pci_bus_id = "0000:41:00.0"};
    assert_int_equal(setenv("KVGAUGE_NVML", library, 1), 0);
    assert_int_equal(setenv("KVGAUGE_FAKE_NVML", mood, 1), 0);
    struct telemetry *telemetry = telemetry_open(&facts);
    assert_non_null(telemetry);
    return telemetry;
}

static struct telemetry_sample look(const char *library, const char *mood) {
    struct telemetry *telemetry = open_it(library, mood);
    struct telemetry_sample sample;
    telemetry_read(telemetry, TELEMETRY_ALL, &sample);
    telemetry_close(telemetry);
    return sample;
}

static void assert_source(const char *library, const char *mood, const char *words) {
    struct telemetry *telemetry = open_it(library, mood);
    if (strstr(telemetry_source(telemetry), words) == NULL)
        fail_msg("'%s' is not in '%s'", words, telemetry_source(telemetry));
    telemetry_close(telemetry);
}

static void test_good(void **state) {
    (void)state;
    const struct telemetry_sample sample = look(FAKE_NVML, "good");
    assert_int_equal(sample.known, of_gpu);
    assert_true(sample.sm_clock_mhz == 1980);
    assert_true(sample.memory_clock_mhz == 2619);
    assert_true(sample.temperature_c == 55);
    assert_true(sample.power_w > 350.4 && sample.power_w < 350.6);
    assert_int_equal(sample.energy_uj, 5001000000u);
    assert_int_equal(sample.reasons, 1u << TELEMETRY_APPLICATION_CLOCKS); /* idle is none */
    assert_int_equal(sample.slowdowns[TELEMETRY_THERMAL], 77);
    assert_int_equal(sample.other_processes, 2); /* of which one computes and draws */
    assert_int_equal(sample.other_bytes, 3 * GIB);
    assert_int_equal(sample.own_bytes, 3 * GIB);
    assert_source(FAKE_NVML, "good", "NVML (Fake GPU of NVML)");
}

static void test_endless_name(void **state) {
    (void)state;
    struct telemetry *telemetry = open_it(FAKE_NVML, "endless_name");
    const char *source = telemetry_source(telemetry);
    assert_int_equal(strlen(source), strlen("NVML ()") + 95);
    assert_int_equal(strspn(source + strlen("NVML ("), "A"), 95);
    telemetry_close(telemetry);
}

/* Only what was asked for is asked for, and known. */
static void test_wanted(void **state) {
    (void)state;
    struct telemetry *telemetry = open_it(FAKE_NVML, "good");
    struct telemetry_sample sample;
    for (uint32_t field = 0; field < TELEMETRY_FIELDS; field++) {
        const uint32_t bit = telemetry_bit((enum telemetry_field)field);
        telemetry_read(telemetry, bit, &sample);
        assert_int_equal(sample.known & bit, of_gpu & bit);
        if (field < TELEMETRY_OTHER_PROCESSES) /* processes come together */
            assert_int_equal(sample.known & ~bit, 0);
    }
    telemetry_read(telemetry, telemetry_bit(TELEMETRY_ENERGY), &sample);
    assert_int_equal(sample.energy_uj, 5002000000u); /* the second reading of it */
    telemetry_close(telemetry);
    telemetry_read(NULL, TELEMETRY_ALL, &sample);
    assert_int_equal(sample.known, 0);
}

static void assert_nothing(const struct telemetry_sample *sample) {
    const struct telemetry_sample nothing = {0};
    assert_int_equal(sample->known, 0);
    assert_memory_equal(sample, &nothing, sizeof nothing);
}

static void test_nothing(void **state) {
    (void)state;
    static const struct {
        const char *library, *mood, *source;
    } cases[] = {
        {"/nonexistent/libnvidia-ml.so.1", "good", "none: /nonexistent/libnvidia-ml.so.1: cannot"},
        {FAKE_NVML_EMPTY, "good", "has no nvmlInit_v2"},
        {FAKE_NVML, "init_fails", "none: nvmlInit_v2 says error 9"},
        {FAKE_NVML, "unsupported", "NVML"},
        {FAKE_NVML, "lost", "NVML"},
        {FAKE_NVML, "nonsense", "NVML"},
        {FAKE_NVML_BARE, "good", "NVML"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct telemetry_sample sample = look(cases[i].library, cases[i].mood);
        if (sample.known != 0)
            fail_msg("%s %s: known are %x", cases[i].library, cases[i].mood, sample.known);
        assert_nothing(&sample);
        assert_source(cases[i].library, cases[i].mood, cases[i].source);
    }
}

static void test_old(void **state) {
    (void)state;
    const struct telemetry_sample sample = look(FAKE_NVML_OLD, "good");
    assert_int_equal(sample.known, of_gpu & ~telemetry_bit(TELEMETRY_SLOWDOWNS));
    assert_int_equal(sample.reasons, 1u << TELEMETRY_APPLICATION_CLOCKS);
    assert_int_equal(sample.other_processes, 2);
}

static void test_processes(void **state) {
    (void)state;
    struct telemetry_sample sample = look(FAKE_NVML, "alone");
    assert_true(telemetry_knows(&sample, TELEMETRY_OTHER_PROCESSES)); /* 0 is a figure here */
    assert_int_equal(sample.other_processes, 0);
    assert_true(telemetry_knows(&sample, TELEMETRY_OTHER_BYTES));
    assert_int_equal(sample.other_bytes, 0);
    assert_int_equal(sample.own_bytes, 3 * GIB);
    /* longer at each call, and a process whose bytes nobody knows */
    sample = look(FAKE_NVML, "grows");
    assert_int_equal(sample.known, of_gpu & ~telemetry_bit(TELEMETRY_OTHER_BYTES));
    assert_int_equal(sample.other_processes, 2);
    static const char *const unknown[] = {"endless", "stranger", "part"};
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        sample = look(FAKE_NVML, unknown[i]);
        assert_false(telemetry_knows(&sample, TELEMETRY_OTHER_PROCESSES));
        assert_false(telemetry_knows(&sample, TELEMETRY_OTHER_BYTES));
        assert_false(telemetry_knows(&sample, TELEMETRY_OWN_BYTES));
        assert_true(telemetry_knows(&sample, TELEMETRY_SM_CLOCK));
    }
}

/* What a whole chip draws is not what one part of it does. */
static void test_part(void **state) {
    (void)state;
    const struct telemetry_sample sample = look(FAKE_NVML, "part");
    assert_false(telemetry_knows(&sample, TELEMETRY_POWER));
    assert_false(telemetry_knows(&sample, TELEMETRY_ENERGY));
    assert_true(telemetry_knows(&sample, TELEMETRY_TEMPERATURE));
}

static void test_backwards(void **state) {
    (void)state;
    struct telemetry *telemetry = open_it(FAKE_NVML, "backwards");
    struct telemetry_sample sample;
    telemetry_read(telemetry, TELEMETRY_ALL, &sample);
    assert_true(telemetry_knows(&sample, TELEMETRY_ENERGY));
    telemetry_read(telemetry, TELEMETRY_ALL, &sample);
    assert_false(telemetry_knows(&sample, TELEMETRY_ENERGY));
    assert_true(telemetry_knows(&sample, TELEMETRY_POWER));
    assert_int_equal(setenv("KVGAUGE_FAKE_NVML", "good", 1), 0);
    telemetry_read(telemetry, TELEMETRY_ALL, &sample); /* it may go on as it likes now */
    assert_false(telemetry_knows(&sample, TELEMETRY_ENERGY));
    telemetry_close(telemetry);
}

static void test_hot(void **state) {
    (void)state;
    struct telemetry *telemetry = open_it(FAKE_NVML, "hot");
    struct telemetry_sample before, after;
    telemetry_read(telemetry, TELEMETRY_ALL, &before);
    assert_int_equal(before.reasons, 1u << TELEMETRY_POWER_CAP | 1u << TELEMETRY_HARDWARE_THERMAL |
                                         1u << TELEMETRY_OTHER_REASON);
    telemetry_read(telemetry, TELEMETRY_ALL, &after);
    assert_int_equal(telemetry_slowdowns(&before, &after), 1u << TELEMETRY_THERMAL);
    assert_int_equal(telemetry_slowdowns(&after, &after), 0);
    telemetry_close(telemetry);
    char words[128];
    telemetry_field_words(&after, TELEMETRY_REASONS, words, sizeof words);
    assert_string_equal(words, "power cap, hardware thermal slowdown, another reason");
}

/* The device of CUDA, wherever the order puts it; no other one instead. */
static void test_which(void **state) {
    (void)state;
    assert_int_equal(setenv("KVGAUGE_NVML", FAKE_NVML, 1), 0);
    assert_int_equal(setenv("KVGAUGE_FAKE_NVML", "good", 1), 0);
    static const struct {
        struct backend_facts facts;
        const char *source;
    } cases[] = {
        {{.backend = "cuda", .pci_bus_id = "0000:42:00.0"},
         "none: NVML finds no device at 0000:42:00.0 (error 6)"},
        {{.backend = "cuda"}, "none: where this device is on the bus is not known"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct telemetry *telemetry = telemetry_open(&cases[i].facts);
        struct telemetry_sample sample;
        telemetry_read(telemetry, TELEMETRY_ALL, &sample);
        assert_nothing(&sample);
        assert_string_equal(telemetry_source(telemetry), cases[i].source);
        telemetry_close(telemetry);
    }
}

/* Every name of NVML in the program is one that only asks. */
static void test_sets_nothing(void **state) {
    (void)state;
    FILE *file = fopen(KVGAUGE_SOURCE_DIR "/host/telemetry_nvml.c", "r");
    assert_non_null(file);
    char line[256];
    uint32_t names = 0;
    while (fgets(line, sizeof line, file) != NULL)
        for (const char *at = line; (at = strstr(at, "\"nvml")) != NULL; at++) {
            const char *name = at + strlen("\"nvml");
            if (strncmp(name, "DeviceGet", 9) != 0 && strncmp(name, "Init", 4) != 0 &&
                strncmp(name, "Shutdown", 8) != 0)
                fail_msg("%s", line);
            names++;
        }
    (void)fclose(file);
    assert_true(names >= 14);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),         cmocka_unit_test(test_wanted),
        cmocka_unit_test(test_nothing),      cmocka_unit_test(test_old),
        cmocka_unit_test(test_processes),    cmocka_unit_test(test_part),
        cmocka_unit_test(test_backwards),    cmocka_unit_test(test_hot),
        cmocka_unit_test(test_endless_name), cmocka_unit_test(test_which),
        cmocka_unit_test(test_sets_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
