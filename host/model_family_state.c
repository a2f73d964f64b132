/* Families whose recurrent layers are linear attention: a matrix per head and a few columns of a
 * short convolution (kernel - 1 of them), however long the context. */
#include <stdio.h>
#include <string.h>

#include "model_families.h"

/* One state group; `channels` is checked here because it is a sum of products. */
static struct model_group state_group(struct reader *reader, const char *family, uint32_t heads,
                                      uint32_t rows, uint32_t cols, uint64_t channels) {
    struct model_group group = {
        .kind = MODEL_STATE, .heads = heads, .state_rows = rows, .state_cols = cols};
    (void)snprintf(group.family, sizeof group.family, "%s", family);
    if (channels > 1u << 24)
        (void)reader_fail(reader, STATUS_BAD_INPUT, family, "has more than 2^24 channels");
    else
        group.conv_channels = (uint32_t)channels;
    return group;
}

/* Columns kept of a convolution whose kernel is `key`. */
static uint32_t read_taps(struct reader *reader, const char *key) {
    return reader_need(reader, "conv_taps + 1", key, 1, 65536) - 1;
}

/* int(head_dim * expand_v): configs write 2.6666666667 and mean the whole number below. */
static uint32_t expanded(struct reader *reader, uint32_t head_dim) {
    const double width = head_dim * reader_factor(reader, "state_cols / state_rows", "expand_v");
    if (width < 1 || width > JSON_TEXT_MOST_DIM) {
        (void)reader_fail(reader, STATUS_BAD_INPUT, "expand_v", "gives rows of an unlikely width");
        return 1;
    }
    return (uint32_t)width;
}

/* qwen3_next, qwen3_5 and their mixtures: gated delta net but in every full_attention_interval-th
 * layer (transformers configuration_qwen3_next.py, vllm mamba_utils.py). */
enum status family_qwen3_next(struct reader *reader) {
    static const struct layer_word words[] = {
        {"linear_attention", LAYER_STATE}, {"full_attention", LAYER_FULL}, {NULL, 0}};
    static const struct attention_rule rule = {.query_heads = 16, .kv_heads = 2, .head_dim = 256};
    struct layer_list layers = {.count = reader_layer_count(reader)};
    if (reader_has(reader, "layer_types")) {
        reader_layer_words(reader, "layer_types", words, &layers);
    } else {
        const uint32_t interval =
            reader_want(reader, "kinds of layers", "full_attention_interval", 1,
                        JSON_TEXT_MOST_LAYERS, 4, "every 4th full (no layer_types)");
        layers_fill(&layers, LAYER_STATE);
        layers_every(&layers, interval, interval - 1, LAYER_FULL);
    }
    const struct model_group full = reader_attention(reader, &rule);
    const char *why = "the family's default";
    const uint32_t k_heads =
        reader_want(reader, NULL, "linear_num_key_heads", 1, JSON_TEXT_MOST_HEADS, 16, why);
    const uint32_t v_heads =
        reader_want(reader, "heads", "linear_num_value_heads", 1, JSON_TEXT_MOST_HEADS, 32, why);
    const uint32_t k_dim =
        reader_want(reader, "state_rows", "linear_key_head_dim", 1, JSON_TEXT_MOST_DIM, 128, why);
    const uint32_t v_dim =
        reader_want(reader, "state_cols", "linear_value_head_dim", 1, JSON_TEXT_MOST_DIM, 128, why);
    struct model_group state =
        state_group(reader, "gated_delta_net", v_heads, k_dim, v_dim,
                    2 * (uint64_t)k_heads * k_dim + (uint64_t)v_heads * v_dim);
    reader_note(reader, "conv_channels",
                "2 * linear_num_key_heads * linear_key_head_dim + linear_num_value_heads * "
                "linear_value_head_dim");
    state.conv_taps =
        reader_want(reader, "conv_taps + 1", "linear_conv_kernel_dim", 1, 65536, 4, why) - 1;
    for (uint32_t i = 0; i < layers.count; i++)
        reader_add(reader, layers.kinds[i] == LAYER_FULL ? &full : &state);
    return reader->status;
}

