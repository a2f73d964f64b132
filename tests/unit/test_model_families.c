/* The rules of each family of config.json, on configs written for the purpose: those whose real
 * configs are not in the shared folder, those a real config does not reach, and what a family
 * refuses. Configs of no known family: read from plain keys as a guess, or refused by the key. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "model_source.h"

/* 'x' stands for "x" in the configs here. */
static enum status parse(const char *json, struct model *model, struct status_text *text) {
    char quoted[8192];
    size_t size = strlen(json);
    assert_true(size < sizeof quoted);
    for (size_t i = 0; i < size; i++)
        quoted[i] = json[i] == '\'' ? '"' : json[i];
    return model_config_parse(quoted, size, "c.json", model, NULL, NULL, NULL, text);
}

/* All groups in words. */
static void words_of(const struct model *model, char *out, size_t bytes) {
    out[0] = '\0';
    for (uint32_t g = 0; g < model->group_count; g++) {
        const size_t used = strlen(out);
        (void)snprintf(out + used, bytes - used, "%s", g > 0 ? ", " : "");
        model_group_words(&model->groups[g], out + strlen(out), (uint32_t)(bytes - strlen(out)));
    }
}

struct family_case {
    const char *json;
    const char *groups;
};

static void check_cases(const struct family_case *cases, size_t count) {
    for (size_t i = 0; i < count; i++) {
        struct model model;
        struct status_text text = {""};
        char words[1024];
        if (parse(cases[i].json, &model, &text) != STATUS_OK)
            fail_msg("%s: %s", cases[i].json, text.line);
        words_of(&model, words, sizeof words);
        if (strcmp(words, cases[i].groups) != 0)
            fail_msg("%s: %s, not %s", cases[i].json, words, cases[i].groups);
        assert_string_equal(model.assumed, "");
    }
}
#define CHECK(cases) check_cases(cases, sizeof cases / sizeof cases[0])

/* 32 query heads over 4096, 6 layers unless a case says otherwise. */
#define OF(type, rest)                                                                             \
    "{'model_type': '" type "', 'num_attention_heads': 32, 'hidden_size': 4096, " rest "}"
#define SIX(type, rest) OF(type, "'num_hidden_layers': 6, " rest)

static void test_plain(void **state) {
    (void)state;
    static const struct family_case cases[] = {
        {SIX("falcon", "'multi_query': true"), "6 full 1x128"},
        {SIX("falcon", "'new_decoder_architecture': false"), "6 full 1x128"},
        {SIX("falcon", "'multi_query': false"), "6 full 32x128"},
        {SIX("falcon", "'new_decoder_architecture': true, 'num_kv_heads': 8"), "6 full 8x128"},
        {SIX("RefinedWeb", "'n_head_kv': 8"), "6 full 8x128"},
        {"{'model_type': 'gpt_bigcode', 'n_layer': 2, 'n_head': 8, 'n_embd': 512, 'multi_query': "
         "false}",
         "2 full 8x64"},
        {SIX("chatglm", "'multi_query_attention': false, 'multi_query_group_num': 2"),
         "6 full 32x128"},
        {SIX("chatglm", "'multi_query_attention': true, 'multi_query_group_num': 2, "
                        "'kv_channels': 64"),
         "6 full 2x64"},
        {"{'model_type': 'mpt', 'd_model': 512, 'n_heads': 8, 'n_layers': 3}", "3 full 8x64"},
        {"{'model_type': 'mpt', 'd_model': 512, 'n_heads': 8, 'n_layers': 3, 'attn_config': "
         "{'attn_type': 'grouped_query_attention', 'kv_n_heads': 2}}",
         "3 full 2x64"},
        {"{'model_type': 'mpt', 'd_model': 512, 'n_heads': 8, 'n_layers': 3, 'attn_config': "
         "{'attn_type': 'multiquery_attention'}}",
         "3 full 1x64"},
        {"{'model_type': 'hf_olmo', 'd_model': 512, 'n_heads': 8, 'n_layers': 3, 'n_kv_heads': "
         "null, 'multi_query_attention': true}",
         "3 full 1x64"},
        {"{'model_type': 'hf_olmo', 'd_model': 512, 'n_heads': 8, 'n_layers': 3}", "3 full 8x64"},
        {SIX("hunyuan", "'use_cla': true, 'cla_share_factor': 2, 'attention_head_dim': 64"),
         "3 full 32x64"},
        {SIX("hunyuan", "'use_mla': true, 'kv_lora_rank': 512, 'qk_rope_head_dim': 64"),
         "6 latent 512+64"},
        {SIX("deci", "'num_key_value_heads_per_layer': [4, 4, 2, 2, 1, 4]"),
         "3 full 4x128, 2 full 2x128, 1 full 1x128"},
        {OF("nemotron-nas", "'num_hidden_layers': 4, 'block_configs': [{'attention': "
                            "{'replace_with_linear': true}}, {'attention': {'no_op': true}}, "
                            "{'attention': {'n_heads_in_group': 4}}, {'attention': "
                            "{'n_heads_in_group': 16, 'no_op': false, 'sparsify': null}}]"),
         "1 full 8x128, 1 full 2x128"},
        {SIX("step3_text", "'head_dim': null"), "6 full 1x256"},
        {SIX("olmo2", "'layer_types': ['full_attention', 'full_attention', 'full_attention', "
                      "'full_attention', 'full_attention', 'full_attention']"),
         "6 full 32x128"},
        {SIX("mllama_text_model", "'num_key_value_heads': 8, 'cross_attention_layers': [1, 4]"),
         "4 full 8x128"},
    };
    CHECK(cases);
    struct model model;
    assert_int_equal(parse(cases[13].json, &model, NULL), STATUS_OK);
    assert_int_equal(model.groups[0].read_by_layers, 6); /* shared, and read by all */
    assert_int_equal(parse(cases[19].json, &model, NULL), STATUS_OK);
    assert_non_null(strstr(model.remark, "2 cross-attention layers"));
}

