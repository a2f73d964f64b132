/* What every backend must refuse, count and promise of memory, and what the suite itself must
 * notice: a judge that accepts everything would pass every kernel. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend_check.h"
#include "conformance.h"
#include "conformance_devices.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* A filled world of the plain case; the caller destroys it. */
static void make_world(const struct conformance_device *on, const struct conformance_case *which,
                       struct conformance_world *world) {
    struct status_text text = {{0}};
    assert_int_equal(conformance_create(on->ops, on->device, which, world, &text), STATUS_OK);
    assert_int_equal(conformance_fill(world, &text), STATUS_OK);
    assert_int_equal(conformance_check_bytes(world, &text), STATUS_OK);
}

static void write_table(struct conformance_world *world, uint32_t seq, uint64_t token, int32_t id) {
    const uint64_t column = token / world->which->page_tokens % world->pages.columns;
    const int32_t *dev_entry = (const int32_t *)world->table_memory.dev_address +
                               seq * (uint64_t)world->pages.columns + column;
    assert_int_equal(
        world->ops->memory_write(world->device, (void *)(uintptr_t)dev_entry, &id, sizeof id, NULL),
        STATUS_OK);
}

enum { LONGEST_SEQ = 4, MIDDLE_TOKEN = 50 }; /* of CONFORMANCE_RAGGED: 130 tokens */

/* A page id of -1 within a sequence's length is found before anything is written. */
static void test_missing_page_is_refused(void **state) {
    (void)state;
    const struct conformance_case which = conformance_plain(FORMAT_NVFP4, 128, 128, false);
    for (size_t b = 0; b < conformance_devices_count; b++) {
        for (const char *const *kernel = conformance_devices[b].ops->kernels; *kernel != NULL;
             kernel++) {
            struct conformance_world world;
            struct status_text text = {{0}};
            make_world(&conformance_devices[b], &which, &world);
            write_table(&world, LONGEST_SEQ, MIDDLE_TOKEN, -1);
            const enum status status = conformance_attend(&world, *kernel, &text);
            if (status == STATUS_REFUSED) {
                print_message("skipped: %s %s: %s\n", conformance_devices[b].ops->name, *kernel,
                              text.line);
            } else {
                assert_int_equal(status, STATUS_BAD_INPUT);
                assert_non_null(strstr(text.line, "sequence 4"));
                assert_int_equal(conformance_check_untouched(&world, &text), STATUS_OK);
            }
            conformance_destroy(&world);
        }
    }
}

static void test_append_to_missing_page_is_refused(void **state) {
    (void)state;
    const struct conformance_case which = conformance_plain(FORMAT_Q8_0, 128, 128, false);
    for (size_t b = 0; b < conformance_devices_count; b++) {
        struct conformance_world world;
        struct status_text text = {{0}};
        assert_int_equal(conformance_create(conformance_devices[b].ops,
                                            conformance_devices[b].device, &which, &world, &text),
                         STATUS_OK);
        /* the last column of the longest sequence: everything before it could be written */
        assert_int_equal(pool_pages_append(&world.pages, LONGEST_SEQ, 130, &text), STATUS_OK);
        assert_int_equal(world.ops->memory_write(
                             world.device, world.table_memory.dev_address, world.pages.table,
                             (uint64_t)world.seqs * world.pages.columns * sizeof(int32_t), &text),
                         STATUS_OK);
        write_table(&world, LONGEST_SEQ, 129, -1);
        uint64_t arguments[3 * CONFORMANCE_MAX_SEQS] = {0};
        arguments[world.seqs + LONGEST_SEQ] = 130;
        assert_int_equal(world.ops->memory_write(world.device, world.argument_memory.dev_address,
                                                 arguments, sizeof arguments, &text),
                         STATUS_OK);
        const uint64_t *dev_arguments = world.argument_memory.dev_address;
        const float *dev_rows = world.bank_memory.dev_address;
        const struct backend_append work = {.cache = world.cache,
                                            .dev_k_rows = dev_rows,
                                            .dev_v_rows = dev_rows,
                                            .row_count = world.bank.rows,
                                            .dev_first_tokens = dev_arguments,
                                            .dev_token_counts = dev_arguments + world.seqs,
                                            .dev_first_rows = dev_arguments + 2 * world.seqs};
        assert_int_equal(backend_check_append(world.ops, world.device, &work, &text),
                         STATUS_BAD_INPUT);
        assert_non_null(strstr(text.line, "sequence 4"));
        assert_int_equal(conformance_check_bytes(&world, &text), STATUS_OK);
        conformance_destroy(&world);
    }
}

