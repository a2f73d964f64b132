/* What somebody wrote, as a message shows it: on one line, and short. */
#ifndef BRIEF_H
#define BRIEF_H

enum { BRIEF_BYTES = 80 };

/* `text` with control characters as '?', cut after 64 bytes (never inside a UTF-8 character) with
 * "..." behind it; "(empty)" when there is nothing. Returns `out`. */
const char *brief_text(const char *text, char out[BRIEF_BYTES]);

#endif
