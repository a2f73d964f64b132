/* `kvgauge fill` as a whole over a backend of the test's making: the budget is kept to the byte,
 * the rows add up to what was asked, and what goes wrong half-way is a row. The program's list of
 * backends is this file's. No real time is looked at. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <cjson/cJSON.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backend_build.h"
#include "commands.h"
#include "counting_ops.h"

#define MIB ((uint64_t)1 << 20)
enum { MOST_WORDS = 32, MOST_ROWS = 64 };

const struct backend_ops *const *backend_list(void) {
    static const struct backend_ops *const backends[] = {&counting.ops, NULL};
    return backends;
}

const struct backend_ops *backend_find(const char *name) {
    return strcmp(name, "cpu") == 0 ? &counting.ops : NULL;
}

const char *backend_cuda_version(void) {
    return "";
}

const char *backend_cuda_targets(void) {
    return "";
}

/* What the device of this test does besides counting. */
static struct {
    uint64_t free_bytes;    /* of an untouched device, whatever this machine has */
    uint64_t pool_slowness; /* the pool is read that many times slower than anything else */
    bool interrupt;         /* the third append is interrupted */
    uintptr_t pool_from, pool_end, read_from;
    uint64_t read_bytes;
    unsigned appends;
    struct backend_ops counted;
} planted;

static enum status allocate(struct backend_device *device, uint64_t bytes, const char *what,
                            struct backend_memory *out, struct status_text *text) {
    const enum status status = planted.counted.memory_allocate(device, bytes, what, out, text);
    if (status == STATUS_OK && strcmp(what, "the pool") == 0) {
        planted.pool_from = (uintptr_t)out->dev_address;
        planted.pool_end = planted.pool_from + bytes;
    }
    return status;
}

static void facts(struct backend_device *device, struct backend_facts *out) {
    planted.counted.facts(device, out);
    out->memory_total_bytes = 2 * planted.free_bytes;
    out->memory_free_bytes = planted.free_bytes - counting.held_bytes;
}

static enum status stream_read(struct backend_device *device, const void *dev_from, uint64_t bytes,
                               struct status_text *text) {
    planted.read_from = (uintptr_t)dev_from;
    planted.read_bytes = bytes;
    return planted.counted.stream_read(device, dev_from, bytes, text);
}

static uint64_t elapsed_ns(struct backend_device *device, uint32_t from, uint32_t to) {
    (void)device, (void)from, (void)to;
    const bool pool =
        planted.read_from >= planted.pool_from && planted.read_from < planted.pool_end;
    return planted.read_bytes * (pool ? planted.pool_slowness : 1);
}

static const void *nowhere(struct backend_device *device, const void *dev_from) {
    (void)device, (void)dev_from;
    return NULL;
}

static enum status append(struct backend_device *device, const struct backend_append *work,
                          struct format_replaced *replaced, struct status_text *text) {
    if (++planted.appends == 3 && planted.interrupt)
        (void)raise(SIGINT);
    return planted.counted.append(device, work, replaced, text);
}

static void start(uint64_t limit_bytes) {
    counting_reset(limit_bytes);
    memset(&planted, 0, sizeof planted);
    planted.counted = counting.ops;
    planted.pool_slowness = 1;
    planted.free_bytes = 1024 * MIB;
    counting.ops.memory_allocate = allocate;
    counting.ops.facts = facts;
    counting.ops.stream_read = stream_read;
    counting.ops.elapsed_ns = elapsed_ns;
    counting.ops.append = append;
}

static cJSON *rows[MOST_ROWS];
static size_t row_count;

static void forget_rows(void) {
    for (size_t i = 0; i < row_count; i++)
        cJSON_Delete(rows[i]);
    row_count = 0;
}

/* Every line must be whole JSON. */
static void read_rows(FILE *file) {
    char line[4096];
    forget_rows();
    rewind(file);
    while (fgets(line, sizeof line, file) != NULL) {
        assert_true(row_count < MOST_ROWS);
        rows[row_count] = cJSON_Parse(line);
        assert_non_null(rows[row_count]);
        row_count++;
    }
}

