/* Layer by layer: who attends and with how many heads, who slides, who keeps a state. */
#include "gguf_layers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model_families.h"

/* What is read layer by layer. */
struct layer_numbers {
    uint32_t count;
    uint32_t heads[JSON_TEXT_MOST_LAYERS];
    uint32_t kv_heads[JSON_TEXT_MOST_LAYERS];
    uint32_t feed_forward[JSON_TEXT_MOST_LAYERS];
};

/* One number for all layers or a list of one for each; `otherwise` where there is none. */
static void read_per_layer(struct reader *reader, const char *field, const char *key, uint64_t most,
                           uint32_t layers, const uint32_t *otherwise, uint32_t *out) {
    const cJSON *item = reader_find(reader, key, NULL);
    if (!cJSON_IsArray(item)) {
        const uint32_t all =
            item == NULL && otherwise != NULL ? 0 : reader_need(reader, field, key, 0, most);
        for (uint32_t i = 0; i < layers; i++)
            out[i] = item == NULL && otherwise != NULL ? otherwise[i] : all;
        return;
    }
    item = reader_list(reader, key, layers);
    item = item != NULL ? item->child : NULL;
    char path[128];
    (void)snprintf(path, sizeof path, "%s%s", reader->where, key);
    for (uint32_t i = 0; i < layers && item != NULL && reader->status == STATUS_OK;
         i++, item = item->next) {
        uint64_t value = 0;
        reader->status =
            json_text_number(item, reader->origin, path, 0, most, &value, reader->text);
        out[i] = (uint32_t)value;
    }
    reader_note_key(reader, field, key);
}

static void read_numbers(struct reader *reader, struct layer_numbers *numbers) {
    static const uint32_t none[JSON_TEXT_MOST_LAYERS];
    const uint32_t blocks = reader_need(reader, "layers", "block_count", 1, JSON_TEXT_MOST_LAYERS);
    const uint32_t drafts = reader_want(reader, "draft layers, not counted", "nextn_predict_layers",
                                        0, JSON_TEXT_MOST_LAYERS, 0, "");
    if (drafts >= blocks)
        (void)reader_fail(reader, STATUS_BAD_INPUT, "nextn_predict_layers",
                          "is not below block_count");
    numbers->count = reader->status == STATUS_OK ? blocks - drafts : 0;
    read_per_layer(reader, "query_heads", "attention.head_count", JSON_TEXT_MOST_HEADS,
                   numbers->count, none, numbers->heads);
    read_per_layer(reader, "kv_heads", "attention.head_count_kv", JSON_TEXT_MOST_HEADS,
                   numbers->count, numbers->heads, numbers->kv_heads);
    read_per_layer(reader, NULL, "feed_forward_length", 1u << 24, numbers->count, none,
                   numbers->feed_forward);
}

/* Which layers are recurrent, attend, do both or keep nothing. */
static void read_kinds(struct reader *reader, const struct gguf_architecture *arch,
                       const struct layer_numbers *numbers, struct layer_list *layers) {
    layers->count = numbers->count;
    layers_fill(layers, arch->recurrence == GGUF_ALWAYS      ? LAYER_STATE
                        : arch->recurrence == GGUF_ALONGSIDE ? LAYER_BOTH
                                                             : LAYER_FULL);
    if (arch->recurrence == GGUF_INTERVAL && reader_has(reader, "attention.recurrent_layers")) {
        reader_layer_flags(reader, "attention.recurrent_layers", LAYER_FULL, LAYER_STATE, layers);
    } else if (arch->recurrence == GGUF_INTERVAL) {
        const uint32_t interval = reader_want(reader, "kinds of layers", "full_attention_interval",
                                              1, JSON_TEXT_MOST_LAYERS, 4, "every 4th full");
        layers_fill(layers, LAYER_STATE);
        layers_every(layers, interval, interval - 1, LAYER_FULL);
    }
    for (uint32_t i = 0; i < layers->count; i++) {
        if (layers->kinds[i] != LAYER_FULL || numbers->kv_heads[i] > 0)
            continue;
        if (arch->recurrence == GGUF_NO_KV ||
            (arch->recurrence == GGUF_NO_KV_FF && numbers->feed_forward[i] == 0))
            layers->kinds[i] = LAYER_STATE;
        else if (arch->recurrence == GGUF_NO_KV_FF || arch->gaps)
            layers->kinds[i] = LAYER_NONE;
        else
            (void)reader_fail(reader, STATUS_REFUSED, "attention.head_count_kv",
                              "is 0 in a layer, which is not understood");
    }
}