static void test_windows(void **state) {
    (void)state;
    static const struct family_case cases[] = {
        {SIX("starcoder2", "'num_key_value_heads': 2, 'sliding_window': 4096"),
         "6 window 2x128 of 4096"},
        {SIX("ministral", "'sliding_window': 64, 'layer_types': ['full_attention', "
                          "'sliding_attention', 'sliding_attention', 'full_attention', "
                          "'sliding_attention', 'sliding_attention']"),
         "2 full 32x128, 4 window 32x128 of 64"},
        {SIX("qwen3", "'use_sliding_window': true, 'sliding_window': 64, 'layer_types': "
                      "['full_attention', 'full_attention', 'full_attention', 'full_attention', "
                      "'full_attention', 'sliding_attention']"),
         "5 full 32x128, 1 window 32x128 of 64"},
        {SIX("gemma2", "'num_key_value_heads': 16, 'head_dim': 128, 'sliding_window': 4096"),
         "3 window 16x128 of 4096, 3 full 16x128"},
        {"{'model_type': 'gemma3_text', 'num_hidden_layers': 26, 'num_attention_heads': 4, "
         "'num_key_value_heads': 1, 'sliding_window': 512, 'sliding_window_pattern': 6}",
         "22 window 1x256 of 512, 4 full 1x256"},
        {"{'model_type': 'gemma3n_text', 'num_hidden_layers': 30}",
         "12 window 2x256 of 512, 3 full 2x256"},
        {SIX("cohere2", "'num_key_value_heads': 8"), "5 window 8x128 of 4096, 1 full 8x128"},
        {SIX("cohere2", "'sliding_window_pattern': 3, 'sliding_window': 100"),
         "4 window 32x128 of 100, 2 full 32x128"},
        {SIX("exaone4", "'sliding_window_pattern': 'LLG'"),
         "4 window 32x128 of 4096, 2 full 32x128"},
        {SIX("exaone4", "'sliding_window_pattern': null, 'sliding_window': null"), "6 full 32x128"},
        {SIX("olmo3", "'sliding_window': 4096"), "5 window 32x128 of 4096, 1 full 32x128"},
        {SIX("laguna", "'num_key_value_heads': 8"), "6 full 8x128"},
        {SIX("muse_glimmer_text", "'num_key_value_heads': 2"),
         "4 window 2x128 of 2048, 2 full 2x128"},
        {OF("step3p5", "'num_hidden_layers': 2, 'num_attention_groups': 8, 'head_dim': 128, "
                       "'sliding_window': 512, 'layer_types': ['full_attention', "
                       "'sliding_attention', 'sliding_attention'], 'attention_other_setting': "
                       "{'attention_type': 'sliding_attention', 'num_attention_heads': 96, "
                       "'num_attention_groups': 4, 'head_dim': 64}"),
         "1 full 8x128, 1 window 4x64 of 512"},
        {SIX("gpt_oss", "'head_dim': 64, 'num_key_value_heads': 8"),
         "3 window 8x64 of 128, 3 full 8x64"},
        {SIX("mimo_v2_flash", "'num_key_value_heads': 4, 'head_dim': 192, 'sliding_window': 128, "
                              "'hybrid_layer_pattern': [0, 1, 1, 1, 1, 0], 'v_head_dim': 128, "
                              "'swa_head_dim': 192"),
         "2 full 4x192/128, 4 window 4x192 of 128"},
        {SIX("llama4_text", "'num_key_value_heads': 8, 'no_rope_layers': [1, 0, 1, 1, 1, 0]"),
         "4 window 8x128 of 8192, 2 full 8x128"},
        {SIX("llama4_text", "'no_rope_layer_interval': 3, 'attention_chunk_size': 64"),
         "4 window 32x128 of 64, 2 full 32x128"},
        {SIX("llama4_text", "'attention_chunk_size': null"), "6 full 32x128"},
        {SIX("gemma4_text", "'num_key_value_heads': 8, 'head_dim': 256, 'global_head_dim': 512, "
                            "'num_global_key_value_heads': 2, 'sliding_window': 1024, "
                            "'layer_types': ['sliding_attention', 'full_attention', "
                            "'sliding_attention', 'full_attention', 'sliding_attention', "
                            "'full_attention'], 'num_kv_shared_layers': 2"),
         "2 window 8x256 of 1024, 2 full 8x512"},
    };
    CHECK(cases);
    struct model model;
    assert_int_equal(parse(cases[5].json, &model, NULL), STATUS_OK);
    assert_int_equal(model.groups[0].read_by_layers, 24); /* gemma3n: 15 of 30 share */
    assert_int_equal(model.groups[1].read_by_layers, 6);
    assert_int_equal(parse(cases[13].json, &model, NULL), STATUS_OK);
    assert_int_equal(model.groups[1].query_heads, 96);
    assert_int_equal(parse(cases[14].json, &model, NULL), STATUS_OK);
    assert_true(model.groups[0].sinks && model.groups[1].sinks);
    assert_false(model.groups[0].drafts || model.groups[1].drafts);
    assert_int_equal(parse(cases[15].json, &model, NULL), STATUS_OK);
    assert_true(!model.groups[0].drafts && model.groups[1].drafts); /* mimo_v2_flash */
}

