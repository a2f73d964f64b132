/* Edit distance over short names. */
#include "nearest.h"

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { NEAREST_LONGEST = 64, NEAREST_SHOWN = 3 };

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

/* Insertions, deletions and replacements that turn a into b. */
static size_t distance(const char *a, const char *b) {
    size_t row[NEAREST_LONGEST + 1];
    const size_t length = strlen(b);
    if (strlen(a) > NEAREST_LONGEST || length > NEAREST_LONGEST)
        return SIZE_MAX;
    for (size_t j = 0; j <= length; j++)
        row[j] = j;
    for (size_t i = 1; a[i - 1] != '\0'; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= length; j++) {
            const size_t above = row[j];
            const int same = tolower((unsigned char)a[i - 1]) == tolower((unsigned char)b[j - 1]);
            row[j] = smaller(smaller(above, row[j - 1]) + 1, diagonal + (same ? 0 : 1));
            diagonal = above;
        }
    }
    return row[length];
}

/* A name that starts like the unknown one is near, however long it goes on. */
static size_t score(const char *unknown, const char *name) {
    const size_t length = strlen(unknown);
    if (length >= 3 && strncasecmp(unknown, name, length) == 0)
        return 1;
    return distance(unknown, name);
}

void nearest_names(const char *unknown, const char *const *names, size_t count, char *out,
                   size_t out_bytes) {
    out[0] = '\0';
    const size_t limit = strlen(unknown) / 2 + 1;
    size_t shown = 0;
    for (size_t want = 0; want <= limit && shown < NEAREST_SHOWN; want++) {
        for (size_t i = 0; i < count && shown < NEAREST_SHOWN; i++) {
            if (score(unknown, names[i]) != want)
                continue;
            const size_t used = strlen(out);
            (void)snprintf(out + used, out_bytes - used, "%s%s", shown > 0 ? ", " : "", names[i]);
            shown++;
        }
    }
}
