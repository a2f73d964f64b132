/* Fields and sentences. */
#include "fill_rows.h"

#include <stdio.h>

#include "number.h"
#include "result_value.h"

enum fill_field {
    FILL_MODEL,
    FILL_FORMAT,
    FILL_TOKENS,
    FILL_SEQS,
    FILL_PAGE_TOKENS,
    FILL_LEVEL,
    FILL_BYTES,
    FILL_DIFFERENCE,
    FILL_TOKENS_GB,
    FILL_COUNT,
    FILL_FORMULA_COUNT,
    FILL_READ,
    FILL_STATUS,
    FILL_REASON,
    FILL_FIELD_COUNT
};

static const struct writer_field fields[FILL_FIELD_COUNT] = {
    [FILL_MODEL] = {"model", "model", 0},
    [FILL_FORMAT] = {"kv_format", "format", 0},
    [FILL_TOKENS] = {"tokens", "tokens", 0},
    [FILL_SEQS] = {"seqs", "seqs", 0},
    [FILL_PAGE_TOKENS] = {"page_tokens", "page", 0},
    [FILL_LEVEL] = {"level", "level", 0},
    [FILL_BYTES] = {"bytes", "bytes", 0},
    [FILL_DIFFERENCE] = {"difference_bytes", "difference", 0},
    [FILL_TOKENS_GB] = {"tokens_per_gb", "tokens/GB", 0},
    [FILL_COUNT] = {"count", NULL, 0},
    [FILL_FORMULA_COUNT] = {"formula_count", NULL, 0},
    [FILL_READ] = {"read_gb_per_s", NULL, 0},
    [FILL_STATUS] = {"status", "status", 0},
    [FILL_REASON] = {"reason", "why", 0},
};

/* One line of the itemisation. A level has bytes; an item below it has only a difference. */
struct line {
    const char *level;
    bool has_bytes;
    uint64_t bytes;
    bool has_difference;
    int64_t difference;
    const char *status; /* NULL: ok */
    const char *reason;
    bool beside_levels; /* bytes that no rate of tokens belongs to */
    const struct fill_until *until;
    double read_gb_per_s; /* 0: none */
};

enum status fill_rows_open(const struct options *options, const char *title,
                           struct session_output *out, struct status_text *text) {
    return session_output_open(options, fields, FILL_FIELD_COUNT, title, out, text);
}

static enum status write_line(const struct fill_rows *rows, const struct line *line,
                              struct status_text *text) {
    struct writer_value values[FILL_FIELD_COUNT] = {0};
    uint64_t tokens = 0;
    if (rows->one != NULL) {
        for (uint64_t i = 0; i < rows->one->seqs; i++)
            tokens += rows->one->lengths[i];
        values[FILL_MODEL] = result_value_text(rows->one->model.name);
        values[FILL_FORMAT] = result_value_text(rows->format->name);
        values[FILL_TOKENS] = result_value_number(rows->one->tokens);
        values[FILL_SEQS] = result_value_number(rows->one->seqs);
        values[FILL_PAGE_TOKENS] = result_value_number(rows->one->page_tokens);
    }
    values[FILL_LEVEL] = result_value_text(line->level);
    if (line->has_bytes)
        values[FILL_BYTES] = result_value_number(line->bytes);
    if (line->has_bytes && line->bytes > 0 && tokens > 0 && !line->beside_levels)
        values[FILL_TOKENS_GB] = result_value_real((double)tokens * 1e9 / (double)line->bytes);
    if (line->has_difference)
        values[FILL_DIFFERENCE] =
            (struct writer_value){.kind = WRITER_SIGNED, .as.signed_number = line->difference};
    if (line->until != NULL) {
        values[FILL_COUNT] = result_value_number(line->until->count);
        values[FILL_FORMULA_COUNT] = result_value_number(line->until->formula_count);
    }
    if (line->read_gb_per_s > 0)
        values[FILL_READ] = result_value_real(line->read_gb_per_s);
    values[FILL_STATUS] = result_value_text(line->status != NULL ? line->status : "ok");
    values[FILL_REASON] = result_value_text(line->reason);
    return session_output_row(rows->output, values, text);
}

