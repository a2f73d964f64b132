/* What is looked at before a device is given work: bad entries are named, tables that are too short
 * are seen, and both ways of reading a device - in place, and in pieces - say the same. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "backend_check.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* A device that is host memory, read in place or not, and that may fail at its n-th read. */
struct backend_device {
    unsigned reads;
    unsigned fail_at;
};

static const void *in_place(struct backend_device *device, const void *dev_from) {
    (void)device;
    return dev_from;
}

static const void *not_in_place(struct backend_device *device, const void *dev_from) {
    (void)device;
    (void)dev_from;
    return NULL;
}

static enum status read_copy(struct backend_device *device, void *to, const void *dev_from,
                             uint64_t bytes, struct status_text *text) {
    assert_in_range(bytes, 1, 1 << 20);
    if (++device->reads == device->fail_at)
        return status_set(text, STATUS_IO, "the device is gone");
    memcpy(to, dev_from, bytes);
    return STATUS_OK;
}

static const struct backend_ops devices[] = {
    {.name = "in place", .memory_host = in_place, .memory_read = read_copy},
    {.name = "no such function", .memory_read = read_copy},
    {.name = "not this memory", .memory_host = not_in_place, .memory_read = read_copy},
};

enum { SEQS = 3, COLUMNS = 4, PAGES = 10, PAGE_TOKENS = 16 };

static const int32_t good_table[SEQS * COLUMNS] = {0, 1, 2, 3, 9, 8, 7, 6, 5, 4, -1, -1};

static struct backend_cache make_cache(const int32_t *table) {
    struct backend_cache cache = {
        .dev_page_table = table, .page_table_columns = COLUMNS, .page_count = PAGES, .seqs = SEQS};
    const struct page_shape shape = {.kv_heads = 2,
                                     .page_tokens = PAGE_TOKENS,
                                     .k_dim = 32,
                                     .v_dim = 32,
                                     .k_format = FORMAT_BF16,
                                     .v_format = FORMAT_BF16};
    assert_int_equal(page_plan(&shape, &cache.page, NULL), STATUS_OK);
    return cache;
}

/* What every device says of an attend over these segments; the same, or the test fails. */
static enum status attend(const struct backend_cache *cache, const struct backend_segment *segments,
                          uint32_t count, struct status_text *text) {
    const struct backend_attend work = {.cache = *cache,
                                        .plan = {.dev_segments = segments, .segment_count = count}};
    enum status first = STATUS_OK;
    for (size_t i = 0; i < COUNT(devices); i++) {
        struct backend_device device = {0};
        struct status_text said = {{0}};
        const enum status status = backend_check_attend(&devices[i], &device, &work, &said);
        if (i == 0) {
            first = status;
            *text = said;
        }
        assert_int_equal(status, first);
        assert_string_equal(said.line, text->line);
        assert_int_equal(device.reads > 0, i > 0);
    }
    return first;
}

static enum status append(const struct backend_cache *cache, const uint64_t *first_tokens,
                          const uint64_t *token_counts, struct status_text *text) {
    const struct backend_append work = {
        .cache = *cache, .dev_first_tokens = first_tokens, .dev_token_counts = token_counts};
    enum status first = STATUS_OK;
    for (size_t i = 0; i < COUNT(devices); i++) {
        struct backend_device device = {0};
        struct status_text said = {{0}};
        const enum status status = backend_check_append(&devices[i], &device, &work, &said);
        if (i == 0) {
            first = status;
            *text = said;
        }
        assert_int_equal(status, first);
        assert_string_equal(said.line, text->line);
    }
    return first;
}

/* An attend over selected tokens; the list itself is not to be read. */
static enum status attend_selected(const struct backend_cache *cache, const uint64_t *lengths,
                                   uint32_t stride, const struct backend_segment *segments,
                                   uint32_t count, struct status_text *text) {
    const struct backend_attend work = {.cache = *cache,
                                        .plan = {.dev_segments = segments, .segment_count = count},
                                        .dev_selected = (const int32_t *)(uintptr_t)16,
                                        .selected_stride = stride,
                                        .dev_lengths = lengths};
    enum status first = STATUS_OK;
    for (size_t i = 0; i < COUNT(devices); i++) {
        struct backend_device device = {0};
        struct status_text said = {{0}};
        const enum status status = backend_check_attend(&devices[i], &device, &work, &said);
        if (i == 0) {
            first = status;
            *text = said;
        }
        assert_int_equal(status, first);
        assert_string_equal(said.line, text->line);
    }
    return first;
}

