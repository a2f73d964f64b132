/* Rows as JSON objects and as CSV lines: the same values in the same words. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "writer_parts.h"

/* The shortest digits that read back as the same double; whole numbers without an exponent. */
static void shortest_real(double real, char *out, size_t bytes) {
    if (fabs(real) < 1e15 && real == trunc(real)) {
        (void)snprintf(out, bytes, "%.0f", real);
        return;
    }
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

/* Bytes of the UTF-8 character at `text`; 0 when it is none (RFC 3629: shortest form, no
 * surrogates, at most U+10FFFF). */
static size_t character_bytes(const unsigned char *text) {
    const unsigned char first = text[0], second = text[1];
    if (first < 0x80)
        return 1;
    const size_t bytes = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
    if (first < 0xC2 || first > 0xF4 || (first == 0xE0 && second < 0xA0) ||
        (first == 0xED && second > 0x9F) || (first == 0xF0 && second < 0x90) ||
        (first == 0xF4 && second > 0x8F))
        return 0;
    for (size_t i = 1; i < bytes; i++)
        if ((text[i] & 0xC0u) != 0x80u)
            return 0;
    return bytes;
}

/* Words of a command line may be any bytes; JSON is UTF-8: what is not becomes U+FFFD. */
static void json_text(FILE *to, const char *text) {
    (void)fputc('"', to);
    for (const unsigned char *at = (const unsigned char *)text; *at != '\0';) {
        const size_t bytes = character_bytes(at);
        if (bytes == 0)
            (void)fputs("\\ufffd", to);
        else if (*at == '"' || *at == '\\')
            (void)fprintf(to, "\\%c", *at);
        else if (*at < 0x20)
            (void)fprintf(to, "\\u%04x", *at);
        else
            (void)fwrite(at, 1, bytes, to);
        at += bytes > 0 ? bytes : 1;
    }
    (void)fputc('"', to);
}

static void json_object(FILE *to, const struct writer_field *fields,
                        const struct writer_value *values, size_t count);

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
    case WRITER_OBJECTS:
        for (size_t i = 0; i < value->as.objects.count; i++) {
            (void)fputc(i == 0 ? '[' : ',', to);
            json_object(to, value->as.objects.fields,
                        value->as.objects.values + i * value->as.objects.field_count,
                        value->as.objects.field_count);
        }
        (void)fputs(value->as.objects.count == 0 ? "[]" : "]", to);
        return;
    }
}

static void json_object(FILE *to, const struct writer_field *fields,
                        const struct writer_value *values, size_t count) {
    for (size_t i = 0; i < count; i++) {
        (void)fputc(i == 0 ? '{' : ',', to);
        json_text(to, fields[i].name);
        (void)fputc(':', to);
        json_value(to, &values[i]);
    }
    (void)fputc('}', to);
}

void writer_put_json(struct writer *writer, const struct writer_value *values) {
    json_object(writer->stream, writer->fields, values, writer->field_count);
}

/* RFC 4180: quoted where a comma, quote or line break asks for it. Lists and summaries as JSON. */
enum status writer_put_csv(struct writer *writer, const struct writer_value *values,
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
            return writer_no_memory(text);
        if (values[i].kind == WRITER_TEXT)
            (void)fputs(values[i].as.text, memory);
        else if (values[i].kind != WRITER_NULL)
            json_value(memory, &values[i]);
        if (fclose(memory) != 0) {
            free(cell);
            return writer_no_memory(text);
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
