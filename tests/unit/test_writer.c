/* Rows in every form: what a reader of that form gets back, and what happens when writing fails. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <cjson/cJSON.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <signal.h>
#include <unistd.h>

#include "writer.h"

enum { NAME, COUNT, CHANGE, SPEED, GOOD, SAMPLES, SUMMARY, WORDS, FIELD_COUNT };

static const struct writer_field fields[FIELD_COUNT] = {
    [NAME] = {"name", "name", 0},        [COUNT] = {"count_bytes", "bytes", 0},
    [CHANGE] = {"change", "change", 0},  [SPEED] = {"speed", "GB/s", 2},
    [GOOD] = {"good", "good", 0},        [SAMPLES] = {"samples_ns", NULL, 0},
    [SUMMARY] = {"step_ns", "step", -1}, [WORDS] = {"argv", NULL, 0},
};

static const uint64_t samples[] = {3, 1, UINT64_MAX};
static const char *const words[] = {"a b", "\"quoted\"", "back\\slash"};

static void set_row(struct writer_value *values, const char *name) {
    values[NAME] = (struct writer_value){.kind = WRITER_TEXT, .as.text = name};
    values[COUNT] = (struct writer_value){.kind = WRITER_UNSIGNED, .as.number = UINT64_MAX};
    values[CHANGE] = (struct writer_value){.kind = WRITER_SIGNED, .as.signed_number = INT64_MIN};
    values[SPEED] = (struct writer_value){.kind = WRITER_REAL, .as.real = 0.1};
    values[GOOD] = (struct writer_value){.kind = WRITER_BOOL, .as.truth = true};
    values[SAMPLES] = (struct writer_value){.kind = WRITER_SAMPLES, .as.samples = {samples, 3}};
    values[SUMMARY] =
        (struct writer_value){.kind = WRITER_SUMMARY, .as.summary = {12.5, 11, 13, 10, 1e9, 3}};
    values[WORDS] = (struct writer_value){.kind = WRITER_TEXTS, .as.texts = {words, 3}};
}

/* Writes `rows` rows whose names are `names` in `form`; the text is the caller's to free. */
static char *write_rows(enum writer_form form, const char *const *names, size_t rows,
                        const char *title) {
    char *out = NULL;
    size_t bytes = 0;
    FILE *stream = open_memstream(&out, &bytes);
    assert_non_null(stream);
    struct writer *writer;
    assert_int_equal(writer_open(form, stream, fields, FIELD_COUNT, title, &writer, NULL),
                     STATUS_OK);
    for (size_t i = 0; i < rows; i++) {
        struct writer_value values[FIELD_COUNT];
        set_row(values, names[i]);
        assert_int_equal(writer_row(writer, values, NULL), STATUS_OK);
    }
    assert_int_equal(writer_close(writer, NULL), STATUS_OK);
    assert_int_equal(fclose(stream), 0);
    return out;
}

static void check_object(const cJSON *row, const char *name) {
    assert_string_equal(cJSON_GetObjectItemCaseSensitive(row, "name")->valuestring, name);
    assert_true(cJSON_GetObjectItemCaseSensitive(row, "speed")->valuedouble == 0.1);
    assert_true(cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(row, "good")));
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(row, "samples_ns");
    assert_int_equal(cJSON_GetArraySize(list), 3);
    assert_int_equal(cJSON_GetArrayItem(list, 0)->valueint, 3);
    const cJSON *summary = cJSON_GetObjectItemCaseSensitive(row, "step_ns");
    assert_true(cJSON_GetObjectItemCaseSensitive(summary, "median")->valuedouble == 12.5);
    assert_true(cJSON_GetObjectItemCaseSensitive(summary, "max")->valuedouble == 1e9);
    assert_int_equal(cJSON_GetObjectItemCaseSensitive(summary, "n")->valueint, 3);
    const cJSON *argv = cJSON_GetObjectItemCaseSensitive(row, "argv");
    for (int i = 0; i < 3; i++)
        assert_string_equal(cJSON_GetArrayItem(argv, i)->valuestring, words[i]);
}

