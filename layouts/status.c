/* The status names and the one place that formats an explanation. */
#include "status.h"

#include <stdarg.h>
#include <stdio.h>

enum status status_set(struct status_text *text, enum status code, const char *format, ...) {
    if (text != NULL) {
        va_list arguments;
        va_start(arguments, format);
        (void)vsnprintf(text->line, sizeof text->line, format, arguments);
        va_end(arguments);
    }
    return code;
}

const char *status_name(enum status code) {
    switch (code) {
    case STATUS_OK:
        return "ok";
    case STATUS_BAD_INPUT:
        return "bad input";
    case STATUS_REFUSED:
        return "refused";
    case STATUS_OUT_OF_MEMORY:
        return "out of memory";
    case STATUS_OVERFLOW:
        return "overflow";
    case STATUS_IO:
        return "input or output";
    case STATUS_MISSING:
        return "missing";
    case STATUS_WRONG:
        return "wrong";
    case STATUS_INTERRUPTED:
        return "interrupted";
    }
    return "unknown status";
}
