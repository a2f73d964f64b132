/* What a row says of its circumstances: a watch's readings in words, reasons one behind the other,
 * and looks between samples with a made-up NVML. */
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

static void assert_clocks(const struct telemetry_watch *watch, const struct measure_energy *energy,
                          const char *clocks, const char *throttled) {
    struct telemetry_summary summary;
    telemetry_watch_summary(watch, energy, &summary);
    assert_string_equal(summary.clocks, clocks);
    assert_string_equal(summary.throttled, throttled);
}

static void test_summary_clocks(void **state) {
    (void)state;
    struct telemetry_watch watch = {0};
    struct measure_energy energy = {0};
    assert_clocks(&watch, &energy, "", "");
    watch.after.known = telemetry_bit(TELEMETRY_SM_CLOCK) | telemetry_bit(TELEMETRY_MEMORY_CLOCK);
    watch.after.sm_clock_mhz = 345;
    watch.after.memory_clock_mhz = 2619;
    assert_clocks(&watch, &energy, "sm 345 MHz, memory 2619 MHz", "");
    /* while it worked goes before behind the work */
    energy.busy = watch.after;
    energy.busy.sm_clock_mhz = 1980;
    assert_clocks(&watch, &energy, "sm 1980 MHz, memory 2619 MHz", "");
    watch.counted_before_mhz = 2000;
    assert_clocks(&watch, &energy, "sm 1980 MHz, memory 2619 MHz", "");
    watch.counted_after_mhz = 1901; /* 95.05 % */
    assert_clocks(&watch, &energy, "sm 1980 MHz, memory 2619 MHz, sm counted 2000 to 1901 MHz", "");
    watch.counted_after_mhz = 2600; /* awake now */
    assert_clocks(&watch, &energy, "sm 1980 MHz, memory 2619 MHz, sm counted 2000 to 2600 MHz", "");
    watch.counted_after_mhz = 1500;
    assert_clocks(&watch, &energy, "sm 1980 MHz, memory 2619 MHz, sm counted 2000 to 1500 MHz",
                  "throttled: the SM clock fell by 25 % from 2000 to 1500 MHz");
    energy.reasons = 1u << TELEMETRY_POWER_CAP | 1u << TELEMETRY_SYNC_BOOST;
    assert_clocks(&watch, &energy, "sm 1980 MHz, memory 2619 MHz, sm counted 2000 to 1500 MHz",
                  "throttled: power cap, the SM clock fell by 25 % from 2000 to 1500 MHz");
}

static void test_summary_reasons(void **state) {
    (void)state;
    struct telemetry_watch watch = {0};
    const struct measure_energy energy = {0};
    struct telemetry_summary summary;
    telemetry_watch_summary(&watch, &energy, &summary);
    assert_false(summary.has_reasons || summary.has_temperature || summary.has_other_processes ||
                 summary.has_other_bytes || summary.has_other_load);
    /* nobody would have told at one end: not known is not "none" */
    watch.after.known = telemetry_bit(TELEMETRY_REASONS);
    telemetry_watch_summary(&watch, &energy, &summary);
    assert_false(summary.has_reasons);
    watch.before.known = telemetry_bit(TELEMETRY_REASONS);
    telemetry_watch_summary(&watch, &energy, &summary);
    assert_true(summary.has_reasons);
    assert_int_equal(summary.reason_count, 0);
    /* what only names a setting does not throttle */
    watch.before.reasons = 1u << TELEMETRY_APPLICATION_CLOCKS;
    telemetry_watch_summary(&watch, &energy, &summary);
    assert_int_equal(summary.reason_count, 1);
    assert_string_equal(summary.reasons[0], "application clocks setting");
    assert_string_equal(summary.throttled, "");
    /* counted in between, seen at neither end */
    watch.before.counted = watch.after.counted = 1u << TELEMETRY_THERMAL;
    watch.before.slowdowns[TELEMETRY_THERMAL] = 3;
    watch.after.slowdowns[TELEMETRY_THERMAL] = 4;
    telemetry_watch_summary(&watch, &energy, &summary);
    assert_int_equal(summary.reason_count, 2);
    assert_string_equal(summary.reasons[0], "thermal slowdown");
    assert_string_equal(summary.throttled, "throttled: thermal slowdown");
}

static void test_summary_others(void **state) {
    (void)state;
    struct telemetry_watch watch = {0};
    const struct measure_energy energy = {0};
    struct telemetry_summary summary;
    const uint32_t others =
        telemetry_bit(TELEMETRY_OTHER_PROCESSES) | telemetry_bit(TELEMETRY_OTHER_BYTES);
    watch.before.known = others | telemetry_bit(TELEMETRY_LOAD);
    watch.after.known = telemetry_bit(TELEMETRY_OTHER_PROCESSES) | telemetry_bit(TELEMETRY_LOAD);
    watch.before.other_processes = 2;
    watch.before.other_bytes = 12345;
    watch.after.load_all_ticks = 1000;
    watch.after.load_other_ticks = 250;
    telemetry_watch_summary(&watch, &energy, &summary);
    assert_true(summary.has_other_processes && summary.has_other_bytes && summary.has_other_load);
    assert_int_equal(summary.other_processes, 2); /* gone in the meantime: it was there */
    assert_int_equal(summary.other_bytes, 12345);
    assert_true(fabs(summary.other_load_percent - 25) < 1e-9);
    watch.after.other_processes = 3; /* whose bytes are not known */
    telemetry_watch_summary(&watch, &energy, &summary);
    assert_int_equal(summary.other_processes, 3);
    assert_false(summary.has_other_bytes);
    watch.after.known = 0;
    telemetry_watch_summary(&watch, &energy, &summary);
    assert_false(summary.has_other_processes || summary.has_other_load);
}

