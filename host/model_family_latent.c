/* Families that keep one row per token instead of K and V (MLA), the keys by which sparse
 * attention chooses tokens, and DeepSeek-V4's pooled entries. */
#include <stdio.h>
#include <string.h>

#include "model_families.h"

enum { OWN_KEYS = LAYER_OWN, SHARED_KEYS };
enum { WINDOW_ONLY = LAYER_OWN, SPARSE, HEAVY };

/* deepseek_v2, deepseek_v3, kimi_k2, glm4_moe_lite, mistral4, minicpm3 ...: one latent per token;
 * num_key_value_heads and head_dim say nothing about the cache (vllm deepseek_v2.py). Smaller
 * relatives of the same name set use_mla to false and are plain. */
enum status family_mla(struct reader *reader) {
    if (!reader_flag(reader, "use_mla", true))
        return family_plain(reader);
    const uint32_t layers = reader_layer_count(reader);
    const struct model_group latent = reader_latent(reader);
    for (uint32_t i = 0; i < layers; i++)
        reader_add(reader, &latent);
    return reader->status;
}

/* longcat_flash: two attention blocks in each of num_layers. */
enum status family_longcat(struct reader *reader) {
    const uint32_t layers =
        reader_need(reader, "layers / 2", "num_layers", 1, JSON_TEXT_MOST_LAYERS / 2);
    const struct model_group latent = reader_latent(reader);
    for (uint32_t i = 0; i < 2 * layers; i++)
        reader_add(reader, &latent);
    return reader->status;
}

/* index_topk_pattern: a letter per layer, S skips; layers past its end do not. */
static void read_topk_pattern(struct reader *reader, struct layer_list *layers) {
    static const struct layer_word words[] = {{"F", OWN_KEYS},
                                              {"S", SHARED_KEYS},
                                              {"full", OWN_KEYS},
                                              {"shared", SHARED_KEYS},
                                              {NULL, 0}};
    const char *key = "index_topk_pattern";
    const cJSON *pattern = reader_find(reader, key, NULL);
    if (cJSON_IsArray(pattern)) {
        reader_layer_words(reader, key, words, layers);
        return;
    }
    const char *letters = cJSON_IsString(pattern) ? pattern->valuestring : "";
    const size_t length = strlen(letters);
    if (length == 0 || strspn(letters, "FS") != length) {
        (void)reader_fail(reader, STATUS_REFUSED, key,
                          "is not made of the letters F and S, which alone are understood");
        return;
    }
    for (uint32_t i = 0; i < layers->count; i++)
        layers->kinds[i] = i < length && letters[i] == 'S' ? SHARED_KEYS : OWN_KEYS;
    reader_note_key(reader, "layers with index keys", key);
}

/* Own keys when max(i - offset + 1, 0) is a multiple of the frequency. */
static void read_topk_frequency(struct reader *reader, struct layer_list *layers) {
    const uint32_t every = reader_want(reader, "layers with index keys", "index_topk_freq", 1,
                                       JSON_TEXT_MOST_LAYERS, 1, "all (no index_topk_freq)");
    const uint32_t offset =
        reader_want(reader, NULL, "index_skip_topk_offset", 0, JSON_TEXT_MOST_LAYERS, 2, "");
    for (uint32_t i = 0; i < layers->count; i++) {
        const uint32_t past = i + 1 > offset ? i + 1 - offset : 0;
        layers->kinds[i] = past % every == 0 ? OWN_KEYS : SHARED_KEYS;
    }
}

/* Which layers keep index keys of their own; the others use the choice of the layer before (vllm
 * models/deepseek_v32/attention.py). A list that ends early is completed by the frequency where
 * there is one: an early GLM-5.3 has 74 entries for 78 layers. */
static void read_index_layers(struct reader *reader, struct layer_list *layers) {
    static const struct layer_word words[] = {
        {"full", OWN_KEYS}, {"shared", SHARED_KEYS}, {NULL, 0}};
    if (reader_has(reader, "index_topk_pattern"))
        read_topk_pattern(reader, layers);
    else
        read_topk_frequency(reader, layers);
    const cJSON *types = reader_find(reader, "indexer_types", NULL);
    if (types == NULL)
        return;
    struct layer_list listed = *layers;
    const uint32_t entries = (uint32_t)cJSON_GetArraySize(types);
    if (entries < layers->count && reader_has(reader, "index_topk_freq"))
        listed.count = entries;
    reader_layer_words(reader, "indexer_types", words, &listed);
    memcpy(layers->kinds, listed.kinds, listed.count);
}

