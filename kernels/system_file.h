/* Files in which the system says one thing: /proc and /sys, none of which has to be there. */
#ifndef SYSTEM_FILE_H
#define SYSTEM_FILE_H

#include <stdbool.h>
#include <stddef.h>

/* The first line of `path`, without its end and cut to what fits, into out[bytes]; false where
 * there is none. */
bool system_file_line(const char *path, char *out, size_t bytes);

#endif
