/* A file that a run goes on with: which of its rows count, what makes a row another row, and what
 * becomes of a last line that is torn, of somebody else's file, and of the bytes in it. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "resume.h"
#include "row_file.h"

enum { MOST_BYTES = 16384 };

static char folder[32], path[64];
static struct options options;
static struct run_case one;
static struct result_run run;
static struct options_format format = {
    .name = "q8_0", .k_format = FORMAT_Q8_0, .v_format = FORMAT_Q8_0};

static const char *argv[] = {"kvgauge", "run", "--seed", "7"};

/* As the command line has it, and as it is understood. */
static void set_seed(const char *text) {
    argv[3] = text;
    options.seed = strtoull(text, NULL, 10);
}

static int set_up(void **state) {
    (void)state;
    static uint64_t lengths[2] = {100, 100};
    options = (struct options){.seed = 7, .tp = 1, .state_value_bytes = 4};
    set_seed("7");
    run = (struct result_run){
        .options = &options,
        .argc = sizeof argv / sizeof argv[0],
        .argv = argv,
        .facts = {.backend = "cpu", .device = "this", .threads = 2},
    };
    one = (struct run_case){
        .options = &options,
        .model = {.name = "a model",
                  .group_count = 1,
                  .groups = {{.kind = MODEL_FULL,
                              .layers = 1,
                              .read_by_layers = 1,
                              .kv_heads = 1,
                              .query_heads = 1,
                              .k_dim = 64,
                              .v_dim = 64}}},
        .tokens = 100,
        .seqs = 2,
        .page_tokens = 16,
        .lengths = lengths,
    };
    (void)strcpy(folder, "test_resume_XXXXXX");
    if (mkdtemp(folder) == NULL)
        return -1;
    (void)snprintf(path, sizeof path, "%s/rows", folder);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    (void)unlink(path);
    return rmdir(folder);
}

/* As a run writes it, of a row that reads weights. */
static struct result_row *row_of(enum result_status status) {
    static struct result_row row;
    const struct result result = {
        .which = &one,
        .format = &format,
        .status = status,
        .weights = {.shape = {.read_bytes = 1000, .format = BACKEND_WEIGHTS_F32}},
    };
    result_values(&run, &result, &row);
    return &row;
}

static void append_row(const struct writer_value *values) {
    FILE *file = fopen(path, "a");
    assert_non_null(file);
    row_file_append(file, values);
    assert_int_equal(fclose(file), 0);
}

static void put(const char *bytes, size_t count) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
}

static size_t get(char bytes[MOST_BYTES]) {
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    const size_t count = fread(bytes, 1, MOST_BYTES - 1, file);
    assert_int_equal(fclose(file), 0);
    assert_true(count < MOST_BYTES - 1);
    bytes[count] = '\0';
    return count;
}

static struct resume opened(void) {
    struct resume resume;
    struct status_text text = {""};
    if (resume_open(path, "this", &resume, &text) != STATUS_OK)
        fail_msg("%s", text.line);
    return resume;
}

static void closed(struct resume *resume) {
    (void)fclose(resume->file);
    resume_free(resume);
}

/* What was not finished is done again. */
static void test_which_rows_count(void **state) {
    (void)state;
    static const bool counts[] = {
        [RESULT_OK] = true,           [RESULT_WRONG] = false,
        [RESULT_REFUSED] = true,      [RESULT_OUT_OF_MEMORY] = true,
        [RESULT_INTERRUPTED] = false,
    };
    for (int status = RESULT_OK; status <= RESULT_INTERRUPTED; status++) {
        put("", 0);
        append_row(row_of((enum result_status)status)->values);
        struct resume resume = opened();
        assert_int_equal(resume_take(&resume, row_of(RESULT_OK)->values), counts[status]);
        assert_int_equal(resume.count, counts[status]);
        closed(&resume);
    }
}

static void test_what_makes_another_row(void **state) {
    (void)state;
    static const enum result_field keys[] = {
        RESULT_SUITE,         RESULT_THREADS,
        RESULT_FORMULA_BYTES, RESULT_MODEL,
        RESULT_K_FORMAT,      RESULT_V_FORMAT,
        RESULT_INDEX_FORMAT,  RESULT_TOKENS,
        RESULT_SEQS,          RESULT_TP,
        RESULT_SEED,          RESULT_PAGE_TOKENS,
        RESULT_PAGE_ORDER,    RESULT_DATA,
        RESULT_ROTATE,        RESULT_WEIGHTS_FORMAT,
        RESULT_RANKS,         RESULT_WEIGHTS_READ_BYTES,
    };
    append_row(row_of(RESULT_OK)->values);
    for (int field = 0; field < RESULT_FIELD_COUNT; field++) {
        if (field == (int)RESULT_ARGV)
            continue;
        struct resume resume = opened();
        struct writer_value *values = row_of(RESULT_OK)->values;
        bool is_key = false;
        for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
            is_key = is_key || (int)keys[i] == field;
        if (values[field].kind == WRITER_UNSIGNED)
            values[field].as.number++;
        else if (values[field].kind == WRITER_TEXT)
            values[field].as.text = "another";
        else
            values[field] = (struct writer_value){.kind = WRITER_UNSIGNED, .as.number = 2};
        if (resume_take(&resume, values) == is_key)
            fail_msg("%s", result_fields[field].name);
        closed(&resume);
    }
}

