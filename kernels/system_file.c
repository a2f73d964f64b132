/* One line of a file. */
#include "system_file.h"

#include <stdio.h>
#include <string.h>

bool system_file_line(const char *path, char *out, size_t bytes) {
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return false;
    const bool ok = fgets(out, (int)bytes, file) != NULL;
    (void)fclose(file);
    if (ok)
        out[strcspn(out, "\n")] = '\0';
    return ok;
}
