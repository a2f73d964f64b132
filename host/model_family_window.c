/* Families in which some layers keep only the last tokens. Where a config does not list its
 * layers, the rule is that of the configuration file named at each function. */
#include <stdio.h>
#include <string.h>

#include "model_families.h"

static const struct layer_word words[] = {
    {"full_attention", LAYER_FULL}, {"sliding_attention", LAYER_WINDOW}, {NULL, 0}};

/* Every layer by its kind. */
static enum status add_layers(struct reader *reader, const struct layer_list *layers,
                              const struct model_group *full, const struct model_group *window) {
    for (uint32_t i = 0; i < layers->count; i++)
        reader_add(reader, layers->kinds[i] == LAYER_WINDOW ? window : full);
    return reader->status;
}

/* The window, or 0 where it is null or cannot bind: past the longest context. */
static uint32_t read_binding_window(struct reader *reader) {
    const uint32_t window = reader_want(reader, NULL, "sliding_window", 1, UINT32_MAX, 0, "");
    const uint32_t longest =
        reader_want(reader, NULL, "max_position_embeddings", 1, UINT32_MAX, UINT32_MAX, "");
    const bool binds = window > 0 && window < longest;
    reader_note(reader, "window_tokens",
                binds ? "sliding_window" : "sliding_window missing or never reached: full");
    return binds ? window : 0;
}

static bool any(const struct layer_list *layers, uint8_t kind) {
    return memchr(layers->kinds, kind, layers->count) != NULL;
}

/* layer_types where there is one, else all `otherwise`. */
static void read_layer_types(struct reader *reader, uint8_t otherwise, struct layer_list *layers) {
    layers_fill(layers, otherwise);
    if (reader_has(reader, "layer_types"))
        reader_layer_words(reader, "layer_types", words, layers);
}

/* mistral, mixtral, phi3, phimoe, starcoder2: a sliding_window that is set makes every layer slide
 * (vllm attention.py, get_sliding_window). */
enum status family_mistral(struct reader *reader) {
    struct layer_list layers = {.count = reader_layer_count(reader)};
    const struct model_group full = reader_attention(reader, NULL);
    const uint32_t tokens = read_binding_window(reader);
    read_layer_types(reader, tokens > 0 ? LAYER_WINDOW : LAYER_FULL, &layers);
    if (tokens == 0)
        layers_fill(&layers, LAYER_FULL);
    const struct model_group window = reader_slide(&full, tokens);
    return add_layers(reader, &layers, &full, &window);
}

/* qwen2, qwen3, their mixtures and vision models: the window counts only with use_sliding_window,
 * in layers from max_window_layers (28) on (transformers configuration_qwen2.py). */
enum status family_qwen(struct reader *reader) {
    struct layer_list layers = {.count = reader_layer_count(reader)};
    const struct model_group full = reader_attention(reader, NULL);
    layers_fill(&layers, LAYER_FULL);
    if (!reader_flag(reader, "use_sliding_window", false))
        return add_layers(reader, &layers, &full, &full);
    const uint32_t tokens = read_binding_window(reader);
    if (tokens > 0 && reader_has(reader, "layer_types")) {
        read_layer_types(reader, LAYER_FULL, &layers);
    } else if (tokens > 0) {
        const uint32_t first = reader_want(reader, "layers without window", "max_window_layers", 0,
                                           JSON_TEXT_MOST_LAYERS, 28, "28 (no max_window_layers)");
        for (uint32_t i = first; i < layers.count; i++)
            layers.kinds[i] = LAYER_WINDOW;
    }
    const struct model_group window = reader_slide(&full, tokens);
    return add_layers(reader, &layers, &full, &window);
}

/* What a family does where layer_types is missing: every `period`-th layer is full, the others
 * slide; a window of `tokens` where none is given. */
struct window_rule {
    struct attention_rule attention;
    uint32_t period;
    uint32_t tokens;
};