/* kimi_linear, kimi_k3: both lists count layers from 1; the full ones are MLA (vllm
 * configs/kimi_linear.py, kimi_k3/nvidia/kda.py). */
enum status family_kimi_linear(struct reader *reader) {
    struct layer_list layers = {.count = reader_layer_count(reader)};
    const struct model_group latent = reader_latent(reader);
    layers_fill(&layers, LAYER_NONE);
    const struct reader_place place = reader_enter(reader, "linear_attn_config");
    reader_layer_numbers(reader, "kda_layers", 1, LAYER_STATE, &layers);
    reader_layer_numbers(reader, "full_attn_layers", 1, LAYER_FULL, &layers);
    const uint32_t heads = reader_need(reader, "heads", "num_heads", 1, JSON_TEXT_MOST_HEADS);
    const uint32_t dim =
        reader_need(reader, "state_rows, state_cols", "head_dim", 1, JSON_TEXT_MOST_DIM);
    struct model_group state = state_group(reader, "kda", heads, dim, dim, 3ull * heads * dim);
    reader_note(reader, "conv_channels", "3 * num_heads * head_dim");
    state.conv_taps = read_taps(reader, "short_conv_kernel_size");
    if (memchr(layers.kinds, LAYER_NONE, layers.count) != NULL)
        (void)reader_fail(reader, STATUS_REFUSED, "kda_layers and full_attn_layers",
                          "leave out a layer");
    reader_leave(reader, place);
    for (uint32_t i = 0; i < layers.count; i++)
        reader_add(reader, layers.kinds[i] == LAYER_FULL ? &latent : &state);
    return reader->status;
}

/* minimax (Text-01), minimax_m1: 1 softmax, 0 lightning, whose state has all query heads and no
 * convolution (modeling_minimax_m1.py, vllm minimax_text_01.py). */
enum status family_minimax(struct reader *reader) {
    static const struct layer_word words[] = {
        {"linear_attention", LAYER_STATE}, {"full_attention", LAYER_FULL}, {NULL, 0}};
    struct layer_list layers = {.count = reader_layer_count(reader)};
    const struct model_group full = reader_attention(reader, NULL);
    if (reader_has(reader, "attn_type_list"))
        reader_layer_flags(reader, "attn_type_list", LAYER_STATE, LAYER_FULL, &layers);
    else
        reader_layer_words(reader, "layer_types", words, &layers);
    const struct model_group state =
        state_group(reader, "lightning", full.query_heads, full.k_dim, full.k_dim, 0);
    reader_note(reader, "heads, state_rows, state_cols", "num_attention_heads, head_dim");
    for (uint32_t i = 0; i < layers.count; i++)
        reader_add(reader, layers.kinds[i] == LAYER_FULL ? &full : &state);
    return reader->status;
}

/* minimax_m2 has softmax attention alone, which most of its configs say layer by layer. */
enum status family_minimax2(struct reader *reader) {
    return reader_has(reader, "attn_type_list") ? family_minimax(reader) : family_plain(reader);
}

/* lfm2: short convolutions without any state (vllm lfm2.py); num_heads is not the attention's. */
enum status family_lfm2(struct reader *reader) {
    static const struct layer_word words[] = {
        {"conv", LAYER_STATE}, {"full_attention", LAYER_FULL}, {NULL, 0}};
    struct layer_list layers = {.count = reader_layer_count(reader)};
    layers_fill(&layers, LAYER_STATE);
    if (reader_has(reader, "layer_types"))
        reader_layer_words(reader, "layer_types", words, &layers);
    else
        reader_layer_numbers(reader, "full_attn_idxs", 0, LAYER_FULL, &layers);
    const struct model_group full = reader_attention(reader, NULL);
    const uint32_t channels =
        reader_need(reader, "conv_channels", "conv_dim|hidden_size", 1, 1u << 24);
    struct model_group state = state_group(reader, "short_conv", 0, 0, 0, channels);
    state.conv_taps = read_taps(reader, "conv_L_cache");
    for (uint32_t i = 0; i < layers.count; i++)
        reader_add(reader, layers.kinds[i] == LAYER_FULL ? &full : &state);
    return reader->status;
}

