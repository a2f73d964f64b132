/* One case from formats to rows, over the cpu with a clock of the test's: which formats are alive
 * together, what each row is compared with, and which rows there are when something is refused,
 * does not fit, computes wrongly, is there already, cannot be written or is interrupted. No real
 * time is looked at. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "interrupt.h"
#include "made_clock.h"
#include "row_file.h"
#include "runner.h"

enum { MOST_ROWS = 16, MOST_WORDS = 32, SAMPLES = 3 };

static const struct backend_ops *cpu;

/* The device as the test has it. */
static struct {
    struct backend_ops ops;
    struct backend_device *device;
    uint64_t free_bytes;
    uint32_t pools, pools_alive, most_alive; /* allocations called "the pool" */
    uint64_t alive_bytes, peak_bytes;        /* of them */
    void *alive[MOST_ROWS];
    uint64_t attends, interrupt_at; /* 0: nobody interrupts */
    enum format_id wrong;           /* whose outputs are; FORMAT_COUNT: none */
} world;

/* In place of host/interrupt.c's. */
bool interrupt_asked(void) {
    return world.interrupt_at > 0 && world.attends >= world.interrupt_at;
}

static void facts(struct backend_device *on, struct backend_facts *out) {
    cpu->facts(on, out);
    out->memory_total_bytes = 2 * world.free_bytes;
    out->memory_free_bytes = world.free_bytes;
}

static enum status allocate(struct backend_device *on, uint64_t bytes, const char *what,
                            struct backend_memory *out, struct status_text *text) {
    const enum status status = cpu->memory_allocate(on, bytes, what, out, text);
    if (status == STATUS_OK && strcmp(what, "the pool") == 0) {
        assert_true(world.pools_alive < MOST_ROWS);
        world.alive[world.pools_alive++] = out->dev_address;
        world.pools++;
        world.alive_bytes += bytes;
        if (world.alive_bytes > world.peak_bytes)
            world.peak_bytes = world.alive_bytes;
        if (world.pools_alive > world.most_alive)
            world.most_alive = world.pools_alive;
    }
    return status;
}

static void release(struct backend_device *on, struct backend_memory *memory) {
    for (uint32_t i = 0; i < world.pools_alive; i++)
        if (world.alive[i] == memory->dev_address && memory->dev_address != NULL) {
            world.alive[i] = world.alive[--world.pools_alive];
            world.alive_bytes -= memory->bytes;
            break;
        }
    cpu->memory_free(on, memory);
}

static enum status append(struct backend_device *on, const struct backend_append *work,
                          struct format_replaced *replaced, struct status_text *text) {
    made_clock.now_ns += 100;
    return cpu->append(on, work, replaced, text);
}

static enum status stream_read(struct backend_device *on, const void *dev_from, uint64_t bytes,
                               struct status_text *text) {
    (void)on, (void)dev_from, (void)text;
    made_clock.now_ns += bytes;
    return STATUS_OK;
}

static uint64_t attend_ns(enum format_id format) {
    return format == FORMAT_BF16 ? 3900 : format == FORMAT_Q8_0 ? 1900 : 7900;
}

static enum status attend(struct backend_device *on, const struct backend_attend *work,
                          struct status_text *text) {
    world.attends++;
    made_clock.now_ns += attend_ns(work->cache.page.shape.k_format);
    const enum status status = cpu->attend(on, work, text);
    if (work->cache.page.shape.k_format == world.wrong)
        work->dev_outputs[0] += 100;
    return status;
}

/* Rows as they are given; what they point to is gone behind the run. */
static struct result rows[MOST_ROWS];
static char names[MOST_ROWS][40];
static const char *model_asked;
static uint64_t rows_there;
static size_t row_count, row_fails; /* the row that cannot be written; 0: none */

static FILE *save_to; /* NULL: nowhere */
static struct result_run shared;

static enum status on_row(void *context, const struct result *result, struct status_text *text) {
    (void)context;
    assert_true(row_count < MOST_ROWS);
    rows[row_count] = *result;
    (void)strcpy(names[row_count], result->format->name);
    row_count++;
    if (save_to != NULL) {
        struct result_row row;
        result_values(&shared, result, &row);
        row_file_append(save_to, row.values);
    }
    return row_count == row_fails ? status_set(text, STATUS_IO, "this row fails") : STATUS_OK;
}