/* NaN and infinities in the source rows: stored by the format's rule, and counted. */
static void test_replaced_values_are_counted(void **state) {
    (void)state;
    for (size_t b = 0; b < conformance_devices_count; b++) {
        for (int format = 0; format < FORMAT_COUNT; format++) {
            const struct conformance_case which =
                conformance_plain((enum format_id)format, 128, 128, false);
            struct conformance_world world;
            struct status_text text = {{0}};
            assert_int_equal(conformance_create(conformance_devices[b].ops,
                                                conformance_devices[b].device, &which, &world,
                                                &text),
                             STATUS_OK);
            world.bank.k[5] = NAN;
            world.bank.k[77] = INFINITY;
            world.bank.k[700] = -INFINITY;
            assert_int_equal(world.ops->memory_write(world.device, world.bank_memory.dev_address,
                                                     world.bank.k, 1024 * sizeof(float), &text),
                             STATUS_OK);
            assert_int_equal(conformance_fill(&world, &text), STATUS_OK);
            assert_true(world.expected_replaced.infinite_values > 0);
            assert_int_equal(world.expected_replaced.nan_values > 0,
                             !format_get((enum format_id)format)->has_nan);
            if (conformance_check_bytes(&world, &text) != STATUS_OK)
                fail_msg("%s: %s", format_get((enum format_id)format)->name, text.line);
            conformance_destroy(&world);
        }
    }
}

/* The judge: one wrong output, one wrong byte, one swapped page, one forgotten token. */
static void test_faults_are_noticed(void **state) {
    (void)state;
    const struct conformance_case which = conformance_plain(FORMAT_BF16, 128, 128, false);
    const struct conformance_device *on = &conformance_devices[0];
    const char *kernel = on->ops->kernels[0];
    struct conformance_world world;
    struct status_text text = {{0}};
    make_world(on, &which, &world);
    assert_int_equal(conformance_attend(&world, kernel, &text), STATUS_OK);
    assert_int_equal(conformance_check_outputs(&world, &text), STATUS_OK);
    assert_int_equal(conformance_check_untouched(&world, &text), STATUS_WRONG);

    /* the largest value of the last head, off by one part in a hundred of the head's length */
    float *head = world.outputs + conformance_output_count(&world) - which.v_dim;
    double length = 0;
    for (uint32_t i = 0; i < which.v_dim; i++)
        length += (double)head[i] * (double)head[i];
    const float kept = head[17];
    head[17] += 0.01f * (float)sqrt(length);
    assert_int_equal(conformance_check_outputs(&world, &text), STATUS_WRONG);
    head[17] = NAN;
    assert_int_equal(conformance_check_outputs(&world, &text), STATUS_WRONG);
    head[17] = kept;
    assert_int_equal(conformance_check_outputs(&world, &text), STATUS_OK);

    world.expected[world.expected_bytes - 1] ^= 1;
    assert_int_equal(conformance_check_bytes(&world, &text), STATUS_WRONG);
    world.expected[world.expected_bytes - 1] ^= 1;

    /* the device reads one page in another's place */
    write_table(&world, LONGEST_SEQ, MIDDLE_TOKEN, pool_pages_find(&world.pages, LONGEST_SEQ, 0));
    assert_int_equal(conformance_attend(&world, kernel, &text), STATUS_OK);
    assert_int_equal(conformance_check_outputs(&world, &text), STATUS_WRONG);
    write_table(&world, LONGEST_SEQ, MIDDLE_TOKEN,
                pool_pages_find(&world.pages, LONGEST_SEQ, MIDDLE_TOKEN));

    /* a kernel that goes one token too far meets poison, one that stops short misses a token */
    world.lengths[LONGEST_SEQ]++;
    assert_int_equal(conformance_attend(&world, kernel, &text), STATUS_OK);
    world.lengths[LONGEST_SEQ]--;
    assert_int_equal(conformance_check_outputs(&world, &text), STATUS_WRONG);
    world.lengths[LONGEST_SEQ]--;
    assert_int_equal(conformance_attend(&world, kernel, &text), STATUS_OK);
    world.lengths[LONGEST_SEQ]++;
    assert_int_equal(conformance_check_outputs(&world, &text), STATUS_WRONG);
    conformance_destroy(&world);
}

