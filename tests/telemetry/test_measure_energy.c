/* Energy of a step out of readings with made-up times, and a pass over real steps with a made-up
 * NVML. What a row says of its circumstances: test_telemetry_watch. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "progress.h"
#include "result.h"
#include "telemetry_watch.h"

#define MS ((uint64_t)1000 * 1000)
#define START_NS ((uint64_t)77 * 1000 * MS)

/* In place of host/progress.c's: no real time is looked at. Every look is 40 ms behind the last. */
uint64_t progress_now_ns(void) {
    static uint64_t now_ns = START_NS;
    return now_ns += 40 * MS;
}

static bool near(double a, double b) {
    return fabs(a - b) <= 1e-9 * fabs(b);
}

static struct telemetry_sample energy_of(uint64_t uj) {
    return (struct telemetry_sample){.known = telemetry_bit(TELEMETRY_ENERGY), .energy_uj = uj};
}
static struct telemetry_sample power_of(double w) {
    return (struct telemetry_sample){.known = telemetry_bit(TELEMETRY_POWER), .power_w = w};
}

/* `readings`, one every `every_ms` and steps_each steps, of a device that draws 200 W and shows its
 * energy once in jump_ms. */
static struct measure_energy counted(uint32_t readings, uint64_t every_ms, uint64_t jump_ms) {
    struct measure_energy_meter meter = {0};
    for (uint32_t i = 0; i <= readings; i++) {
        const uint64_t ms = i * every_ms;
        const uint64_t seen_ms = ms / jump_ms * jump_ms;
        const struct telemetry_sample sample = energy_of(5000000 + seen_ms * 200000);
        measure_energy_meter_add(&meter, &sample, START_NS + ms * MS, (uint64_t)i * 50);
    }
    struct measure_energy out = {0};
    measure_energy_meter_finish(&meter, &out);
    return out;
}

static void test_counter(void **state) {
    (void)state;
    /* 200 W, a step every 0.8 ms: 0.16 J, however rarely the counter moves */
    static const uint64_t jumps_ms[] = {1, 40, 80, 120};
    for (size_t i = 0; i < sizeof jumps_ms / sizeof jumps_ms[0]; i++) {
        const struct measure_energy energy = counted(40, 40, jumps_ms[i]);
        assert_true(energy.has_power && energy.has_energy);
        assert_true(near(energy.power_w, 200));
        assert_true(near(energy.step_j, 0.16));
    }
    /* 11 jumps give 10 whole intervals; one less is too few */
    assert_true(counted(11, 40, 40).has_energy);
    assert_false(counted(10, 40, 40).has_energy);
    assert_false(counted(10, 40, 40).has_power);
    assert_false(counted(40, 40, 10000).has_energy); /* it stood still */
}

static void test_counter_lies(void **state) {
    (void)state;
    for (int fault = 0; fault < 4; fault++) {
        struct measure_energy_meter meter = {0};
        for (uint64_t i = 0; i < 30; i++) {
            struct telemetry_sample sample = energy_of(1000000 + i * 8000000);
            if (fault == 0 && i == 20)
                sample = energy_of(999999); /* backwards */
            if (fault == 1 && i == 20)
                sample.known = 0; /* a reading fails */
            if (fault == 2)
                sample.energy_uj *= 1000; /* 200 kW */
            if (fault == 3 && i == 29)
                sample.energy_uj = UINT64_MAX - 1;
            measure_energy_meter_add(&meter, &sample, START_NS + i * 40 * MS, i * 50);
        }
        struct measure_energy out = {0};
        measure_energy_meter_finish(&meter, &out);
        assert_false(out.has_energy);
        assert_false(out.has_power);
    }
}

/* Power alone: the mean of the second half, where the device's own mean has caught up. */
static void test_power(void **state) {
    (void)state;
    struct measure_energy_meter meter = {0};
    assert_false(measure_energy_meter_done(&meter));
    for (uint64_t i = 0; i <= 25; i++) {
        const struct telemetry_sample sample = power_of(i * 40 < 500 ? 60 : i % 2 == 0 ? 190 : 210);
        assert_false(measure_energy_meter_done(&meter));
        measure_energy_meter_add(&meter, &sample, START_NS + i * 40 * MS, i * 50);
    }
    assert_true(measure_energy_meter_done(&meter)); /* a second is enough */
    struct measure_energy out = {0};
    measure_energy_meter_finish(&meter, &out);
    assert_true(out.has_power && out.has_energy);
    assert_true(out.power_w > 199 && out.power_w < 201);
    assert_true(near(out.step_j, out.power_w * 1.0 / (25 * 50)));
    /* too few to mean anything */
    struct measure_energy_meter few = {0};
    for (uint64_t i = 0; i < 4; i++) {
        const struct telemetry_sample sample = power_of(200);
        measure_energy_meter_add(&few, &sample, START_NS + i * 1000 * MS, i);
    }
    out = (struct measure_energy){0};
    measure_energy_meter_finish(&few, &out);
    assert_false(out.has_power || out.has_energy);
}

static uint64_t pass_ms(uint64_t jump_ms) {
    struct measure_energy_meter meter = {0};
    uint64_t ms = 0;
    for (; !measure_energy_meter_done(&meter) && ms < 100000; ms += 40) {
        const struct telemetry_sample sample = energy_of(1 + ms / jump_ms * jump_ms * 1000);
        measure_energy_meter_add(&meter, &sample, START_NS + ms * MS, ms);
    }
    return ms - 40;
}

