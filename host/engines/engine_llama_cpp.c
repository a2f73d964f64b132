/* llama.cpp: cells, each one token of one layer, in steps of 256; a second cache for window layers,
 * another for index keys; recurrent layers in one of their own, in f32 whatever is asked.
 *
 * Read in llama.cpp 0c1e57098: src/llama-context.cpp (context and batch sizes), llama-kv-cache.cpp,
 * llama-kv-cache-iswa.cpp, llama-kv-cache-dsa.cpp, llama-memory-recurrent.cpp, and llama-model.cpp
 * (which of them, recurrent types). With flash attention, which quantised V needs; without it V
 * rows are padded to the widest layer's. Not modelled: compressed entries, index keys beside K and
 * V, rows kept to roll drafts back. */
#include "engine_parts.h"

#include "number.h"

enum { CELL_STEP = 256 };
enum { CTX_SIZE, PARALLEL, KV_UNIFIED, SWA_FULL, BATCH_SIZE, UBATCH_SIZE };

static const struct engine_setting_row settings[] = {
    [CTX_SIZE] = {"ctx-size", ENGINE_TOKENS, NULL},
    [PARALLEL] = {"parallel", ENGINE_COUNT, NULL},
    [KV_UNIFIED] = {"kv-unified", ENGINE_SWITCH, NULL},
    [SWA_FULL] = {"swa-full", ENGINE_SWITCH, NULL},
    [BATCH_SIZE] = {"batch-size", ENGINE_COUNT, NULL},
    [UBATCH_SIZE] = {"ubatch-size", ENGINE_COUNT, NULL},
};

/* The sizes a context is created with. */
struct context {
    uint64_t slots;   /* n_seq_max */
    uint64_t streams; /* separate sets of cells: 1, or one per slot */
    uint64_t cells;   /* of one stream, layers that see everything */
    uint64_t ubatch;
    bool unified;
    bool swa_full;
};

/* One of the caches: what its `size =` line counts. */
struct cache {
    uint64_t cells, layers, k_bytes, v_bytes;
};

static bool stores(enum format_id format) {
    switch (format) {
    case FORMAT_BF16:
    case FORMAT_F16:
    case FORMAT_Q8_0:
    case FORMAT_Q4_0:
    case FORMAT_Q8_0_GGML:
    case FORMAT_Q4_0_GGML:
    case FORMAT_Q4_1:
    case FORMAT_Q5_0:
    case FORMAT_Q5_1:
    case FORMAT_IQ4_NL:
        return true;
    default:
        return false;
    }
}

/* Its own name for a format: it knows one layout of blocks only. */
static const char *type_name(enum format_id format) {
    return format == FORMAT_Q8_0_GGML   ? "q8_0"
           : format == FORMAT_Q4_0_GGML ? "q4_0"
                                        : format_get(format)->name;
}

static enum status open_context(const struct engine_question *question, struct context *out,
                                struct status_text *text) {
    const struct engine_setting *settings_given = question->settings;
    bool fits = true;
    *out = (struct context){
        .slots = engine_number(&settings_given[PARALLEL], question->seqs),
        .unified = settings_given[KV_UNIFIED].number != 0,
        .swa_full = settings_given[SWA_FULL].number != 0,
    };
    if (out->slots < question->seqs)
        return status_set(
            text, STATUS_REFUSED,
            "llama.cpp: --engine-opt parallel=%llu is fewer slots than %llu sequences",
            (unsigned long long)out->slots, (unsigned long long)question->seqs);
    const uint64_t wanted = engine_times(&fits, question->tokens, out->slots);
    const uint64_t asked = engine_number(&settings_given[CTX_SIZE], wanted);
    const uint64_t context = engine_up(&fits, asked, CELL_STEP);
    out->streams = out->unified ? 1 : out->slots;
    out->cells = out->unified ? context : engine_up(&fits, context / out->slots, CELL_STEP);
    if (!fits)
        return engine_too_large(&engine_llama_cpp, text);
    const uint64_t needed =
        out->unified ? engine_times(&fits, question->tokens, question->seqs) : question->tokens;
    if (out->cells < needed)
        return status_set(text, STATUS_REFUSED,
                          "llama.cpp: --engine-opt ctx-size=%llu gives %llu cells to %s, and %llu "
                          "are needed",
                          (unsigned long long)asked, (unsigned long long)out->cells,
                          out->unified ? "all sequences together" : "each of the slots",
                          (unsigned long long)needed);
    /* A batch is never longer than the context as asked, a micro batch never than a batch. */
    const uint64_t batch = engine_number(&settings_given[BATCH_SIZE], 2048);
    const uint64_t ubatch = engine_number(&settings_given[UBATCH_SIZE], 512);
    out->ubatch = asked < batch ? asked : batch;
    out->ubatch = ubatch < out->ubatch ? ubatch : out->ubatch;
    return STATUS_OK;
}