/* "LLLG" as a period: G full, L sliding. */
static void read_pattern_letters(struct reader *reader, const char *key, const char *letters,
                                 struct layer_list *layers) {
    const size_t length = strlen(letters);
    if (length == 0 || strspn(letters, "LG") != length) {
        (void)reader_fail(reader, STATUS_REFUSED, key,
                          "holds letters other than L and G, which are not understood");
        return;
    }
    for (uint32_t i = 0; i < layers->count; i++)
        layers->kinds[i] = letters[i % length] == 'G' ? LAYER_FULL : LAYER_WINDOW;
    reader_note_key(reader, "kinds of layers", key);
}

/* layer_types, else a period under either of its names, else the family's. */
static void read_alternation(struct reader *reader, uint32_t period, struct layer_list *layers) {
    const char *key = "sliding_window_pattern|_sliding_window_pattern";
    const cJSON *pattern = reader_find(reader, key, &key);
    if (reader_has(reader, "layer_types")) {
        read_layer_types(reader, LAYER_FULL, layers);
        return;
    }
    if (cJSON_IsString(pattern)) {
        read_pattern_letters(reader, key, pattern->valuestring, layers);
        return;
    }
    period = reader_want(reader, "kinds of layers", key, 1, JSON_TEXT_MOST_LAYERS, period,
                         "the family's period (no layer_types)");
    layers_fill(layers, LAYER_WINDOW);
    layers_every(layers, period, period - 1, LAYER_FULL);
}

static enum status read_alternating(struct reader *reader, const struct window_rule *rule) {
    struct layer_list layers = {.count = reader_layer_count(reader)};
    const struct model_group full = reader_attention(reader, &rule->attention);
    read_alternation(reader, rule->period, &layers);
    /* sliding_window: null with no layer that slides is how a family says it has none. */
    const uint32_t tokens = any(&layers, LAYER_WINDOW)
                                ? reader_want(reader, "window_tokens", "sliding_window", 1,
                                              UINT32_MAX, rule->tokens, "the family's default")
                                : 1;
    const struct model_group window = reader_slide(&full, tokens);
    return add_layers(reader, &layers, &full, &window);
}

/* transformers configuration_gemma2.py: layers alternate, the first slides. */
enum status family_gemma2(struct reader *reader) {
    static const struct window_rule rule = {
        .attention = {.query_heads = 8, .kv_heads = 4, .head_dim = 256},
        .period = 2,
        .tokens = 4096};
    return read_alternating(reader, &rule);
}

/* transformers configuration_gemma3.py: every sixth layer is global. */
enum status family_gemma3(struct reader *reader) {
    static const struct window_rule rule = {
        .attention = {.query_heads = 8, .kv_heads = 4, .head_dim = 256},
        .period = 6,
        .tokens = 4096};
    return read_alternating(reader, &rule);
}

/* transformers configuration_cohere2.py: every fourth layer is global. */
enum status family_cohere2(struct reader *reader) {
    static const struct window_rule rule = {.period = 4, .tokens = 4096};
    return read_alternating(reader, &rule);
}

/* exaone4: three slide, one is full. Without a sliding_window (null) and without lists nothing
 * slides: the 1.2B (transformers configuration_exaone4.py). */
enum status family_exaone4(struct reader *reader) {
    static const struct window_rule rule = {.period = 4, .tokens = 4096};
    const cJSON *window = cJSON_GetObjectItemCaseSensitive(reader->config, "sliding_window");
    if (cJSON_IsNull(window) && !reader_has(reader, "layer_types"))
        return family_plain(reader);
    return read_alternating(reader, &rule);
}

enum status family_olmo3(struct reader *reader) {
    static const struct window_rule rule = {.period = 4, .tokens = 4096};
    return read_alternating(reader, &rule);
}

/* gpt-oss: layers alternate, the first slides; head_dim is not hidden / heads; one learned sink
 * per query head. */
