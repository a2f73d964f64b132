/* Families without windows: every token of every layer that has a cache is kept. They differ in
 * how many KV heads there are and which layers own them. */
#include <stdio.h>
#include <string.h>

#include "model_families.h"

/* `layers` times the same. */
static enum status add_all(struct reader *reader, const struct model_group *group,
                           uint32_t layers) {
    for (uint32_t i = 0; i < layers; i++)
        reader_add(reader, group);
    return reader->status;
}

static enum status read_uniform(struct reader *reader, const struct attention_rule *rule) {
    const uint32_t layers = reader_layer_count(reader);
    const struct model_group full = reader_attention(reader, rule);
    return add_all(reader, &full, layers);
}

/* llama and all that cache like it: KV heads default to the query heads, head_dim to hidden /
 * heads (vllm llama.py). Words of layer_types, where newer configs write them, must agree. */
enum status family_plain(struct reader *reader) {
    static const struct layer_word words[] = {
        {"full_attention", LAYER_FULL}, {"attention", LAYER_FULL}, {NULL, 0}};
    struct layer_list layers = {.count = reader_layer_count(reader)};
    if (reader_flag(reader, "use_sliding_window", false))
        (void)reader_fail(reader, STATUS_REFUSED, "use_sliding_window",
                          "is true, which is not understood in a family without windows");
    if (reader_has(reader, "layer_types"))
        reader_layer_words(reader, "layer_types", words, &layers);
    const struct model_group full = reader_attention(reader, NULL);
    return add_all(reader, &full, layers.count);
}

/* One KV head unless multi_query is off or the architecture is the newer one, which names how
 * many (vllm falcon.py); n_head_kv is how RefinedWeb, its first name, spelled that. */
enum status family_falcon(struct reader *reader) {
    const bool grouped = reader_flag(reader, "new_decoder_architecture", false) ||
                         reader_has(reader, "n_head_kv") ||
                         !reader_flag(reader, "multi_query", true);
    const struct attention_rule one = {.kv_heads = 1, .kv_keys = "", .why = "multi_query"};
    return read_uniform(reader, grouped ? NULL : &one);
}

/* gpt_bigcode: multi_query, true by default (transformers configuration_gpt_bigcode.py). */
enum status family_bigcode(struct reader *reader) {
    const struct attention_rule one = {.kv_heads = 1, .kv_keys = "", .why = "multi_query"};
    return read_uniform(reader, reader_flag(reader, "multi_query", true) ? &one : NULL);
}

/* chatglm 2, 3, glm-4: groups count where multi_query_attention is on. */
enum status family_chatglm(struct reader *reader) {
    const bool grouped = reader_flag(reader, "multi_query_attention", false);
    if (grouped && !reader_has(reader, "multi_query_group_num"))
        return reader_fail(reader, STATUS_BAD_INPUT, "multi_query_group_num", "is missing");
    const struct attention_rule rule = {.kv_keys = grouped ? "multi_query_group_num" : ""};
    return read_uniform(reader, &rule);
}

/* The KV heads of attn_config, which mpt and dbrx keep apart. */
static enum status read_attn_config(struct reader *reader, bool needed) {
    struct attention_rule rule = {.kv_keys = "", .why = "attn_config.kv_n_heads"};
    if (needed || reader_has(reader, "attn_config")) {
        const struct reader_place place = reader_enter(reader, "attn_config");
        const cJSON *type = reader_find(reader, "attn_type", NULL);
        const char *word = cJSON_IsString(type) ? type->valuestring : "";
        if (strcmp(word, "multiquery_attention") == 0) {
            rule.kv_heads = 1;
            rule.why = "attn_config.attn_type";
        } else if (needed || strcmp(word, "grouped_query_attention") == 0 ||
                   reader_has(reader, "kv_n_heads")) {
            rule.kv_heads = reader_need(reader, NULL, "kv_n_heads", 1, JSON_TEXT_MOST_HEADS);
        }
        reader_leave(reader, place);
    }
    return read_uniform(reader, &rule);
}

enum status family_mpt(struct reader *reader) {
    return read_attn_config(reader, false);
}

enum status family_dbrx(struct reader *reader) {
    return read_attn_config(reader, true);
}

/* The first olmo: n_kv_heads, or one with multi_query_attention. */
enum status family_olmo1(struct reader *reader) {
    const struct attention_rule one = {
        .kv_heads = 1, .kv_keys = "n_kv_heads", .why = "multi_query_attention"};
    return read_uniform(reader, reader_flag(reader, "multi_query_attention", false) ? &one : NULL);
}

/* One K and one V of 256 (vllm step3_text.py). */
enum status family_step3(struct reader *reader) {
    const struct attention_rule rule = {
        .kv_heads = 1, .head_dim = 256, .kv_keys = "num_attention_groups|num_key_value_heads"};
    return read_uniform(reader, &rule);
}

/* What a layer of nemotron-nas keeps: nothing without attention (no_op) or with a linear layer in
 * its place, else heads / n_heads_in_group KV heads. Parts no known model uses are refused rather
 * than passed over. */
