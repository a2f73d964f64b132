/* Memory of a GPU that shares the host's, on a fake driver: taken in pieces, looked at between
 * them, and given back whole whatever fails. MemAvailable is a file of ours. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cuda_backend.h"
#include "cuda_device.h"
#include "fake_runtime.h"

static const uint64_t MIB = (uint64_t)1 << 20;
static const uint64_t PIECE = (uint64_t)4 << 20; /* instead of 1 GiB: fake memory is real */

static const struct backend_ops *const ops = &cuda_backend_ops;
static struct backend_device *device;
static struct status_text text;
static char meminfo[] = "/tmp/kvgauge_pieces_XXXXXX";

static void assert_said(const char *words) {
    if (strstr(text.line, words) == NULL)
        fail_msg("'%s' is not in '%s'", words, text.line);
}

static void assert_nothing_taken(void) {
    assert_int_equal(fake_runtime.ranges, 0);
    assert_int_equal(fake_runtime.pieces, 0);
    assert_int_equal(fake_runtime.mappings, 0);
    assert_int_equal(device->taken_bytes, 0);
}

/* 256 MiB of memory, 8 of which stay with the rest of the machine. */
static int setup(void **state) {
    (void)state;
    fake_runtime_reset();
    fake_runtime.integrated = true;
    fake_runtime.total_bytes = 256 * MIB;
    fake_runtime.available_bytes = 100 * MIB;
    fake_runtime.meminfo_path = meminfo;
    fake_runtime_meminfo();
    text.line[0] = '\0';
    return 0;
}

static void open_it(void) {
    const struct backend_options options = {.ordinal = 0};
    if (ops->open(&options, &device, &text) != STATUS_OK)
        fail_msg("open: %s", text.line);
    device->meminfo_path = meminfo;
    if (device->pieces.step > 0) {
        assert_int_equal(device->pieces.largest, (uint64_t)1 << 30);
        device->pieces.largest = PIECE;
    }
}

static void close_it(void) {
    assert_nothing_taken();
    ops->close(device);
    assert_int_equal(fake_runtime.allocations, 0);
    assert_int_equal(fake_runtime.used_bytes, 0);
}

static enum status allocate(uint64_t bytes, struct backend_memory *out) {
    return ops->memory_allocate(device, bytes, "a pool", out, &text);
}

static void test_taken_in_pieces(void **state) {
    (void)state;
    open_it();
    struct backend_memory memory;
    enum { BYTES = (9 << 20) + 5 }; /* two whole pieces and 2 MiB of a third */
    assert_int_equal(allocate(BYTES, &memory), STATUS_OK);
    assert_int_equal(memory.bytes, BYTES);
    assert_int_equal(fake_runtime.ranges, 1);
    assert_int_equal(fake_runtime.mappings, 3);
    assert_int_equal(device->taken_bytes, 10 * MIB);
    struct backend_facts facts;
    ops->facts(device, &facts);
    assert_int_equal(facts.memory_free_bytes, 90 * MIB);
    assert_int_equal(facts.memory_taken_bytes, 10 * MIB);
    /* one range, for copies and kernels across the pieces */
    uint8_t *bytes = malloc(BYTES), *back = malloc(BYTES);
    assert_non_null(bytes);
    assert_non_null(back);
    for (size_t i = 0; i < BYTES; i++)
        bytes[i] = (uint8_t)(i * 31 >> 3);
    assert_int_equal(ops->memory_write(device, memory.dev_address, bytes, BYTES, &text), STATUS_OK);
    assert_int_equal(ops->stream_read(device, memory.dev_address, BYTES, &text), STATUS_OK);
    assert_int_equal(ops->memory_read(device, back, memory.dev_address, BYTES, &text), STATUS_OK);
    assert_memory_equal(bytes, back, BYTES);
    free(bytes);
    free(back);
    const uint32_t syncs = fake_runtime.syncs;
    ops->memory_free(device, &memory);
    assert_int_equal(fake_runtime.syncs, syncs + 1); /* as cudaFree, it waits first */
    assert_null(memory.dev_address);
    ops->memory_free(device, &memory);
    close_it();
}