/* Levels, and those items that make a difference. */
static enum status write_lines(const struct fill_rows *rows, const struct line *lines, size_t count,
                               struct status_text *text) {
    enum status status = STATUS_OK;
    for (size_t i = 0; i < count && status == STATUS_OK; i++)
        if (lines[i].has_bytes || lines[i].until != NULL || lines[i].difference != 0)
            status = write_line(rows, &lines[i], text);
    return status;
}

static struct line level(const char *name, uint64_t bytes, const char *reason) {
    return (struct line){.level = name, .has_bytes = true, .bytes = bytes, .reason = reason};
}

static struct line level_after(const char *name, uint64_t bytes, uint64_t before,
                               const char *reason) {
    struct line line = level(name, bytes, reason);
    line.has_difference = true;
    line.difference = (int64_t)(bytes - before);
    return line;
}

static struct line item(const char *name, int64_t difference, const char *reason) {
    return (struct line){
        .level = name, .has_difference = true, .difference = difference, .reason = reason};
}

enum status fill_rows_overhead(const struct fill_rows *rows, const struct overhead *overhead,
                               const struct memory_budget *budget, struct status_text *text) {
    char source[256], pieces[128], words[NUMBER_TEXT_BYTES];
    (void)snprintf(source, sizeof source, "what may be planned for (%s)", budget->source);
    number_bytes_words(overhead->piece_bytes, words);
    (void)snprintf(pieces, sizeof pieces, "in allocations of %s, all held together", words);
    const struct line lines[] = {
        level("device in use", overhead->in_use_bytes,
              "before anything was asked: context, modules, the system, other processes"),
        level("device budget", budget->budget_bytes, source),
        level_after("device largest", overhead->largest_bytes, budget->budget_bytes,
                    "the largest single allocation in the budget"),
        level_after("device small", overhead->pieces_bytes, overhead->largest_bytes, pieces),
        item("  driver steps", (int64_t)overhead->rounding_bytes,
             "what the driver took beyond the small allocations, in its own steps"),
    };
    return write_lines(rows, lines, sizeof lines / sizeof lines[0], text);
}

enum status fill_rows_levels(const struct fill_rows *rows, const struct pool *pool,
                             struct status_text *text) {
    struct pool_sizes s;
    char formula[320];
    pool_sizes_get(pool, &s);
    const bool drafts = rows->one->options->draft_layers > 0;
    (void)snprintf(formula, sizeof formula,
                   "K, V, entries, index keys, state, with block scales%s%s", drafts ? "; " : "",
                   drafts ? rows->one->model.remark : "");
    const struct line lines[] = {
        level("1 formula", s.formula_bytes, formula),
        item("  tails", (int64_t)s.tail_bytes, "unused slots of part pages"),
        item("  alignment", (int64_t)s.alignment_bytes,
             "pages and state slots rounded up to whole 16 bytes or more"),
        item("  shared", -(int64_t)s.shared_bytes, "pages that several sequences point to"),
        level_after("2 paged", s.paged_bytes, s.formula_bytes, "whole pages in use"),
        item("  partial", (int64_t)s.partial_bytes,
             "pooled entries that are not whole yet, fp32, one per sequence and layer"),
        item("  spare", (int64_t)s.spare_bytes, "pages kept for windows to move into"),
        item("  tables", (int64_t)s.page_table_bytes, "int32 page ids and sequence lengths"),
        item("  tensor scales", (int64_t)s.tensor_scale_bytes, "fp32 per layer and per K or V"),
        level_after("3 pool", s.pool_bytes, s.paged_bytes, "what was asked of the allocator"),
    };
    enum status status = write_lines(rows, lines, sizeof lines / sizeof lines[0], text);
    uint64_t before = s.pool_bytes, driver, resident;
    if (status == STATUS_OK && pool_driver_bytes(pool, &driver)) {
        const struct line line = level_after(
            "4 driver", driver, before, "what the device lost to it, in the driver's own steps");
        status = write_line(rows, &line, text);
        before = driver;
    }
    if (status != STATUS_OK || !pool_resident_bytes(pool, &resident))
        return status;
    const struct line last =
        level_after("5 resident", resident, before,
                    "in memory after every page was written, in whole OS pages");
    return write_line(rows, &last, text);
}