static void json_lines_are_one_object_each(void **state) {
    (void)state;
    const char *const names[] = {"first", "tab\there, \"quotes\" and\nlines"};
    char *out = write_rows(WRITER_JSONL, names, 2, "a title no data form shows");
    char *line = out;
    for (size_t i = 0; i < 2; i++) {
        char *end = strchr(line, '\n');
        assert_non_null(end);
        *end = '\0';
        cJSON *row = cJSON_Parse(line);
        assert_non_null(row);
        assert_int_equal(cJSON_GetArraySize(row), FIELD_COUNT);
        check_object(row, names[i]);
        cJSON_Delete(row);
        /* cJSON reads numbers as doubles: the exact digits are checked as text. */
        assert_non_null(strstr(line, "\"count_bytes\":18446744073709551615,"));
        assert_non_null(strstr(line, "\"change\":-9223372036854775808,"));
        line = end + 1;
    }
    assert_string_equal(line, "");
    free(out);
}

static void json_is_one_array(void **state) {
    (void)state;
    const char *const names[] = {"x", "y", "z"};
    for (size_t rows = 0; rows <= 3; rows++) {
        char *out = write_rows(WRITER_JSON, names, rows, NULL);
        cJSON *array = cJSON_Parse(out);
        assert_true(cJSON_IsArray(array));
        assert_int_equal(cJSON_GetArraySize(array), rows);
        for (size_t i = 0; i < rows; i++)
            check_object(cJSON_GetArrayItem(array, (int)i), names[i]);
        cJSON_Delete(array);
        free(out);
    }
}