/* What is one piece anyway stays a cudaMalloc. */
static void test_small(void **state) {
    (void)state;
    open_it();
    struct backend_memory memory;
    const uint32_t before = fake_runtime.allocations;
    assert_int_equal(allocate(PIECE, &memory), STATUS_OK);
    assert_int_equal(fake_runtime.ranges, 0);
    assert_int_equal(fake_runtime.allocations, before + 1);
    ops->memory_free(device, &memory);
    close_it();
}

static void test_refused_before(void **state) {
    (void)state;
    open_it();
    struct backend_memory memory;
    assert_int_equal(allocate(93 * MIB, &memory), STATUS_OUT_OF_MEMORY);
    assert_said("a pool: 97517568 bytes were asked and 96468992 are there (MemAvailable 104857600, "
                "of which 8388608 stay with the rest of the machine)");
    assert_int_equal(fake_runtime.pieces_created, 0);
    close_it();
}

/* Others take memory meanwhile: it ends before theirs does. */
static void test_shrinks(void **state) {
    (void)state;
    open_it();
    struct backend_memory memory;
    fake_runtime.others_bytes = 20 * MIB;
    assert_int_equal(allocate(40 * MIB, &memory), STATUS_OUT_OF_MEMORY);
    assert_null(memory.dev_address);
    /* 100 - 3 x (4 + 20) leave 28, enough for a piece beside the 8 that stay; then 4 are left */
    assert_int_equal(fake_runtime.pieces_created, 4);
    assert_said(
        "a pool: 41943040 bytes were asked, 16777216 were taken so far and 0 more are there "
        "(MemAvailable 4194304, of which 8388608 stay");
    assert_nothing_taken();
    close_it();
    /* the last piece fits, and what is left then does not: that is seen too */
    setup(NULL);
    open_it();
    fake_runtime.others_bytes = 43 * MIB;
    assert_int_equal(allocate(8 * MIB, &memory), STATUS_OUT_OF_MEMORY);
    assert_int_equal(fake_runtime.pieces_created, 2);
    assert_said("8388608 were taken so far");
    close_it();
}

/* MemAvailable that does not fall while memory is taken is not believed. */
static void test_own_count(void **state) {
    (void)state;
    open_it();
    fake_runtime.lags = true;
    struct backend_memory first, second;
    assert_int_equal(allocate(60 * MIB, &first), STATUS_OK);
    assert_int_equal(allocate(40 * MIB, &second), STATUS_OUT_OF_MEMORY);
    assert_said("33554432 are there (what was there less what was taken: 41943040");
    assert_int_equal(allocate(32 * MIB, &second), STATUS_OK);
    ops->memory_free(device, &first);
    ops->memory_free(device, &second);
    assert_nothing_taken();
    assert_int_equal(allocate(92 * MIB, &first), STATUS_OK);
    ops->memory_free(device, &first);
    close_it();
}

