/* Block sizes, block tables, blocks of a sequence. */
#include "vllm_groups.h"

#include "checked.h"

enum {
    ATTENTION_BLOCK = 16, /* CacheConfig.DEFAULT_BLOCK_SIZE; also the step of the kernels */
    LATENT_BLOCK = 64,    /* of the FlashMLA and sparse MLA kernels */
    LATENT_STEP = 128,    /* of an attention page beside recurrent layers, with MLA */
};

static bool is_latent(const struct engine_group *group) {
    return group->of->kind == MODEL_LATENT || group->of->kind == MODEL_INDEX;
}

/* An index key as vLLM stores it: one byte a value, one fp32 scale per 128. */
static uint64_t key_bytes(uint32_t key_dim) {
    return key_dim + (uint64_t)key_dim / 128 * 4;
}

static struct vllm_spec spec_of(const struct engine_group *group,
                                const struct vllm_choices *choices) {
    struct vllm_spec spec = {.kind = VLLM_ATTENTION,
                             .group = group,
                             .layers = group->layers,
                             .token_bytes = group->token_bytes};
    if (group->of->kind == MODEL_STATE) {
        spec.kind = VLLM_STATE;
        spec.state_bytes = group->state_values * choices->state_value_bytes + group->conv_bytes;
    } else if (group->of->kind == MODEL_INDEX) {
        spec.token_bytes = key_bytes(group->of->key_dim);
    } else if (group->of->kind == MODEL_WINDOW && !choices->windows_in_full) {
        spec.kind = VLLM_WINDOW;
    }
    return spec;
}

static bool same_cache(const struct model_group *a, const struct model_group *b) {
    return a->kind == b->kind && a->kv_heads == b->kv_heads && a->k_dim == b->k_dim &&
           a->v_dim == b->v_dim && a->window_tokens == b->window_tokens &&
           a->latent_dim == b->latent_dim && a->rope_dim == b->rope_dim &&
           a->key_dim == b->key_dim && a->kind != MODEL_STATE;
}

static void gather(const struct engine_question *question, const struct engine_layout *layout,
                   const struct vllm_choices *choices, struct vllm_plan *out) {
    for (uint32_t g = 0; g < layout->count; g++) {
        const struct engine_group *group = &layout->groups[g];
        if (group->of->kind == MODEL_INDEX && question->storage.index == FORMULA_INDEX_NONE)
            continue;
        uint32_t at = 0;
        while (at < out->count && !same_cache(out->specs[at].group->of, group->of))
            at++;
        if (at < out->count)
            out->specs[at].layers += group->layers;
        else
            out->specs[out->count++] = spec_of(group, choices);
    }
}

static uint64_t common_multiple(bool *fits, uint64_t a, uint64_t b) {
    uint64_t x = a, y = b;
    while (y != 0) {
        const uint64_t rest = x % y;
        x = y;
        y = rest;
    }
    return engine_times(fits, a / x, b);
}

/* One block size for all attention layers: the default, or long enough that a page covers a
 * recurrent state. */
static enum status choose_block(const struct engine_question *question,
                                const struct vllm_choices *choices, const struct vllm_plan *plan,
                                uint64_t *out, struct status_text *text) {
    const struct vllm_spec *attention = NULL, *state = NULL;
    bool latent = false, index = false, fits = true;
    uint32_t state_kinds = 0;
    for (uint32_t s = 0; s < plan->count; s++) {
        const struct vllm_spec *spec = &plan->specs[s];
        latent = latent || is_latent(spec->group);
        index = index || spec->group->of->kind == MODEL_INDEX;
        state_kinds += spec->kind == VLLM_STATE;
        if (spec->kind == VLLM_STATE)
            state = spec;
        else if (attention == NULL || attention->kind == VLLM_WINDOW)
            attention = spec;
    }
    const uint64_t usual = latent ? LATENT_BLOCK : ATTENTION_BLOCK;
    *out = choices->block_tokens > 0 ? choices->block_tokens : usual;
    if (state == NULL || attention == NULL)
        return STATUS_OK;
    if (state_kinds > 1 || index)
        return status_set(text, STATUS_REFUSED,
                          "%s: how vLLM sizes its pages with %s is not known to this version",
                          question->model->name,
                          index ? "index keys beside recurrent layers"
                                : "recurrent states of several sizes");
    uint64_t step = *out > usual ? *out : usual;
    step = latent && step < LATENT_STEP ? LATENT_STEP : step;
    if (choices->mode == VLLM_STATE_ALL) {
        if (choices->state_step == 0)
            return status_set(text, STATUS_REFUSED,
                              "vLLM: mamba-cache-mode=all aligns blocks to the chunks of the "
                              "model's kernels, which no layout says; --engine-opt "
                              "mamba-block-size=N does");
        step = common_multiple(&fits, choices->state_step, step);
    }
    const uint64_t page = engine_times(&fits, step, attention->token_bytes);
    if (!fits || page == 0)
        return engine_too_large(&engine_vllm, text);
    const uint64_t block = engine_times(&fits, step, checked_divide_up(state->state_bytes, page));
    *out = block > *out ? block : *out;
    return fits ? STATUS_OK : engine_too_large(&engine_vllm, text);
}