/* Cells of one stream of the window layers' cache. */
static uint64_t window_cells(const struct context *context, uint64_t window_tokens, bool *fits) {
    const uint64_t windows = context->unified ? context->slots : 1;
    const uint64_t wanted =
        engine_plus(fits, engine_times(fits, window_tokens, windows), context->ubatch);
    if (context->swa_full)
        return context->cells;
    return engine_up(fits, wanted < context->cells ? wanted : context->cells, CELL_STEP);
}

static double mib(uint64_t bytes) {
    return (double)((float)bytes / (1024.0F * 1024.0F));
}

static void say_cache(const struct engine_question *question, const struct context *context,
                      const struct cache *cache, struct engine_answer *out) {
    if (cache->layers == 0)
        return;
    const char *k = type_name(question->storage.k_format);
    const char *v = type_name(question->storage.v_format);
    engine_say(out,
               "llama_kv_cache: size = %7.2f MiB (%6llu cells, %3llu layers, %2llu/%llu seqs), K "
               "(%s): %7.2f MiB, V (%s): %7.2f MiB",
               mib(cache->k_bytes + cache->v_bytes), (unsigned long long)cache->cells,
               (unsigned long long)cache->layers, (unsigned long long)context->slots,
               (unsigned long long)context->streams, k, mib(cache->k_bytes), v,
               mib(cache->v_bytes));
}

/* Adds a group of K and V to its cache; `name` is the item its cells beyond the formula's make. */
static void add_cells(const struct engine_question *question, const struct context *context,
                      const struct engine_group *group, uint64_t cells, const char *name,
                      struct cache *cache, struct engine_answer *out, bool *fits) {
    const uint64_t stored = engine_times(fits, cells, context->streams);
    const uint64_t asked = engine_times(fits, group->kept_tokens, question->seqs);
    const uint64_t layer_bytes = engine_times(fits, group->token_bytes, group->layers);
    const uint64_t k =
        engine_times(fits, engine_times(fits, group->k_bytes, group->layers), stored);
    const uint64_t all = engine_times(fits, layer_bytes, stored);
    cache->cells = cells;
    cache->layers += group->layers;
    cache->k_bytes = engine_plus(fits, cache->k_bytes, k);
    cache->v_bytes = engine_plus(fits, cache->v_bytes, all - k);
    out->bytes = engine_plus(fits, out->bytes, all);
    engine_add_item(out, name, engine_change(fits, layer_bytes, stored, asked));
}

/* Index keys: one head of K, in K's type, and no V. */
static void add_keys(const struct engine_question *question, const struct context *context,
                     const struct engine_group *group, struct cache *cache,
                     struct engine_answer *out, bool *fits) {
    struct engine_group as_k = *group;
    if (question->storage.index == FORMULA_INDEX_NONE)
        return;
    as_k.token_bytes = format_row_bytes(question->storage.k_format, group->of->key_dim);
    as_k.k_bytes = as_k.token_bytes;
    add_cells(question, context, &as_k, context->cells,
              "cells beyond the tokens asked, in steps of 256", cache, out, fits);
    engine_add_item(
        out, "index keys in the type of K",
        engine_change(fits,
                      engine_times(fits, engine_times(fits, group->kept_tokens, question->seqs),
                                   group->layers),
                      as_k.token_bytes, group->token_bytes));
}

/* The recurrent layers: one row per slot, four bytes a value of state and of convolution. */
static void add_state(const struct engine_question *question, const struct context *context,
                      const struct engine_group *group, uint64_t *r_bytes, uint64_t *s_bytes,
                      struct engine_answer *out, bool *fits) {
    const uint64_t rows = engine_times(fits, group->layers, context->slots);
    const uint64_t used = engine_times(fits, group->layers, question->seqs);
    const uint64_t conv = 4 * group->conv_values, state = 4 * group->state_values;
    *r_bytes = engine_plus(fits, *r_bytes, engine_times(fits, conv, rows));
    *s_bytes = engine_plus(fits, *s_bytes, engine_times(fits, state, rows));
    out->bytes = engine_plus(fits, out->bytes, engine_times(fits, conv + state, rows));
    engine_add_item(out, "recurrent state in f32",
                    engine_change(fits, used, state, group->state_bytes));
    engine_add_item(out, "convolution columns in f32",
                    engine_change(fits, used, conv, group->conv_bytes));
    engine_add_item(out, "state of slots without a sequence",
                    engine_change(fits, conv + state, rows, used));
}

