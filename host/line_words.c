/* Splits a line of options. */
#include "line_words.h"

#include <ctype.h>

int line_words(char *line, char **words, int capacity) {
    int count = 0;
    for (char *at = line; count < capacity;) {
        while (isspace((unsigned char)*at))
            at++;
        if (*at == '\0' || *at == '#')
            break;
        words[count++] = at;
        while (*at != '\0' && !isspace((unsigned char)*at))
            at++;
        if (*at != '\0')
            *at++ = '\0';
    }
    return count;
}