#define MLA "'kv_lora_rank': 512, 'qk_rope_head_dim': 64, "

static void test_latents(void **state) {
    (void)state;
    static const struct family_case cases[] = {
        {SIX("minicpm3", "'kv_lora_rank': 256, 'qk_rope_head_dim': 32, 'num_key_value_heads': 40"),
         "6 latent 256+32"},
        {"{'architectures': ['Mistral3ForConditionalGeneration'], 'model_type': 'mistral3', "
         "'text_config': " SIX("mistral4", MLA "'head_dim': 7") "}",
         "6 latent 512+64"},
        {SIX("deepseek_v2", "'use_mla': false, 'kv_lora_rank': null, 'num_key_value_heads': 8, "
                            "'head_dim': 128"),
         "6 full 8x128"},
        {OF("longcat_flash", MLA "'num_layers': 14, 'num_hidden_layers': 28"), "28 latent 512+64"},
        {SIX("deepseek_v32", MLA "'index_head_dim': 128, 'index_topk': 2048"),
         "6 latent 512+64, 6 index 128 per 1"},
        {OF("glm_moe_dsa", "'num_hidden_layers': 12, " MLA "'index_head_dim': 128, "
                           "'index_topk_freq': 4, 'index_skip_topk_offset': 3"),
         "12 latent 512+64, 5 index 128 per 1"},
        {SIX("glm_moe_dsa", MLA "'index_head_dim': 128, 'index_topk_pattern': 'FSS'"),
         "6 latent 512+64, 4 index 128 per 1"},
        {SIX("glm_moe_dsa", MLA "'index_head_dim': 128, 'index_topk_freq': 4, "
                                "'index_skip_topk_offset': 3, 'indexer_types': "
                                "['full', 'full', 'full', 'full']"),
         "6 latent 512+64, 4 index 128 per 1"},
        {SIX("deepseek_v4", "'head_dim': 512, 'sliding_window': 128, 'index_head_dim': 128, "
                            "'compress_ratios': [128, 128, 4, 128, 0, 4, 0]"),
         "6 window 1x512 K=V of 128, 3 compressed 512 per 128, 2 compressed 512 per 4, 2 index "
         "128 per 4"},
        {SIX("deepseek_v4", "'head_dim': 512, 'sliding_window': 128, 'index_head_dim': 128"),
         "6 window 1x512 K=V of 128, 4 compressed 512 per 128, 2 compressed 512 per 4, 2 index "
         "128 per 4"},
        {OF("deepseek_v4", "'num_hidden_layers': 3, 'head_dim': 8, 'sliding_window': 4, "
                           "'index_head_dim': 8, 'layer_types': ['sliding_attention', "
                           "'compressed_sparse_attention', 'heavily_compressed_attention'], "
                           "'compress_rates': {'compressed_sparse_attention': 2, "
                           "'heavily_compressed_attention': 4}"),
         "3 window 1x8 K=V of 4, 1 compressed 8 per 2, 1 index 8 per 2, 1 compressed 8 per 4"},
        {SIX("minimax_m3", "'num_key_value_heads': 4"), "6 full 4x128"},
        {"{'model_type': 'minimax_m3_vl', 'text_config': " SIX(
             "minimax_m2", "'num_key_value_heads': 4, 'sparse_attention_config': "
                           "{'sparse_index_dim': 128, 'sparse_attention_freq': [false, false, "
                           "true, true, true, true]}") "}",
         "6 full 4x128, 4 index 128 per 1"},
    };
    CHECK(cases);
    struct model model;
    assert_int_equal(parse(cases[5].json, &model, NULL), STATUS_OK);
    assert_int_equal(model.groups[1].read_by_layers, 12);
}