static void text_that_is_not_utf8_stays_json(void **state) {
    (void)state;
    static const struct {
        const char *bytes, *json;
    } cases[] = {
        {"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"},
        {"a\xff"
         "b",
         "a\\ufffdb"},
        {"\xc3", "\\ufffd"},
        {"\xc0\xaf", "\\ufffd\\ufffd"},                       /* an overlong slash */
        {"\xed\xa0\x80", "\\ufffd\\ufffd\\ufffd"},            /* a surrogate */
        {"\xf4\x90\x80\x80", "\\ufffd\\ufffd\\ufffd\\ufffd"}, /* past U+10FFFF */
        {"\x01\x1f", "\\u0001\\u001f"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *out = write_rows(WRITER_JSONL, &cases[i].bytes, 1, NULL), expected[80];
        (void)snprintf(expected, sizeof expected, "{\"name\":\"%s\",", cases[i].json);
        if (strncmp(out, expected, strlen(expected)) != 0)
            fail_msg("case %zu: %s", i, out);
        free(out);
    }
}

static void reals_read_back_the_same(void **state) {
    (void)state;
    static const double reals[] = {0, -0.0, 0.1, 1.0 / 3, 1e300, 5e-324, 3.5555555555555554, 1e6};
    static const struct writer_field field = {"real", "real", 0};
    for (size_t i = 0; i <= sizeof reals / sizeof reals[0] + 1; i++) {
        const size_t count = sizeof reals / sizeof reals[0];
        const double real = i < count ? reals[i] : i == count ? (double)NAN : (double)INFINITY;
        char out[128] = "";
        FILE *stream = fmemopen(out, sizeof out, "w");
        struct writer *writer;
        assert_int_equal(writer_open(WRITER_JSONL, stream, &field, 1, NULL, &writer, NULL),
                         STATUS_OK);
        const struct writer_value value = {.kind = WRITER_REAL, .as.real = real};
        assert_int_equal(writer_row(writer, &value, NULL), STATUS_OK);
        assert_int_equal(writer_close(writer, NULL), STATUS_OK);
        (void)fclose(stream);
        if (i >= count)
            assert_string_equal(out, "{\"real\":null}\n");
        else
            assert_true(strtod(out + strlen("{\"real\":"), NULL) == real);
    }
}

static void csv_quotes_what_needs_it(void **state) {
    (void)state;
    const char *const names[] = {"plain", "a,b \"c\"\nd"};
    char *out = write_rows(WRITER_CSV, names, 2, NULL);
    assert_string_equal(
        out,
        "name,count_bytes,change,speed,good,samples_ns,step_ns,argv\n"
        "plain,18446744073709551615,-9223372036854775808,0.1,true,"
        "\"[3,1,18446744073709551615]\","
        "\"{\"\"median\"\":12.5,\"\"q1\"\":11,\"\"q3\"\":13,\"\"min\"\":10,\"\"max\"\":1000000000,"
        "\"\"n\"\":3}\",\"[\"\"a b\"\",\"\"\\\"\"quoted\\\"\"\"\",\"\"back\\\\slash\"\"]\"\n"
        "\"a,b \"\"c\"\"\nd\",18446744073709551615,-9223372036854775808,0.1,true,"
        "\"[3,1,18446744073709551615]\","
        "\"{\"\"median\"\":12.5,\"\"q1\"\":11,\"\"q3\"\":13,\"\"min\"\":10,\"\"max\"\":1000000000,"
        "\"\"n\"\":3}\",\"[\"\"a b\"\",\"\"\\\"\"quoted\\\"\"\"\",\"\"back\\\\slash\"\"]\"\n");
    free(out);
}

static void tables_line_up(void **state) {
    (void)state;
    const char *const names[] = {"a", "l\xc3\xa4nger"};
    char *out = write_rows(WRITER_TABLE, names, 2, "title");
    assert_string_equal(
        out, "title\n"
             "name                   bytes                change  GB/s  good  step\n"
             "a       18446744073709551615  -9223372036854775808  0.10  yes   12.5\n"
             "l\xc3\xa4nger  18446744073709551615  -9223372036854775808  0.10  yes   12.5\n");
    free(out);
}

static void markdown_keeps_its_columns(void **state) {
    (void)state;
    const char *const names[] = {"a|b\nc"};
    char *out = write_rows(WRITER_MARKDOWN, names, 1, "title");
    assert_non_null(strstr(out, "title\n\n| name"));
    assert_non_null(strstr(out, "|---|---:|---:|---:|---|---:|\n"));
    assert_non_null(strstr(out, "| a\\|b c |"));
    free(out);
}

static void unknown_values_and_empty_columns(void **state) {
    (void)state;
    static const char *const expected[WRITER_FORM_COUNT] = {
        [WRITER_TABLE] = "name\na   \n-   \n",
        [WRITER_MARKDOWN] = "| name |\n|---|\n| a    |\n| -    |\n",
        [WRITER_CSV] = "name,count_bytes\na,\n,\n",
        [WRITER_JSON] = "[\n{\"name\":\"a\",\"count_bytes\":null},\n"
                        "{\"name\":null,\"count_bytes\":null}\n]\n",
        [WRITER_JSONL] = "{\"name\":\"a\",\"count_bytes\":null}\n"
                         "{\"name\":null,\"count_bytes\":null}\n",
    };
    for (int form = 0; form < WRITER_FORM_COUNT; form++) {
        char out[256] = "";
        FILE *stream = fmemopen(out, sizeof out, "w");
        struct writer *writer;
        assert_int_equal(
            writer_open((enum writer_form)form, stream, fields, 2, NULL, &writer, NULL), STATUS_OK);
        struct writer_value values[2] = {{.kind = WRITER_TEXT, .as.text = "a"},
                                         {.kind = WRITER_NULL}};
        assert_int_equal(writer_row(writer, values, NULL), STATUS_OK);
        values[0].kind = WRITER_NULL;
        assert_int_equal(writer_row(writer, values, NULL), STATUS_OK);
        assert_int_equal(writer_close(writer, NULL), STATUS_OK);
        (void)fclose(stream);
        /* The table's last column has no blanks behind it. */
        char trimmed[256];
        size_t to = 0;
        for (const char *at = expected[form]; *at != '\0'; at++) {
            if (form == WRITER_TABLE && *at == ' ')
                continue;
            trimmed[to++] = *at;
        }
        trimmed[to] = '\0';
        assert_string_equal(out, trimmed);
    }
}

static void names_of_forms(void **state) {
    (void)state;
    for (int form = 0; form < WRITER_FORM_COUNT; form++) {
        enum writer_form found = WRITER_FORM_COUNT;
        assert_true(writer_form_find(writer_form_name((enum writer_form)form), &found));
        assert_int_equal(found, form);
    }
    enum writer_form found;
    assert_false(writer_form_find("xml", &found));
}

/* Every form on a full disk: a status and a reason, at the row or at the end. */
static void full_disk_is_an_error(void **state) {
    (void)state;
    if (access("/dev/full", W_OK) != 0) {
        print_message("skipped: no /dev/full here\n");
        skip();
    }
    for (int form = 0; form < WRITER_FORM_COUNT; form++) {
        FILE *stream = fopen("/dev/full", "w");
        assert_non_null(stream);
        struct writer *writer;
        assert_int_equal(
            writer_open((enum writer_form)form, stream, fields, FIELD_COUNT, NULL, &writer, NULL),
            STATUS_OK);
        struct writer_value values[FIELD_COUNT];
        set_row(values, "row");
        struct status_text text = {""};
        const bool gathered = form == WRITER_TABLE || form == WRITER_MARKDOWN;
        assert_int_equal(writer_row(writer, values, &text), gathered ? STATUS_OK : STATUS_IO);
        assert_int_equal(writer_close(writer, &text), STATUS_IO);
        assert_non_null(strstr(text.line, "No space left on device"));
        (void)fclose(stream);
    }
}

/* A file that may not grow further ends with a whole line. */
static void no_half_line_is_left(void **state) {
    (void)state;
    char path[] = "test_writer_XXXXXX";
    const int descriptor = mkstemp(path);
    assert_true(descriptor >= 0);
    FILE *stream = fdopen(descriptor, "w");
    assert_non_null(stream);
    struct writer *writer;
    assert_int_equal(writer_open(WRITER_JSONL, stream, fields, FIELD_COUNT, NULL, &writer, NULL),
                     STATUS_OK);
    struct writer_value values[FIELD_COUNT];
    set_row(values, "a row");
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &(struct rlimit){1000, before.rlim_max}), 0);
    size_t rows = 0;
    while (writer_row(writer, values, NULL) == STATUS_OK)
        rows++;
    struct status_text text = {""};
    assert_int_equal(writer_row(writer, values, &text), STATUS_IO);
    assert_int_equal(writer_close(writer, &text), STATUS_IO);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    (void)fclose(stream);
    char kept[2000] = "";
    stream = fopen(path, "r");
    assert_non_null(stream);
    const size_t bytes = fread(kept, 1, sizeof kept - 1, stream);
    (void)fclose(stream);
    (void)unlink(path);
    assert_true(rows > 0 && bytes > 0 && bytes <= 1000);
    assert_int_equal(kept[bytes - 1], '\n');
    size_t lines = 0;
    for (char *line = strtok(kept, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        cJSON *row = cJSON_Parse(line);
        assert_non_null(row);
        cJSON_Delete(row);
        lines++;
    }
    assert_int_equal(lines, rows);
}