/* The state of recurrent layers: ssm_d_state * ssm_d_inner values, and kernel - 1 columns of
 * d_inner + 2 * groups * d_state channels (src/llama-hparams.cpp, n_embd_s and n_embd_r). */
static struct model_group read_state(struct reader *reader, enum gguf_recurrence recurrence) {
    struct model_group group = {.kind = MODEL_STATE};
    if (reader_has(reader, "shortconv.l_cache")) {
        (void)snprintf(group.family, sizeof group.family, "short_conv");
        group.conv_channels = reader_need(reader, "conv_channels", "embedding_length", 1, 1u << 24);
        group.conv_taps = reader_need(reader, "conv_taps + 1", "shortconv.l_cache", 1, 65536) - 1;
        return group;
    }
    group.conv_taps = reader_need(reader, "conv_taps + 1", "ssm.conv_kernel", 1, 65536) - 1;
    if (reader_has(reader, "kda.head_dim")) {
        (void)snprintf(group.family, sizeof group.family, "kda");
        const uint32_t dim =
            reader_need(reader, "state_rows, state_cols", "kda.head_dim", 1, JSON_TEXT_MOST_DIM);
        group.heads = reader_need(reader, "heads", "attention.head_count", 1, JSON_TEXT_MOST_HEADS);
        group.state_rows = group.state_cols = dim;
        const uint64_t channels = 3ull * group.heads * dim;
        if (channels > 1u << 24)
            (void)reader_fail(reader, STATUS_BAD_INPUT, "kda.head_dim", "is too large");
        group.conv_channels = (uint32_t)channels;
        reader_note(reader, "conv_channels", "3 * attention.head_count * kda.head_dim");
        return group;
    }
    const uint32_t inner = reader_need(reader, NULL, "ssm.inner_size", 1, 1u << 24);
    const uint32_t size =
        reader_need(reader, "state_cols", "ssm.state_size", 1, JSON_TEXT_MOST_DIM);
    const uint32_t groups =
        reader_want(reader, NULL, "ssm.group_count", 0, JSON_TEXT_MOST_HEADS, 0, "");
    const uint64_t channels = inner + 2 * (uint64_t)groups * size;
    /* Without groups it is Mamba's first version, whose every channel has a state of its own. */
    uint32_t heads = inner;
    if (groups > 0)
        heads = reader_need(reader, "heads", "ssm.time_step_rank", 1, JSON_TEXT_MOST_HEADS);
    else
        reader_note_key(reader, "heads", "ssm.inner_size");
    if (inner % heads != 0 || inner / heads > JSON_TEXT_MOST_DIM || channels > 1u << 24)
        (void)reader_fail(reader, STATUS_BAD_INPUT, "ssm.inner_size",
                          "does not divide over ssm.time_step_rank heads, or is too large");
    (void)snprintf(group.family, sizeof group.family, "%s",
                   recurrence == GGUF_INTERVAL ? "gated_delta_net"
                   : groups > 0                ? "mamba2"
                                               : "mamba1");
    group.heads = heads;
    group.state_rows = inner / heads;
    group.state_cols = size;
    group.conv_channels = (uint32_t)channels;
    reader_note(reader, "state_rows", "ssm.inner_size / heads");
    reader_note(reader, "conv_channels", "ssm.inner_size + 2 * ssm.group_count * ssm.state_size");
    return group;
}

