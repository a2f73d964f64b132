/* Steps of recurrent states and short convolutions on every backend that opens and has them: a
 * pairwise covering of what shapes differ in, real models' shapes, large batches; and that the
 * check notices what is wrong. KVGAUGE_CONFORMANCE_CASES is how many cases run; at least one whole
 * covering does. KVGAUGE_CONFORMANCE_EVERY=n: only every n-th of them. KVGAUGE_CONFORMANCE_STOP=1:
 * none after the first wrong one. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "conformance_devices.h"
#include "conformance_state.h"
#include "pairwise.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

enum { MAX_ROWS = 200 };
/* Shims ask for less. */
#ifndef CONFORMANCE_STATE_CASES
#define CONFORMANCE_STATE_CASES 150
#endif

static size_t number_told(const char *variable, size_t otherwise) {
    const char *told = getenv(variable);
    return told != NULL ? (size_t)strtoul(told, NULL, 10) : otherwise;
}

static bool has_states(const struct conformance_device *on) {
    if (on->ops->state_step == NULL)
        print_message("skipped: backend %s has no recurrent states\n", on->ops->name);
    return on->ops->state_step != NULL;
}

/* Whether it went well; says what did not. */
static bool run_case(const struct conformance_device *on,
                     const struct conformance_state_case *which) {
    struct status_text text = {{0}};
    const enum status status = conformance_state_run(on->ops, on->device, which, &text);
    if (status == STATUS_OK)
        return true;
    char words[256];
    conformance_state_describe(which, words, sizeof words);
    print_error("%s: %s: %s: %s\n", on->ops->name, words, status_name(status), text.line);
    return false;
}

enum { DELTA, EQUAL, BYTES, ROWS, COLS, HEADS, SEQS, CHANNELS, TAPS, SHIFTED, AXIS_COUNT };
static const uint32_t rows_of[] = {1, 3, 64, 128};
static const uint32_t cols_of[] = {1, 16, 24, 64, 128, 256};
static const uint32_t heads_of[] = {0, 1, 3, 16};
static const uint32_t seqs_of[] = {1, 2, 5};
static const uint32_t channels_of[] = {0, 1, 7, 96};
static const uint32_t taps_of[] = {1, 3, 4};

static const struct pairwise axes = {
    .axis_count = AXIS_COUNT,
    .axis_sizes = {2, 2, 2, COUNT(rows_of), COUNT(cols_of), COUNT(heads_of), COUNT(seqs_of),
                   COUNT(channels_of), COUNT(taps_of), 2},
};

static struct conformance_state_case case_of(const uint32_t *values) {
    return (struct conformance_state_case){
        .shape = {.seqs = seqs_of[values[SEQS]],
                  .heads = heads_of[values[HEADS]],
                  .rows = rows_of[values[ROWS]],
                  .cols = cols_of[values[COLS]],
                  .value_bytes = values[BYTES] == 0 ? 4 : 2,
                  .conv_channels = channels_of[values[CHANNELS]],
                  .conv_taps = taps_of[values[TAPS]],
                  .delta = values[DELTA] == 0},
        .equal_decays = values[EQUAL] == 0,
        .shifted = values[SHIFTED] == 1,
    };
}

static unsigned run_coverings(const struct conformance_device *on, unsigned *run) {
    const size_t wanted = number_told("KVGAUGE_CONFORMANCE_CASES", CONFORMANCE_STATE_CASES);
    const size_t every = number_told("KVGAUGE_CONFORMANCE_EVERY", 1);
    const bool stop = number_told("KVGAUGE_CONFORMANCE_STOP", 0) > 0;
    uint32_t *rows = malloc(MAX_ROWS * AXIS_COUNT * sizeof *rows);
    assert_non_null(rows);
    assert_true(every > 0);
    unsigned wrong = 0;
    size_t done = 0;
    for (uint64_t seed = 2026; done < wanted || seed == 2026; seed++) {
        const size_t count = pairwise_generate(&axes, seed, rows, MAX_ROWS);
        assert_true(count > 0);
        assert_int_equal(pairwise_missing(&axes, rows, count), 0);
        for (size_t i = 0; i < count && (done < wanted || seed == 2026); i++, done++) {
            const struct conformance_state_case which = case_of(rows + i * AXIS_COUNT);
            if (done % every != 0 || (stop && wrong > 0))
                continue;
            wrong += run_case(on, &which) ? 0 : 1;
            (*run)++;
        }
    }
    free(rows);
    return wrong;
}

static void test_pairwise(void **state) {
    (void)state;
    for (size_t b = 0; b < conformance_devices_count; b++) {
        if (!has_states(&conformance_devices[b]))
            continue;
        unsigned run = 0;
        const unsigned wrong = run_coverings(&conformance_devices[b], &run);
        print_message("%s: %u cases run\n", conformance_devices[b].ops->name, run);
        assert_int_equal(wrong, 0);
        assert_true(run > 0);
    }
}

static void run_everywhere(const struct conformance_state_case *cases, size_t count) {
    for (size_t b = 0; b < conformance_devices_count; b++)
        for (size_t i = 0; i < count && has_states(&conformance_devices[b]); i++)
            assert_true(run_case(&conformance_devices[b], &cases[i]));
}

