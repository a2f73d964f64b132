/* A line of options, as suites and files of expectations have them, into words. */
#ifndef LINE_WORDS_H
#define LINE_WORDS_H

/* Splits at blanks, in place, up to a # or the line's end. At most `capacity` words; returns how
 * many. */
int line_words(char *line, char **words, int capacity);

#endif
