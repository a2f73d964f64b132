/* The cuda backend on a fake runtime: what it takes and gives back, what it says when something is
 * missing or fails. Its kernels' results are the conformance suite's matter. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_backend.h"
#include "fake_runtime.h"

static const struct backend_ops *const ops = &cuda_backend_ops;
static struct backend_device *device;
static struct status_text text;

static void assert_said(const char *words) {
    if (strstr(text.line, words) == NULL)
        fail_msg("'%s' is not in '%s'", words, text.line);
}

static void assert_nothing_left(void) {
    assert_int_equal(fake_runtime.allocations, 0);
    assert_int_equal(fake_runtime.streams, 0);
    assert_int_equal(fake_runtime.events, 0);
    assert_int_equal(fake_runtime.graphs, 0);
    assert_int_equal(fake_runtime.graph_execs, 0);
    assert_int_equal(fake_runtime.used_bytes, 0);
}

static int setup(void **state) {
    (void)state;
    fake_runtime_reset();
    text.line[0] = '\0';
    return 0;
}

static enum status open_ordinal(uint32_t ordinal) {
    const struct backend_options options = {.ordinal = ordinal};
    return ops->open(&options, &device, &text);
}

static void open_it(void) {
    if (open_ordinal(0) != STATUS_OK)
        fail_msg("open: %s", text.line);
}

static void close_it(void) {
    ops->close(device);
    assert_nothing_left();
}

static void test_facts(void **state) {
    (void)state;
    open_it();
    struct backend_facts facts;
    ops->facts(device, &facts);
    assert_string_equal(facts.backend, "cuda");
    assert_string_equal(facts.device, "Fake GPU");
    assert_non_null(strstr(facts.driver, "CUDA 13.0"));
    assert_string_equal(facts.pci_bus_id, "0000:41:00.0");
    assert_string_equal(facts.instruction_set, "sm_90");
    assert_int_equal(facts.compute_units, 3);
    assert_int_equal(facts.llc_bytes, 50 << 20);
    assert_int_equal(facts.memory_total_bytes, 1 << 30);
    /* the device's own few bytes are one step, taken before anything is measured */
    assert_int_equal(facts.memory_free_bytes, (1 << 30) - (2 << 20));
    assert_string_equal(facts.memory_source, "cudaMemGetInfo, in steps of 2048 KiB");
    assert_false(facts.integrated);
    close_it();
    const struct backend_options told = {.llc_bytes = 12345};
    assert_int_equal(ops->open(&told, &device, &text), STATUS_OK);
    ops->facts(device, &facts);
    assert_int_equal(facts.llc_bytes, 12345);
    assert_string_equal(facts.llc_source, "--llc");
    close_it();
}

/* A runtime that does not tell where the device sits is fine. */
static void test_no_bus_id(void **state) {
    (void)state;
    fake_runtime.fail_in = "cudaDeviceGetPCIBusId";
    fake_runtime.fail_error = cudaErrorInvalidValue;
    open_it();
    struct backend_facts facts;
    ops->facts(device, &facts);
    assert_string_equal(facts.pci_bus_id, "");
    assert_int_equal(fake_runtime.last, cudaSuccess);
    close_it();
}

static void test_clock(void **state) {
    (void)state;
    open_it();
    double mhz = 0;
    assert_int_equal(ops->clock_mhz(device, &mhz, &text), STATUS_OK);
    assert_true(mhz > 1499 && mhz < 1501); /* tests/gpu_model's */
    fake_runtime.fail_in = "cudaLaunchKernel";
    fake_runtime.fail_error = cudaErrorInvalidValue;
    assert_int_equal(ops->clock_mhz(device, &mhz, &text), STATUS_IO);
    assert_said("cudaLaunchKernel of clock");
    close_it();
}

