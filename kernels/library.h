/* Shared libraries that a build does not need: opened by name when they are first called for. */
#ifndef LIBRARY_H
#define LIBRARY_H

#include <stdbool.h>

#include "status.h"

/* STATUS_MISSING with the loader's own words, and *out NULL. Close with library_close. */
enum status library_open(const char *name, void **out, struct status_text *text);
void library_close(void *library); /* NULL is fine */

/* `function` is the address of a function pointer: NULL, and false, where there is no such name. */
bool library_find(void *library, const char *name, void *function);

#endif
