/* SGLang: a slot per token and layer, and one page of slots more that padded tokens write to; a
 * smaller pool of slots for window layers; whole states in a pool of their own, with one more row.
 *
 * Read in SGLang 0.5.23: sglang/srt/model_executor/pool_configurator.py (bytes per token, the two
 * pools of window models), sglang/srt/mem_cache/memory_pool.py (buffers, padding slots),
 * sglang/srt/mem_cache/kv_cache_configurator.py (states, shares of memory),
 * sglang/srt/layers/quantization/fp4_kv_cache_quant_method.py (4-bit caches). Not modelled: drafts,
 * extra buffers of state, unified and hierarchical pools, 4-bit caches with a window pool. */
#include "engine_parts.h"
#include "number.h"

enum {
    PAGE_SIZE,
    MAX_TOTAL_TOKENS,
    MEM_FRACTION_STATIC,
    SWA_FULL_TOKENS_RATIO,
    DISABLE_HYBRID_SWA,
    MAX_MAMBA_CACHE_SIZE,
    MAMBA_FULL_MEMORY_RATIO,
    DISABLE_RADIX_CACHE,
    PREFILL_DEQUANT_DTYPE,
};

static const struct engine_setting_row settings[] = {
    [PAGE_SIZE] = {"page-size", ENGINE_COUNT, NULL},
    [MAX_TOTAL_TOKENS] = {"max-total-tokens", ENGINE_TOKENS, NULL},
    [MEM_FRACTION_STATIC] = {"mem-fraction-static", ENGINE_FRACTION, NULL},
    [SWA_FULL_TOKENS_RATIO] = {"swa-full-tokens-ratio", ENGINE_FRACTION, NULL},
    [DISABLE_HYBRID_SWA] = {"disable-hybrid-swa-memory", ENGINE_SWITCH, NULL},
    [MAX_MAMBA_CACHE_SIZE] = {"max-mamba-cache-size", ENGINE_COUNT, NULL},
    [MAMBA_FULL_MEMORY_RATIO] = {"mamba-full-memory-ratio", ENGINE_RATIO, NULL},
    [DISABLE_RADIX_CACHE] = {"disable-radix-cache", ENGINE_SWITCH, NULL},
    [PREFILL_DEQUANT_DTYPE] = {"prefill-kv-cache-dequant-dtype", ENGINE_WORD,
                               "auto nvfp4 fp8_e4m3"},
};

enum { SPARSE_PAGE = 64, STATES_PER_SEQUENCE = 3 };

/* One rank's pools. Bytes are of one slot over all layers of a pool. */
struct pools {
    uint64_t page;
    uint64_t slots;           /* that the asked sequences need, or max-total-tokens */
    uint64_t window_slots;    /* of the window pool */
    uint64_t slot_bytes;      /* full attention, latents, index keys */
    uint64_t k_bytes;         /* K's part of it */
    uint64_t window_bytes;    /* window layers with a pool of their own; 0: none */
    uint64_t workspace_bytes; /* decoded K and V of one token, shared by all layers */
    uint64_t window_tokens;
    uint64_t state_bytes; /* one row */
    uint64_t states;      /* rows, without the padding one */
    double ratio;         /* of window to full slots */
    bool latent, sparse;  /* sparse: index keys are kept */
};

/* An index key: one byte a value, one fp32 scale per 128. */
static uint64_t key_bytes(uint32_t key_dim) {
    return key_dim + (uint64_t)key_dim / 128 * 4;
}

/* A latent beside index keys in fp8: scales of 128 values behind it, the rotary part in 16 bits. */
static uint64_t sparse_fp8_bytes(const struct model_group *group) {
    return group->latent_dim + (uint64_t)group->latent_dim / 128 * 4 + 2 * group->rope_dim;
}

static uint64_t stored_bytes(const struct engine_question *question, const struct pools *pools,
                             const struct engine_group *group) {
    if (group->of->kind == MODEL_INDEX)
        return key_bytes(group->of->key_dim);
    const bool fp8 = question->storage.k_format == FORMAT_FP8_E4M3;
    if (group->of->kind == MODEL_LATENT && pools->sparse && fp8)
        return sparse_fp8_bytes(group->of);
    return group->token_bytes;
}

static bool is_4_bit(const struct formula_storage *storage) {
    return !format_is_record(storage->k_format) && format_get(storage->k_format)->value_bits == 4;
}