static enum status index_score(const struct backend_cache *cache, const uint64_t *lengths,
                               uint64_t longest, uint64_t stride, struct status_text *text) {
    const struct backend_index_score work = {
        .cache = *cache, .dev_lengths = lengths, .longest = longest, .score_stride = stride};
    enum status first = STATUS_OK;
    for (size_t i = 0; i < COUNT(devices); i++) {
        struct backend_device device = {0};
        struct status_text said = {{0}};
        const enum status status = backend_check_index_score(&devices[i], &device, &work, &said);
        if (i == 0) {
            first = status;
            *text = said;
        }
        assert_int_equal(status, first);
        assert_string_equal(said.line, text->line);
    }
    return first;
}

static void assert_names(const struct status_text *text, const char *a, const char *b,
                         const char *c) {
    if (strstr(text->line, a) == NULL || strstr(text->line, b) == NULL ||
        strstr(text->line, c) == NULL)
        fail_msg("\"%s\" does not name %s, %s and %s", text->line, a, b, c);
}

static void test_good_attend(void **state) {
    (void)state;
    const struct backend_cache cache = make_cache(good_table);
    struct status_text text;
    /* the third sequence's last two columns are empty, and nobody needs them; its second head is
     * in two pieces, and one row has no tokens */
    const struct backend_segment segments[] = {{0, 0, 0, 64}, {0, 1, 0, 64}, {1, 0, 5, 59},
                                               {1, 1, 0, 0},  {2, 0, 0, 32}, {2, 1, 0, 7},
                                               {2, 1, 7, 25}, {2, 1, 700, 0}};
    assert_int_equal(attend(&cache, segments, COUNT(segments), &text), STATUS_OK);
    /* a ring: tokens far along, and more of them than the table has columns before them */
    const struct backend_segment ring[] = {{0, 0, 1000, 30}, {0, 0, 1030, 26}};
    assert_int_equal(attend(&cache, ring, COUNT(ring), &text), STATUS_OK);
}

static void test_bad_entries(void **state) {
    (void)state;
    const struct {
        int32_t id;
        const char *words;
    } bad[] = {{-1, "holds -1"}, {PAGES, "holds 10"}, {INT32_MIN, "holds -2147483648"}};
    for (size_t i = 0; i < COUNT(bad); i++) {
        int32_t table[SEQS * COLUMNS];
        memcpy(table, good_table, sizeof table);
        table[COLUMNS + 2] = bad[i].id;
        const struct backend_cache cache = make_cache(table);
        struct status_text text;
        /* only the second KV head's second piece reads it */
        struct backend_segment segments[] = {
            {0, 0, 0, 64}, {1, 0, 0, 32}, {1, 1, 0, 20}, {1, 1, 20, 13}};
        assert_int_equal(attend(&cache, segments, COUNT(segments), &text), STATUS_BAD_INPUT);
        assert_names(&text, "sequence 1", "column 2", bad[i].words);
        segments[3].token_count = 12;
        assert_int_equal(attend(&cache, segments, COUNT(segments), &text), STATUS_OK);

        const uint64_t firsts[SEQS] = {0, 31, 0}, one[SEQS] = {64, 1, 0}, two[SEQS] = {64, 2, 0};
        assert_int_equal(append(&cache, firsts, one, &text), STATUS_OK);
        assert_int_equal(append(&cache, firsts, two, &text), STATUS_BAD_INPUT);
        assert_names(&text, "sequence 1", "column 2", bad[i].words);
    }
}

static void test_short_tables(void **state) {
    (void)state;
    const struct backend_cache cache = make_cache(good_table);
    struct status_text text;
    const struct backend_segment alone[] = {{0, 0, 0, 65}};
    assert_int_equal(attend(&cache, alone, COUNT(alone), &text), STATUS_BAD_INPUT);
    assert_names(&text, "sequence 0", "5 pages", "4 columns");
    /* each piece fits, the row does not */
    const struct backend_segment row[] = {{0, 0, 3, 40}, {0, 0, 43, 22}};
    assert_int_equal(attend(&cache, row, COUNT(row), &text), STATUS_BAD_INPUT);
    assert_names(&text, "sequence 0", "5 pages", "4 columns");
    const uint64_t firsts[SEQS] = {15, 0, 0}, counts[SEQS] = {50, 0, 0};
    assert_int_equal(append(&cache, firsts, counts, &text), STATUS_BAD_INPUT);
    assert_names(&text, "sequence 0", "5 pages", "4 columns");
}

