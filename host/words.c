/* Appending in place. */
#include "words.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void words_add(char *out, size_t bytes, const char *between, const char *format, ...) {
    size_t used = strlen(out);
    if (used > 0)
        (void)snprintf(out + used, bytes - used, "%s", between);
    used = strlen(out);
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(out + used, bytes - used, format, arguments);
    va_end(arguments);
}