static void test_states(void **state) {
    (void)state;
    static const struct family_case cases[] = {
        {"{'model_type': 'qwen3_next', 'num_hidden_layers': 8}",
         "6 state gated_delta_net 32x128x128, 2 full 2x256"},
        {OF("kimi_linear", "'num_hidden_layers': 4, " MLA "'linear_attn_config': {'kda_layers': "
                           "[1, 2, 3], 'full_attn_layers': [4], 'num_heads': 32, 'head_dim': 128, "
                           "'short_conv_kernel_size': 4}"),
         "3 state kda 32x128x128, 1 latent 512+64"},
        {SIX("minimax", "'head_dim': 128, 'num_key_value_heads': 8, 'layer_types': "
                        "['linear_attention', 'full_attention', 'linear_attention', "
                        "'linear_attention', 'linear_attention', 'linear_attention']"),
         "5 state lightning 32x128x128, 1 full 8x128"},
        {SIX("lfm2", "'num_key_value_heads': 8, 'full_attn_idxs': [2, 5], 'conv_L_cache': 3"),
         "4 state short_conv 4096 channels, 2 full 8x128"},
        {OF("nemotron_h", "'hybrid_override_pattern': 'M-M*E', 'attention_head_dim': 64, "
                          "'num_key_value_heads': 8, 'mamba_num_heads': 256, 'mamba_head_dim': 64, "
                          "'n_groups': 8, 'n_group': 3, 'ssm_state_size': 256, 'conv_kernel': 4"),
         "2 state mamba2 256x64x256, 1 full 8x64"},
        {OF("jamba", "'num_hidden_layers': 32, 'num_key_value_heads': 8"),
         "28 state mamba1 8192x1x16, 4 full 8x128"},
        {SIX("zamba2", "'layers_block_type': ['mamba', 'hybrid', 'mamba', 'mamba', 'hybrid', "
                       "'mamba'], 'n_mamba_heads': 128, 'mamba_ngroups': 2, 'mamba_d_state': 64, "
                       "'kv_channels': 128"),
         "6 state mamba2 128x64x64, 2 full 32x256"},
        {SIX("zamba2", "'hybrid_layer_ids': [5], 'mamba_headdim': 64, 'expansion_factor': 2, "
                       "'mamba_ngroups': 2, 'state_size': 64, 'conv_dimension': 4"),
         "6 state mamba2 128x64x64, 1 full 32x256"},
        {SIX("falcon_h1", "'num_key_value_heads': 2, 'head_dim': 64, 'mamba_d_ssm': null, "
                          "'mamba_n_heads': 128, 'mamba_d_head': 64, 'mamba_d_state': 256, "
                          "'mamba_n_groups': 1, 'mamba_d_conv': 4"),
         "6 full 2x64, 6 state mamba2 128x64x256"},
        {SIX("falcon_h1", "'mamba_d_ssm': 3072, 'mamba_n_heads': 24, 'mamba_d_head': 128, "
                          "'mamba_d_state': 256, 'mamba_d_conv': 4"),
         "6 full 32x128, 6 state mamba2 24x128x256"},
        {SIX("bamba", "'attn_layer_indices': [1], 'num_key_value_heads': 8, 'mamba_n_heads': 128, "
                      "'mamba_d_head': 'auto', 'mamba_d_state': 128, 'mamba_d_conv': 4"),
         "5 state mamba2 128x64x128, 1 full 8x128"},
        {OF("mamba2", "'num_hidden_layers': 4, 'num_heads': 128, 'head_dim': 64, 'n_groups': 8, "
                      "'state_size': 128, 'conv_kernel': 4, 'expand': 2"),
         "4 state mamba2 128x64x128"},
        {OF("falcon_mamba", "'num_hidden_layers': 4, 'intermediate_size': 8192, 'expand': 16, "
                            "'state_size': 16, 'conv_kernel': 4"),
         "4 state mamba1 8192x1x16"},
        {"{'model_type': 'samba', 'hidden_size': 2304, 'num_hidden_layers': 4, 'state_size': 16, "
         "'conv_kernel': 4, 'attn': {'layers': [1, 3], 'num_heads': 18, 'window_size': 2048}}",
         "2 state mamba1 4608x1x16, 2 window 18x128 of 2048"},
        {"{'model_type': 'gated_deltanet', 'hidden_size': 2048, 'num_hidden_layers': 3, "
         "'num_heads': 6, 'head_dim': 256, 'expand_v': 1.5, 'conv_size': 4, 'attn': {'layers': "
         "[1], 'num_heads': 16, 'num_kv_heads': 4, 'window_size': null}}",
         "2 state gated_delta_net 6x256x384, 1 full 4x128"},
    };
    CHECK(cases);
    struct model model;
    assert_int_equal(parse(cases[1].json, &model, NULL), STATUS_OK);
    assert_int_equal(model.groups[0].conv_channels, 3 * 32 * 128);
    assert_int_equal(model.groups[0].conv_taps, 3);
    assert_int_equal(parse(cases[3].json, &model, NULL), STATUS_OK);
    assert_int_equal(model.groups[0].conv_channels, 4096);
    assert_int_equal(model.groups[0].conv_taps, 2);
    assert_int_equal(parse(cases[4].json, &model, NULL), STATUS_OK);
    assert_int_equal(model.groups[0].conv_channels, 256 * 64 + 2 * 8 * 256);
}

