/* Steps over backends that can do less, or more, than the cpu: one whose memory the host cannot
 * read in place, and one that records. Both are the cpu behind other functions. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "step_setup.h"
#include "verify.h"

enum { MAX_GIVEN = 64, SEQS = 3, LAYERS = 2 };

/* What the recording backend was given since record_begin, and what became of its recordings. */
struct given {
    bool is_attend;
    struct backend_append append;
    struct backend_attend attend;
};
struct backend_recording {
    struct given given[MAX_GIVEN];
    unsigned count;
};
static struct backend_recording recordings[2], *recording;
static unsigned recordings_made, recordings_freed, replays, runs, fail_at_run;
static bool fail_begin, fail_end, forget; /* forget: replays do nothing */

static enum status record_begin(struct backend_device *on, struct status_text *text) {
    (void)on;
    if (fail_begin)
        return status_set(text, STATUS_IO, "begin fails");
    assert_null(recording);
    recording = &recordings[recordings_made++];
    recording->count = 0;
    return STATUS_OK;
}

static enum status record_end(struct backend_device *on, struct backend_recording **out,
                              struct status_text *text) {
    (void)on;
    assert_non_null(recording);
    struct backend_recording *made = recording;
    recording = NULL;
    if (fail_end)
        return status_set(text, STATUS_IO, "end fails");
    *out = made;
    return STATUS_OK;
}

static void record_free(struct backend_device *on, struct backend_recording *which) {
    (void)on;
    recordings_freed += which != NULL;
}

static enum status append(struct backend_device *on, const struct backend_append *work,
                          struct format_replaced *replaced, struct status_text *text) {
    if (++runs == fail_at_run)
        return status_set(text, STATUS_IO, "run fails");
    if (recording == NULL)
        return cpu->append(on, work, replaced, text);
    assert_null(replaced);
    recording->given[recording->count++] = (struct given){.append = *work};
    return STATUS_OK;
}

static enum status attend(struct backend_device *on, const struct backend_attend *work,
                          struct status_text *text) {
    if (++runs == fail_at_run)
        return status_set(text, STATUS_IO, "run fails");
    if (recording == NULL)
        return cpu->attend(on, work, text);
    recording->given[recording->count++] = (struct given){.is_attend = true, .attend = *work};
    return STATUS_OK;
}

static enum status replay(struct backend_device *on, struct backend_recording *which,
                          struct status_text *text) {
    assert_null(recording);
    replays++;
    for (unsigned i = 0; i < which->count && !forget; i++) {
        const struct given *given = &which->given[i];
        const enum status status = given->is_attend ? cpu->attend(on, &given->attend, text)
                                                    : cpu->append(on, &given->append, NULL, text);
        if (status != STATUS_OK)
            return status;
    }
    return STATUS_OK;
}

static struct backend_ops blind_ops(void) {
    struct backend_ops ops = *cpu;
    ops.memory_host = NULL;
    return ops;
}

static struct backend_ops recording_ops(void) {
    struct backend_ops ops = *cpu;
    ops.append = append;
    ops.attend = attend;
    ops.record_begin = record_begin;
    ops.record_end = record_end;
    ops.record_free = record_free;
    ops.replay = replay;
    recordings_made = recordings_freed = replays = runs = fail_at_run = 0;
    fail_begin = fail_end = forget = false;
    recording = NULL;
    return ops;
}

/* A full group with sinks that more layers read than own, and a window group. */
static const struct model model = {
    .name = "two groups",
    .group_count = 2,
    .groups = {{.kind = MODEL_FULL,
                .layers = LAYERS,
                .read_by_layers = LAYERS + 1,
                .kv_heads = 2,
                .query_heads = 6,
                .k_dim = 64,
                .v_dim = 32,
                .sinks = true},
               {.kind = MODEL_WINDOW,
                .layers = LAYERS,
                .read_by_layers = LAYERS,
                .kv_heads = 1,
                .query_heads = 3,
                .k_dim = 32,
                .v_dim = 32,
                .window_tokens = 20}},
};
enum { APPENDS = 2 * LAYERS, ATTENDS = 2 * LAYERS + 1 };

static struct pool *make_pool(const struct backend_ops *ops, bool sequential) {
    static const uint64_t lengths[SEQS] = {70, 0, 33};
    const struct pool_request request = {
        .model = &model,
        .storage = {.k_format = FORMAT_Q8_0,
                    .v_format = FORMAT_NVFP4,
                    .index = FORMULA_INDEX_NONE,
                    .state_value_bytes = 4},
        .lengths = lengths,
        .seqs = SEQS,
        .page_tokens = 5,
        .sequential_pages = sequential,
        .seed = 3,
    };
    return step_setup_pool(ops, &request);
}

static void verify(const struct backend_ops *ops, struct pool *pool, struct step *step,
                   struct verify_result *out) {
    struct status_text text = {{0}};
    if (verify_pool(ops, device, pool, step, 1, UINT64_MAX, out, &text) != STATUS_OK)
        fail_msg("%s", text.line);
    assert_true(out->verified_fraction == 1);
}