static void files_are_never_overwritten(void **state) {
    (void)state;
    char folder[] = "test_writer_XXXXXX", path[64], used[80], expected[80];
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/rows.jsonl", folder);
    for (int number = 0; number < 3; number++) {
        FILE *stream = NULL;
        assert_int_equal(writer_create_file(path, used, sizeof used, &stream, NULL), STATUS_OK);
        (void)snprintf(expected, sizeof expected, number == 0 ? "%s" : "%s.%d", path, number);
        assert_string_equal(used, expected);
        assert_true(fputs("kept", stream) >= 0);
        assert_int_equal(fclose(stream), 0);
    }
    for (int number = 0; number < 3; number++) {
        char text[16] = "";
        (void)snprintf(used, sizeof used, number == 0 ? "%s" : "%s.%d", path, number);
        FILE *stream = fopen(used, "r");
        assert_non_null(stream);
        assert_non_null(fgets(text, sizeof text, stream));
        assert_string_equal(text, "kept");
        (void)fclose(stream);
        (void)unlink(used);
    }
    (void)snprintf(path, sizeof path, "%s/no/such/place", folder);
    FILE *stream = NULL;
    struct status_text text = {""};
    assert_int_equal(writer_create_file(path, used, sizeof used, &stream, &text), STATUS_BAD_INPUT);
    assert_null(stream);
    assert_non_null(strstr(text.line, "--save"));
    assert_int_equal(writer_create_file("a", used, 1, &stream, &text), STATUS_BAD_INPUT);
    (void)rmdir(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_lines_are_one_object_each),
        cmocka_unit_test(json_is_one_array),
        cmocka_unit_test(text_that_is_not_utf8_stays_json),
        cmocka_unit_test(reals_read_back_the_same),
        cmocka_unit_test(csv_quotes_what_needs_it),
        cmocka_unit_test(tables_line_up),
        cmocka_unit_test(markdown_keeps_its_columns),
        cmocka_unit_test(unknown_values_and_empty_columns),
        cmocka_unit_test(names_of_forms),
        cmocka_unit_test(full_disk_is_an_error),
        cmocka_unit_test(no_half_line_is_left),
        cmocka_unit_test(files_are_never_overwritten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