static enum status check(const struct engine_question *question, const struct engine_layout *layout,
                         struct status_text *text) {
    const struct formula_storage *storage = &question->storage;
    if (!stores(storage->k_format) || !stores(storage->v_format))
        return engine_refuse_format(&engine_llama_cpp, question,
                                    "bf16, f16, q8_0, q4_0, q4_1, q5_0, q5_1 and iq4_nl", text);
    uint64_t window_tokens = 0;
    bool latent = false;
    for (uint32_t g = 0; g < layout->count; g++)
        latent = latent || layout->groups[g].of->kind == MODEL_LATENT;
    for (uint32_t g = 0; g < layout->count; g++) {
        const struct model_group *group = layout->groups[g].of;
        const bool index = group->kind == MODEL_INDEX && storage->index != FORMULA_INDEX_NONE;
        if (index && !latent)
            return status_set(text, STATUS_REFUSED,
                              "%s: its cache of index keys beside K and V is not known to this "
                              "version; --index-format none leaves them out",
                              engine_llama_cpp.version);
        if (index && !format_fits(storage->k_format, group->key_dim))
            return status_set(text, STATUS_REFUSED,
                              "%s keeps index keys in the type of K, and %s cannot hold %u values",
                              engine_llama_cpp.version, format_get(storage->k_format)->name,
                              group->key_dim);
        if (group->kind != MODEL_WINDOW)
            continue;
        if (window_tokens != 0 && group->window_tokens != window_tokens)
            return status_set(
                text, STATUS_REFUSED, "%s has one window size for all layers, %s has %llu and %llu",
                engine_llama_cpp.version, question->model->name, (unsigned long long)window_tokens,
                (unsigned long long)group->window_tokens);
        window_tokens = group->window_tokens;
    }
    return STATUS_OK;
}

static enum status plan(const struct engine_question *question, struct engine_answer *out,
                        struct status_text *text) {
    struct engine_layout layout;
    struct context context;
    enum status status = engine_layout_read(&engine_llama_cpp, question, &layout, text);
    if (status == STATUS_OK)
        status = check(question, &layout, text);
    if (status == STATUS_OK)
        status = open_context(question, &context, text);
    if (status != STATUS_OK)
        return status;
    struct cache all = {0}, window = {0}, keys = {0};
    uint64_t r_bytes = 0, s_bytes = 0, layers = 0;
    bool fits = true;
    for (uint32_t g = 0; g < layout.count; g++) {
        const struct engine_group *group = &layout.groups[g];
        layers += group->of->kind != MODEL_INDEX ? group->layers : 0;
        if (group->of->kind == MODEL_STATE)
            add_state(question, &context, group, &r_bytes, &s_bytes, out, &fits);
        else if (group->of->kind == MODEL_WINDOW)
            add_cells(question, &context, group,
                      window_cells(&context, group->of->window_tokens, &fits),
                      context.swa_full ? "window layers at full length (swa-full)"
                                       : "window cells for a micro batch, in steps of 256",
                      &window, out, &fits);
        else if (group->of->kind == MODEL_INDEX)
            add_keys(question, &context, group, &keys, out, &fits);
        else
            add_cells(question, &context, group, context.cells,
                      "cells beyond the tokens asked, in steps of 256", &all, out, &fits);
    }
    say_cache(question, &context, &all, out);
    say_cache(question, &context, &window, out);
    say_cache(question, &context, &keys, out);
    if (r_bytes + s_bytes > 0)
        engine_say(
            out,
            "llama_memory_recurrent: size = %7.2f MiB (%6llu cells, %3llu layers, %2llu seqs "
            " 0 rs_seq), R (f32): %7.2f MiB, S (f32): %7.2f MiB, P (f32):    0.00 MiB",
            mib(r_bytes + s_bytes), (unsigned long long)context.slots, (unsigned long long)layers,
            (unsigned long long)context.slots, mib(r_bytes), mib(s_bytes));
    if (!question->settings[KV_UNIFIED].given && question->seqs > 1)
        engine_note(out, "cells of each slot apart; --engine-opt kv-unified shares them");
    if (!fits)
        return engine_too_large(&engine_llama_cpp, text);
    /* It allocates for the context it is told, not for the memory there is: what would fit. */
    const bool bounded = !question->settings[CTX_SIZE].given;
    if (question->has_memory && bounded && question->memory_bytes > question->weights_bytes) {
        uint64_t each;
        status = engine_max_tokens(&engine_llama_cpp, question,
                                   question->memory_bytes - question->weights_bytes, &each, text);
        out->has_tokens = status == STATUS_OK && each != UINT64_MAX;
        out->tokens = out->has_tokens ? engine_times(&fits, each, question->seqs) : 0;
    }
    return status;
}

const struct engine engine_llama_cpp = {
    .name = "llama.cpp",
    .version = "llama.cpp 0c1e57098",
    .settings = settings,
    .setting_count = sizeof settings / sizeof settings[0],
    .plan = plan,
};
