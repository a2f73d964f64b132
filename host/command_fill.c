/* `kvgauge fill`: builds pools on the device, fills them, and says level by level what they took:
 * formula, paged, pool, driver, resident; each with its signed difference to the level before. */
#include "commands.h"

#include <stdio.h>

#include "interrupt.h"
#include "memory.h"
#include "number.h"
#include "pool.h"
#include "run_case.h"
#include "session.h"

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
    FILL_STATUS,
    FILL_REASON,
    FILL_FIELD_COUNT
};

static const struct writer_field fill_fields[FILL_FIELD_COUNT] = {
    [FILL_MODEL] = {"model", "model", 0},
    [FILL_FORMAT] = {"kv_format", "format", 0},
    [FILL_TOKENS] = {"tokens", "tokens", 0},
    [FILL_SEQS] = {"seqs", "seqs", 0},
    [FILL_PAGE_TOKENS] = {"page_tokens", "page", 0},
    [FILL_LEVEL] = {"level", "level", 0},
    [FILL_BYTES] = {"bytes", "bytes", 0},
    [FILL_DIFFERENCE] = {"difference_bytes", "difference", 0},
    [FILL_TOKENS_GB] = {"tokens_per_gb", "tokens/GB", 0},
    [FILL_STATUS] = {"status", "status", 0},
    [FILL_REASON] = {"reason", "why", 0},
};

struct fill {
    struct session session;
    struct session_output output;
    const struct run_case *one;
    const struct options_format *format;
    uint64_t ok_pools;
    bool wrong;
};

/* One line of the itemisation. A level has bytes; an item below it has only a difference. */
struct line {
    const char *level;
    bool has_bytes;
    uint64_t bytes;
    bool has_difference;
    int64_t difference;
    const char *status;
    const char *reason;
};

static enum status write_line(struct fill *fill, const struct line *line,
                              struct status_text *text) {
    struct writer_value values[FILL_FIELD_COUNT] = {0};
    uint64_t tokens = 0;
    for (uint64_t i = 0; i < fill->one->seqs; i++)
        tokens += fill->one->lengths[i];
    values[FILL_MODEL] =
        (struct writer_value){.kind = WRITER_TEXT, .as.text = fill->one->model.name};
    values[FILL_FORMAT] = (struct writer_value){.kind = WRITER_TEXT, .as.text = fill->format->name};
    values[FILL_TOKENS] =
        (struct writer_value){.kind = WRITER_UNSIGNED, .as.number = fill->one->tokens};
    values[FILL_SEQS] =
        (struct writer_value){.kind = WRITER_UNSIGNED, .as.number = fill->one->seqs};
    values[FILL_PAGE_TOKENS] =
        (struct writer_value){.kind = WRITER_UNSIGNED, .as.number = fill->one->page_tokens};
    if (line->level != NULL)
        values[FILL_LEVEL] = (struct writer_value){.kind = WRITER_TEXT, .as.text = line->level};
    if (line->has_bytes) {
        values[FILL_BYTES] =
            (struct writer_value){.kind = WRITER_UNSIGNED, .as.number = line->bytes};
        if (line->bytes > 0)
            values[FILL_TOKENS_GB] = (struct writer_value){
                .kind = WRITER_REAL, .as.real = (double)tokens * 1e9 / (double)line->bytes};
    }
    if (line->has_difference)
        values[FILL_DIFFERENCE] =
            (struct writer_value){.kind = WRITER_SIGNED, .as.signed_number = line->difference};
    values[FILL_STATUS] = (struct writer_value){
        .kind = WRITER_TEXT, .as.text = line->status != NULL ? line->status : "ok"};
    if (line->reason != NULL)
        values[FILL_REASON] = (struct writer_value){.kind = WRITER_TEXT, .as.text = line->reason};
    return session_output_row(&fill->output, values, text);
}

