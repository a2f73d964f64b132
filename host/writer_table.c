/* Rows as a table for a terminal or as Markdown: gathered, measured, then written. */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "writer_parts.h"

static void real_cell(double real, int decimals, char *out, size_t bytes) {
    if (!isfinite(real))
        (void)snprintf(out, bytes, "-");
    else if (decimals >= 0)
        (void)snprintf(out, bytes, "%.*f", decimals, real);
    else if (real != 0 && (fabs(real) < 1e-3 || fabs(real) >= 1e6))
        (void)snprintf(out, bytes, "%.2e", real);
    else {
        /* Three significant digits, never fewer before the point. */
        const double magnitude = fabs(real);
        const int after = magnitude >= 100 ? 0 : magnitude >= 10 ? 1 : magnitude >= 1 ? 2 : 4;
        (void)snprintf(out, bytes, "%.*f", after, real);
    }
}

/* A cell stays on its line and in its column, whatever text it holds. */
static char *copy_cell(const char *shown, bool markdown) {
    char *copy = malloc(2 * strlen(shown) + 1);
    if (copy == NULL)
        return NULL;
    char *to = copy;
    for (; *shown != '\0'; shown++) {
        if (markdown && *shown == '|')
            *to++ = '\\';
        *to++ = (char)(iscntrl((unsigned char)*shown) ? ' ' : *shown);
    }
    *to = '\0';
    return copy;
}

static char *table_cell(const struct writer_field *field, const struct writer_value *value,
                        bool markdown) {
    char cell[64] = "-";
    const char *shown = cell;
    switch (value->kind) {
    case WRITER_TEXT:
        shown = value->as.text;
        break;
    case WRITER_UNSIGNED:
        (void)snprintf(cell, sizeof cell, "%llu", (unsigned long long)value->as.number);
        break;
    case WRITER_SIGNED:
        (void)snprintf(cell, sizeof cell, "%+lld", (long long)value->as.signed_number);
        break;
    case WRITER_REAL:
        real_cell(value->as.real, field->decimals, cell, sizeof cell);
        break;
    case WRITER_BOOL:
        shown = value->as.truth ? "yes" : "no";
        break;
    case WRITER_SUMMARY:
        real_cell(value->as.summary.median, field->decimals, cell, sizeof cell);
        break;
    case WRITER_NULL:
    case WRITER_SAMPLES:
    case WRITER_TEXTS:
    case WRITER_OBJECTS:
        break;
    }
    return copy_cell(shown, markdown);
}

enum status writer_table_gather(struct writer *writer, const struct writer_value *values,
                                struct status_text *text) {
    const size_t used = writer->rows * writer->field_count;
    if (used + writer->field_count > writer->cell_capacity) {
        const size_t wider = (used + writer->field_count) * 2;
        char **moved = realloc(writer->cells, wider * sizeof *moved);
        if (moved == NULL)
            return writer_no_memory(text);
        memset(moved + used, 0, (wider - used) * sizeof *moved);
        writer->cells = moved;
        writer->cell_capacity = wider;
    }
    for (size_t i = 0; i < writer->field_count; i++) {
        if (writer->fields[i].heading == NULL)
            continue;
        writer->cells[used + i] =
            table_cell(&writer->fields[i], &values[i], writer->form == WRITER_MARKDOWN);
        if (writer->cells[used + i] == NULL)
            return writer_no_memory(text);
    }
    return STATUS_OK;
}

/* Terminal columns of UTF-8 text, one per code point: enough for the names that occur. */
static size_t columns_of(const char *text) {
    size_t columns = 0;
    for (; *text != '\0'; text++)
        columns += ((unsigned char)*text & 0xC0u) != 0x80u;
    return columns;
}

static bool is_number(const char *cell) {
    return cell[strspn(cell, "0123456789.+-eE,")] == '\0';
}

/* How one column is shown. */
struct column {
    bool used;    /* a column nobody filled is left out */
    bool numeric; /* numbers stand to the right */
    size_t width;
};

static struct column measure_column(const struct writer *writer, size_t field) {
    struct column column = {.numeric = true};
    if (writer->fields[field].heading == NULL)
        return column;
    column.width = columns_of(writer->fields[field].heading);
    for (size_t row = 0; row < writer->rows; row++) {
        const char *cell = writer->cells[row * writer->field_count + field];
        const size_t width = columns_of(cell);
        column.used = column.used || strcmp(cell, "-") != 0;
        column.width = width > column.width ? width : column.width;
        column.numeric = column.numeric && is_number(cell);
    }
    return column;
}

static void put_cell(FILE *to, const char *cell, const struct column *column, bool last) {
    const size_t pad = column->width - columns_of(cell);
    if (column->numeric)
        (void)fprintf(to, "%*s%s", (int)pad, "", cell);
    else
        (void)fprintf(to, "%s%*s", cell, last ? 0 : (int)pad, "");
}

/* Row `row`, or the headings when row is SIZE_MAX. */
static void put_line(const struct writer *writer, const struct column *columns, size_t row) {
    const bool markdown = writer->form == WRITER_MARKDOWN;
    size_t last = 0;
    for (size_t field = 0; field < writer->field_count; field++)
        last = columns[field].used ? field : last;
    bool first = true;
    for (size_t field = 0; field < writer->field_count; field++) {
        if (!columns[field].used)
            continue;
        const char *cell = row == SIZE_MAX ? writer->fields[field].heading
                                           : writer->cells[row * writer->field_count + field];
        (void)fputs(markdown ? "| " : first ? "" : "  ", writer->stream);
        put_cell(writer->stream, cell, &columns[field], !markdown && field == last);
        (void)fputs(markdown ? " " : "", writer->stream);
        first = false;
    }
    (void)fputs(markdown ? "|\n" : "\n", writer->stream);
}

static void put_rule(const struct writer *writer, const struct column *columns) {
    for (size_t field = 0; field < writer->field_count; field++)
        if (columns[field].used)
            (void)fputs(columns[field].numeric ? "|---:" : "|---", writer->stream);
    (void)fputs("|\n", writer->stream);
}

enum status writer_table_put(const struct writer *writer, struct status_text *text) {
    const bool markdown = writer->form == WRITER_MARKDOWN;
    if (writer->title != NULL)
        (void)fprintf(writer->stream, "%s\n%s", writer->title, markdown ? "\n" : "");
    if (writer->rows == 0)
        return STATUS_OK;
    struct column *columns = calloc(writer->field_count, sizeof *columns);
    if (columns == NULL)
        return writer_no_memory(text);
    for (size_t field = 0; field < writer->field_count; field++)
        columns[field] = measure_column(writer, field);
    put_line(writer, columns, SIZE_MAX);
    if (markdown)
        put_rule(writer, columns);
    for (size_t row = 0; row < writer->rows; row++)
        put_line(writer, columns, row);
    free(columns);
    return STATUS_OK;
}

void writer_table_free(struct writer *writer) {
    for (size_t i = 0; i < writer->cell_capacity; i++)
        free(writer->cells[i]);
    free(writer->cells);
    writer->cells = NULL;
    writer->cell_capacity = 0;
}