static void test_missing(void **state) {
    (void)state;
    fake_runtime.driver_version = 0;
    assert_int_equal(open_ordinal(0), STATUS_MISSING);
    assert_said("--device cuda:0: no NVIDIA driver here");
    fake_runtime.driver_version = 11040;
    fake_runtime.fail_in = "cudaGetDeviceCount";
    fake_runtime.fail_error = cudaErrorInsufficientDriver;
    assert_int_equal(open_ordinal(0), STATUS_MISSING);
    assert_said("the driver is made for CUDA 11.4");
    fake_runtime_reset();
    fake_runtime.device_count = 0;
    assert_int_equal(open_ordinal(0), STATUS_MISSING);
    fake_runtime.device_count = 2;
    assert_int_equal(open_ordinal(2), STATUS_MISSING);
    assert_said("cuda:2: no such device; there are 2");
    assert_int_equal(open_ordinal(1), STATUS_OK);
    close_it();
}

static void test_no_image(void **state) {
    (void)state;
    fake_runtime.no_image = true;
    fake_runtime.major = 10;
    fake_runtime.minor = 3;
    assert_int_equal(open_ordinal(0), STATUS_MISSING);
    assert_said("Fake GPU has compute capability 10.3");
    assert_said("-DKVGAUGE_CUDA_TARGETS=native");
    fake_runtime.major = 7;
    fake_runtime.minor = 5;
    assert_int_equal(open_ordinal(0), STATUS_MISSING);
    assert_said("need 8.0 or newer");
    /* eager loading may say so when the context is made */
    fake_runtime_reset();
    fake_runtime.fail_in = "cudaSetDevice";
    fake_runtime.fail_error = cudaErrorNoKernelImageForDevice;
    assert_int_equal(open_ordinal(0), STATUS_MISSING);
    assert_said("no code for it");
    assert_nothing_left();
}

/* Every call of open fails in turn: a status, a sentence, and nothing left behind. */
static void test_open_fails(void **state) {
    (void)state;
    static const char *const calls[] = {"cudaGetDeviceCount",
                                        "cudaSetDevice",
                                        "cudaStreamCreateWithFlags",
                                        "cudaEventCreate",
                                        "cudaGetDeviceProperties",
                                        "cudaDeviceGetAttribute",
                                        "cudaMemGetInfo",
                                        "cudaMalloc",
                                        "cudaFuncGetAttributes",
                                        "cudaLaunchKernel",
                                        "cudaMemcpyAsync",
                                        "cudaStreamSynchronize"};
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        uint32_t failed = 0;
        for (uint32_t after = 0;; after++) {
            setup(NULL);
            fake_runtime.fail_in = calls[i];
            fake_runtime.fail_after = after;
            fake_runtime.fail_error = cudaErrorInvalidValue;
            const enum status status = open_ordinal(0);
            if (status == STATUS_OK) {
                close_it();
                break;
            }
            failed++;
            assert_null(device);
            assert_said(calls[i]);
            assert_nothing_left();
        }
        if (failed == 0)
            fail_msg("%s is not called", calls[i]);
    }
}

static void test_memory(void **state) {
    (void)state;
    open_it();
    struct backend_memory memory;
    assert_int_equal(ops->memory_allocate(device, 1000, "a pool", &memory, &text), STATUS_OK);
    uint8_t bytes[1000], back[1000];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 7);
    assert_int_equal(ops->memory_write(device, memory.dev_address, bytes, 1000, &text), STATUS_OK);
    assert_int_equal(ops->memory_fill(device, (uint8_t *)memory.dev_address + 10, 0xAB, 5, &text),
                     STATUS_OK);
    assert_int_equal(ops->memory_read(device, back, memory.dev_address, 1000, &text), STATUS_OK);
    memset(bytes + 10, 0xAB, 5);
    assert_memory_equal(bytes, back, 1000);
    assert_null(ops->memory_host(device, memory.dev_address));
    assert_int_equal(ops->memory_read(device, back, memory.dev_address, 0, &text), STATUS_OK);
    ops->memory_free(device, &memory);
    assert_null(memory.dev_address);
    ops->memory_free(device, &memory);
    close_it();
}

