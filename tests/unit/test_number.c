/* Numbers of the command line: exact or refused, with the option, the value and what is allowed. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "brief.h"
#include "number.h"

enum { LARGEST_BIT = 62 };

static void tokens_are_exact(void **state) {
    (void)state;
    static const struct {
        const char *text;
        uint64_t tokens;
    } cases[] = {
        {"1", 1},
        {"8192", 8192},
        {"8k", 8192},
        {"8K", 8192},
        {"1m", 1048576},
        {"1M", 1048576},
        {"1.5k", 1536},
        {"0.5k", 512},
        {".25m", 262144},
        {"0.0009765625k", 1},
        {"1.000", 1},
        {"max", NUMBER_MAX_TOKENS},
        {"4611686018427387904", (uint64_t)1 << LARGEST_BIT},
        {"4398046511104m", (uint64_t)1 << LARGEST_BIT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t tokens = 0;
        struct status_text text = {""};
        assert_int_equal(number_parse_tokens("--tokens", cases[i].text, &tokens, &text), STATUS_OK);
        assert_true(tokens == cases[i].tokens);
    }
}

/* A refusal names the option, the value and what is allowed, on one line. */
static void check_refusal(enum status status, const struct status_text *text, const char *option,
                          const char *value, const char *allowed) {
    char start[160], shown[BRIEF_BYTES];
    assert_int_equal(status, STATUS_BAD_INPUT);
    (void)snprintf(start, sizeof start, "%s %s: ", option, brief_text(value, shown));
    if (strncmp(text->line, start, strlen(start)) != 0)
        fail_msg("\"%s\" does not start with \"%s\"", text->line, start);
    if (strstr(text->line, allowed) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", text->line, allowed);
    assert_null(strpbrk(text->line, "\n\r"));
}

static void bad_tokens_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *text;
        const char *allowed;
    } cases[] = {
        {"", "a number of tokens"},
        {"0", "at least 1"},
        {"0k", "at least 1"},
        {"-1", "a number of tokens"},
        {"+1", "a number of tokens"},
        {" 1", "a number of tokens"},
        {"0.5", "whole number"},
        {"1.0001k", "whole number"},
        {"0.33333333333333333333333333", "whole number"},
        {"8q", "a number of tokens"},
        {"8kk", "a number of tokens"},
        {"8k ", "a number of tokens"},
        {"k", "a number of tokens"},
        {".", "a number of tokens"},
        {"1.2.3", "a number of tokens"},
        {"1e6", "a number of tokens"},
        {"0x10", "a number of tokens"},
        {"nan", "a number of tokens"},
        {"8\n9", "a number of tokens"},
        {"4611686018427387905", "too large"},
        {"18446744073709551616", "too large"},
        {"18446744073709551615m", "too large"},
        {"1000000000000000000000000000000", "too large"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t tokens;
        struct status_text text = {""};
        const enum status status = number_parse_tokens("--tokens", cases[i].text, &tokens, &text);
        check_refusal(status, &text, "--tokens", cases[i].text, cases[i].allowed);
    }
}

static void counts_keep_their_limits(void **state) {
    (void)state;
    uint64_t count = 0;
    struct status_text text = {""};
    assert_int_equal(number_parse_count("--tp", "1", 1, 8, &count, &text), STATUS_OK);
    assert_int_equal(count, 1);
    assert_int_equal(number_parse_count("--tp", "8", 1, 8, &count, &text), STATUS_OK);
    assert_int_equal(count, 8);
    static const char *const bad[] = {"0", "9", "", "-1", "2k", "1.5", "99999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const enum status status = number_parse_count("--tp", bad[i], 1, 8, &count, &text);
        check_refusal(status, &text, "--tp", bad[i], "from 1 to 8");
    }
    assert_int_equal(count, 8);
}

static void bytes_know_both_thousands(void **state) {
    (void)state;
    static const struct {
        const char *text;
        uint64_t bytes;
    } cases[] = {
        {"0", 0},
        {"123", 123},
        {"123B", 123},
        {"1kB", 1000},
        {"1KiB", 1024},
        {"10MB", 10000000},
        {"10MiB", 10485760},
        {"10GB", 10000000000},
        {"30GiB", 32212254720},
        {"1.5GiB", 1610612736},
        {"2TB", 2000000000000},
        {"1TiB", 1099511627776},
        {"0.1GiB", 107374182},      /* 107,374,182.4 */
        {"117.6GiB", 126272038502}, /* 126,272,038,502.4 */
        {"0.33333333333333333333333GiB", 357913941},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t bytes = 1;
        struct status_text text = {""};
        assert_int_equal(number_parse_bytes("--budget", cases[i].text, &bytes, &text), STATUS_OK);
        assert_int_equal(bytes, cases[i].bytes);
    }
}

static void bad_bytes_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *text;
        const char *allowed;
    } cases[] = {
        {"", "bytes are expected"},        {"-1GiB", "bytes are expected"},
        {"10XB", "bytes are expected"},    {"10gib", "bytes are expected"},
        {"10 GiB", "bytes are expected"},  {"GiB", "bytes are expected"},
        {"infGiB", "bytes are expected"},  {"0.5", "whole number of bytes"},
        {"0.5B", "whole number of bytes"}, {"99999999999GiB", "too large"},
        {"99999999TiB", "too large"},      {"16777216.1234567890123456789TiB", "too large"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t bytes;
        struct status_text text = {""};
        const enum status status = number_parse_bytes("--budget", cases[i].text, &bytes, &text);
        check_refusal(status, &text, "--budget", cases[i].text, cases[i].allowed);
    }
}