/* Which layers slide; returns the window, 0 where none does. */
static uint32_t read_window(struct reader *reader, const struct gguf_architecture *arch,
                            struct layer_list *slides) {
    const char *key = "attention.sliding_window", *by = "attention.sliding_window_pattern";
    layers_fill(slides, LAYER_FULL);
    const uint32_t window =
        reader_want(reader, NULL, key, 0, UINT32_MAX, arch->window, "the architecture's");
    const uint32_t longest =
        reader_want(reader, NULL, "context_length", 1, UINT32_MAX, UINT32_MAX, "");
    const cJSON *pattern = reader_find(reader, by, NULL);
    uint32_t period = arch->period;
    bool all = arch->slides;
    if (window == 0 || reader->status != STATUS_OK)
        return 0;
    if (cJSON_IsArray(pattern)) {
        reader_layer_flags(reader, by, LAYER_FULL, LAYER_WINDOW, slides);
    } else {
        if (pattern != NULL) {
            period = reader_need(reader, "kinds of layers", by, 0, JSON_TEXT_MOST_LAYERS);
            all = period == 0;
        }
        if (period == 0 && window >= longest)
            return 0; /* never binds */
        if (period == 0 && !all) {
            (void)reader_fail(reader, STATUS_REFUSED, key,
                              "is set without a sliding_window_pattern, which is not understood");
            return 0;
        }
        layers_fill(slides, LAYER_WINDOW);
        if (!all)
            layers_every(slides, period, period - 1, LAYER_FULL);
        if (pattern == NULL)
            reader_note(reader, "kinds of layers", "the architecture's rule");
    }
    if (reader_has(reader, key))
        reader_note_key(reader, "window_tokens", key);
    else
        reader_note(reader, "window_tokens", "the architecture's window");
    return window;
}

/* Rows of K and V: key_length and value_length, or the width over the heads of the first layer
 * that has any. */
static void read_dims(struct reader *reader, const struct layer_numbers *numbers,
                      struct model_group *full, struct model_group *window) {
    uint32_t heads = 0, even = 0;
    for (uint32_t i = 0; i < numbers->count && heads == 0; i++)
        heads = numbers->heads[i];
    if (!reader_has(reader, "attention.key_length") ||
        !reader_has(reader, "attention.value_length")) {
        const uint32_t width = reader_need(reader, NULL, "embedding_length", 1, 1u << 24);
        if (heads == 0)
            (void)reader_fail(reader, STATUS_BAD_INPUT, "attention.head_count", "is missing or 0");
        else if (width % heads != 0)
            (void)reader_fail(reader, STATUS_BAD_INPUT, "embedding_length",
                              "does not divide over the heads and there is no key_length");
        else
            even = width / heads;
    }
    const char *why = "embedding_length / attention.head_count";
    full->k_dim =
        reader_want(reader, "k_dim", "attention.key_length", 1, JSON_TEXT_MOST_DIM, even, why);
    full->v_dim =
        reader_want(reader, "v_dim", "attention.value_length", 1, JSON_TEXT_MOST_DIM, even, why);
    window->k_dim = reader_want(reader, "window.k_dim", "attention.key_length_swa", 1,
                                JSON_TEXT_MOST_DIM, full->k_dim, "as in the full layers");
    window->v_dim = reader_want(reader, "window.v_dim", "attention.value_length_swa", 1,
                                JSON_TEXT_MOST_DIM, full->v_dim, "as in the full layers");
}

/* One latent per token, as the model needs it. Older files lack key_length_mla, and llama.cpp then
 * keeps K and V of every head. */
static struct model_group read_latent(struct reader *reader) {
    struct model_group group = {.kind = MODEL_LATENT};
    group.latent_dim =
        reader_need(reader, "latent_dim", "attention.kv_lora_rank", 1, JSON_TEXT_MOST_DIM);
    group.rope_dim = reader_need(reader, "rope_dim", "rope.dimension_count", 0, JSON_TEXT_MOST_DIM);
    if (!reader_has(reader, "attention.key_length_mla"))
        reader_remark(reader, "without attention.key_length_mla llama.cpp keeps K and V of every "
                              "head instead of this latent");
    return group;
}

