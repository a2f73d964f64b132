/* The only door to a device: facts, memory, timers, append, attend, index scores, state steps,
 * products with weights, the read ceiling.
 * A backend is a table of functions over an opaque device. Work given to a device runs in the
 * order it was given; `synchronize` waits for it. Pointers named dev_ are addresses on the device
 * (for the cpu backend: plain addresses) and come from `memory_allocate`. */
#ifndef BACKEND_H
#define BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "page.h"
#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct backend_device;    /* opaque; owned by whoever opened it */
struct backend_recording; /* opaque; a step given once and replayed */

struct backend_options {
    uint32_t threads;   /* 0: all the process may use (cpu) */
    uint32_t ordinal;   /* which device of the backend */
    uint64_t llc_bytes; /* 0: find out; otherwise taken as told */
};

struct backend_facts {
    char backend[16];       /* "cpu" */
    char device[96];        /* the product's name */
    char driver[32];        /* "" where there is none */
    char pci_bus_id[32];    /* "00000000:01:00.0", by which other libraries know it; or "" */
    uint32_t compute_units; /* cores in use, or SMs */
    uint32_t threads;       /* threads in use; 0 where it makes no sense */
    uint64_t llc_bytes;     /* last-level cache that counts for a cold read */
    char llc_source[64];    /* where that came from: "sysfs", "--llc", "sweep" */
    bool llc_by_sweep;      /* what counts is where streaming stops gaining: sweep before use */
    uint64_t memory_total_bytes;
    uint64_t memory_free_bytes; /* what may be planned for, before any margin */
    /* what memory_allocate has taken and not given back, in the steps the driver takes memory in;
     * 0 where nobody counts it */
    uint64_t memory_taken_bytes;
    char memory_source[64];   /* which number that is: "MemAvailable", "cgroup memory.max" */
    char instruction_set[64]; /* the code path chosen at start: "avx512", "neon", "sm_90", ... */
    char blas[64];   /* what computes products: "libopenblas.so.0"; "" until libraries_open */
    bool integrated; /* device memory is host memory: what one takes the other loses */
};

struct backend_memory {
    void *dev_address;
    uint64_t bytes;
    void *private_handle; /* the backend's own bookkeeping */
};

/* One piece of the attention of one step: tokens [first_token, first_token + token_count) of
 * one sequence and KV head. */
struct backend_segment {
    uint32_t seq;
    uint32_t kv_head;
    uint64_t first_token;
    uint64_t token_count; /* may be 0: an empty sequence's row still gets an output of zeros */
};

/* How the attention of one group is cut (host/plan makes it). Row r = seq * kv_heads + kv_head
 * has segments [row_first[r], row_first[r + 1]), which follow each other in tokens. Worker w does
 * segments [worker_first[w], worker_first[w + 1]). All arrays lie on the device. */
struct backend_plan {
    const struct backend_segment *dev_segments;
    const uint32_t *dev_row_first;    /* [rows + 1] */
    const uint32_t *dev_worker_first; /* [workers + 1] */
    uint32_t segment_count;
    uint32_t row_count;
    uint32_t worker_count;
    /* The same segments on the host, read while work is given and not after; NULL: not there. */
    const struct backend_segment *host_segments;
    const uint32_t *host_row_first;
};

/* Where the tokens of one group and layer lie. Token t of sequence s is slot t % page_tokens of
 * page dev_page_table[s * columns + (t / page_tokens) % columns]. */
struct backend_cache {
    struct page_layout page;
    uint8_t *dev_pages; /* page 0 of this layer; page p at dev_pages + p * page.stride_bytes */
    const int32_t *dev_page_table; /* [seqs][columns], -1 where no page is */
    uint32_t page_table_columns;
    uint32_t page_count; /* pages of this layer that dev_pages holds */
    uint32_t seqs;
    float k_tensor_scale;
    float v_tensor_scale;
};

/* Writes token_counts[s] tokens of each sequence, from first_tokens[s] on. The i-th of them takes
 * source row (row_offset + first_rows[s] + i) % row_count of K and V. Rows: [row][kv_heads][k_dim
 * or v_dim], fp32. With v_in_k, dev_v_rows is NULL. */