static void seconds_are_finite(void **state) {
    (void)state;
    double seconds = -1;
    struct status_text text = {""};
    assert_int_equal(number_parse_seconds("--min-time", "0.25", &seconds, &text), STATUS_OK);
    assert_true(seconds == 0.25);
    assert_int_equal(number_parse_seconds("--min-time", "0", &seconds, &text), STATUS_OK);
    assert_true(seconds == 0);
    static const char *const bad[] = {"", "-1", "nan", "inf", "1s", "1e400", "1e9"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const enum status status = number_parse_seconds("--min-time", bad[i], &seconds, &text);
        check_refusal(status, &text, "--min-time", bad[i], "seconds");
    }
}

static void check_list(const char *text, bool tokens, const uint64_t *expected,
                       size_t expected_count) {
    uint64_t values[16];
    size_t count = 0;
    struct status_text why = {""};
    if (number_parse_list("--list", text, tokens, values, 16, &count, &why) != STATUS_OK)
        fail_msg("%s: %s", text, why.line);
    assert_int_equal(count, expected_count);
    for (size_t i = 0; i < count; i++)
        assert_true(values[i] == expected[i]);
}

static void lists_expand(void **state) {
    (void)state;
    check_list("8k", true, (const uint64_t[]){8192}, 1);
    check_list("8k,1,max", true, (const uint64_t[]){8192, 1, NUMBER_MAX_TOKENS}, 3);
    check_list("1k-8k", true, (const uint64_t[]){1024, 2048, 4096, 8192}, 4);
    check_list("1k-7k", true, (const uint64_t[]){1024, 2048, 4096}, 3);
    check_list("1-64x4", false, (const uint64_t[]){1, 4, 16, 64}, 4);
    check_list("1-64*4", false, (const uint64_t[]){1, 4, 16, 64}, 4);
    check_list("1k-2k+512", true, (const uint64_t[]){1024, 1536, 2048}, 3);
    check_list("8-8", false, (const uint64_t[]){8}, 1);
    check_list("1,4-16,3", false, (const uint64_t[]){1, 4, 8, 16, 3}, 5);
    /* A range to the largest number ends there and does not wrap. */
    check_list("2305843009213693952-4611686018427387904", true,
               (const uint64_t[]){(uint64_t)1 << 61, (uint64_t)1 << 62}, 2);
}

static void bad_lists_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *text;
        const char *allowed;
    } cases[] = {
        {"8-1", "smaller to a larger"},
        {"1-max", "smaller to a larger"},
        {"1-8x1", "from 2 to"},
        {"1-8+0", "from 1 to"},
        {"1-8x", "from 2 to"},
        {"1,,2", "from 1 to"},
        {"1,", "from 1 to"},
        {"", "from 1 to"},
        {"1-", "from 1 to"},
        {"-1", "from 1 to"},
        {"1-40+1", "too many"},
        {"1-2-3", "from 1 to"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t values[16];
        size_t count;
        struct status_text text = {""};
        const bool tokens = strstr(cases[i].text, "max") != NULL;
        assert_int_equal(
            number_parse_list("--seqs", cases[i].text, tokens, values, 16, &count, &text),
            STATUS_BAD_INPUT);
        if (strstr(text.line, cases[i].allowed) == NULL)
            fail_msg("%s: \"%s\" does not say \"%s\"", cases[i].text, text.line, cases[i].allowed);
    }
    char longer[2000];
    memset(longer, '1', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    uint64_t values[16];
    size_t count;
    assert_int_equal(number_parse_list("--seqs", longer, false, values, 16, &count, NULL),
                     STATUS_BAD_INPUT);
}

static void numbers_read_well(void **state) {
    (void)state;
    char words[NUMBER_TEXT_BYTES];
    static const struct {
        uint64_t value;
        const char *grouped, *bytes;
    } cases[] = {
        {0, "0", "0 B"},
        {999, "999", "999 B"},
        {1000, "1,000", "1000 B"},
        {1024, "1,024", "1.00 KiB"},
        {8192, "8,192", "8.00 KiB"},
        {1610612736, "1,610,612,736", "1.50 GiB"},
        {UINT64_MAX, "18,446,744,073,709,551,615", "16.00 EiB"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        number_group_digits(cases[i].value, words);
        assert_string_equal(words, cases[i].grouped);
        number_bytes_words(cases[i].value, words);
        assert_string_equal(words, cases[i].bytes);
    }
}

static void brief_stays_on_one_line(void **state) {
    (void)state;
    char out[BRIEF_BYTES];
    assert_string_equal(brief_text("", out), "(empty)");
    assert_string_equal(brief_text("plain", out), "plain");
    assert_string_equal(brief_text("a\nb\x1b[0m", out), "a?b?[0m");
    char longer[200];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    assert_int_equal(strlen(brief_text(longer, out)), 67);
    assert_string_equal(out + 64, "...");
    /* Two-byte characters from byte 63 on: the cut falls between them. */
    for (size_t i = 63; i + 1 < sizeof longer - 1; i += 2)
        memcpy(longer + i, "\xc3\xa9", 2);
    assert_string_equal(brief_text(longer, out) + 63, "...");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_are_exact),
        cmocka_unit_test(bad_tokens_are_refused),
        cmocka_unit_test(counts_keep_their_limits),
        cmocka_unit_test(bytes_know_both_thousands),
        cmocka_unit_test(bad_bytes_are_refused),
        cmocka_unit_test(seconds_are_finite),
        cmocka_unit_test(lists_expand),
        cmocka_unit_test(bad_lists_are_refused),
        cmocka_unit_test(numbers_read_well),
        cmocka_unit_test(brief_stays_on_one_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