static void start(void) {
    if (world.device != NULL)
        cpu->close(world.device);
    memset(&world, 0, sizeof world);
    row_count = row_fails = 0;
    cpu = backend_find("cpu");
    world.ops = *cpu;
    world.ops.facts = facts;
    world.ops.memory_allocate = allocate;
    world.ops.memory_free = release;
    world.ops.mark = made_clock_mark;
    world.ops.elapsed_ns = made_clock_elapsed_ns;
    world.ops.append = append;
    world.ops.attend = attend;
    world.ops.stream_read = stream_read;
    world.ops.pace = NULL;
    world.free_bytes = (uint64_t)1 << 30;
    world.wrong = FORMAT_COUNT;
    made_clock_start();
    model_asked = "1x64/g2x1l";
    const struct backend_options how = {.threads = 1, .llc_bytes = 1 << 20};
    assert_int_equal(cpu->open(&how, &world.device, NULL), STATUS_OK);
}

/* One case of 64 tokens: pools of 16,408 bytes in bf16 and f16, of 8,728 in q8_0. */
static enum status run_case(const char *arguments, struct resume *resume,
                            struct status_text *text) {
    static char copy[1024], program[] = "kvgauge";
    (void)snprintf(copy, sizeof copy, "run -m %s --tokens 64 --samples %d %s", model_asked, SAMPLES,
                   arguments);
    char *words[MOST_WORDS] = {program};
    int count = 1;
    for (char *word = strtok(copy, " "); word != NULL; word = strtok(NULL, " "))
        words[count++] = word;
    struct options options;
    struct run_case_list cases;
    if (options_parse(count, words, &options, text) != STATUS_OK ||
        run_case_list_create(&options, &cases, text) != STATUS_OK)
        fail_msg("%s", text->line);
    assert_int_equal(cases.count, 1);
    shared = (struct result_run){.options = &options,
                                 .argc = (size_t)count,
                                 .argv = (const char *const *)words,
                                 .cold_bytes = 1};
    world.ops.facts(world.device, &shared.facts);
    struct runner runner = {.ops = &world.ops,
                            .device = world.device,
                            .options = &options,
                            .run = &shared,
                            .resume = resume};
    const enum status status = runner_run_case(&runner, &cases.cases[0], on_row, NULL, text);
    rows_there = runner.rows_there;
    assert_int_equal(world.pools_alive, 0);
    if (status == STATUS_OK)
        assert_int_equal(runner.quarters_done, 4 * options.format_count);
    run_case_list_destroy(&cases);
    options_free(&options);
    return status;
}

static void run_well(const char *arguments) {
    struct status_text text = {""};
    if (run_case(arguments, NULL, &text) != STATUS_OK)
        fail_msg("%s", text.line);
}

static void assert_rows(size_t count, const char *const *formats) {
    assert_int_equal(row_count, count);
    for (size_t i = 0; i < count; i++)
        assert_string_equal(names[i], formats[i]);
}

static void test_rows_of_a_case(void **state) {
    (void)state;
    start();
    run_well("--kv-format q8_0,bf16,f16 --baseline bf16");
    assert_rows(3, (const char *const[]){"q8_0", "bf16", "f16"});
    assert_int_equal(world.most_alive, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(rows[i].status, RESULT_OK);
        assert_true(rows[i].has_speed && rows[i].has_baseline);
        assert_int_equal(rows[i].series.count, SAMPLES);
    }
    assert_true(rows[0].kv_speed_vs_baseline == 2 && rows[0].step_speed_vs_baseline == 2);
    assert_true(rows[1].kv_speed_vs_baseline == 1 && rows[1].tokens_vs_baseline == 1);
    assert_true(rows[2].kv_speed_vs_baseline == 0.5 && rows[2].step_speed_vs_baseline == 0.5);
    assert_true(rows[0].tokens_vs_baseline == 32.0 / 17);
}

