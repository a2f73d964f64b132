/* What a GPU that shares the host's memory may take, read from files like /proc/meminfo. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cuda/cuda_meminfo.h"

#define KIB ((uint64_t)1024)

static bool read_text(const char *content, struct cuda_meminfo *out) {
    char path[] = "/tmp/kvgauge_meminfo_XXXXXX";
    const int descriptor = mkstemp(path);
    assert_true(descriptor >= 0);
    FILE *file = fdopen(descriptor, "w");
    assert_non_null(file);
    assert_true(fputs(content, file) >= 0);
    assert_int_equal(fclose(file), 0);
    const bool good = cuda_meminfo_read(path, out);
    assert_int_equal(unlink(path), 0);
    return good;
}

static void assert_refused(const char *content) {
    struct cuda_meminfo info = {1, 1, true};
    assert_false(read_text(content, &info));
    assert_int_equal(info.total_bytes, 0);
    assert_int_equal(info.available_bytes, 0);
    assert_false(info.huge_pages);
}

static void test_normal(void **state) {
    (void)state;
    struct cuda_meminfo info;
    assert_true(read_text("MemTotal:       127535104 kB\n"
                          "MemFree:          1234568 kB\n"
                          "MemAvailable:   101234567 kB\n"
                          "SwapFree:        16777212 kB\n"
                          "HugePages_Total:       0\n"
                          "HugePages_Free:        0\n"
                          "Hugepagesize:       2048 kB\n",
                          &info));
    assert_int_equal(info.total_bytes, 127535104 * KIB);
    assert_int_equal(info.available_bytes, 101234567 * KIB); /* swap is not counted */
    assert_false(info.huge_pages);
    assert_int_equal(cuda_meminfo_floor_bytes(&info), 127535104 * KIB / 32);
    /* kernels built without huge pages print no line of them; the last line may lack its end */
    assert_true(read_text("MemTotal: 1000 kB\nMemAvailable: 900 kB", &info));
    assert_int_equal(info.available_bytes, 900 * KIB);
}

static void test_huge_pages(void **state) {
    (void)state;
    struct cuda_meminfo info;
    assert_true(read_text("MemTotal:       127535104 kB\n"
                          "MemAvailable:    21234567 kB\n"
                          "HugePages_Total:   40960\n"
                          "HugePages_Free:    30000\n"
                          "Hugepagesize:       2048 kB\n",
                          &info));
    assert_true(info.huge_pages);
    assert_int_equal(info.available_bytes, 30000 * 2048 * KIB);
    /* all of them in use: nothing is left, whatever MemAvailable says */
    assert_true(read_text("MemTotal: 9000000 kB\nMemAvailable: 800000 kB\nHugePages_Total: 8\n"
                          "HugePages_Free: 0\nHugepagesize: 2048 kB\n",
                          &info));
    assert_int_equal(info.available_bytes, 0);
    assert_refused("MemTotal: 9000000 kB\nMemAvailable: 800000 kB\nHugePages_Total: 8\n"
                   "Hugepagesize: 2048 kB\n");
    assert_refused("MemTotal: 9000000 kB\nMemAvailable: 800000 kB\nHugePages_Total: 8\n"
                   "HugePages_Free: 8\n");
    /* more than there is, and more than 64 bits hold */
    assert_refused("MemTotal: 1000 kB\nMemAvailable: 900 kB\nHugePages_Total: 8\n"
                   "HugePages_Free: 8\nHugepagesize: 2048 kB\n");
    assert_refused("MemTotal: 1000 kB\nHugePages_Total: 8\nHugePages_Free: 18446744073709551615\n"
                   "Hugepagesize: 2048 kB\n");
}

static void test_missing(void **state) {
    (void)state;
    struct cuda_meminfo info;
    assert_refused("MemTotal: 1000 kB\nMemFree: 900 kB\n");
    assert_refused("MemAvailable: 900 kB\n");
    assert_refused("");
    assert_false(cuda_meminfo_read("/nonexistent/meminfo", &info));
    assert_false(cuda_meminfo_read("/tmp", &info));
    assert_int_equal(info.total_bytes, 0);
}

static void test_garbage(void **state) {
    (void)state;
    static const char *const values[] = {"",
                                         " kB",
                                         "-5 kB",
                                         "lots kB",
                                         "900",
                                         "900 MB",
                                         "9x",
                                         "0x9",
                                         "900 kBs",
                                         "9 0 kB",
                                         "1e3 kB",
                                         "99999999999999999999 kB",
                                         "18446744073709551615 kB"};
    char content[128];
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        (void)snprintf(content, sizeof content, "MemTotal: 1000 kB\nMemAvailable: %s\n", values[i]);
        assert_refused(content);
    }
    assert_refused("MemTotal: 1000 kB\nMemAvailable: 1001 kB\n");
    assert_refused("MemTotal: 1000 kB\nMemAvailable: 900 kB\nHugePages_Total: 8 kB\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_normal),
        cmocka_unit_test(test_huge_pages),
        cmocka_unit_test(test_missing),
        cmocka_unit_test(test_garbage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
