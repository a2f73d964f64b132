/* Sentences and lists that are put together piece by piece in an array of fixed size; what does not
 * fit is cut off. */
#ifndef WORDS_H
#define WORDS_H

#include <stddef.h>

/* Adds to the text in out[bytes], with `between` in front of it unless it is the first. */
void words_add(char *out, size_t bytes, const char *between, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 4, 5)))
#endif
    ;

#endif