/* Memory as backend.h promises it. */
static void test_memory(void **state) {
    (void)state;
    for (size_t b = 0; b < conformance_devices_count; b++) {
        const struct backend_ops *ops = conformance_devices[b].ops;
        struct backend_device *device = conformance_devices[b].device;
        struct backend_memory memory;
        struct status_text text = {{0}};
        uint8_t written[1000], read[1000];
        for (size_t i = 0; i < sizeof written; i++)
            written[i] = (uint8_t)(i * 7);
        assert_int_equal(ops->memory_allocate(device, 4096, "a test", &memory, &text), STATUS_OK);
        assert_int_equal((uintptr_t)memory.dev_address % PAGE_ALIGNMENT_BYTES, 0);
        uint8_t *dev = memory.dev_address;
        assert_int_equal(ops->memory_fill(device, dev, 0xC3, 4096, &text), STATUS_OK);
        assert_int_equal(ops->memory_write(device, dev + 13, written, sizeof written, &text),
                         STATUS_OK);
        assert_int_equal(ops->memory_read(device, read, dev + 13, sizeof read, &text), STATUS_OK);
        assert_memory_equal(read, written, sizeof read);
        assert_int_equal(ops->memory_read(device, read, dev, 13, &text), STATUS_OK);
        for (size_t i = 0; i < 13; i++)
            assert_int_equal(read[i], 0xC3);
        const uint64_t sizes[] = {1, 15, 64, 1000, 4096};
        for (size_t i = 0; i < COUNT(sizes); i++)
            for (uint64_t shift = 0; shift < 18 && shift + sizes[i] <= 4096; shift++)
                assert_int_equal(ops->stream_read(device, dev + shift, sizes[i], &text), STATUS_OK);
        assert_int_equal(ops->mark(device, 0, &text), STATUS_OK);
        assert_int_equal(ops->stream_read(device, dev, 4096, &text), STATUS_OK);
        assert_int_equal(ops->mark(device, 1, &text), STATUS_OK);
        assert_int_equal(ops->synchronize(device, &text), STATUS_OK);
        assert_true(ops->elapsed_ns(device, 0, 1) <= INT64_MAX); /* forwards */
        ops->memory_free(device, &memory);
        ops->memory_free(device, &(struct backend_memory){0});
        assert_int_equal(
            ops->memory_allocate(device, UINT64_MAX / 4, "far too much", &memory, &text),
            STATUS_OUT_OF_MEMORY);
        assert_non_null(strstr(text.line, "far too much"));
    }
}

/* Copies of any size and alignment, and nothing beside them. */
static void test_stream_copy(void **state) {
    (void)state;
    enum { BYTES = 300000, AT = 64 };
    static const uint64_t sizes[] = {0, 1, 15, 16, 17, 4096, 32767, 65536, 131077, BYTES - 2 * AT};
    static const struct { uint64_t from, to; } shifts[] = {{0, 0}, {5, 5}, {0, 3}, {7, 1}};
    uint8_t *image = malloc(BYTES), *got = malloc(BYTES), *blank = malloc(BYTES);
    assert_non_null(image);
    assert_non_null(got);
    assert_non_null(blank);
    memset(blank, 0xC3, BYTES);
    for (uint32_t i = 0; i < BYTES; i++)
        image[i] = (uint8_t)(i * 2654435761u >> 24);
    for (size_t b = 0; b < conformance_devices_count; b++) {
        const struct backend_ops *ops = conformance_devices[b].ops;
        struct backend_device *device = conformance_devices[b].device;
        struct backend_memory from, to;
        struct status_text text = {{0}};
        assert_int_equal(ops->memory_allocate(device, BYTES, "source", &from, &text), STATUS_OK);
        assert_int_equal(ops->memory_allocate(device, BYTES, "target", &to, &text), STATUS_OK);
        assert_int_equal(ops->memory_write(device, from.dev_address, image, BYTES, &text),
                         STATUS_OK);
        for (size_t i = 0; i < COUNT(sizes) * COUNT(shifts); i++) {
            const uint64_t bytes = sizes[i / COUNT(shifts)];
            const uint64_t shift_from = shifts[i % COUNT(shifts)].from;
            const uint64_t shift_to = shifts[i % COUNT(shifts)].to + AT;
            assert_int_equal(ops->memory_fill(device, to.dev_address, 0xC3, BYTES, &text),
                             STATUS_OK);
            assert_int_equal(ops->stream_copy(device, (uint8_t *)to.dev_address + shift_to,
                                              (const uint8_t *)from.dev_address + shift_from, bytes,
                                              &text),
                             STATUS_OK);
            assert_int_equal(ops->synchronize(device, &text), STATUS_OK);
            assert_int_equal(ops->memory_read(device, got, to.dev_address, BYTES, &text),
                             STATUS_OK);
            assert_memory_equal(got, blank, shift_to);
            assert_memory_equal(got + shift_to, image + shift_from, bytes);
            assert_memory_equal(got + shift_to + bytes, blank, BYTES - shift_to - bytes);
        }
        ops->memory_free(device, &from);
        ops->memory_free(device, &to);
    }
    free(image);
    free(got);
    free(blank);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_stream_copy),
        cmocka_unit_test(test_faults_are_noticed),
        cmocka_unit_test(test_missing_page_is_refused),
        cmocka_unit_test(test_append_to_missing_page_is_refused),
        cmocka_unit_test(test_replaced_values_are_counted),
    };
    return cmocka_run_group_tests(tests, conformance_devices_open, conformance_devices_close);
}