/* As many as fit beside the baseline, which is built again for those behind and has one row. */
static void test_batches_that_fit(void **state) {
    (void)state;
    start();
    run_well("--kv-format bf16,f16,q8_0 --budget 34000");
    assert_rows(3, (const char *const[]){"bf16", "f16", "q8_0"});
    assert_int_equal(world.most_alive, 2);
    assert_int_equal(world.pools, 4); /* bf16 twice */
    assert_true(world.peak_bytes <= 34000);
    assert_true(rows[2].has_baseline && rows[2].kv_speed_vs_baseline == 2);
}

/* The budget goes before the ratio: f16 does not fit beside bf16, nor do q8_0 and q4_0 together. */
static void test_one_that_fits_alone(void **state) {
    (void)state;
    start();
    run_well("--kv-format bf16,q8_0,f16,q4_0 --budget 26000");
    assert_rows(4, (const char *const[]){"bf16", "q8_0", "f16", "q4_0"});
    assert_true(world.peak_bytes > 16408 && world.peak_bytes <= 26000);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(rows[i].status, RESULT_OK);
        assert_true(rows[i].has_speed);
        assert_int_equal(rows[i].has_baseline, i != 2);
        assert_int_equal(rows[i].reason[0] != '\0', i == 2);
    }
    assert_string_equal(rows[2].reason, "by itself: beside the baseline it is past the budget");
    assert_true(rows[1].kv_speed_vs_baseline == 2);
    assert_int_equal(world.pools, 5); /* bf16 twice */
}

static void test_too_large_for_the_budget(void **state) {
    (void)state;
    start();
    run_well("--kv-format bf16,q8_0,q4_0 --budget 10000");
    assert_rows(3, (const char *const[]){"bf16", "q8_0", "q4_0"});
    assert_int_equal(rows[0].status, RESULT_OUT_OF_MEMORY);
    assert_non_null(strstr(rows[0].reason, "and the budget is 10000 (--budget)"));
    for (size_t i = 1; i < 3; i++) {
        assert_int_equal(rows[i].status, RESULT_OK);
        assert_false(rows[i].has_baseline); /* it never ran */
    }
    /* what is free, less the margin of 512 MiB */
    start();
    world.free_bytes = ((uint64_t)512 << 20) + 10000;
    run_well("--kv-format bf16,q8_0");
    assert_int_equal(rows[0].status, RESULT_OUT_OF_MEMORY);
    assert_int_equal(rows[1].status, RESULT_OK);
}

/* Refused before anything is built, so that such rows come first. */
static void test_refused(void **state) {
    (void)state;
    start();
    model_asked = "1x80/g2x1l";
    run_well("--kv-format bf16,q8_0,f16");
    assert_rows(3, (const char *const[]){"q8_0", "bf16", "f16"});
    assert_int_equal(rows[0].status, RESULT_REFUSED);
    assert_non_null(strstr(rows[0].reason, "64 or 96"));
    assert_false(rows[0].has_speed || rows[0].has_baseline);
    assert_int_equal(rows[1].status, RESULT_OK);
    assert_int_equal(rows[2].status, RESULT_OK);
    assert_int_equal(world.pools, 2);
}

/* A row whose check failed has no speed, nor has it a part in others'. */
static void test_wrong_rows(void **state) {
    (void)state;
    start();
    world.wrong = FORMAT_Q8_0;
    run_well("--kv-format bf16,q8_0,f16");
    assert_rows(3, (const char *const[]){"bf16", "q8_0", "f16"});
    assert_int_equal(rows[1].status, RESULT_WRONG);
    assert_false(rows[1].has_speed || rows[1].has_baseline);
    assert_true(rows[1].reason[0] != '\0');
    assert_true(rows[2].has_speed && rows[2].kv_speed_vs_baseline == 0.5);
    start();
    world.wrong = FORMAT_BF16;
    run_well("--kv-format bf16,q8_0");
    assert_int_equal(rows[0].status, RESULT_WRONG);
    assert_int_equal(rows[1].status, RESULT_OK);
    assert_true(rows[1].has_speed);
    assert_false(rows[1].has_baseline);
}

