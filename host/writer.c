/* Rows as text. Tables gather cells until close, so that columns line up; every other form is
 * written and flushed row by row. */
#include "writer.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const form_names[WRITER_FORM_COUNT] = {"table", "md", "csv", "json", "jsonl"};

const char *writer_form_name(enum writer_form form) {
    return form < WRITER_FORM_COUNT ? form_names[form] : "unknown";
}

bool writer_form_find(const char *name, enum writer_form *out) {
    for (int form = 0; form < WRITER_FORM_COUNT; form++) {
        if (strcmp(form_names[form], name) == 0) {
            *out = (enum writer_form)form;
            return true;
        }
    }
    return false;
}

struct writer {
    enum writer_form form;
    FILE *stream;
    const struct writer_field *fields;
    size_t field_count;
    char *title; /* owned, or NULL */
    size_t rows;
    bool failed;
    char **cells; /* table and Markdown: [rows][field_count], owned; NULL where not shown */
    size_t cell_capacity;
};

static enum status no_memory(struct status_text *text) {
    return status_set(text, STATUS_OUT_OF_MEMORY, "no host memory for a row of output");
}

enum status writer_open(enum writer_form form, FILE *stream, const struct writer_field *fields,
                        size_t field_count, const char *title, struct writer **out,
                        struct status_text *text) {
    *out = NULL;
    struct writer *writer = calloc(1, sizeof *writer);
    if (writer == NULL)
        return no_memory(text);
    writer->form = form;
    writer->stream = stream;
    writer->fields = fields;
    writer->field_count = field_count;
    if (title != NULL) {
        writer->title = malloc(strlen(title) + 1);
        if (writer->title == NULL) {
            free(writer);
            return no_memory(text);
        }
        (void)strcpy(writer->title, title);
    }
    *out = writer;
    return STATUS_OK;
}

/* The shortest digits that read back as the same double. */
static void shortest_real(double real, char *out, size_t bytes) {
    for (int digits = 1; digits <= 17; digits++) {
        (void)snprintf(out, bytes, "%.*g", digits, real);
        if (strtod(out, NULL) == real)
            return;
    }
}

static void json_real(FILE *to, double real) {
    char digits[40];
    if (!isfinite(real)) {
        (void)fputs("null", to);
        return;
    }
    shortest_real(real, digits, sizeof digits);
    (void)fputs(digits, to);
}

static void json_text(FILE *to, const char *text) {
    (void)fputc('"', to);
    for (const unsigned char *at = (const unsigned char *)text; *at != '\0'; at++) {
        if (*at == '"' || *at == '\\')
            (void)fprintf(to, "\\%c", *at);
        else if (*at < 0x20)
            (void)fprintf(to, "\\u%04x", *at);
        else
            (void)fputc(*at, to);
    }
    (void)fputc('"', to);
}

static void json_value(FILE *to, const struct writer_value *value) {
    switch (value->kind) {
    case WRITER_NULL:
        (void)fputs("null", to);
        return;
    case WRITER_TEXT:
        json_text(to, value->as.text);
        return;
    case WRITER_UNSIGNED:
        (void)fprintf(to, "%llu", (unsigned long long)value->as.number);
        return;
    case WRITER_SIGNED:
        (void)fprintf(to, "%lld", (long long)value->as.signed_number);
        return;
    case WRITER_REAL:
        json_real(to, value->as.real);
        return;
    case WRITER_BOOL:
        (void)fputs(value->as.truth ? "true" : "false", to);
        return;
    case WRITER_SAMPLES:
        for (size_t i = 0; i < value->as.samples.count; i++)
            (void)fprintf(to, "%c%llu", i == 0 ? '[' : ',',
                          (unsigned long long)value->as.samples.values[i]);
        (void)fputs(value->as.samples.count == 0 ? "[]" : "]", to);
        return;
    case WRITER_SUMMARY: {
        const struct writer_summary *s = &value->as.summary;
        const struct {
            const char *name;
            double real;
        } parts[] = {{"{\"median\":", s->median},
                     {",\"q1\":", s->q1},
                     {",\"q3\":", s->q3},
                     {",\"min\":", s->min},
                     {",\"max\":", s->max}};
        for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
            (void)fputs(parts[i].name, to);
            json_real(to, parts[i].real);
        }
        (void)fprintf(to, ",\"n\":%llu}", (unsigned long long)s->n);
        return;
    }
    case WRITER_TEXTS:
        for (size_t i = 0; i < value->as.texts.count; i++) {
            (void)fputc(i == 0 ? '[' : ',', to);
            json_text(to, value->as.texts.values[i] != NULL ? value->as.texts.values[i] : "");
        }
        (void)fputs(value->as.texts.count == 0 ? "[]" : "]", to);
        return;
    }
}

