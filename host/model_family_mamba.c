/* Families whose recurrent layers are Mamba: one state per channel (mamba1) or per head (mamba2),
 * and kernel - 1 columns of a convolution over the channels, B and C. */
#include <stdio.h>
#include <string.h>

#include "model_families.h"

/* mamba1: every inner channel has a row of state_size values; the convolution covers the inner
 * channels alone. */
static struct model_group mamba1(struct reader *reader, uint64_t inner, uint32_t state_size,
                                 uint32_t kernel) {
    if (inner == 0 || inner > JSON_TEXT_MOST_HEADS)
        (void)reader_fail(reader, STATUS_BAD_INPUT, "hidden_size",
                          "times the expansion is not from 1 to 65536 channels");
    return (struct model_group){.kind = MODEL_STATE,
                                .family = "mamba1",
                                .heads = (uint32_t)inner,
                                .state_rows = 1,
                                .state_cols = state_size,
                                .conv_channels = (uint32_t)inner,
                                .conv_taps = kernel - 1};
}

/* mamba2: heads x head_dim x state_size; the convolution covers heads * head_dim + 2 * groups *
 * state_size channels. */
static struct model_group mamba2(struct reader *reader, uint32_t heads, uint32_t head_dim,
                                 uint32_t groups, uint32_t state_size, uint32_t kernel,
                                 const char *from) {
    const uint64_t channels = (uint64_t)heads * head_dim + 2 * (uint64_t)groups * state_size;
    if (channels > 1u << 24)
        (void)reader_fail(reader, STATUS_BAD_INPUT, "the mamba layers",
                          "have more than 2^24 convolution channels");
    reader_note(reader, "conv_channels", from);
    return (struct model_group){.kind = MODEL_STATE,
                                .family = "mamba2",
                                .heads = heads,
                                .state_rows = head_dim,
                                .state_cols = state_size,
                                .conv_channels = (uint32_t)channels,
                                .conv_taps = kernel - 1};
}

static uint32_t read_kernel(struct reader *reader, const char *key) {
    return reader_need(reader, "conv_taps + 1", key, 1, 65536);
}

static uint32_t read_width(struct reader *reader) {
    return reader_need(reader, NULL, "hidden_size|d_model", 1, 1u << 24);
}

static enum status add_layers(struct reader *reader, const struct layer_list *layers,
                              const struct model_group *full, const struct model_group *state) {
    for (uint32_t i = 0; i < layers->count; i++) {
        const uint8_t kind = layers->kinds[i];
        if (kind == LAYER_FULL || kind == LAYER_BOTH)
            reader_add(reader, full);
        if (kind == LAYER_STATE || kind == LAYER_BOTH)
            reader_add(reader, state);
    }
    return reader->status;
}

/* hybrid_override_pattern: M mamba2, * attention, - MLP, E mixture of experts. Its length is the
 * number of layers, which num_hidden_layers repeats where it is there. */
static void read_letters(struct reader *reader, struct layer_list *layers) {
    const char *key = "hybrid_override_pattern";
    const cJSON *pattern = reader_find(reader, key, NULL);
    const char *letters = cJSON_IsString(pattern) ? pattern->valuestring : "";
    const size_t length = strlen(letters), known = strspn(letters, "M*-E");
    char what[96];
    if (length == 0 || length > JSON_TEXT_MOST_LAYERS) {
        (void)reader_fail(reader, STATUS_BAD_INPUT, key, "is not a letter per layer");
        return;
    }
    if (known != length) {
        char letter[2] = {letters[known], '\0'}, printable[2];
        json_text_printable(letter, printable, sizeof printable);
        (void)snprintf(what, sizeof what, "holds '%s' at layer %zu, which is not understood",
                       printable, known);
        (void)reader_fail(reader, STATUS_REFUSED, key, what);
        return;
    }
    layers->count = (uint32_t)length;
    const uint32_t count =
        reader_want(reader, NULL, "num_hidden_layers", 1, JSON_TEXT_MOST_LAYERS, layers->count, "");
    if (count != layers->count) {
        (void)snprintf(what, sizeof what, "has %zu letters for %u layers", length, count);
        (void)reader_fail(reader, STATUS_BAD_INPUT, key, what);
        return;
    }
    for (uint32_t i = 0; i < layers->count; i++)
        layers->kinds[i] = letters[i] == 'M'   ? LAYER_STATE
                           : letters[i] == '*' ? LAYER_FULL
                                               : LAYER_NONE;
    reader_note(reader, "layers, kinds of layers", key);
}