struct backend_append {
    struct backend_cache cache;
    const float *dev_k_rows;
    const float *dev_v_rows;
    uint64_t row_count;
    uint64_t row_offset; /* the layer's own start, so that one set of arguments serves all */
    const uint64_t *dev_first_tokens; /* [seqs] */
    const uint64_t *dev_token_counts; /* [seqs]; 0: nothing to write */
    const uint64_t *dev_first_rows;   /* [seqs] */
};

/* Decode attention: one query token per sequence, at position lengths[s] - 1, over the cache. */
struct backend_attend {
    struct backend_cache cache;
    const char *kernel; /* a name from the backend's list */
    uint32_t query_heads;
    float softmax_scale;
    const float *dev_queries; /* [seqs][query_heads][k_dim]; every value exact in bf16 and f16 */
    const float *dev_sinks;   /* [query_heads], or NULL: no sink */
    float *dev_outputs;       /* [seqs][query_heads][v_dim] */
    struct backend_plan plan; /* windows are already cut away by the plan */
    void *dev_workspace;      /* attend_workspace_bytes() of it */
    /* Sparse attention: only these tokens, in this order; the plan's tokens count places in a
     * sequence's list. NULL: the plan's tokens are the cache's. */
    const int32_t *dev_selected; /* [seqs][selected_stride], as index_select leaves it */
    uint32_t selected_stride;
    const uint64_t *dev_lengths; /* [seqs] tokens in the cache; only with dev_selected */
};

/* A sparse index: how much each cached key of a sequence matters to its newest token.
 * score = sum over heads of weight * max(0, query . key), fp32. Keys are the K rows of a cache of
 * one KV head. */
struct backend_index_score {
    struct backend_cache cache;
    uint32_t heads;
    const float *dev_queries;    /* [seqs][heads][k_dim]; every value exact in bf16 and f16 */
    const float *dev_weights;    /* [seqs][heads] */
    const uint64_t *dev_lengths; /* [seqs] keys in the cache */
    float *dev_scores;           /* [seqs][score_stride]; those past a length are left alone */
    uint64_t score_stride;       /* at least the largest length */
    uint64_t longest;            /* the largest length, known to the host */
};

/* The min(top_k, length) keys of each sequence with the largest scores, lower places first where
 * scores are equal; their places in ascending order, then -1. NaN counts as the smallest score. */
struct backend_index_select {
    uint32_t seqs;
    uint32_t top_k;
    const float *dev_scores; /* [seqs][score_stride] */
    uint64_t score_stride;
    const uint64_t *dev_lengths; /* [seqs] */
    uint64_t longest;
    int32_t *dev_selected; /* [seqs][top_k] */
};

/* The recurrent state of one layer. Every sequence has a slot; slots follow each other. */
struct backend_state_shape {
    uint32_t seqs;
    uint32_t heads;         /* 0: no recurrent state, only a convolution */
    uint32_t rows;          /* of one head: the values' dim */
    uint32_t cols;          /* the keys' dim */
    uint32_t value_bytes;   /* 4: f32, 2: bf16 */
    uint32_t conv_channels; /* 0: no convolution */
    uint32_t conv_taps;     /* columns kept: kernel - 1; bf16 */
    bool delta; /* what the state already holds at the key is taken off the value first */
};

/* One step of a linear recurrence (Gated DeltaNet, KDA, Mamba-2: they differ in `delta` and in
 * whether a head's decays are all equal) and of the short convolution before it. Per sequence and
 * head, with S the state as stored, [rows][cols]:
 *     S[r][c] *= decay[c];  held = sum over c of S[r][c] * key[c]
 *     S[r][c] += gain * (value[r] - (delta ? held : 0)) * key[c]
 *     output[r] = sum over c of S[r][c] * query[c]
 * in fp32; what is stored is rounded to the value type afterwards. Convolution, per sequence and
 * channel: output = sum over the kept columns, oldest first, then the input, times weight; then the
 * columns move up by one and the input (exact in bf16) becomes the newest. Every byte of the state
 * is read and written. */