static void json_row(struct writer *writer, const struct writer_value *values) {
    for (size_t i = 0; i < writer->field_count; i++) {
        (void)fputc(i == 0 ? '{' : ',', writer->stream);
        json_text(writer->stream, writer->fields[i].name);
        (void)fputc(':', writer->stream);
        json_value(writer->stream, &values[i]);
    }
    (void)fputc('}', writer->stream);
}

/* RFC 4180: quoted where a comma, quote or line break asks for it. Lists and summaries as JSON. */
static enum status csv_row(struct writer *writer, const struct writer_value *values,
                           struct status_text *text) {
    FILE *to = writer->stream;
    if (writer->rows == 0) {
        for (size_t i = 0; i < writer->field_count; i++)
            (void)fprintf(to, "%s%s", i == 0 ? "" : ",", writer->fields[i].name);
        (void)fputc('\n', to);
    }
    for (size_t i = 0; i < writer->field_count; i++) {
        if (i > 0)
            (void)fputc(',', to);
        char *cell = NULL;
        size_t bytes = 0;
        FILE *memory = open_memstream(&cell, &bytes);
        if (memory == NULL)
            return no_memory(text);
        if (values[i].kind == WRITER_TEXT)
            (void)fputs(values[i].as.text, memory);
        else if (values[i].kind != WRITER_NULL)
            json_value(memory, &values[i]);
        if (fclose(memory) != 0) {
            free(cell);
            return no_memory(text);
        }
        if (strcmp(cell, "null") == 0 && values[i].kind == WRITER_REAL)
            cell[0] = '\0';
        const bool quote = strpbrk(cell, ",\"\r\n") != NULL;
        if (quote)
            (void)fputc('"', to);
        for (const char *at = cell; *at != '\0'; at++) {
            if (*at == '"')
                (void)fputc('"', to);
            (void)fputc(*at, to);
        }
        if (quote)
            (void)fputc('"', to);
        free(cell);
    }
    (void)fputc('\n', to);
    return STATUS_OK;
}

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

static char *table_cell(const struct writer_field *field, const struct writer_value *value) {
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
        break;
    }
    char *copy = malloc(strlen(shown) + 1);
    if (copy != NULL)
        (void)strcpy(copy, shown);
    return copy;
}

static enum status gather_row(struct writer *writer, const struct writer_value *values,
                              struct status_text *text) {
    const size_t used = writer->rows * writer->field_count;
    if (used + writer->field_count > writer->cell_capacity) {
        const size_t wider = (used + writer->field_count) * 2;
        char **moved = realloc(writer->cells, wider * sizeof *moved);
        if (moved == NULL)
            return no_memory(text);
        memset(moved + used, 0, (wider - used) * sizeof *moved);
        writer->cells = moved;
        writer->cell_capacity = wider;
    }
    for (size_t i = 0; i < writer->field_count; i++) {
        if (writer->fields[i].heading == NULL)
            continue;
        writer->cells[used + i] = table_cell(&writer->fields[i], &values[i]);
        if (writer->cells[used + i] == NULL)
            return no_memory(text);
    }
    return STATUS_OK;
}