static enum status write_levels(struct fill *fill, const struct pool *pool,
                                struct status_text *text) {
    struct pool_sizes s;
    pool_sizes_get(pool, &s);
    const struct line lines[] = {
        {"1 formula", true, s.formula_bytes, false, 0, NULL, "K and V values and block scales"},
        {"  tails", false, 0, true, (int64_t)s.tail_bytes, NULL, "unused slots of part pages"},
        {"  alignment", false, 0, true, (int64_t)s.alignment_bytes, NULL,
         "page strides rounded up to 16 bytes"},
        {"  shared", false, 0, true, -(int64_t)s.shared_bytes, NULL,
         "pages that several sequences point to"},
        {"2 paged", true, s.paged_bytes, true, (int64_t)(s.paged_bytes - s.formula_bytes), NULL,
         "whole pages in use"},
        {"  spare", false, 0, true, (int64_t)s.spare_bytes, NULL,
         "pages kept for windows to move into"},
        {"  tables", false, 0, true, (int64_t)s.page_table_bytes, NULL,
         "int32 page ids and sequence lengths"},
        {"  tensor scales", false, 0, true, (int64_t)s.tensor_scale_bytes, NULL,
         "fp32 per layer and per K or V"},
        {"3 pool", true, s.pool_bytes, true, (int64_t)(s.pool_bytes - s.paged_bytes), NULL,
         "what was asked of the allocator"},
    };
    enum status status = STATUS_OK;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0] && status == STATUS_OK; i++)
        if (lines[i].has_bytes || lines[i].difference != 0)
            status = write_line(fill, &lines[i], text);
    uint64_t before = s.pool_bytes, driver;
    if (status == STATUS_OK && pool_driver_bytes(pool, &driver)) {
        const struct line line = {"4 driver",
                                  true,
                                  driver,
                                  true,
                                  (int64_t)(driver - before),
                                  NULL,
                                  "what the device lost to it, in the driver's own steps"};
        status = write_line(fill, &line, text);
        before = driver;
    }
    uint64_t resident;
    if (status != STATUS_OK || !pool_resident_bytes(pool, &resident))
        return status;
    const struct line last = {"5 resident",
                              true,
                              resident,
                              true,
                              (int64_t)(resident - before),
                              NULL,
                              "in memory after every page was written, in whole OS pages"};
    return write_line(fill, &last, text);
}

static enum status fill_one(struct fill *fill, const struct options *options,
                            struct status_text *text) {
    struct backend_facts facts;
    fill->session.ops->facts(fill->session.device, &facts);
    struct memory_budget budget;
    memory_budget_make(&facts, options->budget_given, options->budget_bytes, options->weights_bytes,
                       &budget);
    struct status_text why = {""};
    struct pool_request request;
    struct pool *pool = NULL;
    enum status status = run_case_request(fill->one, fill->format, &request, &why);
    if (status == STATUS_OK)
        status =
            pool_create(fill->session.ops, fill->session.device, &request, &budget, &pool, &why);
    if (status == STATUS_OK)
        status = pool_fill(pool, interrupt_asked, &why);
    enum status written;
    if (status == STATUS_OK) {
        fill->ok_pools++;
        written = write_levels(fill, pool, text);
    } else {
        fill->wrong = fill->wrong || status == STATUS_WRONG;
        const struct line line = {.status = status == STATUS_OUT_OF_MEMORY ? "out_of_memory"
                                            : status == STATUS_INTERRUPTED ? "interrupted"
                                            : status == STATUS_WRONG       ? "wrong"
                                                                           : "refused",
                                  .reason = why.line};
        written = write_line(fill, &line, text);
    }
    pool_destroy(pool);
    if (written == STATUS_OK && interrupt_asked())
        return status_set(text, STATUS_INTERRUPTED, "interrupted");
    return written;
}

static enum status fill_all(struct fill *fill, const struct options *options,
                            const struct run_case_list *cases, struct status_text *text) {
    char title[256];
    (void)snprintf(title, sizeof title, "%s; memory by %s. GB = 10^9 bytes",
                   fill->session.facts.device, fill->session.facts.memory_source);
    enum status status =
        session_output_open(options, fill_fields, FILL_FIELD_COUNT, title, &fill->output, text);
    if (status != STATUS_OK)
        return status;
    for (size_t i = 0; i < cases->count && status == STATUS_OK; i++) {
        fill->one = &cases->cases[i];
        for (size_t f = 0; f < fill->one->options->format_count && status == STATUS_OK; f++) {
            fill->format = &fill->one->options->formats[f];
            status = fill_one(fill, options, text);
        }
    }
    struct status_text why = {""};
    const enum status closed = session_output_close(&fill->output, &why);
    if (status == STATUS_OK && closed != STATUS_OK)
        status = status_set(text, closed, "%s", why.line);
    if (status == STATUS_OK && fill->wrong)
        status = status_set(text, STATUS_WRONG, "a pool was filled wrongly");
    if (status == STATUS_OK && fill->ok_pools == 0)
        status = status_set(text, STATUS_REFUSED, "no pool could be filled");
    return status;
}

int command_fill(const struct options *options) {
    struct status_text text = {""};
    struct run_case_list cases = {0};
    struct fill fill = {0};
    enum status status = run_case_list_create(options, &cases, &text);
    if (status == STATUS_OK)
        status = session_open(options, &fill.session, &text);
    if (status == STATUS_OK) {
        session_say_fallback(&fill.session);
        interrupt_install();
        status = fill_all(&fill, options, &cases, &text);
    }
    if (status != STATUS_OK)
        (void)fprintf(stderr, "kvgauge: %s\n", text.line);
    session_close(&fill.session);
    run_case_list_destroy(&cases);
    return session_exit_code(status);
}