/* deepseek_v32, glm_moe_dsa: MLA and index keys. */
enum status family_mla_indexed(struct reader *reader) {
    struct layer_list layers = {.count = reader_layer_count(reader)};
    const struct model_group latent = reader_latent(reader);
    const struct model_group index = {
        .kind = MODEL_INDEX,
        .tokens_per_entry = 1,
        .query_heads = reader_want(reader, "index heads", "index_n_heads", 0, JSON_TEXT_MOST_HEADS,
                                   0, "not known"),
        .key_dim = reader_need(reader, "key_dim", "index_head_dim", 1, JSON_TEXT_MOST_DIM),
        .top_k = reader_want(reader, "top_k", "index_topk", 0, 1u << 30, 0, "")};
    read_index_layers(reader, &layers);
    for (uint32_t i = 0; i < layers.count; i++) {
        reader_add(reader, &latent);
        if (layers.kinds[i] == OWN_KEYS)
            reader_add(reader, &index);
        else
            reader_share(reader, &index);
    }
    return reader->status;
}

/* 0, 4 or 128 per layer; the entries past the last layer are draft layers. */
static void read_ratios(struct reader *reader, const char *key, struct layer_list *layers) {
    const cJSON *item = reader_list(reader, key, layers->count);
    item = item != NULL ? item->child : NULL;
    for (uint32_t i = 0; i < layers->count && item != NULL; i++, item = item->next) {
        const double ratio = cJSON_IsNumber(item) ? item->valuedouble : -1;
        if (ratio != 0.0 && ratio != 4.0 && ratio != 128.0) {
            (void)reader_strange(reader, key, i, item);
            return;
        }
        layers->kinds[i] = ratio == 0.0 ? WINDOW_ONLY : ratio == 4.0 ? SPARSE : HEAVY;
    }
    reader_note_key(reader, "kinds of layers, tokens_per_entry", key);
}

static void read_rates(struct reader *reader, uint32_t *sparse, uint32_t *heavy) {
    if (!reader_has(reader, "compress_rates"))
        return;
    const struct reader_place place = reader_enter(reader, "compress_rates");
    *sparse = reader_want(reader, "tokens_per_entry", "compressed_sparse_attention", 1,
                          JSON_TEXT_MOST_DIM, *sparse, "4");
    *heavy = reader_want(reader, "tokens_per_entry", "heavily_compressed_attention", 1,
                         JSON_TEXT_MOST_DIM, *heavy, "128");
    reader_leave(reader, place);
}

/* Which layers pool, and how many tokens into one entry. Where a config lists no layers: two of
 * 128, then 128 and 4 in turn (transformers configuration_deepseek_v4.py). */
static void read_pooling(struct reader *reader, const char *ratios, struct layer_list *layers,
                         uint32_t *sparse_rate, uint32_t *heavy_rate) {
    static const struct layer_word words[] = {{"sliding_attention", WINDOW_ONLY},
                                              {"compressed_sparse_attention", SPARSE},
                                              {"heavily_compressed_attention", HEAVY},
                                              {NULL, 0}};
    *sparse_rate = 4;
    *heavy_rate = 128;
    if (reader_has(reader, ratios)) {
        read_ratios(reader, ratios, layers);
        return;
    }
    reader_note(reader, "tokens_per_entry", "4 and 128, the family's default");
    read_rates(reader, sparse_rate, heavy_rate);
    if (reader_has(reader, "layer_types")) {
        reader_layer_words(reader, "layer_types", words, layers);
        return;
    }
    layers_fill(layers, HEAVY);
    for (uint32_t i = 3; i < layers->count; i += 2)
        layers->kinds[i] = SPARSE;
    reader_note(reader, "kinds of layers", "the family's default");
}

/* deepseek_v4: K and V are one row of head_dim. Every layer keeps a window of them; most also pool
 * 4 tokens (with index keys to choose among the entries) or 128 into one entry (vllm
 * models/deepseek_v4). */
