/* vLLM's hybrid cache manager as arithmetic: which layers share a block table, how long a block is,
 * and how many blocks a sequence takes. Private to engine_vllm.c and its parts.
 *
 * Read in vLLM 0.27.1: vllm/v1/core/kv_cache_utils.py (groups, one page size, blocks per request),
 * vllm/v1/kv_cache_interface.py (pages and blocks of each kind), vllm/platforms/interface.py (an
 * attention page that covers a state). Not modelled: context parallelism, drafts, packed layouts of
 * compressed entries, layers that skip quantisation. */
#ifndef VLLM_GROUPS_H
#define VLLM_GROUPS_H

#include "engine_parts.h"

enum vllm_kind { VLLM_ATTENTION, VLLM_WINDOW, VLLM_STATE, VLLM_KIND_COUNT };
enum vllm_mode { VLLM_STATE_NONE, VLLM_STATE_ALIGN, VLLM_STATE_ALL };

/* Layers with the same cache, and what one of them needs. */
struct vllm_spec {
    enum vllm_kind kind;
    const struct engine_group *group;
    uint32_t layers;
    uint64_t token_bytes; /* as vLLM stores it */
    uint64_t state_bytes; /* state and convolution, unpadded */
    uint64_t block_tokens;
    uint64_t page_bytes;  /* a block of one layer */
    uint64_t block_count; /* that one sequence holds */
    uint64_t tokens_held; /* of one sequence, before rounding to blocks */
    uint64_t table_count; /* block tables the layers are spread over */
};

/* What the layout does not say. */
struct vllm_choices {
    uint64_t block_tokens;     /* 0: the default of the kind of attention */
    uint64_t in_flight_tokens; /* scheduled, not yet settled */
    enum vllm_mode mode;       /* --mamba-cache-mode */
    uint64_t state_step;       /* --mamba-block-size; needed for VLLM_STATE_ALL */
    uint64_t state_value_bytes;
    bool windows_in_full; /* no hybrid manager: windows are kept like full attention */
};

struct vllm_plan {
    uint32_t count;
    struct vllm_spec specs[MODEL_MAX_GROUPS];
    bool one_table;              /* all layers share one block table, pages of their own size */
    uint64_t block_bytes;        /* one block id, all layers that share it */
    uint64_t layers_per_table;   /* 0 with one_table */
    uint64_t blocks_per_request; /* sum over the block tables */
    uint64_t table_count;
};

enum status vllm_plan_make(const struct engine_question *question,
                           const struct engine_layout *layout, const struct vllm_choices *choices,
                           struct vllm_plan *out, struct status_text *text);

#endif
