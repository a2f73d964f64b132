/* What an unknown name may have meant. */
#ifndef NEAREST_H
#define NEAREST_H

#include <stddef.h>

/* Up to three of `names` nearest to `unknown` by edit distance (case ignored; a name that begins
 * with `unknown` is one edit away), comma separated, into `out`; "" when none is near. */
void nearest_names(const char *unknown, const char *const *names, size_t count, char *out,
                   size_t out_bytes);

#endif