/* Runs "fill ..." and leaves its rows; returns the exit code. */
static int fill(const char *arguments) {
    static char copy[1024], program[] = "kvgauge";
    (void)snprintf(copy, sizeof copy, "fill --device cpu --threads 2 -o jsonl %s", arguments);
    char *words[MOST_WORDS] = {program};
    int count = 1;
    for (char *word = strtok(copy, " "); word != NULL; word = strtok(NULL, " "))
        words[count++] = word;
    struct options options;
    struct status_text text = {""};
    if (options_parse(count, words, &options, &text) != STATUS_OK)
        fail_msg("%s", text.line);
    (void)fflush(stdout);
    FILE *file = tmpfile();
    const int terminal = dup(STDOUT_FILENO);
    assert_true(file != NULL && terminal >= 0 && dup2(fileno(file), STDOUT_FILENO) >= 0);
    const int code = command_fill(&options);
    (void)fflush(stdout);
    assert_true(dup2(terminal, STDOUT_FILENO) >= 0);
    (void)close(terminal);
    options_free(&options);
    read_rows(file);
    (void)fclose(file);
    assert_int_equal(counting.held_bytes, 0);
    return code;
}

static const char *text_of(size_t row, const char *field) {
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItem(rows[row], field));
    return text != NULL ? text : "";
}

static uint64_t number_of(size_t row, const char *field) {
    const cJSON *value = cJSON_GetObjectItem(rows[row], field);
    return cJSON_IsNumber(value) ? (uint64_t)(int64_t)value->valuedouble : 0;
}

/* The first row of that level behind `from`; row_count when there is none. */
static size_t find(const char *level, size_t from) {
    while (from < row_count && strcmp(text_of(from, "level"), level) != 0)
        from++;
    return from;
}

/* From one pool's first level to `level`, items alone must make the difference. */
static void assert_adds_up(size_t first, size_t last) {
    uint64_t bytes = number_of(first, "bytes");
    for (size_t i = first + 1; i < last; i++)
        if (text_of(i, "level")[0] == ' ')
            bytes += number_of(i, "difference_bytes"); /* signed; unsigned sums wrap alike */
    assert_int_equal(bytes, number_of(last, "bytes"));
}

static void assert_pools_add_up(unsigned pools, uint64_t budget_bytes) {
    unsigned seen = 0;
    for (size_t i = find("1 formula", 0); i < row_count; i = find("1 formula", i + 1)) {
        const size_t pool = find("3 pool", i), budget = find("budget", i);
        assert_adds_up(i, pool);
        assert_adds_up(pool, budget);
        assert_int_equal(number_of(budget, "bytes"), budget_bytes);
        const size_t full = budget + 1;
        assert_true(number_of(full, "count") > 0);
        assert_true(number_of(full, "count") <= number_of(full, "formula_count"));
        assert_string_equal(text_of(i, "status"), "ok");
        seen++;
    }
    assert_int_equal(seen, pools);
    assert_true(counting.peak_bytes <= budget_bytes);
}