static void test_segments_out_of_range(void **state) {
    (void)state;
    const struct backend_cache cache = make_cache(good_table);
    struct status_text text;
    const struct backend_segment seq[] = {{SEQS, 0, 0, 1}}, head[] = {{0, 2, 0, 1}};
    assert_int_equal(attend(&cache, seq, 1, &text), STATUS_BAD_INPUT);
    assert_int_equal(attend(&cache, head, 1, &text), STATUS_BAD_INPUT);
    const struct backend_segment longest[] = {{0, 0, 0, (uint64_t)1 << 31}},
                                 far[] = {{0, 0, 15, INT32_MAX - 5}};
    assert_int_equal(attend(&cache, longest, 1, &text), STATUS_REFUSED);
    assert_int_equal(attend(&cache, far, 1, &text), STATUS_REFUSED);
}

/* The whole table up to each length, whatever the plan's few places are. */
static void test_selected(void **state) {
    (void)state;
    int32_t table[SEQS * COLUMNS];
    memcpy(table, good_table, sizeof table);
    const struct backend_cache cache = make_cache(table);
    const uint64_t lengths[SEQS] = {64, 0, 32}, one_more[SEQS] = {64, 0, 33},
                   too_long[SEQS] = {64, 65, 0}, enormous[SEQS] = {(uint64_t)1 << 31, 0, 0};
    struct backend_segment segments[] = {{0, 0, 0, 5}, {0, 0, 5, 3}, {1, 0, 0, 0}, {2, 1, 0, 8}};
    struct status_text text;
    assert_int_equal(attend_selected(&cache, lengths, 8, segments, 4, &text), STATUS_OK);
    assert_int_equal(attend_selected(&cache, one_more, 8, segments, 4, &text), STATUS_BAD_INPUT);
    assert_names(&text, "sequence 2", "column 2", "holds -1");
    assert_int_equal(attend_selected(&cache, too_long, 8, segments, 4, &text), STATUS_BAD_INPUT);
    assert_names(&text, "sequence 1", "5 pages", "4 columns");
    assert_int_equal(attend_selected(&cache, enormous, 8, segments, 4, &text), STATUS_REFUSED);
    table[3] = PAGES;
    assert_int_equal(attend_selected(&cache, lengths, 8, segments, 4, &text), STATUS_BAD_INPUT);
    assert_names(&text, "sequence 0", "column 3", "holds 10");
    table[3] = good_table[3];
    /* places past a list's end, and past the tokens that there are to select */
    assert_int_equal(attend_selected(&cache, lengths, 7, segments, 4, &text), STATUS_BAD_INPUT);
    assert_names(&text, "places 5 to 8", "sequence 0", "are 7");
    segments[2].token_count = 1;
    assert_int_equal(attend_selected(&cache, lengths, 8, segments, 4, &text), STATUS_BAD_INPUT);
    assert_names(&text, "places 0 to 1", "sequence 1", "are 0");
    segments[2].token_count = 0;
    segments[3].seq = SEQS;
    assert_int_equal(attend_selected(&cache, lengths, 8, segments, 4, &text), STATUS_BAD_INPUT);
}

static void test_index_score(void **state) {
    (void)state;
    int32_t table[SEQS * COLUMNS];
    memcpy(table, good_table, sizeof table);
    const struct backend_cache cache = make_cache(table);
    const uint64_t lengths[SEQS] = {64, 0, 32}, one_more[SEQS] = {64, 0, 33},
                   too_long[SEQS] = {64, 65, 0}, enormous[SEQS] = {0, (uint64_t)1 << 31, 0};
    struct status_text text;
    assert_int_equal(index_score(&cache, lengths, 64, 64, &text), STATUS_OK);
    assert_int_equal(index_score(&cache, lengths, 63, 64, &text), STATUS_BAD_INPUT);
    assert_names(&text, "sequence 0", "64 keys", "have 63");
    assert_int_equal(index_score(&cache, lengths, 64, 63, &text), STATUS_BAD_INPUT);
    assert_names(&text, "sequence 0", "64 keys", "room for 63");
    assert_int_equal(index_score(&cache, one_more, 64, 64, &text), STATUS_BAD_INPUT);
    assert_names(&text, "sequence 2", "column 2", "holds -1");
    assert_int_equal(index_score(&cache, too_long, 65, 65, &text), STATUS_BAD_INPUT);
    assert_names(&text, "sequence 1", "5 pages", "4 columns");
    assert_int_equal(index_score(&cache, enormous, UINT64_MAX, UINT64_MAX, &text), STATUS_REFUSED);
    table[1] = -2;
    assert_int_equal(index_score(&cache, lengths, 64, 64, &text), STATUS_BAD_INPUT);
    assert_names(&text, "sequence 0", "column 1", "holds -2");
}