/* Every page as large as the largest: attention by longer blocks, states by padding. */
static enum status unify_pages(const struct engine_question *question, struct vllm_plan *plan,
                               bool *fits, struct status_text *text) {
    uint64_t largest = 0;
    for (uint32_t s = 0; s < plan->count; s++)
        largest = plan->specs[s].page_bytes > largest ? plan->specs[s].page_bytes : largest;
    for (uint32_t s = 0; s < plan->count; s++) {
        struct vllm_spec *spec = &plan->specs[s];
        if (spec->kind != VLLM_STATE) {
            if (largest % spec->page_bytes != 0)
                return status_set(text, STATUS_REFUSED,
                                  "%s: vLLM cannot give its layers one page size: pages of %llu "
                                  "bytes do not divide one of %llu (whether it pads them instead "
                                  "depends on the attention backend)",
                                  question->model->name, (unsigned long long)spec->page_bytes,
                                  (unsigned long long)largest);
            spec->block_tokens = engine_times(fits, spec->block_tokens, largest / spec->page_bytes);
        }
        spec->page_bytes = largest;
    }
    return STATUS_OK;
}

/* Layers per block table: the smallest kind's, or the largest's when that is less than half more,
 * which wastes fewer pages than another table would. */
static void spread(struct vllm_plan *plan) {
    uint64_t least = UINT64_MAX, most = 0;
    for (uint32_t s = 0; s < plan->count; s++) {
        const uint64_t layers = plan->specs[s].layers;
        least = layers < least ? layers : least;
        most = layers > most ? layers : most;
    }
    plan->layers_per_table = 2 * most < 3 * least ? most : least;
    for (uint32_t s = 0; s < plan->count; s++)
        plan->specs[s].table_count =
            checked_divide_up(plan->specs[s].layers, plan->layers_per_table);
}

static void count_blocks(const struct engine_question *question, const struct vllm_choices *choices,
                         struct vllm_spec *spec, bool *fits) {
    const uint64_t tokens = question->tokens;
    if (spec->kind == VLLM_STATE) {
        spec->block_count = choices->mode == VLLM_STATE_NONE    ? 1
                            : choices->mode == VLLM_STATE_ALIGN ? 2
                                                                : spec->block_count;
        return;
    }
    spec->tokens_held = tokens;
    if (spec->kind == VLLM_WINDOW) {
        const uint64_t window =
            engine_plus(fits, spec->group->of->window_tokens - 1, choices->in_flight_tokens);
        spec->tokens_held = window < tokens ? window : tokens;
    }
    /* A window need not start where a block does: one block more. */
    spec->block_count =
        checked_divide_up(spec->tokens_held, spec->block_tokens) + (spec->kind == VLLM_WINDOW);
}

/* Whether all layers need the same token slots, so that one block table serves them all. */
static bool needs_one_table(const struct vllm_plan *plan) {
    for (uint32_t s = 1; s < plan->count; s++)
        if (plan->specs[s].kind != plan->specs[0].kind || plan->specs[0].kind == VLLM_STATE ||
            (plan->specs[0].kind == VLLM_WINDOW &&
             plan->specs[s].group->of->window_tokens != plan->specs[0].group->of->window_tokens))
            return false;
    return true;
}

enum status vllm_plan_make(const struct engine_question *question,
                           const struct engine_layout *layout, const struct vllm_choices *choices,
                           struct vllm_plan *out, struct status_text *text) {
    bool fits = true;
    uint64_t block = 0;
    *out = (struct vllm_plan){0};
    gather(question, layout, choices, out);
    if (out->count == 0)
        return status_set(text, STATUS_REFUSED, "%s keeps no cache in this form",
                          question->model->name);
    enum status status = choose_block(question, choices, out, &block, text);
    if (status != STATUS_OK)
        return status;
    for (uint32_t s = 0; s < out->count; s++) {
        struct vllm_spec *spec = &out->specs[s];
        spec->block_tokens = block;
        spec->page_bytes = spec->kind == VLLM_STATE ? spec->state_bytes
                                                    : engine_times(&fits, block, spec->token_bytes);
        spec->block_count = checked_divide_up(question->tokens, block);
        spec->table_count = 1;
    }
    out->one_table = needs_one_table(out);
    if (!out->one_table) {
        status = unify_pages(question, out, &fits, text);
        if (status != STATUS_OK)
            return status;
        spread(out);
        out->block_bytes = engine_times(&fits, out->specs[0].page_bytes, out->layers_per_table);
    }
    for (uint32_t s = 0; s < out->count; s++) {
        struct vllm_spec *spec = &out->specs[s];
        count_blocks(question, choices, spec, &fits);
        if (out->one_table)
            out->block_bytes = engine_plus(&fits, out->block_bytes,
                                           engine_times(&fits, spec->page_bytes, spec->layers));
        const uint64_t blocks = engine_times(&fits, spec->block_count, spec->table_count);
        const bool counted = out->one_table && s > 0; /* the same block ids */
        out->blocks_per_request = engine_plus(&fits, out->blocks_per_request, counted ? 0 : blocks);
        out->table_count += counted ? 0 : spec->table_count;
    }
    return fits ? STATUS_OK : engine_too_large(&engine_vllm, text);
}