/* vllm nemotron_h.py and config.py. n_group is the experts', n_groups the state's. */
enum status family_nemotron_h(struct reader *reader) {
    static const struct layer_word words[] = {{"mamba", LAYER_STATE},
                                              {"attention", LAYER_FULL},
                                              {"mlp", LAYER_NONE},
                                              {"moe", LAYER_NONE},
                                              {NULL, 0}};
    struct layer_list layers = {0};
    if (reader_has(reader, "hybrid_override_pattern")) {
        read_letters(reader, &layers);
    } else {
        const cJSON *list = reader_list(reader, "layers_block_type", 1);
        layers.count = reader_want(reader, "layers", "num_hidden_layers", 1, JSON_TEXT_MOST_LAYERS,
                                   (uint32_t)cJSON_GetArraySize(list), "layers_block_type");
        if (layers.count > JSON_TEXT_MOST_LAYERS)
            return reader_fail(reader, STATUS_BAD_INPUT, "layers_block_type",
                               "has more than 10000 entries");
        reader_layer_words(reader, "layers_block_type", words, &layers);
    }
    if (reader->status != STATUS_OK)
        return reader->status;
    const struct model_group full = reader_attention(reader, NULL);
    const uint32_t heads = reader_need(reader, "heads", "mamba_num_heads", 1, JSON_TEXT_MOST_HEADS);
    const uint32_t dim = reader_need(reader, "state_rows", "mamba_head_dim", 1, JSON_TEXT_MOST_DIM);
    const uint32_t groups = reader_need(reader, NULL, "n_groups", 1, JSON_TEXT_MOST_HEADS);
    const uint32_t size =
        reader_need(reader, "state_cols", "ssm_state_size", 1, JSON_TEXT_MOST_DIM);
    const struct model_group state =
        mamba2(reader, heads, dim, groups, size, read_kernel(reader, "conv_kernel"),
               "mamba_num_heads * mamba_head_dim + 2 * n_groups * ssm_state_size");
    return add_layers(reader, &layers, &full, &state);
}

/* vllm jamba.py: attention when i % period == offset, mamba1 elsewhere. */
enum status family_jamba(struct reader *reader) {
    struct layer_list layers = {.count = reader_layer_count(reader)};
    const char *why = "the family's default";
    const uint32_t period = reader_want(reader, "kinds of layers", "attn_layer_period", 1,
                                        JSON_TEXT_MOST_LAYERS, 8, why);
    const uint32_t offset = reader_want(reader, "kinds of layers", "attn_layer_offset", 0,
                                        JSON_TEXT_MOST_LAYERS, 4, why);
    layers_fill(&layers, LAYER_STATE);
    layers_every(&layers, period, offset, LAYER_FULL);
    const struct model_group full = reader_attention(reader, NULL);
    const uint64_t inner =
        (uint64_t)reader_want(reader, NULL, "mamba_expand", 1, 1024, 2, "") * read_width(reader);
    reader_note(reader, "heads, conv_channels", "mamba_expand * hidden_size");
    const uint32_t size =
        reader_want(reader, "state_cols", "mamba_d_state", 1, JSON_TEXT_MOST_DIM, 16, why);
    const uint32_t kernel = reader_want(reader, "conv_taps + 1", "mamba_d_conv", 1, 65536, 4, why);
    const struct model_group state = mamba1(reader, inner, size, kernel);
    return add_layers(reader, &layers, &full, &state);
}

/* zamba2: every layer is mamba2, "hybrid" ones attend as well, over rows twice the width; each of
 * them has a cache although they share weights (transformers configuration_zamba2.py). */