static void test_out_of_memory(void **state) {
    (void)state;
    open_it();
    struct backend_memory half, memory;
    assert_int_equal(ops->memory_allocate(device, 600 << 20, "a pool", &half, &text), STATUS_OK);
    assert_int_equal(ops->memory_allocate(device, 600 << 20, "the second pool", &memory, &text),
                     STATUS_OUT_OF_MEMORY);
    assert_null(memory.dev_address);
    assert_said("the second pool: 629145600 bytes were asked and 442499072 are there");
    assert_said("cudaMalloc of 629145600 bytes");
    assert_int_equal(ops->memory_allocate(device, UINT64_MAX, "it", &memory, &text),
                     STATUS_OUT_OF_MEMORY);
    assert_int_equal(ops->memory_allocate(device, 0, "it", &memory, &text), STATUS_OUT_OF_MEMORY);
    assert_said("empty request");
    /* the error is cleared: what comes after is not blamed */
    assert_int_equal(cudaGetLastError(), cudaSuccess);
    assert_int_equal(ops->synchronize(device, &text), STATUS_OK);
    ops->memory_free(device, &half);
    close_it();
}

static void test_integrated(void **state) {
    (void)state;
    fake_runtime.integrated = true;
    fake_runtime.total_bytes = (uint64_t)1 << 62; /* the driver would give it all */
    open_it();
    struct backend_facts facts;
    ops->facts(device, &facts);
    assert_true(facts.integrated);
    if (strncmp(facts.memory_source, "cudaMemGetInfo", 14) == 0)
        skip(); /* this system's /proc/meminfo tells nothing */
    assert_true(facts.memory_free_bytes < (uint64_t)1 << 60);
    struct backend_memory memory;
    const uint32_t before = fake_runtime.allocations;
    assert_int_equal(
        ops->memory_allocate(device, facts.memory_total_bytes, "a pool", &memory, &text),
        STATUS_OUT_OF_MEMORY);
    assert_said("stay with the rest of the machine");
    assert_int_equal(fake_runtime.allocations, before); /* refused, not tried */
    assert_int_equal(ops->memory_allocate(device, 4096, "a pool", &memory, &text), STATUS_OK);
    ops->memory_free(device, &memory);
    close_it();
}

static void test_lost(void **state) {
    (void)state;
    open_it();
    struct backend_memory memory;
    assert_int_equal(ops->memory_allocate(device, 64, "a pool", &memory, &text), STATUS_OK);
    fake_runtime.sticky = cudaErrorIllegalAddress;
    assert_int_equal(ops->synchronize(device, &text), STATUS_IO);
    assert_said("cudaStreamSynchronize");
    assert_said("the last kernel given was cuda_probe");
    assert_said("context is lost");
    assert_int_equal(ops->memory_fill(device, memory.dev_address, 0, 64, &text), STATUS_IO);
    assert_said("cudaMemsetAsync of 64 bytes");
    ops->memory_free(device, &memory);
    ops->close(device); /* ends without a crash; nothing can be given back */
    fake_runtime.sticky = cudaSuccess;
}

static void test_recording(void **state) {
    (void)state;
    open_it();
    struct backend_memory memory;
    uint8_t bytes[64];
    assert_int_equal(ops->memory_allocate(device, 64, "a pool", &memory, &text), STATUS_OK);
    assert_int_equal(ops->memory_fill(device, memory.dev_address, 1, 64, &text), STATUS_OK);
    assert_int_equal(ops->record_begin(device, &text), STATUS_OK);
    assert_int_equal(ops->record_begin(device, &text), STATUS_REFUSED);
    assert_int_equal(ops->mark(device, 0, &text), STATUS_OK);
    assert_int_equal(ops->memory_fill(device, memory.dev_address, 2, 64, &text), STATUS_OK);
    assert_int_equal(ops->mark(device, 1, &text), STATUS_OK);
    assert_int_equal(ops->synchronize(device, &text), STATUS_REFUSED);
    assert_said("while work is recorded");
    struct backend_recording *recording;
    assert_int_equal(ops->record_end(device, &recording, &text), STATUS_OK);
    assert_non_null(recording);
    assert_int_equal(ops->memory_read(device, bytes, memory.dev_address, 64, &text), STATUS_OK);
    assert_int_equal(bytes[0], 1); /* kept, not run */
    assert_int_equal(ops->replay(device, recording, &text), STATUS_OK);
    assert_int_equal(ops->memory_read(device, bytes, memory.dev_address, 64, &text), STATUS_OK);
    assert_int_equal(bytes[63], 2);
    /* marks of a recording can be read after its replay */
    fake_runtime.last = cudaSuccess;
    (void)ops->elapsed_ns(device, 0, 1);
    assert_int_equal(fake_runtime.last, cudaSuccess);
    ops->record_free(device, recording);
    ops->record_free(device, NULL);
    ops->memory_free(device, &memory);
    close_it();
}

