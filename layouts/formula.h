/* The size formula: how many bytes a model's cache takes before any page, table or allocator.
 * Exact 64-bit integers; a result that does not fit is refused, never rounded.
 *
 * Growing with every token: K and V values and their block scales, latents, compressed entries
 * = floor(tokens / tokens_per_entry), index keys. Fixed per sequence: windows = min(tokens, W)
 * tokens in the K and V formats, recurrent state, convolution columns. Index keys always have
 * their own column. Per-tensor scales, tables and padding are not the formula's (host/pool). */
#ifndef FORMULA_H
#define FORMULA_H

#include <stdbool.h>
#include <stdint.h>

#include "format.h"
#include "model.h"
#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How index keys are stored. */
enum formula_index_format {
    FORMULA_INDEX_BF16,     /* 2 bytes a value */
    FORMULA_INDEX_FP8_E4M3, /* 1 byte a value, no scale kept */
    FORMULA_INDEX_FP8_132,  /* 1 byte a value and one fp32 scale per key (128 + 4) */
    FORMULA_INDEX_MXFP4,    /* 4 bits a value and one byte per 32 (64 + 4) */
    FORMULA_INDEX_NONE,     /* no keys kept */
    FORMULA_INDEX_COUNT
};

const char *formula_index_name(enum formula_index_format index);
bool formula_index_find(const char *name, enum formula_index_format *out);

/* A storage choice for a whole model. */
struct formula_storage {
    enum format_id k_format; /* a record: v_format is the same, and latents and entries are it */
    enum format_id v_format;
    enum formula_index_format index;
    uint32_t state_value_bytes; /* recurrent state: 4 (f32) or 2 (bf16) */
    bool window_as_full;        /* keep every token of a window group */
};

/* bf16 beside 16-bit formats, fp8_e4m3 beside 8-bit, mxfp4 beside 4-bit (K's width decides),
 * index_fp8_132 beside fp8_ds_mla records, mxfp4 beside nvfp4_ds_mla records. */
enum formula_index_format formula_index_default(enum format_id k_format);

/* The storage format of such keys. False where none are kept. */
bool formula_index_storage(enum formula_index_format index, enum format_id *out);

/* An exact rate: bytes / tokens, in lowest terms, tokens > 0. */
struct formula_rate {
    uint64_t bytes;
    uint64_t tokens;
};
double formula_rate_value(struct formula_rate rate);

/* What one group takes, all its layers, one sequence. */
struct formula_group {
    struct formula_rate kv_rate;    /* growing values: K, V, latents, entries */
    struct formula_rate index_rate; /* growing index keys */
    uint64_t kv_bytes;              /* growing part at the asked length, floor per entry */
    uint64_t index_bytes;
    uint64_t window_bytes; /* fixed: min(tokens, W) tokens */
    uint64_t state_bytes;  /* fixed: recurrent state */
    uint64_t conv_bytes;   /* fixed: convolution columns, 2 bytes a value */
};

struct formula_result {
    struct formula_rate kv_rate;
    struct formula_rate index_rate;
    struct formula_rate rate;     /* their sum: bytes_per_token */
    uint64_t fixed_bytes_per_seq; /* at the asked length */
    uint64_t seq_bytes;           /* one sequence: growing + fixed */
    uint64_t total_bytes;         /* all sequences */
    uint32_t group_count;
    struct formula_group groups[MODEL_MAX_GROUPS];
};

/* `model` is one rank's (model_shard). tokens: length of each of `seqs` sequences. STATUS_REFUSED
 * when a format or record does not fit a group (named), STATUS_OVERFLOW past 64 bits. */
enum status formula_compute(const struct model *model, const struct formula_storage *storage,
                            uint64_t tokens, uint64_t seqs, struct formula_result *out,
                            struct status_text *text);

/* Bytes of one sequence of `tokens` tokens in whole pages (page strides, every layer), and how
 * much of it the formula does not count. Rows of compressed and index groups are rounded up to
 * whole pages of page_tokens rows; state has no pages and counts as it is. */
struct formula_paged {
    uint64_t seq_bytes;
    uint64_t tail_bytes;      /* unused slots of last pages, and a window's first page */
    uint64_t alignment_bytes; /* page padding */
};
enum status formula_paged_compute(const struct model *model, const struct formula_storage *storage,
                                  uint64_t tokens, uint32_t page_tokens, struct formula_paged *out,
                                  struct status_text *text);

/* The most tokens one more sequence may have (all `seqs` equal) and the most sequences of `tokens`
 * tokens, in `budget_bytes`, by the formula. UINT64_MAX when nothing limits it. */
enum status formula_max_tokens(const struct model *model, const struct formula_storage *storage,
                               uint64_t seqs, uint64_t budget_bytes, uint64_t *out,
                               struct status_text *text);
enum status formula_max_seqs(const struct model *model, const struct formula_storage *storage,
                             uint64_t tokens, uint64_t budget_bytes, uint64_t *out,
                             struct status_text *text);

#ifdef __cplusplus
}
#endif
#endif
