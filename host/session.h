/* What every command that touches a device starts with: which backend, opened, with its facts,
 * and where its rows go (stdout in the asked form, and JSON lines to --save). */
#ifndef SESSION_H
#define SESSION_H

#include <stdbool.h>
#include <stdio.h>

#include "backend.h"
#include "options.h"
#include "ranks.h"
#include "status.h"
#include "writer.h"

struct session {
    const struct backend_ops *ops;
    struct backend_device *device;
    struct backend_facts facts;
    /* Why --device auto took the cpu: a GPU backend is built in and did not open, or there is none
     * and a GPU seems to be here. Empty when nothing has to be said. */
    struct status_text fell_back;
};

/* --device auto takes the best backend built in that opens; it falls to cpu loudly when the
 * machine seems to have an NVIDIA GPU. STATUS_MISSING: no such backend or device. */
enum status session_open(const struct options *options, struct session *out,
                         struct status_text *text);
/* The same for one of several ranks: the device of a GPU backend is the one with the rank's number
 * on its machine, threads are its share of the cores. All ranks together; all get the same status,
 * and the same backend (STATUS_MISSING otherwise). STATUS_BAD_INPUT: one device (cuda:1) for
 * several ranks of a machine. */
enum status session_open_rank(const struct options *options, const struct ranks *ranks,
                              struct session *out, struct status_text *text);
void session_close(struct session *session);

/* Unique bytes a sample must touch to be called cold: four times the cache that counts, which is
 * told by the device or, where it is not, found by a sweep; session->facts then say so. */
enum status session_cold_bytes(struct session *session, uint64_t *cold_bytes,
                               struct status_text *text);

/* The line that says what the measurement ran on: printed first and last when it fell back. */
void session_say_fallback(const struct session *session);

/* The exit code of a status: 0 1 2 3 130. */
int session_exit_code(enum status status);

/* Two writers fed as one: stdout in `form`, and JSON lines in --save's file, or in the one a run
 * goes on with. */
struct session_output {
    struct writer *shown;
    struct writer *saved;
    FILE *file;
    char path[512]; /* the name --save really used */
};
enum status session_output_open(const struct options *options, const struct writer_field *fields,
                                size_t field_count, const char *title, struct session_output *out,
                                struct status_text *text);
/* Rows also go to `file`, which is closed with the output; `path` names it. */
enum status session_output_append(struct session_output *output, FILE *file, const char *path,
                                  const struct writer_field *fields, size_t field_count,
                                  struct status_text *text);
enum status session_output_row(struct session_output *output, const struct writer_value *values,
                               struct status_text *text);
enum status session_output_close(struct session_output *output, struct status_text *text);

#endif