enum status family_deepseek4_by(struct reader *reader, const struct deepseek4_keys *keys,
                                uint32_t count) {
    struct layer_list layers = {.count = count};
    uint32_t sparse_rate, heavy_rate;
    read_pooling(reader, keys->ratios, &layers, &sparse_rate, &heavy_rate);
    const uint32_t heads = reader_need(reader, "query_heads", keys->heads, 1, JSON_TEXT_MOST_HEADS);
    const uint32_t dim =
        reader_need(reader, "k_dim (K and V), entry_dim", keys->dim, 1, JSON_TEXT_MOST_DIM);
    const struct model_group window = {
        .kind = MODEL_WINDOW,
        .query_heads = heads,
        .kv_heads = 1,
        .k_dim = dim,
        .window_tokens = reader_need(reader, "window_tokens", keys->window, 1, UINT32_MAX)};
    const struct model_group sparse = {.kind = MODEL_COMPRESSED,
                                       .query_heads = heads,
                                       .entry_dim = dim,
                                       .tokens_per_entry = sparse_rate};
    struct model_group heavy = sparse;
    heavy.tokens_per_entry = heavy_rate;
    struct model_group index = {.kind = MODEL_INDEX, .tokens_per_entry = sparse_rate};
    if (memchr(layers.kinds, SPARSE, layers.count) != NULL) {
        index.key_dim = reader_need(reader, "key_dim", keys->index_dim, 1, JSON_TEXT_MOST_DIM);
        index.top_k = reader_want(reader, "top_k", keys->top_k, 0, 1u << 30, 0, "");
        index.query_heads = reader_want(reader, "index heads", keys->index_heads, 0,
                                        JSON_TEXT_MOST_HEADS, 0, "not known");
    }
    for (uint32_t i = 0; i < layers.count; i++) {
        reader_add(reader, &window);
        if (layers.kinds[i] == SPARSE) {
            reader_add(reader, &sparse);
            reader_add(reader, &index);
        } else if (layers.kinds[i] == HEAVY) {
            reader_add(reader, &heavy);
        }
    }
    return reader->status;
}

enum status family_deepseek4(struct reader *reader) {
    static const struct deepseek4_keys keys = {.ratios = "compress_ratios",
                                               .heads = "num_attention_heads",
                                               .dim = "head_dim",
                                               .window = "sliding_window",
                                               .index_dim = "index_head_dim",
                                               .index_heads = "index_n_heads",
                                               .top_k = "index_topk"};
    return family_deepseek4_by(reader, &keys, reader_layer_count(reader));
}

/* minimax_m3: K and V everywhere; layers of sparse_attention_freq also keep one index key per
 * token (vllm models/minimax_m3). Without sparse_attention_config there are none. */
enum status family_minimax3(struct reader *reader) {
    struct layer_list layers = {.count = reader_layer_count(reader)};
    const struct model_group full = reader_attention(reader, NULL);
    struct model_group index = {.kind = MODEL_INDEX, .tokens_per_entry = 1};
    layers_fill(&layers, LAYER_FULL);
    if (reader_has(reader, "sparse_attention_config")) {
        const struct reader_place place = reader_enter(reader, "sparse_attention_config");
        if (reader_flag(reader, "use_sparse_attention", true)) {
            index.key_dim =
                reader_need(reader, "key_dim", "sparse_index_dim", 1, JSON_TEXT_MOST_DIM);
            index.query_heads = reader_want(reader, "index heads", "sparse_num_index_heads", 0,
                                            JSON_TEXT_MOST_HEADS, 0, "not known");
            index.top_k = reader_want(reader, NULL, "sparse_topk_blocks", 0, 1u << 14, 0, "") *
                          reader_want(reader, NULL, "sparse_block_size", 0, 1u << 14, 0, "");
            reader_note(reader, "top_k", "sparse_topk_blocks * sparse_block_size");
            reader_layer_flags(reader, "sparse_attention_freq", LAYER_FULL, OWN_KEYS, &layers);
        }
        reader_leave(reader, place);
    }
    for (uint32_t i = 0; i < layers.count; i++) {
        reader_add(reader, &full);
        if (layers.kinds[i] == OWN_KEYS)
            reader_add(reader, &index);
    }
    return reader->status;
}
