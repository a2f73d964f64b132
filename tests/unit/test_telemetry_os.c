/* What is read of a CPU's files, on made-up trees: each figure by itself, and what it is without
 * its file or with nonsense in it. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "telemetry_os.h"

static char root[64];

/* FILE below the root, folders as needed. */
static void put(const char *file, const char *content) {
    char path[512];
    (void)snprintf(path, sizeof path, "%s/%s", root, file);
    for (char *slash = strchr(path + strlen(root) + 1, '/'); slash != NULL;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(path, 0700);
        *slash = '/';
    }
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    (void)fputs(content, out);
    assert_int_equal(fclose(out), 0);
}

static int remove_one(const char *path, const struct stat *about, int kind, struct FTW *place) {
    (void)about;
    (void)kind;
    (void)place;
    return remove(path);
}

static int setup(void **state) {
    (void)state;
    (void)strcpy(root, "/tmp/test_telemetry_os.XXXXXX");
    return mkdtemp(root) != NULL ? 0 : -1;
}

static int teardown(void **state) {
    (void)state;
    return nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static struct telemetry_sample look(void) {
    struct telemetry_os os;
    struct telemetry_sample sample = {0};
    telemetry_os_open(root, &os);
    telemetry_os_read(&os, TELEMETRY_ALL, &sample);
    return sample;
}

static void test_empty(void **state) {
    (void)state;
    const struct telemetry_sample nothing = {0}, sample = look();
    assert_memory_equal(&sample, &nothing, sizeof nothing);
}

#define CORE(n, file) "sys/devices/system/cpu/cpu" #n "/" file

static void test_clocks(void **state) {
    (void)state;
    put(CORE(0, "cpufreq/scaling_cur_freq"), "3391000\n");
    put(CORE(1, "cpufreq/scaling_cur_freq"), "1500000\n");
    put(CORE(12, "cpufreq/scaling_cur_freq"), "2000000\n");
    put(CORE(3, "cpufreq/scaling_cur_freq"), "0\n");
    put(CORE(4, "cpufreq/scaling_cur_freq"), "99999999999999999999\n");
    put(CORE(5, "cpufreq/scaling_cur_freq"), "<unknown>\n");
    put(CORE(6, "cpufreq/scaling_cur_freq"), "");
    put("sys/devices/system/cpu/cpufreq/cpufreq/scaling_cur_freq", "9000000\n"); /* no core */
    const struct telemetry_sample sample = look();
    assert_int_equal(sample.known, telemetry_bit(TELEMETRY_CORE_CLOCKS));
    assert_true(sample.core_clock_least_mhz == 1500);
    assert_true(sample.core_clock_most_mhz == 3391);
    char words[64];
    telemetry_field_words(&sample, TELEMETRY_CORE_CLOCKS, words, sizeof words);
    assert_string_equal(words, "1500 to 3391 MHz");
}

static void test_temperature(void **state) {
    (void)state;
    put("sys/class/thermal/thermal_zone0/type", "acpitz\n");
    put("sys/class/thermal/thermal_zone0/temp", "99000\n");
    assert_int_equal(look().known, 0);
    put("sys/class/thermal/thermal_zone1/type", "x86_pkg_temp\n");
    put("sys/class/thermal/thermal_zone1/temp", "61000\n");
    assert_true(look().temperature_c == 61);
    /* the chip's own sensor goes before; another chip's does not count */
    put("sys/class/hwmon/hwmon0/name", "nvme\n");
    put("sys/class/hwmon/hwmon0/temp1_input", "80000\n");
    assert_true(look().temperature_c == 61);
    put("sys/class/hwmon/hwmon1/name", "k10temp\n");
    put("sys/class/hwmon/hwmon1/temp1_input", "47500\n");
    put("sys/class/hwmon/hwmon2/name", "k10temp\n");
    put("sys/class/hwmon/hwmon2/temp1_input", "48250\n");
    assert_true(look().temperature_c == 48.25); /* of two packages the hotter one */
    put("sys/class/hwmon/hwmon1/temp1_input", "49500\n");
    assert_true(look().temperature_c == 49.5);
    put("sys/class/hwmon/hwmon1/temp1_input", "47500\n");
    static const char *const nonsense[] = {"4000000000\n", "-5000\n", "0\n", "n/a\n", "\n", ""};
    for (size_t i = 0; i < sizeof nonsense / sizeof nonsense[0]; i++) {
        put("sys/class/hwmon/hwmon1/temp1_input", nonsense[i]);
        put("sys/class/hwmon/hwmon2/temp1_input", nonsense[i]);
        put("sys/class/thermal/thermal_zone1/temp", nonsense[i]);
        assert_int_equal(look().known, 0);
    }
}

#define ZONE(n, file) "sys/class/powercap/intel-rapl:" n "/" file

static void put_zone(const char *name, const char *kind, const char *range, const char *energy) {
    char path[128];
    (void)snprintf(path, sizeof path, "sys/class/powercap/%s/name", name);
    put(path, kind);
    (void)snprintf(path, sizeof path, "sys/class/powercap/%s/max_energy_range_uj", name);
    put(path, range);
    (void)snprintf(path, sizeof path, "sys/class/powercap/%s/energy_uj", name);
    put(path, energy);
}

static uint64_t energy_now(struct telemetry_os *os) {
    struct telemetry_sample sample = {0};
    telemetry_os_read(os, telemetry_bit(TELEMETRY_ENERGY), &sample);
    assert_int_equal(sample.known, telemetry_bit(TELEMETRY_ENERGY));
    return sample.energy_uj;
}

static void test_energy(void **state) {
    (void)state;
    put_zone("intel-rapl:0", "package-0\n", "262143328850\n", "262143000000\n");
    put_zone("intel-rapl:1", "package-1\n", "1000000\n", "10\n");
    put_zone("intel-rapl:0:0", "core\n", "1000000\n", "5\n"); /* in the package's already */
    put_zone("intel-rapl:0:1", "dram\n", "65712999613\n", "7000\n");
    put_zone("intel-rapl:2", "psys\n", "1000000\n", "5\n");
    put_zone("intel-rapl-mmio:0", "package-0\n", "1000000\n", "5\n"); /* the same once more */
    struct telemetry_os os;
    telemetry_os_open(root, &os);
    assert_int_equal(energy_now(&os), 0);
    put(ZONE("0", "energy_uj"), "262143300000\n");
    put(ZONE("0:1", "energy_uj"), "7500\n");
    put(ZONE("0:0", "energy_uj"), "999999\n");
    assert_int_equal(energy_now(&os), 300500);
    /* round: 28,850 to its end and 1,000 from its beginning */
    put(ZONE("0", "energy_uj"), "1000\n");
    put(ZONE("1", "energy_uj"), "9\n"); /* 999,999 more */
    assert_int_equal(energy_now(&os), 300500 + 29850 + 999999);
}

/* A part of the energy is none. */
static void test_energy_unknown(void **state) {
    (void)state;
    static const struct {
        const char *range, *energy;
    } bad[] = {{"0\n", "10\n"}, {"", "10\n"}, {"1000\n", ""}, {"1000\n", "1001\n"}, {"x", "10\n"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        put_zone("intel-rapl:0", "package-0\n", "1000\n", "10\n");
        put_zone("intel-rapl:1", "package-1\n", bad[i].range, bad[i].energy);
        assert_int_equal(look().known, 0);
    }
    put_zone("intel-rapl:1", "package-1\n", "1000\n", "10\n");
    assert_int_equal(look().known, telemetry_bit(TELEMETRY_ENERGY));
    /* more than there are places for */
    for (int i = 2; i <= TELEMETRY_OS_ZONES; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "intel-rapl:%d", i);
        assert_int_equal(look().known, telemetry_bit(TELEMETRY_ENERGY));
        put_zone(name, "package-9\n", "1000\n", "10\n");
    }
    assert_int_equal(look().known, 0);
    teardown(state);
    setup(state);
    put_zone("intel-rapl:0", "package-0\n", "1000\n", "10\n");
    put_zone("intel-rapl:1", "package-1\n", "1000\n", "10\n");
    /* one that goes away, or mad, ends it for good */
    struct telemetry_os os;
    struct telemetry_sample sample = {0};
    telemetry_os_open(root, &os);
    put(ZONE("1", "energy_uj"), "5000\n");
    telemetry_os_read(&os, TELEMETRY_ALL, &sample);
    put(ZONE("1", "energy_uj"), "20\n");
    telemetry_os_read(&os, TELEMETRY_ALL, &sample);
    assert_int_equal(sample.known, 0);
}

static void test_slowdowns(void **state) {
    (void)state;
    put(CORE(0, "thermal_throttle/core_throttle_count"), "3\n");
    put(CORE(1, "thermal_throttle/core_throttle_count"), "4\n");
    struct telemetry_sample before = look();
    assert_int_equal(before.known, telemetry_bit(TELEMETRY_SLOWDOWNS));
    struct telemetry_sample after = look();
    assert_int_equal(telemetry_slowdowns(&before, &after), 0);
    put(CORE(1, "thermal_throttle/package_throttle_count"), "1\n");
    after = look();
    assert_int_equal(after.slowdowns[TELEMETRY_THERMAL], 8);
    assert_int_equal(telemetry_slowdowns(&before, &after), 1u << TELEMETRY_THERMAL);
    assert_int_equal(telemetry_slowdowns(&(struct telemetry_sample){0}, &after), 0);
}

static void put_load(const char *all, unsigned own_user, unsigned own_system) {
    char own[256];
    (void)snprintf(own, sizeof own,
                   "77 (a ) b (c) S 1 77 77 34816 -1 4194304 125 0 0 0 %u %u 9 9 20 0 1 0 1 2\n",
                   own_user, own_system);
    put("proc/self/stat", own);
    put("proc/stat", all);
}

static void test_load(void **state) {
    (void)state;
    double share = -1;
    put_load("cpu  1000 100 200 5000 60 7 8 9 500 0\ncpu0 1 1 1 1\n", 300, 50);
    const struct telemetry_sample before = look();
    assert_int_equal(before.known, telemetry_bit(TELEMETRY_LOAD));
    assert_int_equal(before.load_all_ticks, 6384);
    assert_int_equal(before.load_other_ticks, 1324 - 350);
    /* 1000 ticks pass: 400 busy, 300 of them this process's */
    put_load("cpu  1300 100 280 5590 70 7 8 29 700 0\n", 580, 70);
    struct telemetry_sample after = look();
    assert_true(telemetry_other_load(&before, &after, &share));
    assert_true(share > 0.0999 && share < 0.1001);
    /* counted a tick apart: nobody else is nobody else */
    put_load("cpu  1300 100 250 5590 100 7 8 9 700 0\n", 700, 50);
    after = look();
    assert_true(telemetry_other_load(&before, &after, &share));
    assert_true(share == 0);
    assert_false(telemetry_other_load(&before, &before, &share)); /* no time has passed */
    assert_false(telemetry_other_load(&after, &before, &share));
    /* a fifth of a second at least */
    after = before;
    after.load_all_ticks += 19;
    assert_false(telemetry_other_load(&before, &after, &share));
    after.load_all_ticks++;
    assert_true(telemetry_other_load(&before, &after, &share));
    static const char *const nonsense[] = {"cpu\n", "cpu  1 2 3\n", "", "cpu  a b c d e f g h\n",
                                           "intr 1 2 3 4 5 6 7 8\n"};
    for (size_t i = 0; i < sizeof nonsense / sizeof nonsense[0]; i++) {
        put("proc/stat", nonsense[i]);
        assert_int_equal(look().known, 0);
    }
    put_load("cpu  1000 100 200 5000 60 7 8 9 500 0\n", 300, 50);
    put("proc/self/stat", "77 (name) S 1 2 3\n");
    assert_int_equal(look().known, 0);
}

/* This machine's own, whatever it shows: what is known is in its range. */
static void test_here(void **state) {
    (void)state;
    struct telemetry_os os;
    struct telemetry_sample sample = {0};
    telemetry_os_open("", &os);
    telemetry_os_read(&os, TELEMETRY_ALL, &sample);
    if (telemetry_knows(&sample, TELEMETRY_TEMPERATURE))
        assert_true(sample.temperature_c > 0 && sample.temperature_c <= 150);
    if (telemetry_knows(&sample, TELEMETRY_CORE_CLOCKS))
        assert_true(sample.core_clock_least_mhz > 0 &&
                    sample.core_clock_least_mhz <= sample.core_clock_most_mhz);
    if (telemetry_knows(&sample, TELEMETRY_LOAD))
        assert_true(sample.load_other_ticks <= sample.load_all_ticks);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_empty, setup, teardown),
        cmocka_unit_test_setup_teardown(test_clocks, setup, teardown),
        cmocka_unit_test_setup_teardown(test_temperature, setup, teardown),
        cmocka_unit_test_setup_teardown(test_energy, setup, teardown),
        cmocka_unit_test_setup_teardown(test_energy_unknown, setup, teardown),
        cmocka_unit_test_setup_teardown(test_slowdowns, setup, teardown),
        cmocka_unit_test_setup_teardown(test_load, setup, teardown),
        cmocka_unit_test(test_here),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
