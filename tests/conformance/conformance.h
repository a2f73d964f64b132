/* One case of the conformance suite: a small cache built directly through backend.h, filled by
 * the backend's append, attended by one of its kernels, and judged against the plain codecs and
 * against double precision. Knows no backend by name. */
#ifndef CONFORMANCE_H
#define CONFORMANCE_H

#include <stdbool.h>
#include <stdint.h>

#include "backend.h"
#include "generate.h"
#include "plan.h"
#include "pool_pages.h"

enum { CONFORMANCE_MAX_SEQS = 6, CONFORMANCE_GUARD_BYTES = 256 };

enum conformance_lengths {
    CONFORMANCE_EMPTY, /* some sequences, the first and last of them empty */
    CONFORMANCE_ONE,
    CONFORMANCE_PAGE_LESS_ONE,
    CONFORMANCE_PAGE,
    CONFORMANCE_PAGE_AND_ONE,
    CONFORMANCE_RAGGED,
    CONFORMANCE_LONG, /* one sequence of many tiles */
    CONFORMANCE_LENGTHS_COUNT,
    /* Of no loop over lengths: several sequences, all within one page, two of one length. */
    CONFORMANCE_WITHIN = CONFORMANCE_LENGTHS_COUNT
};

struct conformance_case {
    enum format_id k_format;
    enum format_id v_format;
    uint32_t k_dim;
    uint32_t v_dim;
    bool v_in_k;
    uint32_t kv_heads;
    uint32_t group_size; /* query heads per KV head */
    uint32_t page_tokens;
    enum conformance_lengths lengths;
    uint64_t window_tokens; /* 0: none */
    bool ring;              /* a window's pages are recycled; else all are kept */
    bool share_prefix;      /* all sequences start with the same pages; not with a ring */
    bool sinks;
    bool scale_amax; /* fp8's tensor scale from amax */
    bool far;        /* page ids so large that pages lie past 2^32 bytes (and only those exist) */
    enum options_data data;
    uint32_t tile_tokens;
    uint32_t workers;
};

struct conformance_world {
    const struct backend_ops *ops;
    struct backend_device *device;
    const struct conformance_case *which;
    struct backend_cache cache; /* as the kernels get it */
    uint32_t seqs;
    uint64_t lengths[CONFORMANCE_MAX_SEQS];
    uint64_t start_rows[CONFORMANCE_MAX_SEQS];
    struct pool_pages pages;
    struct generate_bank bank;
    struct backend_memory page_memory, table_memory, bank_memory, argument_memory;
    uint32_t first_page; /* device's id of the page that `pages` calls 0 */
    uint8_t *expected;   /* every byte of page_memory, guard included */
    uint64_t expected_bytes;
    struct format_replaced replaced;          /* what append reported */
    struct format_replaced expected_replaced; /* what the codecs said */
    float *queries, *sinks;                   /* host copies; sinks NULL: none */
    float *outputs;                           /* what the kernel wrote, after attend */
    /* [seqs][selected_stride]: what attention reads, -1 behind; NULL: all */
    int32_t *selected;
    uint32_t selected_stride;
    const char *kernel; /* the one that did */
};

/* In words, for messages. */
void conformance_describe(const struct conformance_case *which, char *out, uint32_t out_bytes);

/* A poisoned cache and its source rows. `world` is always safe to destroy. STATUS_REFUSED: the
 * format cannot hold the head dim. */
enum status conformance_create(const struct backend_ops *ops, struct backend_device *device,
                               const struct conformance_case *which,
                               struct conformance_world *world, struct status_text *text);
void conformance_destroy(struct conformance_world *world);

/* Grows all sequences to their lengths in uneven chunks, following with `expected`. */
enum status conformance_fill(struct conformance_world *world, struct status_text *text);
/* Every byte of the pages against `expected`: rows bit for bit, the rest untouched. */
enum status conformance_check_bytes(struct conformance_world *world, struct status_text *text);

/* From here on attention reads min(top_k, length) tokens of each sequence, chosen at random; in
 * ascending order, or in any. */
enum status conformance_select_some(struct conformance_world *world, uint32_t top_k, bool ascending,
                                    struct status_text *text);
/* One step on poisoned outputs and workspace; outputs are read back whatever the status is.
 * STATUS_REFUSED: the kernel does not do this case. */
enum status conformance_attend(struct conformance_world *world, const char *kernel,
                               struct status_text *text);
/* `outputs` against double precision on `expected`. */
enum status conformance_check_outputs(const struct conformance_world *world,
                                      struct status_text *text);
/* STATUS_WRONG unless every output is still poison. */
enum status conformance_check_untouched(const struct conformance_world *world,
                                        struct status_text *text);

uint64_t conformance_output_count(const struct conformance_world *world);

/* All of the above in order. */
enum status conformance_run(const struct backend_ops *ops, struct backend_device *device,
                            const char *kernel, const struct conformance_case *which,
                            struct status_text *text);

#endif