/* What a known family does not understand is named with the value it holds. */
static void test_refused_by_key(void **state) {
    (void)state;
    static const struct {
        const char *json;
        const char *word;
    } cases[] = {
        {SIX("llama", "'layer_types': ['full_attention', 'sliding_attention', '', '', '', '']"),
         "layer_types[1] is \"sliding_attention\""},
        {SIX("smollm3", "'use_sliding_window': true, 'sliding_window': 64"),
         "use_sliding_window is true"},
        {SIX("gemma3_text", "'layer_types': ['full_attention', 7, '', '', '', '']"),
         "layer_types[1] is 7"},
        {SIX("gemma3_text", "'layer_types': ['full_attention']"),
         "layer_types has 1 entries for 6 layers"},
        {SIX("gemma4_text", "'head_dim': 256"), "layer_types is missing"},
        {SIX("exaone4", "'sliding_window_pattern': 'LLX'"), "sliding_window_pattern"},
        {SIX("deepseek_v4", "'head_dim': 512, 'sliding_window': 128, 'compress_ratios': "
                            "[0, 4, 8, 4, 4, 4]"),
         "compress_ratios[2] is 8"},
        {SIX("glm_moe_dsa", MLA "'index_head_dim': 128, 'indexer_types': ['full']"),
         "indexer_types has 1 entries for 6 layers"},
        {SIX("glm_moe_dsa", MLA "'index_head_dim': 128, 'indexer_types': ['shared', 'full', "
                                "'full', 'full', 'full', 'full']"),
         "reads a cache that no layer before it owns"},
        {SIX("minimax_m1", "'attn_type_list': [0, 1, 2, 0, 0, 0]"), "attn_type_list[2] is 2"},
        {OF("nemotron_h", "'hybrid_override_pattern': 'M-R'"), "holds 'R' at layer 2"},
        {OF("nemotron_h", "'num_hidden_layers': 4, 'hybrid_override_pattern': 'M-M'"),
         "3 letters for 4 layers"},
        {SIX("nemotron-nas", "'block_configs': [{'attention': {'window_length': 64}}, 1, 2, 3, 4, "
                             "5]"),
         "block_configs[0].attention.window_length"},
        {SIX("nemotron-nas", "'block_configs': [{'attention': {'n_heads_in_group': 5}}, 1, 2, 3, "
                             "4, 5]"),
         "block_configs[0].attention.n_heads_in_group"},
        {OF("kimi_linear", "'num_hidden_layers': 2, " MLA "'linear_attn_config': {'kda_layers': "
                           "[0], 'full_attn_layers': [1]}"),
         "linear_attn_config.kda_layers[0] is 0"},
        {OF("kimi_linear", "'num_hidden_layers': 2, " MLA "'linear_attn_config': {'kda_layers': "
                           "[1], 'full_attn_layers': [], 'num_heads': 1, 'head_dim': 1, "
                           "'short_conv_kernel_size': 4}"),
         "leave out a layer"},
        {SIX("step3p5", "'layer_types': ['full_attention', 'full_attention', 'full_attention', "
                        "'full_attention', 'full_attention', 'full_attention'], "
                        "'attention_other_setting': {'attention_type': 'other'}"),
         "attention_other_setting.attention_type is \"other\""},
        {SIX("jet_nemotron", "'layer_types': ['jet', 'jet', 'jet', 'jet', 'jet', 'jet'], "
                             "'efficient_attention_config': {'jet': {'num_heads': 12, 'head_dim': "
                             "96, 'expand_v': -1}}"),
         "efficient_attention_config.jet.expand_v"},
        {SIX("gemma3n_text", "'num_kv_shared_layers': 6"), "num_kv_shared_layers"},
        {"{'model_type': 'gemma3', 'text_config': {'num_hidden_layers': 0}}",
         "text_config.num_hidden_layers is 0"},
        {SIX("llama", "'num_key_value_heads': [8, 8]"), "num_key_value_heads holds a list"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct model model;
        struct status_text text = {""};
        if (parse(cases[i].json, &model, &text) == STATUS_OK)
            fail_msg("not refused: %s", cases[i].json);
        if (strncmp(text.line, "c.json: ", 8) != 0 || strstr(text.line, cases[i].word) == NULL)
            fail_msg("\"%s\" does not say \"%s\"", text.line, cases[i].word);
    }
}

static void test_unknown_but_plain_is_a_guess(void **state) {
    (void)state;
    static const struct family_case cases[] = {
        {SIX("novel", "'num_key_value_heads': 8"), "6 full 8x128"},
        {SIX("novel", "'multi': 1, 'chunk_size_feed_forward': 0, 'add_cross_attention': false"),
         "6 full 32x128"},
        {SIX("novel", MLA "'v_head_dim': 128"), "6 latent 512+64"},
        {SIX("novel", "'sliding_window': null, 'ssm_cfg': {}"), "6 full 32x128"},
        {SIX("novel", "'sliding_window': 4096, 'use_sliding_window': false"), "6 full 32x128"},
        {SIX("novel", "'sliding_window': 4096, 'max_position_embeddings': 4096"), "6 full 32x128"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct model model;
        struct status_text text = {""};
        char words[256];
        if (parse(cases[i].json, &model, &text) != STATUS_OK)
            fail_msg("%s: %s", cases[i].json, text.line);
        words_of(&model, words, sizeof words);
        assert_string_equal(words, cases[i].groups);
        assert_string_equal(model.assumed, "layout");
        assert_non_null(strstr(model.remark, "a guess: novel is not known"));
    }
}

static void test_unknown_and_hybrid_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *key;
        const char *word;
    } cases[] = {
        {"'sliding_window': 4096", "sliding_window (4096)"},
        {"'sliding_window': 4096, 'max_position_embeddings': 8192", "sliding_window (4096)"},
        {"'mamba_d_state': 16", "mamba_d_state (16)"},
        {"'layer_pattern': 'MA'", "layer_pattern (\"MA\")"},
        {"'linear_attn_config': {'a': 1}", "linear_attn_config (an object)"},
        {"'full_attention_interval': 4", "full_attention_interval (4)"},
        {"'index_topk': 2048", "index_topk (2048)"},
        {"'compress_ratios': [4]", "compress_ratios (a list)"},
        {"'num_kv_shared_layers': 2", "num_kv_shared_layers (2)"},
        {"'attention_config': {'kind': 'x'}", "attention_config (an object)"},
        {"'is_encoder_decoder': true", "is_encoder_decoder (true)"},
        {"'v_head_dim': 64", "v_head_dim (64)"},
        {"'layer_types': ['full_attention', 'mamba', '', '', '', '']",
         "layer_types[1] is \"mamba\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char json[512];
        (void)snprintf(json, sizeof json,
                       "{'architectures': ['NovelForCausalLM'], 'text_config': {'num_hidden_layers'"
                       ": 6, 'num_attention_heads': 32, 'hidden_size': 4096, %s}}",
                       cases[i].key);
        struct model model;
        struct status_text text = {""};
        if (parse(json, &model, &text) != STATUS_REFUSED)
            fail_msg("not refused: %s", json);
        if (strstr(text.line, cases[i].word) == NULL || strstr(text.line, "text_config.") == NULL)
            fail_msg("\"%s\" does not say \"%s\"", text.line, cases[i].word);
    }
}

/* The cache does not depend on query heads: without them the rest is still read. */
static void test_query_heads_left_out(void **state) {
    (void)state;
    static const struct {
        const char *json;
        uint32_t heads;
    } cases[] = {
        {"{'model_type': 'mistral', 'num_hidden_layers': 2, 'num_key_value_heads': 8, 'head_dim': "
         "128, 'hidden_size': 5120}",
         64},
        {"{'model_type': 'deepseek_v3', 'num_hidden_layers': 2, 'kv_lora_rank': 512, "
         "'qk_rope_head_dim': 64}",
         64},
    };
    struct model model;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(parse(cases[i].json, &model, NULL), STATUS_OK);
        assert_int_equal(model.groups[0].query_heads, cases[i].heads);
        assert_true(model.groups[0].query_heads_assumed);
        assert_string_equal(model.assumed, "query_heads");
    }
    struct status_text text = {""};
    assert_int_equal(
        parse("{'model_type': 'llama', 'num_hidden_layers': 2, 'hidden_size': 64}", &model, &text),
        STATUS_BAD_INPUT);
    assert_non_null(strstr(text.line, "num_attention_heads (or n_head, n_heads) is missing"));
}