enum status family_gpt_oss(struct reader *reader) {
    static const struct window_rule rule = {
        .attention = {.query_heads = 64, .kv_heads = 8, .head_dim = 64},
        .period = 2,
        .tokens = 128};
    struct model *model = reader->model;
    const enum status status = read_alternating(reader, &rule);
    for (uint32_t g = 0; g < model->group_count; g++)
        model->groups[g].sinks = true;
    return status;
}

/* The layers of gemma3n and gemma4: the last num_kv_shared_layers own no cache and read that of
 * the last owning layer of their kind (vllm gemma3n.py, gemma4.py). */
static enum status add_with_shared(struct reader *reader, const struct layer_list *layers,
                                   uint32_t shared, const struct model_group *full,
                                   const struct model_group *window) {
    if (shared >= layers->count)
        return reader_fail(reader, STATUS_BAD_INPUT, "num_kv_shared_layers",
                           "is not below the number of layers");
    for (uint32_t i = 0; i < layers->count; i++) {
        const struct model_group *group = layers->kinds[i] == LAYER_WINDOW ? window : full;
        if (i < layers->count - shared)
            reader_add(reader, group);
        else
            reader_share(reader, group);
    }
    return reader->status;
}

/* transformers configuration_gemma3n.py: every fifth layer is global, 15 layers share. */
enum status family_gemma3n(struct reader *reader) {
    static const struct attention_rule rule = {.query_heads = 8, .kv_heads = 2, .head_dim = 256};
    struct layer_list layers = {.count = reader_layer_count(reader)};
    const struct model_group full = reader_attention(reader, &rule);
    read_alternation(reader, 5, &layers);
    const uint32_t shared = reader_want(reader, "layers that share", "num_kv_shared_layers", 0,
                                        JSON_TEXT_MOST_LAYERS, 15, "15 (no num_kv_shared_layers)");
    const struct model_group window =
        reader_slide(&full, reader_want(reader, "window_tokens", "sliding_window", 1, UINT32_MAX,
                                        512, "the family's default"));
    return add_with_shared(reader, &layers, shared, &full, &window);
}

/* gemma4: global layers have their own head dim, and their own KV heads with attention_k_eq_v; K
 * and V are both kept even then (vllm models/gemma4.py). */
enum status family_gemma4(struct reader *reader) {
    struct layer_list layers = {.count = reader_layer_count(reader)};
    const struct model_group slides = reader_attention(reader, NULL);
    struct model_group full = slides;
    if (reader_flag(reader, "attention_k_eq_v", false))
        full.kv_heads =
            reader_want(reader, "full.kv_heads", "num_global_key_value_heads", 1,
                        JSON_TEXT_MOST_HEADS, slides.kv_heads, "as in the sliding layers");
    full.k_dim = full.v_dim =
        reader_want(reader, "full.k_dim", "global_head_dim", 1, JSON_TEXT_MOST_DIM, slides.k_dim,
                    "as in the sliding layers");
    reader_layer_words(reader, "layer_types", words, &layers);
    const uint32_t shared = reader_want(reader, "layers that share", "num_kv_shared_layers", 0,
                                        JSON_TEXT_MOST_LAYERS, 0, "0 (no num_kv_shared_layers)");
    uint32_t tokens = 1;
    if (any(&layers, LAYER_WINDOW))
        tokens = reader_need(reader, "window_tokens", "sliding_window", 1, UINT32_MAX);
    const struct model_group window = reader_slide(&slides, tokens);
    return add_with_shared(reader, &layers, shared, &full, &window);
}

/* Query heads of one layer, where they differ by layer; KV heads do not. */
static uint32_t heads_of_layer(struct reader *reader, const cJSON *item, uint32_t otherwise) {
    uint64_t heads = otherwise;
    if (item != NULL && reader->status == STATUS_OK)
        reader->status = json_text_number(item, reader->origin, "num_attention_heads_per_layer", 1,
                                          JSON_TEXT_MOST_HEADS, &heads, reader->text);
    return (uint32_t)heads;
}