/* What has no column stands in argv. */
static void test_what_argv_tells(void **state) {
    (void)state;
    static const char *const others[][2] = {{"--kv-scale", "amax"}, {"--state-format", "bf16"}};
    append_row(row_of(RESULT_OK)->values);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        const char *other[] = {"kvgauge", "run", "--seed", "7", others[i][0], others[i][1]};
        run.argv = other;
        run.argc = sizeof other / sizeof other[0];
        struct resume resume = opened();
        assert_false(resume_take(&resume, row_of(RESULT_OK)->values));
        append_row(row_of(RESULT_OK)->values);
        closed(&resume);
        resume = opened();
        assert_int_equal(resume.count, i + 2);
        assert_true(resume_take(&resume, row_of(RESULT_OK)->values));
        closed(&resume);
    }
}

/* Each row of the file stands for one of the run. */
static void test_rows_are_taken_once(void **state) {
    (void)state;
    append_row(row_of(RESULT_OK)->values);
    append_row(row_of(RESULT_OK)->values);
    struct resume resume = opened();
    for (int i = 0; i < 3; i++)
        assert_int_equal(resume_take(&resume, row_of(RESULT_OK)->values), i < 2);
    closed(&resume);
}

/* JSON's numbers are read as doubles, which have no place for the last bits of these. */
static void test_any_seed(void **state) {
    (void)state;
    static const char *const seeds[] = {"0", "9007199254740993", "1152921504606846977"};
    for (size_t i = 0; i < sizeof seeds / sizeof seeds[0]; i++) {
        put("", 0);
        set_seed(seeds[i]);
        append_row(row_of(RESULT_OK)->values);
        struct resume resume = opened();
        set_seed("99");
        assert_false(resume_take(&resume, row_of(RESULT_OK)->values));
        set_seed(seeds[i]);
        assert_true(resume_take(&resume, row_of(RESULT_OK)->values));
        closed(&resume);
    }
}

static void test_a_new_file(void **state) {
    (void)state;
    struct resume resume = opened();
    assert_int_equal(resume.count, 0);
    assert_false(resume_take(&resume, row_of(RESULT_OK)->values));
    closed(&resume);
    (void)unlink(path);
    (void)snprintf(path, sizeof path, "%s/no/rows", folder);
    struct status_text text = {""};
    assert_int_equal(resume_open(path, "this", &resume, &text), STATUS_BAD_INPUT);
    assert_non_null(strstr(text.line, "/no/rows: No such file"));
}

/* What is written next begins behind the last whole row, whatever was behind that. */
static void test_torn_at_any_place(void **state) {
    (void)state;
    static char whole[MOST_BYTES], after[MOST_BYTES];
    append_row(row_of(RESULT_OK)->values);
    const size_t first = get(whole);
    set_seed("8");
    append_row(row_of(RESULT_OK)->values);
    const size_t both = get(whole);
    for (size_t kept = first + 1; kept < both - 1; kept += kept < first + 20 ? 1 : 53) {
        put(whole, kept);
        struct resume resume = opened();
        assert_int_equal(resume.count, 1);
        assert_true(fputs("next\n", resume.file) >= 0);
        closed(&resume);
        assert_int_equal(get(after), first + 5);
        assert_memory_equal(after, whole, first);
        assert_string_equal(after + first, "next\n");
    }
    /* whole but for its line break: it counts, and gets one */
    put(whole, both - 1);
    struct resume resume = opened();
    assert_int_equal(resume.count, 2);
    assert_true(fputs("next\n", resume.file) >= 0);
    closed(&resume);
    assert_int_equal(get(after), both + 5);
    assert_memory_equal(after, whole, both);
    assert_string_equal(after + both, "next\n");
}

static void assert_refused(const char *bytes, size_t count, const char *words) {
    static char after[MOST_BYTES];
    struct resume resume;
    struct status_text text = {""};
    put(bytes, count);
    assert_int_equal(resume_open(path, "this", &resume, &text), STATUS_BAD_INPUT);
    if (strstr(text.line, words) == NULL)
        fail_msg("'%s' is not in '%s'", words, text.line);
    assert_int_equal(get(after), count);
    assert_memory_equal(after, bytes, count);
}

/* Somebody else's files stay as they are, to the byte. */
static void test_other_files(void **state) {
    (void)state;
    static char bytes[MOST_BYTES];
    append_row(row_of(RESULT_OK)->values);
    const size_t first = get(bytes);
    (void)strcpy(bytes + first, "not a row");
    assert_refused(bytes, first + 9, "line 2: not a row of kvgauge run");
    (void)strcpy(bytes + first, "{\"schema_version_of\": 3\n");
    assert_refused(bytes, strlen(bytes), "line 2: not valid JSON");
    (void)strcpy(bytes + first, "\n{\"status\": \"ok\"}\n");
    assert_refused(bytes, strlen(bytes), "line 3: not a row of kvgauge run");
    (void)strcpy(bytes + first, "{\"device\": \"this\", \"status\": 3}\n");
    assert_refused(bytes, strlen(bytes), "line 2: not a row of kvgauge run");
    (void)unlink(path);
    (void)strcpy(run.facts.device, "that");
    append_row(row_of(RESULT_OK)->values);
    const size_t others = get(bytes);
    assert_refused(bytes, others, "line 1: a row of another device, that; this is this");
}

/* Between rows, and an empty file. */
static void test_empty_lines(void **state) {
    (void)state;
    static char bytes[MOST_BYTES];
    append_row(row_of(RESULT_OK)->values);
    const size_t first = get(bytes);
    memmove(bytes + 1, bytes, first);
    bytes[0] = '\n';
    (void)strcpy(bytes + first + 1, "\n\n");
    put(bytes, first + 3);
    struct resume resume = opened();
    assert_int_equal(resume.count, 1);
    closed(&resume);
    put("", 0);
    resume = opened();
    assert_int_equal(resume.count, 0);
    closed(&resume);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_which_rows_count, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_makes_another_row, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_argv_tells, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_rows_are_taken_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_any_seed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_new_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_torn_at_any_place, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_other_files, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_empty_lines, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