/* The names a config gives itself, the most telling first. */
static void test_which_name_counts(void **state) {
    (void)state;
    static const struct family_case cases[] = {
        /* The architecture inside, whatever the outer one is. */
        {"{'architectures': ['NovelVisionModel'], 'llm_config': {'architectures': "
         "['Qwen2ForCausalLM'], 'num_hidden_layers': 1, 'num_attention_heads': 2, 'hidden_size': "
         "64}, 'num_hidden_layers': 99}",
         "1 full 2x32"},
        {"{'thinker_config': {'text_config': {'model_type': 'qwen3_omni_moe_text', "
         "'num_hidden_layers': 1, 'num_attention_heads': 2, 'hidden_size': 64}}, 'talker_config': "
         "{'text_config': {'num_hidden_layers': 7}}}",
         "1 full 2x32"},
        {"{'language_config': {'model_type': 'llama', 'num_hidden_layers': 1, "
         "'num_attention_heads': 2, 'hidden_size': 64}}",
         "1 full 2x32"},
        /* A text_config without layers beside a whole config says nothing. */
        {"{'model_type': 'llama', 'text_config': {'vocab_size': 3}, 'num_hidden_layers': 1, "
         "'num_attention_heads': 2, 'hidden_size': 64}",
         "1 full 2x32"},
        {"{'architectures': ['SomethingElse', 'LlamaForCausalLM'], 'num_hidden_layers': 1, "
         "'num_attention_heads': 2, 'hidden_size': 64}",
         "1 full 2x32"},
    };
    CHECK(cases);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_latents),
        cmocka_unit_test(test_states),
        cmocka_unit_test(test_refused_by_key),
        cmocka_unit_test(test_unknown_but_plain_is_a_guess),
        cmocka_unit_test(test_unknown_and_hybrid_is_refused),
        cmocka_unit_test(test_query_heads_left_out),
        cmocka_unit_test(test_which_name_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