/* A table of several pieces, with one bad entry at its very end. */
static void test_large_table(void **state) {
    (void)state;
    enum { WIDE = 700000 };
    int32_t *table = calloc((size_t)SEQS * WIDE, sizeof *table);
    assert_non_null(table);
    struct backend_cache cache = make_cache(table);
    cache.page_table_columns = WIDE;
    struct status_text text;
    const struct backend_segment segments[] = {{0, 0, 0, (uint64_t)WIDE * PAGE_TOKENS},
                                               {1, 0, 0, (uint64_t)WIDE * PAGE_TOKENS},
                                               {2, 0, 100, (uint64_t)WIDE * PAGE_TOKENS - 100}};
    assert_int_equal(attend(&cache, segments, COUNT(segments), &text), STATUS_OK);
    table[SEQS * WIDE - 1] = -7;
    assert_int_equal(attend(&cache, segments, COUNT(segments), &text), STATUS_BAD_INPUT);
    assert_names(&text, "sequence 2", "column 699999", "holds -7");
    const uint64_t firsts[SEQS] = {0, 0, 100}, counts[SEQS] = {0, 0, segments[2].token_count};
    assert_int_equal(append(&cache, firsts, counts, &text), STATUS_BAD_INPUT);
    assert_names(&text, "sequence 2", "column 699999", "holds -7");
    free(table);
}

/* Every read may fail, and what the device says is what is said. */
static void test_reads_that_fail(void **state) {
    (void)state;
    const struct backend_cache cache = make_cache(good_table);
    const struct backend_segment segments[] = {{0, 0, 0, 64}};
    const uint64_t firsts[SEQS] = {0}, counts[SEQS] = {1, 1, 1};
    const struct backend_attend work = {.cache = cache,
                                        .plan = {.dev_segments = segments, .segment_count = 1}};
    const struct backend_append append_work = {
        .cache = cache, .dev_first_tokens = firsts, .dev_token_counts = counts};
    const uint64_t lengths[SEQS] = {1, 1, 1};
    struct backend_attend selected_work = work;
    selected_work.dev_selected = (const int32_t *)(uintptr_t)16;
    selected_work.selected_stride = 64;
    selected_work.dev_lengths = lengths;
    const struct backend_index_score score_work = {
        .cache = cache, .dev_lengths = lengths, .longest = 1, .score_stride = 1};
    for (unsigned at = 1; at <= 3; at++) {
        struct status_text text = {{0}};
        struct backend_device device = {.fail_at = at};
        assert_int_equal(backend_check_attend(&devices[1], &device, &selected_work, &text),
                         STATUS_IO);
        assert_string_equal(text.line, "the device is gone");
        device.reads = 0;
        if (at <= 2) {
            assert_int_equal(backend_check_index_score(&devices[1], &device, &score_work, &text),
                             STATUS_IO);
            assert_string_equal(text.line, "the device is gone");
        }
        device.reads = 0;
        if (at <= 2) {
            assert_int_equal(backend_check_attend(&devices[1], &device, &work, &text), STATUS_IO);
            assert_string_equal(text.line, "the device is gone");
        }
        device.reads = 0;
        assert_int_equal(backend_check_append(&devices[1], &device, &append_work, &text),
                         STATUS_IO);
        assert_string_equal(text.line, "the device is gone");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_attend),  cmocka_unit_test(test_bad_entries),
        cmocka_unit_test(test_short_tables), cmocka_unit_test(test_segments_out_of_range),
        cmocka_unit_test(test_selected),     cmocka_unit_test(test_index_score),
        cmocka_unit_test(test_large_table),  cmocka_unit_test(test_reads_that_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