/* A driver without these calls: one cudaMalloc between two looks. */
static void test_fallback(void **state) {
    (void)state;
    static const char *const calls[] = {"cuCtxGetDevice",
                                        "cuDeviceGetAttribute",
                                        "cuMemAddressReserve",
                                        "cuMemCreate",
                                        "cuMemMap",
                                        "cuMemSetAccess",
                                        "cuMemUnmap",
                                        "cuMemRelease",
                                        "cuMemAddressFree",
                                        "cuMemGetAllocationGranularity"};
#if CUDART_VERSION >= 12050
    static const char *const failing[] = {
        "cudaGetDriverEntryPointByVersion",
#else
    static const char *const failing[] = {"cudaGetDriverEntryPoint",
#endif
        "cuCtxGetDevice",
        "cuDeviceGetAttribute",
        "cuMemGetAllocationGranularity"
    };
    const size_t count = sizeof calls / sizeof calls[0], fails = sizeof failing / sizeof failing[0];
    for (size_t i = 0; i <= count + fails; i++) {
        setup(NULL);
        fake_runtime.no_virtual_memory = i == count + fails;
        fake_runtime.missing_call = i < count ? calls[i] : NULL;
        fake_runtime.fail_in = i >= count && i < count + fails ? failing[i - count] : NULL;
        fake_runtime.fail_error = cudaErrorInvalidValue;
        open_it();
        assert_int_equal(device->pieces.step, 0);
        struct backend_memory memory;
        assert_int_equal(allocate(40 * MIB, &memory), STATUS_OK);
        assert_int_equal(fake_runtime.ranges, 0);
        ops->memory_free(device, &memory);
        close_it();
    }
}

/* A discrete GPU is not asked at all. */
static void test_discrete(void **state) {
    (void)state;
    fake_runtime.integrated = false;
    open_it();
    assert_int_equal(device->pieces.step, 0);
    close_it();
}

/* Every call fails once, at its first, second and third time. */
static void test_each_call_fails(void **state) {
    (void)state;
    static const struct {
        const char *name;
        uint32_t times; /* in a request of three pieces */
        bool gives_back;
    } calls[] = {
        {"cuMemAddressReserve", 1, false}, {"cuMemCreate", 3, false},    {"cuMemMap", 3, false},
        {"cuMemRelease", 3, false},        {"cuMemSetAccess", 3, false}, {"cuMemUnmap", 3, true},
        {"cuMemAddressFree", 1, true},
    };
    static const cudaError_t errors[] = {cudaErrorInvalidValue, cudaErrorMemoryAllocation};
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
        for (uint32_t after = 0; after <= calls[i].times; after++)
            for (int e = 0; e < 2; e++) {
                setup(NULL);
                open_it();
                struct backend_memory memory;
                fake_runtime.fail_in = calls[i].name;
                fake_runtime.fail_after = after;
                fake_runtime.fail_error = errors[e];
                const enum status status = allocate(3 * PIECE, &memory);
                if (after == calls[i].times || calls[i].gives_back) {
                    assert_int_equal(status, STATUS_OK);
                    ops->memory_free(device, &memory);
                } else {
                    assert_int_equal(status, e == 0 ? STATUS_IO : STATUS_OUT_OF_MEMORY);
                    assert_said("a pool: 12582912 bytes were asked");
                    assert_said(calls[i].name);
                    assert_null(memory.dev_address);
                    assert_int_equal(cudaGetLastError(), cudaSuccess);
                }
                assert_true(after < calls[i].times || fake_runtime.fail_in != NULL);
                fake_runtime.fail_in = NULL;
                close_it();
            }
}

/* The driver's own limit, in the middle of a range. */
static void test_driver_is_full(void **state) {
    (void)state;
    open_it();
    fake_runtime.used_bytes += 246 * MIB;
    struct backend_memory memory;
    assert_int_equal(allocate(40 * MIB, &memory), STATUS_OUT_OF_MEMORY);
    assert_said(
        "41943040 bytes were asked, 8388608 were taken so far: cuMemCreate of 4194304 bytes");
    fake_runtime.used_bytes -= 246 * MIB;
    close_it();
}

int main(void) {
    const int file = mkstemp(meminfo);
    if (file < 0)
        return 1;
    (void)close(file);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_taken_in_pieces, setup),
        cmocka_unit_test_setup(test_small, setup),
        cmocka_unit_test_setup(test_refused_before, setup),
        cmocka_unit_test_setup(test_shrinks, setup),
        cmocka_unit_test_setup(test_own_count, setup),
        cmocka_unit_test_setup(test_fallback, setup),
        cmocka_unit_test_setup(test_discrete, setup),
        cmocka_unit_test_setup(test_each_call_fails, setup),
        cmocka_unit_test_setup(test_driver_is_full, setup),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    (void)unlink(meminfo);
    return failed;
}