/* Rows in hand are given to the end, and the next batch is not begun. */
static void test_a_row_that_cannot_be_written(void **state) {
    (void)state;
    for (size_t at = 1; at <= 2; at++) {
        struct status_text text = {""};
        start();
        row_fails = at;
        assert_int_equal(run_case("--kv-format bf16,f16,q8_0 --budget 34000", NULL, &text),
                         STATUS_IO);
        assert_string_equal(text.line, "this row fails");
        assert_rows(2, (const char *const[]){"bf16", "f16"});
    }
}

/* Whenever it comes: each row in hand once, those of a batch that was not begun not at all, and
 * none with a speed that was not measured to its end. */
static void test_interrupted(void **state) {
    (void)state;
    static const char *const formats[] = {"bf16", "q8_0", "f16"};
    enum status status = STATUS_INTERRUPTED;
    uint64_t at = 1, with_speed = 0, without = 0;
    for (; status == STATUS_INTERRUPTED && at < 1000; at++) {
        struct status_text text = {""};
        start();
        world.interrupt_at = at;
        status = run_case("--kv-format bf16,q8_0,f16 --budget 26000", NULL, &text);
        assert_true(row_count >= 2);
        assert_rows(row_count, formats);
        for (size_t i = 0; i < row_count; i++) {
            const bool ok = rows[i].status == RESULT_OK;
            assert_true(ok || rows[i].status == RESULT_INTERRUPTED);
            assert_int_equal(rows[i].has_speed, ok);
            assert_int_equal(rows[i].series.count, ok ? SAMPLES : 0);
            assert_true(ok || strstr(rows[i].reason, "interrupted") != NULL);
            with_speed += ok;
            without += !ok;
        }
        /* a batch ends as one */
        assert_int_equal(rows[0].status, rows[1].status);
        assert_int_equal(row_count, rows[0].status == RESULT_OK ? 3 : 2);
    }
    assert_int_equal(status, STATUS_OK);
    assert_true(with_speed > 3 && without > 3);
}

/* What a file has is not given again, but measured beside the others where it is the baseline. */
static void test_rows_that_are_there(void **state) {
    (void)state;
    static const struct {
        const char *saved;
        size_t count;
        const char *const formats[2];
        uint32_t pools;
    } cases[] = {{"bf16", 2, {"q8_0", "f16"}, 3},
                 {"q8_0", 2, {"bf16", "f16"}, 2},
                 {"bf16,f16", 1, {"q8_0"}, 2},
                 {"bf16,q8_0,f16", 0, {NULL}, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char path[] = "test_runner_XXXXXX";
        const int descriptor = mkstemp(path);
        assert_true(descriptor >= 0);
        save_to = fdopen(descriptor, "w");
        assert_non_null(save_to);
        char arguments[64];
        (void)snprintf(arguments, sizeof arguments, "--seed 1 --kv-format %s", cases[i].saved);
        start();
        run_well(arguments);
        assert_int_equal(fclose(save_to), 0);
        save_to = NULL;
        struct resume resume;
        struct status_text text = {""};
        if (resume_open(path, shared.facts.device, &resume, &text) != STATUS_OK)
            fail_msg("%s", text.line);
        start();
        if (run_case("--kv-format bf16,q8_0,f16 --seed 1", &resume, &text) != STATUS_OK)
            fail_msg("%s", text.line);
        assert_rows(cases[i].count, cases[i].formats);
        assert_int_equal(rows_there, 3 - cases[i].count);
        assert_int_equal(world.pools, cases[i].pools);
        for (size_t row = 0; row < row_count; row++)
            assert_true(rows[row].has_baseline);
        (void)fclose(resume.file);
        resume_free(&resume);
        assert_int_equal(remove(path), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_of_a_case),
        cmocka_unit_test(test_batches_that_fit),
        cmocka_unit_test(test_one_that_fits_alone),
        cmocka_unit_test(test_too_large_for_the_budget),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_wrong_rows),
        cmocka_unit_test(test_a_row_that_cannot_be_written),
        cmocka_unit_test(test_interrupted),
        cmocka_unit_test(test_rows_that_are_there),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    cpu->close(world.device);
    return failed;
}