struct backend_state_step {
    struct backend_state_shape shape;
    void *dev_state;               /* [seqs][heads][rows][cols] f32 or bf16; 16-aligned */
    uint16_t *dev_conv;            /* [seqs][conv_channels][conv_taps] bf16, oldest first */
    const float *dev_decays;       /* [seqs][heads][cols] */
    const float *dev_keys;         /* [seqs][heads][cols] */
    const float *dev_queries;      /* [seqs][heads][cols] */
    const float *dev_values;       /* [seqs][heads][rows] */
    const float *dev_gains;        /* [seqs][heads] */
    const float *dev_conv_inputs;  /* [seqs][conv_channels] */
    const float *dev_conv_weights; /* [conv_channels][conv_taps + 1] */
    float *dev_outputs;            /* [seqs][heads][rows] */
    float *dev_conv_outputs;       /* [seqs][conv_channels] */
};

/* How weights, and what they are multiplied with, are stored. */
enum backend_weights {
    BACKEND_WEIGHTS_NONE,
    BACKEND_WEIGHTS_F32,
    BACKEND_WEIGHTS_BF16,
    BACKEND_WEIGHTS_FP8_E4M3,
};

/* outputs[b][r] = sum over c of inputs[b][c] * weights[r][c], accumulated in fp32: what a decode
 * step does with a weight matrix. cols and rows are multiples of 16, addresses of 256: libraries
 * choose how to multiply by that. */
struct backend_product {
    enum backend_weights format; /* one of the backend's list */
    uint32_t batch, rows, cols;
    const void *dev_weights; /* [rows][cols] */
    const void *dev_inputs;  /* [batch][cols], in the same format */
    float *dev_outputs;      /* [batch][rows] */
    void *dev_workspace;     /* product_workspace_bytes */
};

enum { BACKEND_MARKS = 8, BACKEND_PACE_OPERATIONS = 9 };

struct backend_ops {
    const char *name;           /* "cpu" */
    const char *const *kernels; /* attend kernels, the default first, NULL-terminated */
    uint32_t kernels_by_name;   /* so many at the end of that list run only when they are named */
    /* What `product` takes, the default first, ended by BACKEND_WEIGHTS_NONE; NULL: no products. */
    const enum backend_weights *weights_formats;

    enum status (*open)(const struct backend_options *options, struct backend_device **out,
                        struct status_text *text);
    void (*close)(struct backend_device *device); /* NULL is fine */
    /* Reads the facts afresh: free memory changes. */
    void (*facts)(struct backend_device *device, struct backend_facts *out);

    /* Memory starts on PAGE_ALIGNMENT_BYTES at least; contents undefined. `what` names it in
     * messages. Free accepts a zeroed struct. */
    enum status (*memory_allocate)(struct backend_device *device, uint64_t bytes, const char *what,
                                   struct backend_memory *out, struct status_text *text);
    void (*memory_free)(struct backend_device *device, struct backend_memory *memory);
    enum status (*memory_write)(struct backend_device *device, void *dev_to, const void *from,
                                uint64_t bytes, struct status_text *text);
    enum status (*memory_read)(struct backend_device *device, void *to, const void *dev_from,
                               uint64_t bytes, struct status_text *text);
    enum status (*memory_fill)(struct backend_device *device, void *dev_to, uint8_t byte,
                               uint64_t bytes, struct status_text *text);
    /* The address at which the host can read device memory in place; NULL where it cannot. */
    const void *(*memory_host)(struct backend_device *device, const void *dev_from);

    /* STATUS_REFUSED, naming what is not supported and what is, when `attend` cannot do it.
     * selected: with dev_selected. */
    enum status (*attend_check)(struct backend_device *device, const char *kernel,
                                const struct page_layout *page, uint32_t query_heads, bool selected,
                                struct status_text *text);
    /* How many equal parts a step of this kernel is best cut into. */
    uint32_t (*attend_workers)(struct backend_device *device, const char *kernel,
                               const struct page_layout *page, uint32_t query_heads);
    uint64_t (*attend_workspace_bytes)(struct backend_device *device, const char *kernel,
                                       const struct page_layout *page, uint32_t query_heads,
                                       uint32_t segment_count, uint32_t page_count);