static enum status check(const struct engine_question *question, const struct engine_layout *layout,
                         const struct pools *pools, struct status_text *text) {
    const struct formula_storage *storage = &question->storage;
    const bool alike = storage->k_format == storage->v_format;
    bool ok = storage->k_format == FORMAT_FP8_DS_MLA_656 && pools->sparse;
    if (!ok && alike)
        ok = storage->k_format == FORMAT_BF16 || storage->k_format == FORMAT_F16 ||
             storage->k_format == FORMAT_FP8_E4M3 || storage->k_format == FORMAT_FP8_E5M2 ||
             storage->k_format == FORMAT_NVFP4 || storage->k_format == FORMAT_FP4_MX_BLOCK16;
    if (!ok)
        return engine_refuse_format(&engine_sglang, question,
                                    "bf16, f16, fp8_e4m3, fp8_e5m2, nvfp4 and fp4_mx_block16, K "
                                    "and V alike",
                                    text);
    for (uint32_t g = 0; g < layout->count && is_4_bit(storage); g++) {
        const struct model_group *group = layout->groups[g].of;
        if (group->kind == MODEL_WINDOW ||
            (group->kind == MODEL_FULL && group->k_dim != group->v_dim))
            return status_set(text, STATUS_REFUSED,
                              "%s: how it sizes a 4-bit cache with %s is not known to this version",
                              engine_sglang.version,
                              group->kind == MODEL_WINDOW ? "window layers"
                                                          : "K and V of different widths");
    }
    return STATUS_OK;
}

/* K and V of one token decoded to fp8 for prefill: one buffer as long as the pool. */
static uint64_t workspace_of(const struct engine_question *question,
                             const struct engine_group *group) {
    /* auto: read as it is on SM100, decoded to fp8 anywhere else. */
    const bool decoded = question->settings[PREFILL_DEQUANT_DTYPE].number != 1;
    if (question->storage.k_format != FORMAT_NVFP4 || group->of->kind != MODEL_FULL || !decoded)
        return 0;
    return 2 * (uint64_t)group->of->kv_heads * group->of->k_dim;
}

static void add_group(const struct engine_question *question, const struct engine_group *group,
                      struct pools *pools, bool *fits) {
    if (group->of->kind == MODEL_STATE) {
        pools->state_bytes =
            engine_plus(fits, pools->state_bytes,
                        engine_times(fits, group->layers, group->state_bytes + group->conv_bytes));
        return;
    }
    const uint64_t stored = engine_times(fits, stored_bytes(question, pools, group), group->layers);
    if (group->of->kind == MODEL_WINDOW && question->settings[DISABLE_HYBRID_SWA].number == 0) {
        pools->window_bytes = engine_plus(fits, pools->window_bytes, stored);
        pools->window_tokens = group->of->window_tokens > pools->window_tokens
                                   ? group->of->window_tokens
                                   : pools->window_tokens;
        return;
    }
    const uint64_t workspace = workspace_of(question, group);
    pools->workspace_bytes =
        workspace > pools->workspace_bytes ? workspace : pools->workspace_bytes;
    pools->slot_bytes = engine_plus(fits, pools->slot_bytes, stored);
    if (group->of->kind != MODEL_INDEX)
        pools->k_bytes =
            engine_plus(fits, pools->k_bytes, engine_times(fits, group->k_bytes, group->layers));
}

/* Slots of the window pool beside `slots` of the other; all of them where there is no other. */
static uint64_t window_slots(const struct pools *pools, uint64_t slots) {
    if (pools->slot_bytes == 0)
        return slots;
    return (uint64_t)((double)slots * pools->ratio) / pools->page * pools->page;
}

static enum status size_pools(const struct engine_question *question,
                              const struct engine_layout *layout, struct pools *out,
                              struct status_text *text) {
    const struct engine_setting *given = question->settings;
    bool fits = true;
    out->page = engine_number(&given[PAGE_SIZE], out->sparse ? SPARSE_PAGE : 1);
    out->ratio = given[SWA_FULL_TOKENS_RATIO].given ? given[SWA_FULL_TOKENS_RATIO].fraction : 0.8;
    for (uint32_t g = 0; g < layout->count; g++)
        if (layout->groups[g].of->kind != MODEL_INDEX || out->sparse)
            add_group(question, &layout->groups[g], out, &fits);
    const uint64_t needed =
        engine_times(&fits, engine_up(&fits, question->tokens, out->page), question->seqs);
    out->slots = engine_number(&given[MAX_TOTAL_TOKENS], needed) / out->page * out->page;
    if (!fits)
        return engine_too_large(&engine_sglang, text);
    if (out->slots < needed)
        return status_set(text, STATUS_REFUSED,
                          "SGLang: --engine-opt max-total-tokens=%llu is fewer than the %llu slots "
                          "needed",
                          (unsigned long long)given[MAX_TOTAL_TOKENS].number,
                          (unsigned long long)needed);
    out->window_slots = window_slots(out, out->slots);
    if (out->window_bytes > 0 && out->window_tokens + out->page >= out->window_slots)
        return status_set(text, STATUS_REFUSED,
                          "SGLang does not start with a window pool of %llu slots: one window of "
                          "%llu and a page must fit (swa-full-tokens-ratio, max-total-tokens)",
                          (unsigned long long)out->window_slots,
                          (unsigned long long)out->window_tokens);
    /* The prefix cache keeps states too, so it wants three for every running sequence. */
    const uint64_t each = given[DISABLE_RADIX_CACHE].number != 0 ? 1 : STATES_PER_SEQUENCE;
    out->states =
        engine_number(&given[MAX_MAMBA_CACHE_SIZE], engine_times(&fits, question->seqs, each));
    if (out->state_bytes > 0 && out->states / each < question->seqs)
        return status_set(text, STATUS_REFUSED,
                          "SGLang: --engine-opt max-mamba-cache-size=%llu runs %llu sequences at "
                          "most (%llu states each), %llu were asked",
                          (unsigned long long)out->states, (unsigned long long)(out->states / each),
                          (unsigned long long)each, (unsigned long long)question->seqs);
    return fits ? STATUS_OK : engine_too_large(&engine_sglang, text);
}