/* Everything is verified alike whether the host reads in place or asks for copies. */
static void test_memory_out_of_sight(void **state) {
    (void)state;
    const struct backend_ops blind = blind_ops();
    for (int sequential = 0; sequential < 2; sequential++) {
        struct verify_result seen[2];
        for (int i = 0; i < 2; i++) {
            const struct backend_ops *ops = i == 0 ? cpu : &blind;
            struct pool *pool = make_pool(ops, sequential == 1);
            struct step *step = step_setup_step(ops, pool, 5, OPTIONS_DATA_NORMAL);
            verify(ops, pool, step, &seen[i]);
            uint64_t resident;
            assert_int_equal(pool_resident_bytes(pool, &resident), i == 0);
            step_destroy(step);
            pool_destroy(pool);
        }
        assert_memory_equal(&seen[0], &seen[1], sizeof seen[0]);
    }
}

/* A wrong page is found in a copy too. */
static void test_wrong_memory_out_of_sight(void **state) {
    (void)state;
    const struct backend_ops blind = blind_ops();
    struct pool *pool = make_pool(&blind, false);
    struct step *step = step_setup_step(&blind, pool, 5, OPTIONS_DATA_NORMAL);
    struct verify_result result;
    struct status_text text = {{0}};
    pool_group_pages(pool, 0)->table[1] = pool_group_pages(pool, 0)->table[0];
    assert_int_equal(verify_pool(&blind, device, pool, step, 1, UINT64_MAX, &result, &text),
                     STATUS_WRONG);
    step_destroy(step);
    pool_destroy(pool);
}

static void test_recorded_step(void **state) {
    (void)state;
    const struct backend_ops ops = recording_ops();
    struct pool *pool = make_pool(&ops, false);
    const unsigned fill_runs = runs;
    struct step *step = step_setup_step(&ops, pool, 5, OPTIONS_DATA_NORMAL);
    assert_int_equal(recordings_made, 2);
    assert_int_equal(recordings[0].count, APPENDS);
    assert_int_equal(recordings[1].count, ATTENDS);
    assert_int_equal(runs - fill_runs, 2 * (APPENDS + ATTENDS)); /* once before, once recorded */
    assert_int_equal(replays, 0);

    /* what is replayed writes every output, and nothing is given again */
    const struct backend_attend *last = &recordings[1].given[ATTENDS - 1].attend;
    const uint64_t outputs = (uint64_t)SEQS * model.groups[1].query_heads * model.groups[1].v_dim;
    memset(last->dev_outputs, 0xFF, outputs * sizeof(float));
    const unsigned given = runs;
    assert_int_equal(step_append(step, NULL), STATUS_OK);
    assert_int_equal(step_attend(step, NULL), STATUS_OK);
    assert_int_equal(replays, 2);
    assert_int_equal(runs, given);
    for (uint64_t i = 0; i < outputs; i++)
        assert_true(last->dev_outputs[i] == last->dev_outputs[i]);
    struct verify_result result;
    verify(&ops, pool, step, &result);
    assert_int_equal(replays, 5);

    /* a recording that leaves something out is found */
    struct status_text text = {{0}};
    const unsigned kept = recordings[1].count;
    recordings[1].count = kept - 1;
    assert_int_equal(verify_pool(&ops, device, pool, step, 1, 1, &result, &text), STATUS_WRONG);
    assert_non_null(strstr(text.line, "group 1 layer 1"));
    recordings[1].count = kept;
    forget = true;
    assert_int_equal(verify_pool(&ops, device, pool, step, 1, 1, &result, &text), STATUS_WRONG);
    assert_non_null(strstr(text.line, "group 0 layer 1"));
    step_destroy(step);
    assert_int_equal(recordings_freed, 2);
    pool_destroy(pool);
}

/* Whatever fails on the way, nothing is left recording and every recording is freed. */
static void test_recordings_that_fail(void **state) {
    (void)state;
    for (unsigned at = 0; at < 2 + 2 * (APPENDS + ATTENDS); at++) {
        const struct backend_ops ops = recording_ops();
        struct pool *pool = make_pool(&ops, false);
        fail_begin = at == 0;
        fail_end = at == 1;
        fail_at_run = at >= 2 ? runs + at - 1 : 0;
        struct step *step;
        struct status_text text = {{0}};
        assert_int_equal(
            step_create(&ops, device, pool, NULL, 5, OPTIONS_DATA_NORMAL, &step, &text), STATUS_IO);
        assert_null(step);
        assert_null(recording);
        assert_string_equal(text.line, at == 0   ? "begin fails"
                                       : at == 1 ? "end fails"
                                                 : "run fails");
        assert_int_equal(recordings_freed, fail_end ? 0 : recordings_made);
        pool_destroy(pool);
    }
}

/* A bad table is found when the step is made. */
static void test_bad_table(void **state) {
    (void)state;
    struct pool *pool = make_pool(cpu, false);
    struct backend_cache cache;
    pool_cache(pool, 0, 0, &cache);
    const int32_t bad = (int32_t)cache.page_count;
    assert_int_equal(cpu->memory_write(device, (void *)(uintptr_t)&cache.dev_page_table[2], &bad,
                                       sizeof bad, NULL),
                     STATUS_OK);
    struct step *step;
    struct status_text text = {{0}};
    assert_int_equal(step_create(cpu, device, pool, NULL, 5, OPTIONS_DATA_NORMAL, &step, &text),
                     STATUS_BAD_INPUT);
    assert_non_null(strstr(text.line, "attend: sequence 0, page table column 2"));
    pool_destroy(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_out_of_sight),
        cmocka_unit_test(test_wrong_memory_out_of_sight),
        cmocka_unit_test(test_recorded_step),
        cmocka_unit_test(test_recordings_that_fail),
        cmocka_unit_test(test_bad_table),
    };
    return cmocka_run_group_tests(tests, step_setup_open, step_setup_close);
}