/* Columns in more pieces than a warp has lanes, or in none that are whole; many taps; no taps. */
static void test_edges(void **state) {
    (void)state;
    static const struct conformance_state_case cases[] = {
        {.shape = {2, 2, 5, 512, 4, 33, 64, true}},
        {.shape = {2, 2, 5, 512, 2, 33, 63, true}, .equal_decays = true},
        {.shape = {1, 1, 5, 1028, 4, 0, 0, true}},
        {.shape = {1, 1, 3, 4096, 2, 0, 0, true}},
        {.shape = {1, 1, 2, 4096, 4, 0, 0, false}, .equal_decays = true},
        {.shape = {1, 2, 3, 4097, 2, 3, 0, true}},
        {.shape = {1, 3, 17, 136, 2, 300, 2, false}},
        {.shape = {3, 1, 130, 4, 4, 1, 9, true}},
        {.shape = {3, 1, 70, 8, 2, 513, 5, true}},
        {.shape = {2, 1, 9, 127, 4, 2, 8, true}},
    };
    run_everywhere(cases, COUNT(cases));
}

/* More than one dimension of a grid of blocks takes. */
static void test_large_batch(void **state) {
    (void)state;
    static const struct conformance_state_case cases[] = {
        {.shape = {66000, 1, 1, 4, 4, 1, 1, true}},
        {.shape = {66000, 0, 0, 0, 2, 3, 3, false}},
    };
    run_everywhere(cases, COUNT(cases));
}

/* One sequence of Nemotron's Mamba-2 layers (64 heads of 64 x 128, kernel 4). */
static void test_mamba(void **state) {
    (void)state;
    static const struct conformance_state_case cases[] = {
        {.shape = {1, 64, 64, 128, 4, 6144, 3, false}, .equal_decays = true},
    };
    run_everywhere(cases, COUNT(cases));
}

/* One sequence of Qwen3.8's Gated DeltaNet layers, in both types and by columns. */
static void test_delta_net(void **state) {
    (void)state;
    static const struct conformance_state_case cases[] = {
        {.shape = {1, 48, 128, 128, 4, 10240, 3, true}, .equal_decays = true},
        {.shape = {1, 48, 128, 128, 2, 10240, 3, true}, .equal_decays = true},
        {.shape = {1, 48, 128, 128, 4, 10240, 3, true}},
    };
    run_everywhere(cases, COUNT(cases));
}

/* Values of another size than there are. */
static void test_refused(void **state) {
    (void)state;
    const struct conformance_state_case which = {.shape = {1, 1, 8, 8, 8, 0, 0, true}};
    for (size_t b = 0; b < conformance_devices_count; b++) {
        if (!has_states(&conformance_devices[b]))
            continue;
        struct conformance_state world;
        struct status_text text = {{0}};
        assert_int_equal(conformance_state_create(conformance_devices[b].ops,
                                                  conformance_devices[b].device, &which, &world,
                                                  &text),
                         STATUS_OK);
        assert_int_equal(conformance_state_step(&world, &text), STATUS_REFUSED);
        assert_non_null(strstr(text.line, "8 bytes"));
        conformance_state_destroy(&world);
    }
}

/* Changes what was read back after a right step, and asks the check. */
static void assert_noticed(struct conformance_state *world, enum conformance_state_array array,
                           int64_t offset, uint8_t flip, const char *words) {
    struct status_text text = {{0}};
    uint8_t *byte =
        world->arrays[array].after + ((int64_t)world->arrays[array].offset_bytes + offset);
    *byte ^= flip;
    if (conformance_state_check(world, &text) != STATUS_WRONG)
        fail_msg("byte %d of array %d is changed, and nothing noticed", (int)offset, (int)array);
    if (strstr(text.line, words) == NULL)
        fail_msg("'%s' is not in '%s'", words, text.line);
    *byte ^= flip;
    assert_int_equal(conformance_state_check(world, &text), STATUS_OK);
}

static void test_faults_are_noticed(void **state) {
    (void)state;
    for (size_t b = 0; b < conformance_devices_count; b++) {
        for (uint32_t bytes = 2; bytes <= 4 && has_states(&conformance_devices[b]); bytes += 2) {
            const struct conformance_state_case which = {.shape = {2, 3, 5, 24, bytes, 7, 3, true}};
            struct conformance_state world;
            struct status_text text = {{0}};
            assert_int_equal(conformance_state_create(conformance_devices[b].ops,
                                                      conformance_devices[b].device, &which, &world,
                                                      &text),
                             STATUS_OK);
            assert_int_equal(conformance_state_step(&world, &text), STATUS_OK);
            assert_int_equal(conformance_state_check(&world, &text), STATUS_OK);
            /* two of bf16's last places, 256 of f32's: of the last value, and of a middle one */
            const int64_t end = (int64_t)world.arrays[STATE_VALUES_OF_STATE].bytes;
            assert_noticed(&world, STATE_VALUES_OF_STATE, end - (bytes == 2 ? 2 : 3), 2, "state,");
            assert_noticed(&world, STATE_VALUES_OF_STATE, 100 * bytes + bytes - 1, 0x80, "state,");
            assert_noticed(&world, STATE_CONV, 5, 0x80, "conv,");
            assert_noticed(&world, STATE_CONV, (int64_t)world.arrays[STATE_CONV].bytes - 2, 1,
                           "conv,");
            assert_noticed(&world, STATE_OUTPUTS, 4 * 29 + 1, 1, "outputs,");
            assert_noticed(&world, STATE_CONV_OUTPUTS, 4 * 13 + 1, 4, "conv outputs,");
            assert_noticed(&world, STATE_VALUES_OF_STATE, end, 1, "state: byte");
            assert_noticed(&world, STATE_OUTPUTS, -1, 1, "outputs: byte -1");
            assert_noticed(&world, STATE_KEYS, 0, 1, "keys: byte 0");
            conformance_state_destroy(&world);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_faults_are_noticed), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_pairwise),           cmocka_unit_test(test_edges),
        cmocka_unit_test(test_large_batch),        cmocka_unit_test(test_mamba),
        cmocka_unit_test(test_delta_net),
    };
    return cmocka_run_group_tests(tests, conformance_devices_open, conformance_devices_close);
}