static void add_items(const struct engine_question *question, const struct engine_layout *layout,
                      const struct pools *pools, struct engine_answer *out, bool *fits) {
    const uint64_t asked = engine_times(fits, question->tokens, question->seqs);
    for (uint32_t g = 0; g < layout->count; g++) {
        const struct engine_group *group = &layout->groups[g];
        if (group->of->kind == MODEL_STATE || (group->of->kind == MODEL_INDEX && !pools->sparse))
            continue;
        const uint64_t kept = engine_times(fits, group->kept_tokens, question->seqs);
        const uint64_t stored = stored_bytes(question, pools, group);
        const uint64_t bytes = engine_times(fits, stored, group->layers);
        const bool window = group->of->kind == MODEL_WINDOW;
        const bool apart = window && pools->window_bytes > 0;
        engine_add_item(out,
                        group->of->kind == MODEL_INDEX ? "index keys as fp8 with an fp32 scale"
                                                       : "latents with scales, rotary in 16 bits",
                        engine_change(fits, engine_times(fits, kept, group->layers), stored,
                                      group->token_bytes));
        if (apart)
            engine_add_item(out, "window pool (swa-full-tokens-ratio) beyond the windows",
                            engine_change(fits, bytes, pools->window_slots, kept));
        else if (window)
            engine_add_item(out, "window layers at full length (disable-hybrid-swa-memory)",
                            engine_change(fits, bytes, asked, kept));
        if (!apart)
            engine_add_item(out, "slots beyond the tokens asked",
                            engine_change(fits, bytes, pools->slots, asked));
        engine_add_item(out, "padding slots, one page",
                        (int64_t)engine_times(fits, bytes, pools->page));
    }
    engine_add_item(out, "workspace of K and V decoded to fp8 for prefill",
                    (int64_t)engine_times(fits, pools->workspace_bytes,
                                          engine_plus(fits, pools->slots, pools->page)));
    engine_add_item(out, "states beyond one a sequence, for the prefix cache",
                    engine_change(fits, pools->state_bytes, pools->states, question->seqs));
    engine_add_item(out, "padding state", (int64_t)pools->state_bytes);
}

static const char *dtype_name(enum format_id format) {
    switch (format) {
    case FORMAT_BF16:
        return "torch.bfloat16";
    case FORMAT_F16:
        return "torch.float16";
    case FORMAT_FP8_E5M2:
        return "torch.float8_e5m2";
    case FORMAT_NVFP4:
    case FORMAT_FP4_MX_BLOCK16:
        return "torch.float4_e2m1fn_x2";
    default:
        return "torch.float8_e4m3fn";
    }
}

static double gib(uint64_t bytes) {
    return (double)bytes / 1073741824.0;
}

/* What it prints of pools of that size. Sizes of 4-bit pools and of records it counts in ways not
 * modelled here: only their tokens. */