/* How long a pass takes depends on how often the counter moves, up to five seconds. */
static void test_length(void **state) {
    (void)state;
    assert_int_equal(pass_ms(40), 1000);
    assert_int_equal(pass_ms(200), 2200);
    assert_int_equal(pass_ms(800), 5000);
}

/* A step makes a token for each sequence. */
static void test_energy_of_a_token(void **state) {
    (void)state;
    static const uint64_t lengths[] = {1, 1, 1};
    static const struct result_run run;
    static struct result_row row;
    struct options options = {.seed = 1};
    struct options_format format = {.name = "bf16"};
    const struct run_case one = {.options = &options, .seqs = 3, .lengths = (uint64_t *)lengths};
    struct result result = {.which = &one,
                            .format = &format,
                            .has_speed = true,
                            .energy = {.has_energy = true, .step_j = 6}};
    result_values(&run, &result, &row);
    assert_int_equal(row.values[RESULT_ENERGY_J].kind, WRITER_REAL);
    assert_true(fabs(row.values[RESULT_ENERGY_J].as.real - 2) < 1e-12);
    assert_int_equal(row.values[RESULT_POWER_W].kind, WRITER_NULL);
}

static const struct model model = {
    .name = "small",
    .group_count = 1,
    .groups = {{.kind = MODEL_FULL,
                .layers = 1,
                .read_by_layers = 1,
                .kv_heads = 1,
                .query_heads = 1,
                .k_dim = 32,
                .v_dim = 32}},
};

static double clock_now_mhz;
static uint32_t clock_calls;
static enum status clock_mhz(struct backend_device *device, double *mhz, struct status_text *text) {
    (void)device;
    clock_calls++;
    *mhz = clock_now_mhz;
    return clock_now_mhz < 0 ? status_set(text, STATUS_IO, "the clock fails") : STATUS_OK;
}

static void test_pass(void **state) {
    (void)state;
    struct backend_ops ops = *backend_find("cpu");
    ops.clock_mhz = clock_mhz;
    struct backend_device *device;
    struct status_text text = {""};
    assert_int_equal(ops.open(&(struct backend_options){.threads = 1}, &device, &text), STATUS_OK);
    static const uint64_t lengths[2] = {70, 33};
    const struct pool_request request = {.model = &model,
                                         .storage = {.k_format = FORMAT_BF16,
                                                     .v_format = FORMAT_BF16,
                                                     .index = FORMULA_INDEX_NONE,
                                                     .state_value_bytes = 4},
                                         .lengths = lengths,
                                         .seqs = 2,
                                         .page_tokens = 16};
    struct pool *pool;
    struct step *step;
    assert_int_equal(pool_create(&ops, device, &request, NULL, &pool, &text), STATUS_OK);
    assert_int_equal(pool_fill(pool, NULL, &text), STATUS_OK);
    assert_int_equal(step_create(&ops, device, pool, NULL, 5, OPTIONS_DATA_NORMAL, &step, &text),
                     STATUS_OK);
    const struct backend_facts facts = {.backend = "cuda", .pci_bus_id = "0000:41:00.0"};
    static const struct {
        const char *library, *mood;
        bool known;
    } cases[] = {{FAKE_NVML, "hot", true},        {FAKE_NVML, "backwards", true},
                 {FAKE_NVML, "nonsense", false},  {FAKE_NVML, "part", false},
                 {FAKE_NVML_BARE, "good", false}, {"/nonexistent.so", "good", false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(setenv("KVGAUGE_NVML", cases[i].library, 1), 0);
        assert_int_equal(setenv("KVGAUGE_FAKE_NVML", cases[i].mood, 1), 0);
        struct telemetry *telemetry = telemetry_open(&facts);
        struct measure_energy energy;
        assert_int_equal(measure_energy_run(&ops, device, step, telemetry, &energy, &text),
                         STATUS_OK);
        assert_int_equal(energy.has_energy, cases[i].known);
        assert_int_equal(energy.has_power, cases[i].known);
        if (cases[i].known) {
            assert_true(energy.step_j > 0 && energy.power_w > 0);
            /* of one that counts: a joule at each look, and a step takes a look too */
            if (i == 0)
                assert_true(near(energy.power_w, 25) && near(energy.step_j, 1));
            assert_true(energy.busy.sm_clock_mhz == 1980);
        }
        assert_int_equal(energy.reasons != 0, cases[i].known);
        /* the watch: two clocks and what both ends show */
        struct telemetry_watch watch;
        struct telemetry_summary summary;
        clock_calls = 0;
        clock_now_mhz = 2000;
        assert_int_equal(telemetry_watch_begin(&ops, device, step, telemetry, &watch, &text),
                         STATUS_OK);
        clock_now_mhz = 1000;
        assert_int_equal(telemetry_watch_end(&ops, device, &watch, &text), STATUS_OK);
        assert_int_equal(clock_calls, 2);
        telemetry_watch_summary(&watch, &energy, &summary);
        assert_non_null(strstr(summary.clocks, "sm counted 2000 to 1000 MHz"));
        assert_non_null(strstr(summary.throttled, "fell by 50 %"));
        telemetry_close(telemetry);
    }
    clock_now_mhz = -1;
    struct telemetry_watch watch = {0};
    assert_int_equal(telemetry_watch_begin(&ops, device, step, NULL, &watch, &text), STATUS_IO);
    assert_int_equal(telemetry_watch_end(&ops, device, &watch, &text), STATUS_IO);
    step_destroy(step);
    pool_destroy(pool);
    ops.close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counter),
        cmocka_unit_test(test_counter_lies),
        cmocka_unit_test(test_power),
        cmocka_unit_test(test_length),
        cmocka_unit_test(test_energy_of_a_token),
        cmocka_unit_test(test_pass),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
