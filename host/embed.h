/* Files built into the program (cmake/embed.cmake): models and suites. */
#ifndef EMBED_H
#define EMBED_H

#include <stddef.h>

struct embed_entry {
    const char *name;  /* file name without its extension */
    const char *bytes; /* NUL-terminated for convenience */
    size_t size;       /* without that NUL */
};

extern const struct embed_entry embed_models[];
extern const size_t embed_models_count;
extern const struct embed_entry embed_suites[];
extern const size_t embed_suites_count;

#endif