static void read_nas_layer(struct reader *reader, struct model_group *full) {
    static const char *const unknown[] = {"sparsify", "num_sink_tokens", "window_length",
                                          "unshifted_sink"};
    const struct reader_place place = reader_enter(reader, "attention");
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        const cJSON *item = reader_find(reader, unknown[i], NULL);
        if (item != NULL && !cJSON_IsFalse(item))
            (void)reader_fail(reader, STATUS_REFUSED, unknown[i],
                              "is set, which is not understood");
    }
    if (!reader_flag(reader, "no_op", false) &&
        !reader_flag(reader, "replace_with_linear", false)) {
        const uint32_t share =
            reader_need(reader, NULL, "n_heads_in_group", 1, JSON_TEXT_MOST_HEADS);
        if (full->query_heads % share != 0)
            (void)reader_fail(reader, STATUS_BAD_INPUT, "n_heads_in_group",
                              "does not divide num_attention_heads");
        full->kv_heads = full->query_heads / share;
        if (reader->status == STATUS_OK)
            reader_add(reader, full);
    }
    reader_leave(reader, place);
}

/* nemotron-nas (DeciLM): block_configs says layer by layer, the first of them with a list of KV
 * heads (vllm nemotron_nas.py). */
enum status family_nas(struct reader *reader) {
    const uint32_t layers = reader_layer_count(reader);
    const bool blocks = !reader_has(reader, "num_key_value_heads_per_layer");
    const char *key = blocks ? "block_configs" : "num_key_value_heads_per_layer";
    const struct attention_rule rule = {.kv_keys = "", .kv_heads = 1, .why = key};
    struct model_group full = reader_attention(reader, &rule);
    const cJSON *item = reader_list(reader, key, layers);
    item = item != NULL ? item->child : NULL;
    for (uint32_t i = 0; i < layers && item != NULL && reader->status == STATUS_OK;
         i++, item = item->next) {
        if (!blocks) {
            uint64_t heads = 1;
            reader->status = json_text_number(item, reader->origin, key, 1, JSON_TEXT_MOST_HEADS,
                                              &heads, reader->text);
            full.kv_heads = (uint32_t)heads;
            reader_add(reader, &full);
            continue;
        }
        struct reader inside = *reader;
        inside.config = item;
        (void)snprintf(inside.where, sizeof inside.where, "block_configs[%u].", i);
        read_nas_layer(&inside, &full);
        reader->status = inside.status;
    }
    return reader->status;
}

/* use_cla: only every cla_share_factor-th layer owns a cache, the others read it (vllm
 * hunyuan_v1.py). Keys that are there with use_cla or use_mla false say nothing. */
enum status family_hunyuan(struct reader *reader) {
    if (reader_flag(reader, "use_mla", false))
        return family_mla(reader);
    const uint32_t layers = reader_layer_count(reader);
    const struct model_group full = reader_attention(reader, NULL);
    const uint32_t share = reader_flag(reader, "use_cla", false)
                               ? reader_need(reader, "layers that own a cache", "cla_share_factor",
                                             1, JSON_TEXT_MOST_LAYERS)
                               : 1;
    for (uint32_t i = 0; i < layers; i++) {
        if (i % share == 0)
            reader_add(reader, &full);
        else
            reader_share(reader, &full);
    }
    return reader->status;
}

/* How many tokens an image leaves in each cross-attention layer: max_num_tiles * ((image / patch)^2
 * + 1); 0 when the vision keys are not there. */
static uint64_t image_tokens(const struct reader *reader) {
    const cJSON *vision = cJSON_GetObjectItemCaseSensitive(reader->root, "vision_config");
    static const char *const keys[] = {"max_num_tiles", "image_size", "patch_size"};
    uint64_t values[3];
    for (size_t i = 0; i < 3; i++) {
        const cJSON *item = cJSON_GetObjectItemCaseSensitive(vision, keys[i]);
        if (json_text_number(item, "", keys[i], 1, 1u << 16, &values[i], NULL) != STATUS_OK)
            return 0;
    }
    const uint64_t side = values[1] / values[2];
    return values[0] * (side * side + 1);
}

/* mllama: cross_attention_layers keep vision tokens per image and none of the text, which no
 * group says and the remark does. */
enum status family_mllama(struct reader *reader) {
    struct layer_list layers = {.count = reader_layer_count(reader)};
    const struct model_group full = reader_attention(reader, NULL);
    reader_layer_numbers(reader, "cross_attention_layers", 0, LAYER_NONE, &layers);
    uint32_t crossing = 0;
    for (uint32_t i = 0; i < layers.count; i++) {
        if (layers.kinds[i] == LAYER_NONE)
            crossing++;
        else
            reader_add(reader, &full);
    }
    if (crossing > 0 && reader->status == STATUS_OK) {
        char remark[160];
        const uint64_t tokens = image_tokens(reader);
        (void)snprintf(remark, sizeof remark,
                       tokens > 0 ? "not counted: %u cross-attention layers of %llu tokens an image"
                                  : "not counted: %u cross-attention layers, by the image",
                       crossing, (unsigned long long)tokens);
        reader_remark(reader, remark);
    }
    return reader->status;
}