/* laguna: without layer_types all layers are full (vllm laguna.py). */
enum status family_laguna(struct reader *reader) {
    struct layer_list layers = {.count = reader_layer_count(reader)};
    struct model_group group = reader_attention(reader, NULL);
    const uint32_t usual = group.query_heads;
    const cJSON *item = NULL;
    if (reader_has(reader, "num_attention_heads_per_layer")) {
        item = reader_list(reader, "num_attention_heads_per_layer", layers.count);
        item = item != NULL ? item->child : NULL;
        reader_note(reader, "query_heads of each layer", "num_attention_heads_per_layer");
    }
    read_layer_types(reader, LAYER_FULL, &layers);
    const uint32_t tokens =
        any(&layers, LAYER_WINDOW)
            ? reader_need(reader, "window_tokens", "sliding_window", 1, UINT32_MAX)
            : 1;
    for (uint32_t i = 0; i < layers.count && reader->status == STATUS_OK; i++) {
        group.query_heads = heads_of_layer(reader, item, usual);
        item = item != NULL ? item->next : NULL;
        const struct model_group window = reader_slide(&group, tokens);
        reader_add(reader, layers.kinds[i] == LAYER_WINDOW ? &window : &group);
    }
    return reader->status;
}

/* muse_glimmer: where layers are not listed, every fourth is full, counted back from the last
 * (vllm configs/muse_glimmer.py). */
enum status family_muse_glimmer(struct reader *reader) {
    struct layer_list layers = {.count = reader_layer_count(reader)};
    const struct model_group full = reader_attention(reader, NULL);
    if (reader_has(reader, "layer_types")) {
        read_layer_types(reader, LAYER_FULL, &layers);
    } else {
        layers_fill(&layers, LAYER_WINDOW);
        layers_every(&layers, 4, (layers.count - 1) % 4, LAYER_FULL);
        reader_note(reader, "kinds of layers", "every 4th full, from the last (no layer_types)");
    }
    const uint32_t tokens = reader_want(reader, "window_tokens", "sliding_window", 1, UINT32_MAX,
                                        2048, "the family's default");
    const struct model_group window = reader_slide(&full, tokens);
    return add_layers(reader, &layers, &full, &window);
}

/* step3p5, step3p7: sliding layers may have heads of their own (vllm step3p5.py). */
enum status family_step3p5(struct reader *reader) {
    struct layer_list layers = {.count = reader_layer_count(reader)};
    const struct model_group full = reader_attention(reader, NULL);
    reader_layer_words(reader, "layer_types", words, &layers);
    const uint32_t tokens =
        any(&layers, LAYER_WINDOW)
            ? reader_need(reader, "window_tokens", "sliding_window", 1, UINT32_MAX)
            : 1;
    struct model_group window = reader_slide(&full, tokens);
    if (reader_has(reader, "attention_other_setting")) {
        const struct reader_place place = reader_enter(reader, "attention_other_setting");
        const cJSON *type = reader_find(reader, "attention_type", NULL);
        if (!cJSON_IsString(type) || strcmp(type->valuestring, "sliding_attention") != 0) {
            char held[64], what[112];
            reader_describe(type, held, sizeof held);
            (void)snprintf(what, sizeof what, "is %s; sliding_attention alone is understood", held);
            (void)reader_fail(reader, STATUS_REFUSED, "attention_type", what);
        }
        window.query_heads =
            reader_want(reader, "window.query_heads", "num_attention_heads", 1,
                        JSON_TEXT_MOST_HEADS, full.query_heads, "as in the full layers");
        window.kv_heads = reader_want(reader, "window.kv_heads", "num_attention_groups", 1,
                                      JSON_TEXT_MOST_HEADS, full.kv_heads, "as in the full layers");
        window.k_dim = window.v_dim =
            reader_want(reader, "window.k_dim", "head_dim", 1, JSON_TEXT_MOST_DIM, full.k_dim,
                        "as in the full layers");
        reader_leave(reader, place);
    }
    return add_layers(reader, &layers, &full, &window);
}

