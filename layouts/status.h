/* One status for every function that can fail, and the sentence that explains it.
 * Every layer uses it; it knows nothing about formats, devices or files. */
#ifndef STATUS_H
#define STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

enum status {
    STATUS_OK = 0,
    STATUS_BAD_INPUT,     /* an option, a file or a value the user gave; exit 2 */
    STATUS_REFUSED,       /* understood, but not supported here: a row with a reason */
    STATUS_OUT_OF_MEMORY, /* the text names the bytes asked and the bytes there were */
    STATUS_OVERFLOW,      /* an exact 64-bit result does not exist */
    STATUS_IO,            /* reading or writing failed */
    STATUS_MISSING,       /* no such device, or something is not installed; exit 3 */
    STATUS_WRONG,         /* a check failed; exit 1 */
    STATUS_INTERRUPTED,   /* Ctrl-C; exit 130 */
};

/* The explanation that travels beside a status: one line, no trailing newline. */
struct status_text {
    char line[512];
};

/* Writes the line (truncated to fit) and returns `code`, so that callers can
 * `return status_set(...)`. `text` may be NULL. */
enum status status_set(struct status_text *text, enum status code, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 3, 4)))
#endif
    ;

/* "ok", "bad input", "refused" ...; never NULL. */
const char *status_name(enum status code);

#ifdef __cplusplus
}
#endif
#endif