static const char *reason_of(const struct result *result) {
    static const struct result_run run;
    static struct result_row row;
    result_values(&run, result, &row);
    return row.values[RESULT_REASON].kind == WRITER_TEXT ? row.values[RESULT_REASON].as.text : NULL;
}

/* A row that counts draft layers says so, once, and nothing is cut off however much is to be said.
 */
static void test_add_reason(void **state) {
    (void)state;
    struct options options = {.draft_layers = 1};
    struct options_format format = {.name = "bf16"};
    struct run_case one = {.options = &options};
    (void)strcpy(one.model.remark, "1 draft layer counted in");
    struct result result = {.which = &one, .format = &format};
    result_add_reason(&result, "");
    assert_string_equal(result.reason, "");
    assert_string_equal(reason_of(&result), "1 draft layer counted in");
    result_add_reason(&result, "throttled: power cap");
    assert_string_equal(reason_of(&result), "1 draft layer counted in; throttled: power cap");
    options.draft_layers = 0;
    result.reason[0] = '\0';
    assert_null(reason_of(&result));
    result_add_reason(&result, "first");
    result_add_reason(&result, "second");
    assert_string_equal(reason_of(&result), "first; second");
    /* the longest that each can be: kernel, stability, clock, throttling, drafts */
    static const size_t lengths[] = {255, MEASURE_STABILITY_WORDS_BYTES - 1, 95,
                                     sizeof((struct telemetry_summary *)0)->throttled - 1};
    size_t whole = sizeof one.model.remark - 1;
    options.draft_layers = 1;
    (void)memset(one.model.remark, 'd', sizeof one.model.remark - 1);
    one.model.remark[sizeof one.model.remark - 1] = '\0';
    result.reason[0] = '\0';
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        char words[256] = "";
        (void)memset(words, 'a' + (int)i, lengths[i]);
        result_add_reason(&result, words);
        whole += 2 + lengths[i];
    }
    assert_int_equal(strlen(reason_of(&result)), whole);
}

/* A slowdown that is over before the end, on a device that counts none. */
static void test_look(void **state) {
    (void)state;
    const struct backend_ops ops = {.name = "counts no clock"};
    const struct backend_facts facts = {.backend = "cuda", .pci_bus_id = "0000:41:00.0"};
    const struct measure_energy energy = {0};
    struct telemetry_watch watch;
    struct telemetry_summary summary;
    struct status_text text = {""};
    assert_int_equal(setenv("KVGAUGE_NVML", FAKE_NVML_OLD, 1), 0);
    assert_int_equal(setenv("KVGAUGE_FAKE_NVML", "short", 1), 0);
    struct telemetry *telemetry = telemetry_open(&facts);
    for (int looks = 0; looks < 2; looks++) {
        assert_int_equal(telemetry_watch_begin(&ops, NULL, NULL, telemetry, &watch, &text),
                         STATUS_OK);
        if (looks > 0)
            telemetry_watch_look(&watch);
        assert_int_equal(telemetry_watch_end(&ops, NULL, &watch, &text), STATUS_OK);
        telemetry_watch_summary(&watch, &energy, &summary);
        assert_true(summary.has_reasons);
        assert_int_equal(summary.reason_count, looks > 0 ? 4 : 1);
        assert_string_equal(summary.throttled,
                            looks > 0 ? "throttled: power cap, hardware thermal slowdown" : "");
    }
    /* half a second passes between two looks */
    watch.reasons = 0;
    watch.next_look_ns = UINT64_MAX;
    telemetry_watch_look(&watch);
    assert_int_equal(watch.reasons, 0);
    watch.next_look_ns = 0;
    const uint64_t before_ns = progress_now_ns();
    telemetry_watch_look(&watch);
    assert_true(watch.next_look_ns >= before_ns + 500000000);
    assert_true(watch.reasons != 0);
    telemetry_close(telemetry);
    watch.telemetry = NULL; /* nobody to ask */
    watch.reasons = 0;
    watch.next_look_ns = 0;
    telemetry_watch_look(&watch);
    assert_int_equal(watch.reasons, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_summary_clocks), cmocka_unit_test(test_summary_reasons),
        cmocka_unit_test(test_summary_others), cmocka_unit_test(test_add_reason),
        cmocka_unit_test(test_look),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