enum status family_zamba2(struct reader *reader) {
    static const struct layer_word words[] = {{"mamba", LAYER_STATE},
                                              {"linear_attention", LAYER_STATE},
                                              {"hybrid", LAYER_BOTH},
                                              {NULL, 0}};
    struct layer_list layers = {.count = reader_layer_count(reader)};
    layers_fill(&layers, LAYER_STATE);
    if (!reader_has(reader, "layers_block_type") && reader_has(reader, "hybrid_layer_ids"))
        reader_layer_numbers(reader, "hybrid_layer_ids", 0, LAYER_BOTH, &layers);
    else
        reader_layer_words(reader, "layers_block_type", words, &layers);
    const uint32_t width = read_width(reader);
    struct model_group full = {.kind = MODEL_FULL};
    full.query_heads =
        reader_need(reader, "query_heads", "num_attention_heads", 1, JSON_TEXT_MOST_HEADS);
    full.kv_heads = reader_want(reader, "kv_heads", "num_key_value_heads", 1, JSON_TEXT_MOST_HEADS,
                                full.query_heads, "as many as query heads");
    full.k_dim = full.v_dim = 2 * width / full.query_heads;
    reader_note(reader, "k_dim, v_dim", "2 * hidden_size / num_attention_heads");
    /* Names of the first configs stand behind those transformers writes. */
    const uint64_t inner =
        (uint64_t)reader_want(reader, NULL, "mamba_expand|expansion_factor", 1, 1024, 2, "") *
        width;
    uint32_t heads;
    if (reader_has(reader, "n_mamba_heads")) {
        heads = reader_need(reader, "heads", "n_mamba_heads", 1, JSON_TEXT_MOST_HEADS);
    } else {
        heads = (uint32_t)(inner / reader_need(reader, "heads, state_rows", "mamba_headdim", 1,
                                               JSON_TEXT_MOST_DIM));
        heads = heads > 0 ? heads : 1;
    }
    if (inner % heads != 0 || inner / heads > JSON_TEXT_MOST_DIM)
        (void)reader_fail(reader, STATUS_BAD_INPUT, "n_mamba_heads",
                          "does not divide mamba_expand * hidden_size");
    reader_note(reader, "state_rows", "mamba_expand * hidden_size / mamba heads");
    const uint32_t groups =
        reader_want(reader, NULL, "mamba_ngroups", 1, JSON_TEXT_MOST_HEADS, 1, "");
    const uint32_t size =
        reader_need(reader, "state_cols", "mamba_d_state|state_size", 1, JSON_TEXT_MOST_DIM);
    const uint32_t kernel = reader_want(reader, "conv_taps + 1", "mamba_d_conv|conv_dimension", 1,
                                        65536, 4, "the family's default");
    const struct model_group state =
        mamba2(reader, heads, (uint32_t)(inner / heads), groups, size, kernel,
               "mamba_expand * hidden_size + 2 * mamba_ngroups * mamba_d_state");
    return add_layers(reader, &layers, &full, &state);
}

/* The keys falcon_h1, granitemoehybrid and bamba share. The inner width is mamba_d_ssm, or
 * mamba_expand * hidden_size; mamba_d_head may be "auto". */
static struct model_group read_mamba_d(struct reader *reader) {
    uint64_t inner =
        (uint64_t)reader_want(reader, NULL, "mamba_expand", 1, 1024, 2, "") * read_width(reader);
    if (reader_has(reader, "mamba_d_ssm"))
        inner = reader_need(reader, "heads * state_rows", "mamba_d_ssm", 1, 1u << 24);
    const uint32_t heads = reader_need(reader, "heads", "mamba_n_heads", 1, JSON_TEXT_MOST_HEADS);
    const cJSON *dim = reader_find(reader, "mamba_d_head", NULL);
    uint32_t head_dim = (uint32_t)(inner / heads);
    if (dim != NULL && !(cJSON_IsString(dim) && strcmp(dim->valuestring, "auto") == 0))
        head_dim = reader_need(reader, "state_rows", "mamba_d_head", 1, JSON_TEXT_MOST_DIM);
    else
        reader_note(reader, "state_rows", "inner width / mamba_n_heads");
    if ((uint64_t)heads * head_dim != inner || head_dim > JSON_TEXT_MOST_DIM)
        (void)reader_fail(reader, STATUS_BAD_INPUT, "mamba_n_heads",
                          "times the head dim is not the inner width");
    const uint32_t groups =
        reader_want(reader, NULL, "mamba_n_groups", 1, JSON_TEXT_MOST_HEADS, 1, "");
    const uint32_t size = reader_need(reader, "state_cols", "mamba_d_state", 1, JSON_TEXT_MOST_DIM);
    return mamba2(reader, heads, head_dim, groups, size, read_kernel(reader, "mamba_d_conv"),
                  "mamba_n_heads * mamba_d_head + 2 * mamba_n_groups * mamba_d_state");
}

