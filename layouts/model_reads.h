/* Who reads which cache in a decode step: how many tokens a stored row stands for, which owner a
 * layer without a cache of its own reads, and which index chooses what sparse attention sees.
 *
 * Rules: layers that only read are spread evenly over the owners. An index serves the group of
 * full, latent or compressed layers with the same tokens per row whose layers are nearest to its
 * own in number. It serves every layer that reads the group when both have as many owners, or when
 * it has as many readers (deepseek_v32's shared indexers); otherwise the last of them, and those
 * before read everything (minimax_m3, whose first layers are dense). */
#ifndef MODEL_READS_H
#define MODEL_READS_H

#include <stdbool.h>
#include <stdint.h>

#include "model.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    MODEL_READS_NONE = 0x7FFFFFFF,
    /* Where no source gives them: DeepSeek-V3.2's numbers. */
    MODEL_READS_TOP_K = 2048,
    MODEL_READS_INDEX_HEADS = 64
};

/* Attention over its rows: full, window, latent, compressed. */
bool model_reads_attends(enum model_kind kind);
/* Its rows lie in pages: the above, and index. */
bool model_reads_has_rows(enum model_kind kind);
/* compressed, index: tokens_per_entry; else 1. Rows of a sequence = tokens / this. */
uint32_t model_reads_tokens_per_row(const struct model_group *group);

/* The group of index keys that chooses for attention group `group`; MODEL_READS_NONE: it reads all
 * its rows. */
uint32_t model_reads_index_of(const struct model *model, uint32_t group);
/* The owner layer that layer `reader` (< read_by_layers) of a group reads. */
uint32_t model_reads_layer(const struct model_group *group, uint32_t reader);
/* The index layer that chooses for it; MODEL_READS_NONE: it reads all rows. */
uint32_t model_reads_index_layer(const struct model *model, uint32_t group, uint32_t reader);
/* Readers of attention group `group` that read only what an index chose. */
uint32_t model_reads_sparse_readers(const struct model *model, uint32_t group);

/* Of an index group, with what no source gave filled in. */
uint32_t model_reads_top_k(const struct model_group *index);
uint32_t model_reads_index_heads(const struct model_group *index);

#ifdef __cplusplus
}
#endif
#endif