/* jet_nemotron: the convolution runs over V alone (jet_block.py of the model's repository). */
enum status family_jet_nemotron(struct reader *reader) {
    static const struct layer_word words[] = {
        {"jet", LAYER_STATE}, {"attn", LAYER_FULL}, {"swa", LAYER_WINDOW}, {NULL, 0}};
    struct layer_list layers = {.count = reader_layer_count(reader)};
    reader_layer_words(reader, "layer_types", words, &layers);
    const struct model_group full = reader_attention(reader, NULL);
    const struct reader_place place = reader_enter(reader, "efficient_attention_config");
    struct reader_place inner = reader_enter(reader, "jet");
    const uint32_t heads = reader_need(reader, "heads", "num_heads", 1, JSON_TEXT_MOST_HEADS);
    const uint32_t k_dim = reader_need(reader, "state_rows", "head_dim", 1, JSON_TEXT_MOST_DIM);
    const uint32_t v_dim = expanded(reader, k_dim);
    struct model_group state =
        state_group(reader, "jet", heads, k_dim, v_dim, (uint64_t)heads * v_dim);
    reader_note(reader, "conv_channels", "num_heads * head_dim * expand_v");
    state.conv_taps = read_taps(reader, "conv_size");
    reader_leave(reader, inner);
    struct model_group window = full;
    if (memchr(layers.kinds, LAYER_WINDOW, layers.count) != NULL) {
        inner = reader_enter(reader, "swa");
        window =
            reader_slide(&full, reader_need(reader, "window_tokens", "window_size", 1, UINT32_MAX));
        reader_leave(reader, inner);
    }
    reader_leave(reader, place);
    for (uint32_t i = 0; i < layers.count; i++)
        reader_add(reader, layers.kinds[i] == LAYER_STATE    ? &state
                           : layers.kinds[i] == LAYER_WINDOW ? &window
                                                             : &full);
    return reader->status;
}

/* fla gated_deltanet: three short convolutions, over Q, K and V. */
enum status family_gated_deltanet(struct reader *reader) {
    struct layer_list layers = {.count = reader_layer_count(reader)};
    struct model_group full = {0};
    layers_fill(&layers, LAYER_STATE);
    if (reader_has(reader, "attn"))
        full = reader_fla_attention(reader, &layers);
    const uint32_t heads = reader_need(reader, NULL, "num_heads", 1, JSON_TEXT_MOST_HEADS);
    const uint32_t v_heads =
        reader_want(reader, "heads", "num_v_heads", 1, JSON_TEXT_MOST_HEADS, heads, "num_heads");
    const uint32_t k_dim = reader_need(reader, "state_rows", "head_dim", 1, JSON_TEXT_MOST_DIM);
    const uint32_t v_dim = expanded(reader, k_dim);
    const bool convolves = reader_flag(reader, "use_short_conv", true);
    struct model_group state =
        state_group(reader, "gated_delta_net", v_heads, k_dim, v_dim,
                    convolves ? 2 * (uint64_t)heads * k_dim + (uint64_t)v_heads * v_dim : 0);
    reader_note(reader, "conv_channels",
                "2 * num_heads * head_dim + num_v_heads * head_dim * expand_v");
    state.conv_taps = convolves ? read_taps(reader, "conv_size") : 0;
    for (uint32_t i = 0; i < layers.count; i++)
        reader_add(reader, layers.kinds[i] == LAYER_FULL ? &full : &state);
    return reader->status;
}