/* vllm falcon_h1.py: attention and mamba2 side by side in every layer. */
enum status family_falcon_h1(struct reader *reader) {
    struct layer_list layers = {.count = reader_layer_count(reader)};
    layers_fill(&layers, LAYER_BOTH);
    const struct model_group full = reader_attention(reader, NULL);
    const struct model_group state = read_mamba_d(reader);
    return add_layers(reader, &layers, &full, &state);
}

/* vllm granitemoehybrid.py, bamba.py. Some are attention alone, whatever their mamba keys say. */
enum status family_granite_hybrid(struct reader *reader) {
    static const struct layer_word words[] = {
        {"mamba", LAYER_STATE}, {"attention", LAYER_FULL}, {NULL, 0}};
    struct layer_list layers = {.count = reader_layer_count(reader)};
    layers_fill(&layers, LAYER_STATE);
    if (!reader_has(reader, "layer_types") && reader_has(reader, "attn_layer_indices"))
        reader_layer_numbers(reader, "attn_layer_indices", 0, LAYER_FULL, &layers);
    else
        reader_layer_words(reader, "layer_types", words, &layers);
    const struct model_group full = reader_attention(reader, NULL);
    struct model_group state = {0};
    if (memchr(layers.kinds, LAYER_STATE, layers.count) != NULL)
        state = read_mamba_d(reader);
    return add_layers(reader, &layers, &full, &state);
}

/* mamba1 alone; intermediate_size is what counts, expand may say otherwise (transformers
 * configuration_mamba.py; falcon_mamba has 16 and twice the width). */
enum status family_mamba1(struct reader *reader) {
    struct layer_list layers = {.count = reader_layer_count(reader)};
    layers_fill(&layers, LAYER_STATE);
    const uint64_t inner =
        reader_has(reader, "intermediate_size")
            ? reader_need(reader, "heads, conv_channels", "intermediate_size", 1, 1u << 24)
            : (uint64_t)reader_want(reader, NULL, "expand", 1, 1024, 2, "") * read_width(reader);
    const uint32_t size = reader_need(reader, "state_cols", "state_size", 1, JSON_TEXT_MOST_DIM);
    const struct model_group state =
        mamba1(reader, inner, size, read_kernel(reader, "conv_kernel"));
    return add_layers(reader, &layers, &state, &state);
}

/* mamba2 alone (fla and transformers): nothing grows. */
enum status family_mamba2(struct reader *reader) {
    struct layer_list layers = {.count = reader_layer_count(reader)};
    layers_fill(&layers, LAYER_STATE);
    const uint32_t dim = reader_need(reader, "state_rows", "head_dim", 1, JSON_TEXT_MOST_DIM);
    const uint64_t inner =
        (uint64_t)reader_want(reader, NULL, "expand", 1, 1024, 2, "") * read_width(reader);
    uint32_t heads = (uint32_t)(inner / dim);
    if (reader_has(reader, "num_heads"))
        heads = reader_need(reader, "heads", "num_heads", 1, JSON_TEXT_MOST_HEADS);
    else
        reader_note(reader, "heads", "expand * hidden_size / head_dim");
    if ((uint64_t)heads * dim != inner)
        (void)reader_fail(reader, STATUS_BAD_INPUT, "head_dim",
                          "times the heads is not expand * hidden_size");
    const uint32_t groups = reader_need(reader, NULL, "n_groups", 1, JSON_TEXT_MOST_HEADS);
    const uint32_t size = reader_need(reader, "state_cols", "state_size", 1, JSON_TEXT_MOST_DIM);
    const struct model_group state =
        mamba2(reader, heads, dim, groups, size, read_kernel(reader, "conv_kernel"),
               "expand * hidden_size + 2 * n_groups * state_size");
    return add_layers(reader, &layers, &state, &state);
}

/* fla samba: mamba1, and attention with a window in the layers of attn. */
enum status family_samba(struct reader *reader) {
    struct layer_list layers = {.count = reader_layer_count(reader)};
    layers_fill(&layers, LAYER_STATE);
    const struct model_group attention = reader_fla_attention(reader, &layers);
    const uint64_t inner =
        (uint64_t)reader_want(reader, NULL, "expand", 1, 1024, 2, "") * read_width(reader);
    reader_note(reader, "heads, conv_channels", "expand * hidden_size");
    const uint32_t size = reader_need(reader, "state_cols", "state_size", 1, JSON_TEXT_MOST_DIM);
    const struct model_group state =
        mamba1(reader, inner, size, read_kernel(reader, "conv_kernel"));
    return add_layers(reader, &layers, &attention, &state);
}