static void test_budget_is_kept(void **state) {
    (void)state;
    start(6 * MIB);
    assert_int_equal(fill("-m 2x64/g2x2l --tokens 100 --kv-format nvfp4,q8_0 --until-full seqs "
                          "--budget 6MiB --weights 1MiB"),
                     0);
    assert_pools_add_up(2, 6 * MIB);
    start(3000000);
    assert_int_equal(fill("-m 1x32w50/g2x2l,2x64 --seqs 3 --page-tokens 7 --kv-format bf16 "
                          "--until-full tokens --budget 3000000 --weights 12345"),
                     0);
    assert_pools_add_up(1, 3000000); /* the first has nothing that grows */
    assert_string_equal(text_of(find("", 0), "status"), "refused");
    /* without --budget: what is free, less the margin */
    start(0);
    planted.free_bytes = 520 * MIB;
    assert_int_equal(fill("-m 2x64/g2x2l --tokens 100 --kv-format q4_0 --until-full seqs "
                          "--weights 3MiB"),
                     0);
    assert_pools_add_up(1, 8 * MIB);
    /* a request as it stands: its own memory counts as well */
    start(0);
    const uint64_t pool_bytes = 7 * 16 * 2 * 2 * 64 * 2 + 8 + 7 * 4;
    const uint64_t harness_bytes = 100 * 2 * 128 * 4 + 24;
    char budget[96];
    (void)snprintf(budget, sizeof budget, "-m 2x64 --tokens 100 --kv-format bf16 --budget %llu",
                   (unsigned long long)(pool_bytes + harness_bytes - 1));
    assert_int_equal(fill(budget), 2);
    assert_string_equal(text_of(0, "status"), "out_of_memory");
    (void)snprintf(budget, sizeof budget, "-m 2x64 --tokens 100 --kv-format bf16 --budget %llu",
                   (unsigned long long)(pool_bytes + harness_bytes));
    counting.peak_bytes = 0;
    assert_int_equal(fill(budget), 0);
    assert_int_equal(counting.peak_bytes, pool_bytes + harness_bytes);
}

static void test_less_than_promised(void **state) {
    (void)state;
    start(3 * MIB); /* the device ends before the budget does */
    assert_int_equal(fill("-m 2x64/g2x2l --tokens 100 --kv-format q8_0 --until-full seqs "
                          "--budget 6MiB"),
                     2);
    const size_t last = row_count - 1;
    assert_string_equal(text_of(last, "status"), "out_of_memory");
    assert_non_null(strstr(text_of(last, "reason"), "--until-full seqs: "));
    assert_non_null(strstr(text_of(last, "reason"), " in 6291456 bytes (--budget): "));
    assert_true(number_of(find("device small", 0), "bytes") < 4 * MIB);
    start(3 * MIB);
    assert_int_equal(fill("-m 2x64 --tokens 100 --budget 6MiB --weights 4MiB"), 2);
    assert_int_equal(row_count, 0);
}

static void test_spilled(void **state) {
    (void)state;
    static const char *const asked =
        "-m 2x64/g2x2l --tokens 100 --kv-format bf16 --until-full seqs --budget 8MiB";
    start(0);
    counting.ops.memory_host = nowhere;
    planted.pool_slowness = 3;
    assert_int_equal(fill(asked), 0);
    assert_string_equal(text_of(find("read", 0), "status"), "ok");
    start(0);
    counting.ops.memory_host = nowhere;
    planted.pool_slowness = 5;
    assert_int_equal(fill(asked), 1);
    const size_t read = find("read", 0);
    assert_string_equal(text_of(read, "status"), "spilled");
    assert_int_equal(number_of(read, "bytes"), number_of(find("3 pool", 0), "bytes"));
    /* in memory as the system says, and only slow */
    start(0);
    planted.pool_slowness = 5;
    assert_int_equal(fill(asked), 0);
    assert_non_null(strstr(text_of(find("read", 0), "reason"), "busy"));
}

/* The last one: an interrupt stays asked for. */
static void test_interrupted(void **state) {
    (void)state;
    start(0);
    planted.interrupt = true;
    assert_int_equal(fill("-m 2x64/g2x2l --seqs 2 --kv-format bf16,q8_0 --until-full tokens "
                          "--budget 8MiB --weights 1MiB"),
                     130);
    assert_int_equal(row_count, find("device small", 0) + 2);
    assert_string_equal(text_of(row_count - 1, "status"), "interrupted");
    forget_rows();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_budget_is_kept),
        cmocka_unit_test(test_less_than_promised),
        cmocka_unit_test(test_spilled),
        cmocka_unit_test(test_interrupted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