enum status writer_row(struct writer *writer, const struct writer_value *values,
                       struct status_text *text) {
    enum status status = STATUS_OK;
    switch (writer->form) {
    case WRITER_TABLE:
    case WRITER_MARKDOWN:
        status = gather_row(writer, values, text);
        if (status == STATUS_OK)
            writer->rows++;
        return status;
    case WRITER_CSV:
        status = csv_row(writer, values, text);
        break;
    case WRITER_JSON:
        (void)fputs(writer->rows == 0 ? "[\n" : ",\n", writer->stream);
        json_row(writer, values);
        break;
    case WRITER_JSONL:
        json_row(writer, values);
        (void)fputc('\n', writer->stream);
        break;
    case WRITER_FORM_COUNT:
        break;
    }
    if (status != STATUS_OK)
        return status;
    writer->rows++;
    if (fflush(writer->stream) != 0 || ferror(writer->stream)) {
        writer->failed = true;
        return status_set(text, STATUS_IO, "writing the results failed: %s", strerror(errno));
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

static enum status put_table(const struct writer *writer, struct status_text *text) {
    const bool markdown = writer->form == WRITER_MARKDOWN;
    if (writer->title != NULL)
        (void)fprintf(writer->stream, "%s\n%s", writer->title, markdown ? "\n" : "");
    if (writer->rows == 0)
        return STATUS_OK;
    struct column *columns = calloc(writer->field_count, sizeof *columns);
    if (columns == NULL)
        return no_memory(text);
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

enum status writer_close(struct writer *writer, struct status_text *text) {
    if (writer == NULL)
        return STATUS_OK;
    enum status status = STATUS_OK;
    if (writer->form == WRITER_TABLE || writer->form == WRITER_MARKDOWN)
        status = put_table(writer, text);
    if (writer->form == WRITER_JSON)
        (void)fputs(writer->rows == 0 ? "[]\n" : "\n]\n", writer->stream);
    const bool failed = fflush(writer->stream) != 0 || ferror(writer->stream) || writer->failed;
    const int why = errno;
    for (size_t i = 0; i < writer->cell_capacity; i++)
        free(writer->cells[i]);
    free(writer->cells);
    free(writer->title);
    free(writer);
    return failed ? status_set(text, STATUS_IO, "writing the results failed: %s", strerror(why))
                  : status;
}

enum status writer_create_file(const char *path, char *used, size_t used_bytes, FILE **out,
                               struct status_text *text) {
    *out = NULL;
    for (int number = 0; number < 10000; number++) {
        const int length = number == 0 ? snprintf(used, used_bytes, "%s", path)
                                       : snprintf(used, used_bytes, "%s.%d", path, number);
        if (length < 0 || (size_t)length >= used_bytes)
            return status_set(text, STATUS_BAD_INPUT, "--save: the path is too long");
        const int descriptor = open(used, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (descriptor < 0 && errno == EEXIST) {
            /* Devices and pipes are there to be written to, not overwritten. */
            FILE *special =
                access(used, W_OK) == 0 && strncmp(used, "/dev/", 5) == 0 ? fopen(used, "w") : NULL;
            if (special == NULL)
                continue;
            *out = special;
            return STATUS_OK;
        }
        if (descriptor < 0)
            return status_set(text, STATUS_BAD_INPUT, "--save %s: cannot be written: %s", used,
                              strerror(errno));
        *out = fdopen(descriptor, "w");
        if (*out == NULL) {
            (void)close(descriptor);
            return status_set(text, STATUS_IO, "--save %s: %s", used, strerror(errno));
        }
        return STATUS_OK;
    }
    return status_set(text, STATUS_BAD_INPUT, "--save %s: ten thousand files of that name exist",
                      path);
}
