/* --expect-file: one figure a line, as the options of `predict` it is about and --expect. */
#ifndef EXPECT_FILE_H
#define EXPECT_FILE_H

#include "options.h"

struct expect_lines {
    struct options *options; /* [count]; owned */
    size_t count;
};

/* STATUS_BAD_INPUT names the line: it cannot be read, or has no --expect, or an option that belongs
 * to the whole command (--output, --save, --expect-file). */
enum status expect_file_read(const char *path, struct expect_lines *out, struct status_text *text);
void expect_file_free(struct expect_lines *lines);

#endif