    /* Both take what backend_check.h has found good: they look at no page table entry before they
     * use it. With `replaced` (may be NULL) append waits for its own end. */
    enum status (*append)(struct backend_device *device, const struct backend_append *work,
                          struct format_replaced *replaced, struct status_text *text);
    enum status (*attend)(struct backend_device *device, const struct backend_attend *work,
                          struct status_text *text);
    /* Sparse index and recurrent state; NULL in a backend without them. */
    enum status (*index_score)(struct backend_device *device,
                               const struct backend_index_score *work, struct status_text *text);
    enum status (*index_select)(struct backend_device *device,
                                const struct backend_index_select *work, struct status_text *text);
    enum status (*state_step)(struct backend_device *device, const struct backend_state_step *work,
                              struct status_text *text);
    /* Opens what is opened only when it is needed: the library behind `kernel` (NULL: no kernel is
     * named) and behind products of `weights` (NONE: there are none). To be called before memory is
     * planned, as libraries take some. STATUS_MISSING names the library and the package that brings
     * it, STATUS_REFUSED a format that this device does not multiply. NULL where nothing is. */
    enum status (*libraries_open)(struct backend_device *device, const char *kernel,
                                  enum backend_weights weights, struct status_text *text);
    /* After libraries_open with that format. NULL together with weights_formats. */
    enum status (*product)(struct backend_device *device, const struct backend_product *work,
                           struct status_text *text);
    uint64_t (*product_workspace_bytes)(struct backend_device *device);
    /* The ceiling: reads every byte of the range once, by plain streaming, all workers. */
    enum status (*stream_read)(struct backend_device *device, const void *dev_from, uint64_t bytes,
                               struct status_text *text);

    /* The pace of the cores: `rounds` rounds of BACKEND_PACE_OPERATIONS integer operations in
     * registers, as many side by side as a core does, all workers. NULL where stream_read alone
     * says how fast the device is just now. */
    enum status (*pace)(struct backend_device *device, uint64_t rounds, struct status_text *text);

    /* Copies within the device, all workers; reads and writes `bytes` each. */
    enum status (*stream_copy)(struct backend_device *device, void *dev_to, const void *dev_from,
                               uint64_t bytes, struct status_text *text);

    /* The clock that the arithmetic runs at now, counted by the device itself in some 10 ms, behind
     * the work given so far; waits for its end. 0: it cannot be told. NULL in a backend that cannot
     * count. Not while recording. */
    enum status (*clock_mhz)(struct backend_device *device, double *mhz, struct status_text *text);

    /* Work given between record_begin and record_end is kept, not run; replay gives all of it again
     * in one call (a CUDA graph). The pointers in it must stay good. All four are NULL in a backend
     * that would gain nothing. record_free accepts NULL. */
    enum status (*record_begin)(struct backend_device *device, struct status_text *text);
    enum status (*record_end)(struct backend_device *device, struct backend_recording **out,
                              struct status_text *text);
    enum status (*replay)(struct backend_device *device, struct backend_recording *recording,
                          struct status_text *text);
    void (*record_free)(struct backend_device *device, struct backend_recording *recording);

    /* Puts time mark `mark` (< BACKEND_MARKS) behind the work given so far. */
    enum status (*mark)(struct backend_device *device, uint32_t mark, struct status_text *text);
    enum status (*synchronize)(struct backend_device *device, struct status_text *text);
    /* Nanoseconds between two marks; both must have been reached (synchronize). */
    uint64_t (*elapsed_ns)(struct backend_device *device, uint32_t from_mark, uint32_t to_mark);
};

/* The backends built in, NULL-terminated; cpu is always there. */
const struct backend_ops *const *backend_list(void);
const struct backend_ops *backend_find(const char *name); /* NULL when not built in */

#ifdef __cplusplus
}
#endif
#endif
