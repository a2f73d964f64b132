/* What `run` and `fill` go through: cases, each one model at one length, batch and page size, in
 * every asked format. They come from the command line or from a suite (bench/suites). */
#ifndef RUN_CASE_H
#define RUN_CASE_H

#include <stddef.h>
#include <stdint.h>

#include "model.h"
#include "options.h"
#include "pool.h"
#include "status.h"

/* Numbers of a case that are the same for all its formats. */
struct run_case {
    const struct options *options; /* its own line of a suite, or the command line */
    struct model model;            /* one rank's */
    struct model whole;            /* all ranks' */
    enum format_id auto_format;    /* what --kv-format auto means for this model */
    uint64_t tokens;
    uint64_t seqs;
    uint32_t page_tokens;
    uint64_t *lengths;   /* [seqs]; owned by the list */
    enum status refused; /* not STATUS_OK: the case cannot run at all; why is in `reason` */
    char reason[512];
};

struct run_case_list {
    struct run_case *cases;
    size_t count;
    struct options *suite_options; /* owned: one per suite line; NULL without a suite */
    size_t suite_options_count;
    const char *suite; /* its name, or NULL */
};

/* The model a case is about: `whole` gets --draft-layers, and one rank's share goes to `one`. What
 * cannot be is `one`'s refusal. */
void run_case_set_model(struct run_case *one, struct model *whole);

/* Expands options into cases. Without a model and sizes the suite `standard` (or --suite) is
 * taken; its lines get what the command line says besides (formats, seed, device ...).
 * STATUS_BAD_INPUT for unknown models, suites, or unusable lengths. */
enum status run_case_list_create(const struct options *options, struct run_case_list *out,
                                 struct status_text *text);
/* On stderr: what there is to say about the models of a list, each once. */
void run_case_list_remarks(const struct run_case_list *list);
void run_case_list_destroy(struct run_case_list *list);

/* The storage of a case in one of its formats (auto resolved, default index format). `resolved`
 * receives the format with auto resolved. */
struct formula_storage run_case_storage(const struct run_case *one,
                                        const struct options_format *format,
                                        struct options_format *resolved);

/* A number that two lists share only if they are the same cases, measured in the same way. */
uint64_t run_case_list_signature(const struct run_case_list *list);

/* The pool a case needs in one format. STATUS_REFUSED for records, and formats that do not fit. */
enum status run_case_request(const struct run_case *one, const struct options_format *format,
                             struct pool_request *out, struct status_text *text);

#endif