/* Everything a layer keeps, in the order of the layers. */
static void add_layers(struct reader *reader, const struct gguf_architecture *arch,
                       const struct layer_numbers *numbers, const struct layer_list *layers) {
    struct layer_list slides = {.count = layers->count};
    struct model_group full = {.kind = MODEL_FULL, .sinks = arch->sinks};
    struct model_group window = full, state = {0}, index = {0};
    const bool attends = memchr(layers->kinds, LAYER_FULL, layers->count) != NULL ||
                         memchr(layers->kinds, LAYER_BOTH, layers->count) != NULL;
    const uint32_t tokens = attends ? read_window(reader, arch, &slides) : 0;
    if (attends && reader_has(reader, "attention.kv_lora_rank"))
        full = read_latent(reader);
    else if (attends)
        read_dims(reader, numbers, &full, &window);
    window = reader_slide(&window, tokens);
    window.drafts = arch->drafts_slide;
    if (memchr(layers->kinds, LAYER_STATE, layers->count) != NULL ||
        memchr(layers->kinds, LAYER_BOTH, layers->count) != NULL)
        state = read_state(reader, arch->recurrence);
    if (attends && reader_has(reader, "attention.indexer.key_length")) {
        index.kind = MODEL_INDEX;
        index.tokens_per_entry = 1;
        index.key_dim =
            reader_need(reader, "key_dim", "attention.indexer.key_length", 1, JSON_TEXT_MOST_DIM);
        index.top_k = reader_want(reader, "top_k", "attention.indexer.top_k", 0, 1u << 30, 0, "");
        index.query_heads = reader_want(reader, "index heads", "attention.indexer.head_count", 0,
                                        JSON_TEXT_MOST_HEADS, 0, "not known");
        if (arch->unsaid)
            reader_remark(reader, "index keys counted in every layer: a GGUF header does not say "
                                  "which layers share them");
    }
    const char *sharing = "attention.shared_kv_layers";
    const uint32_t shared =
        arch->shares
            ? reader_need(reader, "layers that share", sharing, 0, JSON_TEXT_MOST_LAYERS)
            : reader_want(reader, "layers that share", sharing, 0, JSON_TEXT_MOST_LAYERS, 0, "");
    for (uint32_t i = 0; i < layers->count && reader->status == STATUS_OK; i++) {
        const uint8_t kind = layers->kinds[i];
        struct model_group *group = slides.kinds[i] == LAYER_WINDOW ? &window : &full;
        group->query_heads = numbers->heads[i];
        group->kv_heads = group->kind == MODEL_LATENT ? 0 : numbers->kv_heads[i];
        if (kind == LAYER_FULL || kind == LAYER_BOTH) {
            if (i + shared >= layers->count)
                reader_share(reader, group);
            else
                reader_add(reader, group);
            if (index.key_dim > 0)
                reader_add(reader, &index);
        }
        if (kind == LAYER_STATE || kind == LAYER_BOTH)
            reader_add(reader, &state);
    }
}

enum status gguf_layers_read(struct reader *reader, const struct gguf_architecture *arch) {
    static const struct deepseek4_keys pooled = {.ratios = "attention.compress_ratios",
                                                 .heads = "attention.head_count",
                                                 .dim = "attention.key_length",
                                                 .window = "attention.sliding_window",
                                                 .index_dim = "attention.indexer.key_length",
                                                 .index_heads = "attention.indexer.head_count",
                                                 .top_k = "attention.indexer.top_k"};
    struct layer_numbers *numbers = calloc(1, sizeof *numbers);
    struct layer_list layers = {0};
    if (numbers == NULL)
        return reader->status = status_set(reader->text, STATUS_OUT_OF_MEMORY,
                                           "%s: no memory for its layers", reader->origin);
    read_numbers(reader, numbers);
    if (arch->pools && !reader_has(reader, pooled.ratios)) {
        (void)reader_fail(reader, STATUS_BAD_INPUT, pooled.ratios, "is missing");
    } else if (arch->pools) {
        (void)family_deepseek4_by(reader, &pooled, numbers->count);
    } else {
        read_kinds(reader, arch, numbers, &layers);
        add_layers(reader, arch, numbers, &layers);
    }
    free(numbers);
    return reader->status;
}
