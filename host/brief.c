/* One line, whatever the user typed. */
#include "brief.h"

#include <ctype.h>
#include <string.h>

enum { BRIEF_SHOWN = 64 };

const char *brief_text(const char *text, char out[BRIEF_BYTES]) {
    if (text[0] == '\0')
        return strcpy(out, "(empty)");
    size_t length = strlen(text);
    const int is_long = length > BRIEF_SHOWN;
    if (is_long) {
        length = BRIEF_SHOWN;
        while (length > 0 && ((unsigned char)text[length] & 0xC0u) == 0x80u)
            length--;
    }
    for (size_t i = 0; i < length; i++)
        out[i] = (char)(iscntrl((unsigned char)text[i]) ? '?' : text[i]);
    (void)strcpy(out + length, is_long ? "..." : "");
    return out;
}
