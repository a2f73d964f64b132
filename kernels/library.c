/* The loader, as POSIX has it. */
#include "library.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

enum status library_open(const char *name, void **out, struct status_text *text) {
    *out = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (*out != NULL)
        return STATUS_OK;
    const char *why = dlerror();
    return status_set(text, STATUS_MISSING, "%s", why != NULL ? why : name);
}

void library_close(void *library) {
    if (library != NULL)
        (void)dlclose(library);
}

/* Functions come as data pointers from the loader; POSIX has both alike. */
bool library_find(void *library, const char *name, void *function) {
    void *const found = dlsym(library, name);
    memcpy(function, (const void *)&found, sizeof found);
    return found != NULL;
}
