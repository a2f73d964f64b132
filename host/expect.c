/* Reads a figure as it was printed, and judges it. */
#include "expect.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "brief.h"
#include "expect_mistakes.h"

static const struct {
    const char *name;
    double bytes;
} byte_units[] = {
    {"B", 1},     {"kB", 1e3},   {"KB", 1e3},      {"MB", 1e6},         {"GB", 1e9},
    {"TB", 1e12}, {"KiB", 1024}, {"MiB", 1048576}, {"GiB", 1073741824}, {"TiB", 1099511627776}};

static enum status complain(const char *option, const char *text, struct status_text *message) {
    char shown[BRIEF_BYTES];
    return status_set(message, STATUS_BAD_INPUT,
                      "%s %s: a figure is expected: 5GiB, 320kB/token, 207120tokens or 1.64x",
                      option, brief_text(text, shown));
}

/* The unit behind the digits; false when there is none such. */
static bool read_unit(const char *at, struct expect_figure *out) {
    while (*at == ' ')
        at++;
    (void)snprintf(out->unit_name, sizeof out->unit_name, "%s", at);
    if (strlen(at) >= sizeof out->unit_name)
        return false;
    out->scale = 1;
    out->unit = strcmp(at, "x") == 0 ? EXPECT_RATIO : EXPECT_TOKENS;
    if (out->unit == EXPECT_RATIO || strcmp(at, "tokens") == 0 || strcmp(at, "token") == 0)
        return true;
    const size_t length = strcspn(at, "/");
    if (at[length] != '\0' && strcmp(at + length, "/token") != 0)
        return false;
    out->unit = at[length] == '\0' ? EXPECT_BYTES : EXPECT_RATE;
    for (size_t i = 0; i < sizeof byte_units / sizeof byte_units[0]; i++) {
        if (strlen(byte_units[i].name) == length && strncmp(byte_units[i].name, at, length) == 0) {
            out->scale = byte_units[i].bytes;
            return true;
        }
    }
    return false;
}

enum status expect_parse(const char *option, const char *text, struct expect_figure *out,
                         struct status_text *message) {
    *out = (struct expect_figure){.half_unit = 0.5};
    if (strlen(text) >= sizeof out->text)
        return complain(option, text, message);
    (void)strcpy(out->text, text);
    bool any = false, point = false;
    const char *at = text;
    for (; isdigit((unsigned char)*at) || (*at == '.' && !point); at++) {
        any = any || *at != '.';
        out->half_unit /= point ? 10 : 1;
        point = point || *at == '.';
    }
    if (!any || !read_unit(at, out))
        return complain(option, text, message);
    out->value = strtod(text, NULL) * out->scale;
    out->half_unit *= out->scale;
    if (!(out->value > 0) || !isfinite(out->value))
        return complain(option, text, message);
    return STATUS_OK;
}

bool expect_judge(const struct expect_case *one, const struct expect_figure *figure,
                  char verdict[EXPECT_VERDICT_BYTES]) {
    const double allowed = one->tolerance > 0 ? one->tolerance * one->ours : figure->half_unit;
    /* A tie agrees either way. */
    if (fabs(figure->value - one->ours) <= allowed * (1 + 1e-9)) {
        (void)snprintf(verdict, EXPECT_VERDICT_BYTES, "agrees");
        return true;
    }
    char mistake[EXPECT_VERDICT_BYTES - 16];
    expect_mistake(one, figure, mistake, sizeof mistake);
    (void)snprintf(verdict, EXPECT_VERDICT_BYTES, "differs%s%s", mistake[0] != '\0' ? ": " : "",
                   mistake);
    return false;
}