/* What goes wrong while recording ends the capture: the stream takes work again. */
static void test_recording_fails(void **state) {
    (void)state;
    static const char *const calls[] = {"cudaStreamBeginCapture", "cudaStreamEndCapture",
                                        "cudaGraphInstantiateWithFlags", "cudaGraphUpload"};
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        setup(NULL);
        open_it();
        fake_runtime.fail_in = calls[i];
        fake_runtime.fail_error = cudaErrorStreamCaptureInvalidated;
        struct backend_recording *recording = NULL;
        enum status status = ops->record_begin(device, &text);
        if (status == STATUS_OK)
            status = ops->record_end(device, &recording, &text);
        assert_int_equal(status, STATUS_IO);
        assert_said(calls[i]);
        assert_null(recording);
        assert_int_equal(ops->record_end(device, &recording, &text), STATUS_REFUSED);
        assert_int_equal(ops->synchronize(device, &text), STATUS_OK);
        assert_int_equal(ops->record_begin(device, &text), STATUS_OK);
        assert_int_equal(ops->record_end(device, &recording, &text), STATUS_OK);
        ops->record_free(device, recording);
        close_it();
    }
}

static void test_marks(void **state) {
    (void)state;
    open_it();
    assert_int_equal(ops->mark(device, BACKEND_MARKS, &text), STATUS_REFUSED);
    assert_int_equal(ops->elapsed_ns(device, 0, 1), 0); /* not reached */
    assert_int_equal(ops->mark(device, 0, &text), STATUS_OK);
    assert_int_equal(ops->mark(device, 1, &text), STATUS_OK);
    assert_true(ops->elapsed_ns(device, 0, 1) < 1000000000u);
    close_it();
    ops->close(NULL);
}

static void test_streams(void **state) {
    (void)state;
    open_it();
    enum { BYTES = 100003 };
    uint8_t *bytes = malloc(BYTES), *back = malloc(BYTES);
    assert_non_null(bytes);
    assert_non_null(back);
    for (size_t i = 0; i < BYTES; i++)
        bytes[i] = (uint8_t)(i * 31 >> 3);
    struct backend_memory from, to;
    assert_int_equal(ops->memory_allocate(device, BYTES, "from", &from, &text), STATUS_OK);
    assert_int_equal(ops->memory_allocate(device, BYTES, "to", &to, &text), STATUS_OK);
    assert_int_equal(ops->memory_write(device, from.dev_address, bytes, BYTES, &text), STATUS_OK);
    if (ops->stream_copy(device, to.dev_address, from.dev_address, BYTES, &text) != STATUS_OK)
        fail_msg("%s", text.line);
    if (ops->stream_read(device, from.dev_address, BYTES, &text) != STATUS_OK)
        fail_msg("%s", text.line);
    assert_int_equal(ops->memory_read(device, back, to.dev_address, BYTES, &text), STATUS_OK);
    assert_memory_equal(bytes, back, BYTES);
    ops->memory_free(device, &from);
    ops->memory_free(device, &to);
    free(bytes);
    free(back);
    close_it();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_facts, setup),
        cmocka_unit_test_setup(test_no_bus_id, setup),
        cmocka_unit_test_setup(test_clock, setup),
        cmocka_unit_test_setup(test_missing, setup),
        cmocka_unit_test_setup(test_no_image, setup),
        cmocka_unit_test_setup(test_open_fails, setup),
        cmocka_unit_test_setup(test_memory, setup),
        cmocka_unit_test_setup(test_out_of_memory, setup),
        cmocka_unit_test_setup(test_integrated, setup),
        cmocka_unit_test_setup(test_recording, setup),
        cmocka_unit_test_setup(test_recording_fails, setup),
        cmocka_unit_test_setup(test_marks, setup),
        cmocka_unit_test_setup(test_streams, setup),
        /* last: what it leaves behind cannot be given back */
        cmocka_unit_test_setup(test_lost, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