/* mimo_v2_flash: K and V rows differ, and sliding layers have heads of their own; 1 slides (vllm
 * mimo_v2.py). Draft layers slide too (vllm mimo_v2_mtp.py). */
enum status family_mimo2(struct reader *reader) {
    struct layer_list layers = {.count = reader_layer_count(reader)};
    struct model_group full = reader_attention(reader, NULL);
    full.v_dim = reader_want(reader, "full.v_dim", "v_head_dim", 1, JSON_TEXT_MOST_DIM, full.k_dim,
                             "as k_dim");
    full.sinks = reader_flag(reader, "add_full_attention_sink_bias", false);
    reader_layer_flags(reader, "hybrid_layer_pattern", LAYER_FULL, LAYER_WINDOW, &layers);
    struct model_group window =
        reader_slide(&full, any(&layers, LAYER_WINDOW)
                                ? reader_need(reader, "window_tokens",
                                              "sliding_window_size|sliding_window", 1, UINT32_MAX)
                                : 1);
    window.query_heads =
        reader_want(reader, "window.query_heads", "swa_num_attention_heads", 1,
                    JSON_TEXT_MOST_HEADS, full.query_heads, "as in the full layers");
    window.kv_heads = reader_want(reader, "window.kv_heads", "swa_num_key_value_heads", 1,
                                  JSON_TEXT_MOST_HEADS, full.kv_heads, "as in the full layers");
    window.k_dim = reader_want(reader, "window.k_dim", "swa_head_dim", 1, JSON_TEXT_MOST_DIM,
                               full.k_dim, "as in the full layers");
    window.v_dim = reader_want(reader, "window.v_dim", "swa_v_head_dim", 1, JSON_TEXT_MOST_DIM,
                               window.k_dim, "as k_dim");
    window.sinks = reader_flag(reader, "add_swa_attention_sink_bias", false);
    window.drafts = any(&layers, LAYER_WINDOW);
    return add_layers(reader, &layers, &full, &window);
}

/* llama4: layers with RoPE keep one chunk, those without are global. no_rope_layers (1 has RoPE)
 * missing or empty: every no_rope_layer_interval-th (4) is global (transformers
 * configuration_llama4.py). */
enum status family_llama4(struct reader *reader) {
    struct layer_list layers = {.count = reader_layer_count(reader)};
    const struct model_group full = reader_attention(reader, NULL);
    const cJSON *list = reader_find(reader, "no_rope_layers", NULL);
    static const struct layer_word chunks[] = {
        {"full_attention", LAYER_FULL}, {"chunked_attention", LAYER_WINDOW}, {NULL, 0}};
    if (reader_has(reader, "layer_types")) {
        reader_layer_words(reader, "layer_types", chunks, &layers);
    } else if (cJSON_GetArraySize(list) > 0) {
        reader_layer_flags(reader, "no_rope_layers", LAYER_FULL, LAYER_WINDOW, &layers);
    } else {
        const uint32_t period =
            reader_want(reader, "kinds of layers", "no_rope_layer_interval", 1,
                        JSON_TEXT_MOST_LAYERS, 4, "every 4th global (no no_rope_layers)");
        layers_fill(&layers, LAYER_WINDOW);
        layers_every(&layers, period, period - 1, LAYER_FULL);
    }
    const cJSON *chunk = cJSON_GetObjectItemCaseSensitive(reader->config, "attention_chunk_size");
    if (cJSON_IsNull(chunk))
        layers_fill(&layers, LAYER_FULL);
    const uint32_t tokens = reader_want(reader, "window_tokens", "attention_chunk_size", 1,
                                        UINT32_MAX, 8192, "the family's default");
    const struct model_group window = reader_slide(&full, tokens);
    return add_layers(reader, &layers, &full, &window);
}