static void say_pools(const struct engine_question *question, const struct pools *pools,
                      uint64_t slots, uint64_t states, struct engine_answer *out) {
    const char *dtype =
        dtype_name(format_is_record(question->storage.k_format) ? FORMAT_FP8_E4M3
                                                                : question->storage.k_format);
    bool fits = true;
    if (pools->state_bytes > 0)
        engine_say(out, "Mamba Cache is allocated. max_mamba_cache_size: %llu",
                   (unsigned long long)states);
    const unsigned long long shown = slots;
    const uint64_t rows = slots + pools->page;
    if (pools->window_bytes > 0) {
        engine_say(out,
                   "Use sliding window memory pool. full_layer_tokens=%llu, "
                   "swa_layer_tokens=%llu",
                   pools->slot_bytes > 0 ? shown : 0ULL,
                   (unsigned long long)window_slots(pools, slots));
        return;
    }
    if (is_4_bit(&question->storage) || pools->sparse)
        engine_say(out, "KV Cache is allocated. dtype: %s, #tokens: %llu", dtype, shown);
    else if (pools->latent)
        engine_say(out, "KV Cache is allocated. dtype: %s, #tokens: %llu, KV size: %.2f GB", dtype,
                   shown, gib(engine_times(&fits, rows, pools->slot_bytes)));
    else if (pools->slot_bytes > 0)
        engine_say(out,
                   "KV Cache is allocated. dtype: %s, #tokens: %llu, K size: %.2f GB, V size: %.2f "
                   "GB",
                   dtype, shown, gib(engine_times(&fits, rows, pools->k_bytes)),
                   gib(engine_times(&fits, rows, pools->slot_bytes - pools->k_bytes)));
}

/* Shares the memory out: states first, then slots from what is left. */
static void fill_memory(const struct engine_question *question, const struct pools *pools,
                        struct engine_answer *out) {
    const struct engine_setting *given = question->settings;
    double memory = (double)question->memory_bytes;
    if (given[MEM_FRACTION_STATIC].given)
        memory *= given[MEM_FRACTION_STATIC].fraction;
    memory -= (double)question->weights_bytes;
    uint64_t states = pools->states;
    if (pools->state_bytes > 0) {
        const double each = (double)pools->state_bytes;
        const double ratio =
            given[MAMBA_FULL_MEMORY_RATIO].given ? given[MAMBA_FULL_MEMORY_RATIO].fraction : 0.9;
        const double room = memory * ratio / (1 + ratio) - each;
        if (!given[MAX_MAMBA_CACHE_SIZE].given && given[DISABLE_RADIX_CACHE].number == 0)
            states = room > 0 ? (uint64_t)(room / each) : 0;
        memory -= ((double)states + 1) * each;
    }
    const double cell = pools->slot_bytes == 0
                            ? (double)pools->window_bytes
                            : (double)(pools->slot_bytes + pools->workspace_bytes) +
                                  pools->ratio * (double)pools->window_bytes;
    if (!(memory >= cell) || cell <= 0 || (pools->state_bytes > 0 && states == 0)) {
        engine_note(out, "SGLang would not start: the memory holds no slot");
        return;
    }
    const uint64_t slots = (uint64_t)(memory / cell) / pools->page * pools->page;
    out->has_tokens = true;
    out->tokens = slots;
    say_pools(question, pools, slots, states, out);
}

static enum status plan(const struct engine_question *question, struct engine_answer *out,
                        struct status_text *text) {
    struct engine_layout layout;
    struct pools pools = {0};
    enum status status = engine_layout_read(&engine_sglang, question, &layout, text);
    if (status != STATUS_OK)
        return status;
    for (uint32_t g = 0; g < layout.count; g++) {
        const enum model_kind kind = layout.groups[g].of->kind;
        pools.latent = pools.latent || kind == MODEL_LATENT;
        pools.sparse =
            pools.sparse || (kind == MODEL_INDEX && question->storage.index != FORMULA_INDEX_NONE);
    }
    status = check(question, &layout, &pools, text);
    if (status == STATUS_OK)
        status = size_pools(question, &layout, &pools, text);
    if (status != STATUS_OK)
        return status;
    bool fits = true;
    const uint64_t rows = engine_plus(&fits, pools.slots, pools.page);
    const uint64_t window_rows = engine_plus(&fits, pools.window_slots, pools.page);
    const uint64_t states = engine_plus(&fits, pools.states, 1);
    out->bytes = engine_times(&fits, rows, pools.slot_bytes + pools.workspace_bytes);
    out->bytes =
        engine_plus(&fits, out->bytes, engine_times(&fits, window_rows, pools.window_bytes));
    out->bytes = engine_plus(&fits, out->bytes, engine_times(&fits, states, pools.state_bytes));
    add_items(question, &layout, &pools, out, &fits);
    if (!fits)
        return engine_too_large(&engine_sglang, text);
    if (pools.workspace_bytes > 0)
        engine_note(out, "K and V are decoded to fp8 for prefill (not on SM100: --engine-opt "
                         "prefill-kv-cache-dequant-dtype=nvfp4)");
    if (question->has_memory)
        fill_memory(question, &pools, out);
    else
        say_pools(question, &pools, pools.slots, pools.states, out);
    return STATUS_OK;
}

const struct engine engine_sglang = {
    .name = "sglang",
    .version = "SGLang 0.5.23",
    .settings = settings,
    .setting_count = sizeof settings / sizeof settings[0],
    .plan = plan,
};