enum status fill_rows_read(const struct fill_rows *rows, const struct spill_report *report,
                           struct status_text *text) {
    char reason[320];
    if (report->missing_bytes > 0)
        (void)snprintf(
            reason, sizeof reason,
            "%llu of these bytes, from byte %llu on, were not in memory after every page "
            "was written: swapped out",
            (unsigned long long)report->missing_bytes,
            (unsigned long long)report->spilled_offset_bytes);
    else if (report->ceiling_gb_per_s <= 0)
        (void)snprintf(reason, sizeof reason,
                       "every page read once; too few bytes to judge by their speed");
    else if (report->spilled_bytes > 0)
        (void)snprintf(reason, sizeof reason,
                       "%llu of these bytes, from byte %llu on, are read at less than a quarter of "
                       "the ceiling of %.3g GB/s (%.3g GB/s): not in the device's own memory",
                       (unsigned long long)report->spilled_bytes,
                       (unsigned long long)report->spilled_offset_bytes, report->ceiling_gb_per_s,
                       report->slowest_gb_per_s);
    else
        (void)snprintf(
            reason, sizeof reason,
            "every page read once, %llu MiB and more at a time; the slowest at %.3g GB/s, the "
            "ceiling %.3g%s",
            (unsigned long long)(SPILL_REGION_BYTES >> 20), report->slowest_gb_per_s,
            report->ceiling_gb_per_s,
            report->busy ? ": slow, yet all in memory; the machine is busy" : "");
    struct line line = level("read", report->read_bytes, reason);
    line.beside_levels = true;
    line.status = report->spilled_bytes > 0 ? "spilled" : NULL;
    line.read_gb_per_s = report->ceiling_gb_per_s > 0 ? report->slowest_gb_per_s : 0;
    return write_line(rows, &line, text);
}

/* "19 seqs are in; by the formula 20 would be ..." */
static void count_words(enum options_until what, const struct fill_until *found, char *out,
                        size_t bytes) {
    char count[NUMBER_TEXT_BYTES], formula[NUMBER_TEXT_BYTES], more[NUMBER_TEXT_BYTES];
    number_group_digits(found->count, count);
    number_group_digits(found->formula_count, formula);
    number_group_digits(found->short_bytes, more);
    const char *unit = what == OPTIONS_UNTIL_SEQS ? "sequences" : "tokens each";
    if (found->limit[0] != '\0')
        (void)snprintf(out, bytes, "%s %s are in, by the formula %s; not the budget ends it: %s",
                       count, unit, formula, found->limit);
    else
        (void)snprintf(out, bytes,
                       "%s %s are in, by the formula %s; one more would take %s bytes past the "
                       "budget",
                       count, unit, formula, more);
}

enum status fill_rows_until(const struct fill_rows *rows, enum options_until what,
                            const struct fill_until *found, const struct memory_budget *budget,
                            uint64_t weights_bytes, struct status_text *text) {
    char source[256], words[480];
    (void)snprintf(source, sizeof source, "pool, weights, test data and what is left (%s)",
                   budget->source);
    count_words(what, found, words, sizeof words);
    const uint64_t all = budget->budget_bytes + weights_bytes;
    struct line budget_line = level_after("budget", all, found->sizes.pool_bytes, source);
    budget_line.beside_levels = true;
    const struct line lines[] = {
        item("  weights", (int64_t)weights_bytes, "--weights, allocated and touched"),
        item("  test data", (int64_t)found->sizes.harness_bytes,
             "the rows that are appended, and the arguments of the appends"),
        item("  left", (int64_t)found->left_bytes, "less than one more takes"),
        budget_line,
        {.level = what == OPTIONS_UNTIL_SEQS ? "until full: seqs" : "until full: tokens",
         .reason = words,
         .until = found},
    };
    return write_lines(rows, lines, sizeof lines / sizeof lines[0], text);
}

enum status fill_rows_failed(const struct fill_rows *rows, enum status status, const char *reason,
                             struct status_text *text) {
    const struct line line = {.status = status == STATUS_OUT_OF_MEMORY ? "out_of_memory"
                                        : status == STATUS_INTERRUPTED ? "interrupted"
                                        : status == STATUS_WRONG       ? "wrong"
                                                                       : "refused",
                              .reason = reason};
    return write_line(rows, &line, text);
}
