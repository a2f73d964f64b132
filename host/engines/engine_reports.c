/* Finds what was reported of a model, a format and an engine. */
#include <stdio.h>
#include <string.h>

#include "engine.h"

static const struct {
    const char *model, *engine, *label, *gpu, *takes, *refuses, *reason;
} reports[] = {
#define REPORT(model, engine, label, gpu, takes, refuses, reason)                                  \
    {model, engine, label, gpu, takes, refuses, reason},
#include "engine_reports.def"
#undef REPORT
};

/* Whether a blank separated list holds the name. */
static bool lists(const char *names, const char *name) {
    const size_t length = strlen(name);
    for (const char *at = names; *at != '\0';) {
        const size_t word = strcspn(at, " ");
        if (word == length && strncmp(at, name, word) == 0)
            return true;
        at += word;
        at += strspn(at, " ");
    }
    return false;
}

void engine_reports(const struct engine *engine, const char *model, const char *format, char *out,
                    size_t bytes) {
    out[0] = '\0';
    for (size_t i = 0; i < sizeof reports / sizeof reports[0]; i++) {
        const bool takes = lists(reports[i].takes, format);
        const bool any = strcmp(reports[i].model, "any") == 0;
        /* That a format works for any model is what everybody expects. */
        if (strcmp(reports[i].engine, engine->name) != 0 ||
            (!any && strcmp(reports[i].model, model) != 0) || (any && takes) ||
            (!takes && !lists(reports[i].refuses, format)))
            continue;
        /* A reason belongs to what is refused, if anything is. */
        const bool explained = !takes || reports[i].refuses[0] == '\0';
        const size_t used = strlen(out);
        (void)snprintf(out + used, bytes - used, "%sreported on %s: %s %s %s%s%s%s",
                       used > 0 ? "; " : "", reports[i].gpu, reports[i].label,
                       takes ? "takes" : "does not take", format, explained ? " (" : "",
                       explained ? reports[i].reason : "", explained ? ")" : "");
    }
}
