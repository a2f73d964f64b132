/* A model, as far as its cache is concerned: groups of layers whose caches have the same kind and
 * geometry. Nothing here reads files (host/model_source does) or counts bytes (formula.h does). */
#ifndef MODEL_H
#define MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "format.h"
#include "page.h"
#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { MODEL_MAX_GROUPS = 32 };

enum model_kind {
    MODEL_FULL,       /* K and V of every token */
    MODEL_WINDOW,     /* K and V of the last window_tokens tokens */
    MODEL_LATENT,     /* MLA: one row of latent_dim + rope_dim values per token */
    MODEL_COMPRESSED, /* one entry of entry_dim values per tokens_per_entry tokens */
    MODEL_INDEX,      /* sparse attention's keys: key_dim values per tokens_per_entry tokens */
    MODEL_STATE,      /* recurrent state and convolution columns, fixed per sequence */
    MODEL_KIND_COUNT
};

/* Field names are those of our model JSON (README, "Models"). Fields that a kind does not use
 * are 0. */
struct model_group {
    enum model_kind kind;
    uint32_t layers;          /* layers that own a cache */
    uint32_t read_by_layers;  /* layers that read it; >= layers */
    uint32_t query_heads;     /* per layer; index: of its scores, 0: not known */
    bool query_heads_assumed; /* no source gave it: 8 per KV head, 64 for a latent */
    bool sinks;               /* one learned logit per query head joins the softmax */
    bool drafts;              /* draft layers are layers of this group (model_add_drafts) */

    uint32_t kv_heads; /* full, window */
    uint32_t k_dim;
    uint32_t v_dim; /* 0: K serves as V too (one shared row) */
    uint64_t window_tokens;

    uint32_t latent_dim; /* latent */
    uint32_t rope_dim;

    uint32_t entry_dim;        /* compressed */
    uint32_t tokens_per_entry; /* compressed, index */
    uint32_t key_dim;          /* index */
    uint32_t top_k;

    char family[24]; /* state: gated_delta_net, kda, mamba2 ... */
    uint32_t heads;
    uint32_t state_rows;
    uint32_t state_cols;
    uint32_t conv_channels;
    uint32_t conv_taps; /* columns kept: kernel - 1 */
};

struct model {
    char name[96];
    char source[256];        /* where the numbers were read */
    uint64_t native_context; /* tokens; 0 when no source gives it */
    uint32_t hidden_size;    /* of the residual stream; 0 when no source gives it */
    uint32_t experts;        /* routed experts of a layer; 0: none, or no source says so */
    char assumed[192];       /* names of fields no source gave, comma separated; "" if none */
    char remark[256];        /* what goes with every row: a guess, a part left out; "" if none */
    uint32_t group_count;
    struct model_group groups[MODEL_MAX_GROUPS];
};

/* "full", "window", ...; never NULL. model_kind_find: false when there is none such. */
const char *model_kind_name(enum model_kind kind);
bool model_kind_find(const char *name, enum model_kind *out);

/* Checks that every group has what its kind needs, nothing is zero that must not be, and query
 * heads divide by KV heads. The text names the group and the field. */
enum status model_check(const struct model *model, struct status_text *text);

/* What one rank of `ranks` holds: KV heads split (replicated, one per rank, when there are fewer
 * than ranks), query heads and state heads split, latents, compressed entries and index keys
 * replicated. STATUS_REFUSED when heads do not divide. */
enum status model_shard(const struct model *model, uint32_t ranks, struct model *out,
                        struct status_text *text);

/* The model with `drafts` draft (multi-token prediction) layers more, each with a cache of its own,
 * and a remark that says so. A draft layer is one more layer
 * - of the group that says so (`drafts`). MiMo-V2's attend a window: sglang's
 *   mimo_v2_flash_nextn.py and vLLM's mimo_v2_mtp.py build them with the swa_ keys;
 * - or else of the model's main attention:
 *   the first full or latent group, and index keys of every token with it where the model has such
 *   keys. vLLM's deepseek_mtp.py builds DeepSeek's from the model's own decoder layer; GLM-5.3's
 *   published 1.5 GB of bf16 for one MTP layer at 1,048,576 tokens is a latent and an index key;
 * - where the long-range cache is compressed entries, of the window group. The MTP entries of
 *   DeepSeek-V4's compress_ratios are 0, its window alone;
 * - else, with windows only, of the first window group.
 * STATUS_REFUSED when the model has none of these. A drafter that is a model by itself is a --model
 * of its own. */
enum status model_add_drafts(const struct model *model, uint32_t drafts, struct model *out,
                             struct status_text *text);

/* The page of one layer of a group of any kind but state, which has no pages: STATUS_REFUSED.
 * Latents, compressed entries, and a window whose v_dim is 0 keep K and V in one row and take one
 * format: STATUS_REFUSED when the two differ. An index keeps keys of key_dim values, read as K and
 * V alike, in the format given for both (formula_index_storage). page_tokens counts rows: an entry
 * or a key of several tokens is one. */
enum status model_page_shape(const struct model_group *group, enum format_id k_format,
                             enum format_id v_format, uint32_t page_tokens, struct page_shape *out,
                             struct status_text *text);

/* A group in words: "48 full 4x128", "25 window 8x256 of 1024", "61 latent 512+64" ... */
void model_group_words(const struct model_group *group, char *out, uint32_t out_bytes);

#ifdef __cplusplus
}
#endif
#endif
