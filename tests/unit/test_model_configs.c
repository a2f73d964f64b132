/* config.json read against facts/expected_layouts.json, an independent reading of each real config,
 * and the built-in models against the configs their source names. Skips without the shared
 * folder. Configs written for the purpose: test_model_source. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <cjson/cJSON.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formula.h"
#include "model_source.h"
#include "printed_figure.h"

#define CONFIGS KVGAUGE_SHARED_DIR "/configs/"

static const char *const families[] = {
    "LlamaForCausalLM",    "MistralForCausalLM",    "MixtralForCausalLM",
    "Qwen2ForCausalLM",    "Qwen2MoeForCausalLM",   "Qwen3ForCausalLM",
    "Qwen3MoeForCausalLM", "DeepseekV2ForCausalLM", "DeepseekV3ForCausalLM",
};

static bool is_read(const char *architecture) {
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++)
        if (strcmp(families[i], architecture) == 0)
            return true;
    return false;
}

static int open_layouts(void **state) {
    char *text = printed_load(KVGAUGE_SHARED_DIR "/facts/expected_layouts.json");
    *state = text != NULL ? cJSON_Parse(text) : NULL;
    free(text);
    return 0;
}

static int close_layouts(void **state) {
    cJSON_Delete(*state);
    return 0;
}

static const cJSON *models_of(const cJSON *layouts) {
    if (layouts == NULL) {
        print_message("skipped: " KVGAUGE_SHARED_DIR "/facts/expected_layouts.json not readable\n");
        skip();
    }
    const cJSON *models = cJSON_GetObjectItemCaseSensitive(layouts, "models");
    assert_true(cJSON_GetArraySize(models) > 0);
    return models;
}

static uint64_t number(const cJSON *object, const char *key) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsNumber(item) ? (uint64_t)item->valuedouble : 0;
}

static const char *string(const cJSON *object, const char *key) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsString(item) ? item->valuestring : "";
}

static void check_group(const char *name, const struct model_group *group, const cJSON *expected) {
    static const struct {
        const char *word;
        enum model_kind kind;
    } kinds[] = {{"full", MODEL_FULL}, {"sliding", MODEL_WINDOW}, {"mla", MODEL_LATENT}};
    const char *word = string(expected, "kind");
    bool known = false;
    for (size_t i = 0; i < 3; i++)
        if (strcmp(kinds[i].word, word) == 0) {
            known = true;
            assert_int_equal(group->kind, kinds[i].kind);
        }
    if (!known)
        fail_msg("%s: a group of kind %s", name, word);
    assert_int_equal(group->layers, number(expected, "layers"));
    assert_int_equal(group->read_by_layers, group->layers);
    assert_int_equal(group->kv_heads, number(expected, "kv_heads"));
    assert_int_equal(group->k_dim, number(expected, "k_dim"));
    assert_int_equal(group->v_dim, number(expected, "v_dim"));
    assert_int_equal(group->window_tokens, number(expected, "window"));
    assert_int_equal(group->latent_dim, number(expected, "latent_dim"));
    assert_int_equal(group->rope_dim, number(expected, "rope_dim"));
}

static void check_layout(const cJSON *expected) {
    const char *name = expected->string;
    char folder[512];
    (void)snprintf(folder, sizeof folder, CONFIGS "%s", name);
    struct model model;
    struct model_trace trace;
    struct status_text text = {""};
    if (model_source_load(folder, &model, &trace, NULL, NULL, &text) != STATUS_OK)
        fail_msg("%s", text.line);
    assert_string_equal(model.name, name);
    assert_string_equal(model.assumed, "");
    const cJSON *groups = cJSON_GetObjectItemCaseSensitive(expected, "groups");
    assert_int_equal(model.group_count, cJSON_GetArraySize(groups));
    for (uint32_t g = 0; g < model.group_count; g++)
        check_group(name, &model.groups[g], cJSON_GetArrayItem(groups, (int)g));
    const struct formula_storage storage = {.k_format = FORMAT_BF16,
                                            .v_format = FORMAT_BF16,
                                            .record = RECORD_COUNT,
                                            .index = FORMULA_INDEX_BF16,
                                            .state_value_bytes = 4};
    struct formula_result result;
    assert_int_equal(formula_compute(&model, &storage, 1 << 20, 1, &result, NULL), STATUS_OK);
    assert_int_equal(result.kv_rate.tokens, 1);
    assert_int_equal(result.kv_rate.bytes, number(expected, "bytes_per_token_bf16"));
    assert_int_equal(result.fixed_bytes_per_seq, number(expected, "fixed_bytes_per_sequence"));
    assert_int_equal(result.index_rate.bytes, 0);
    /* Every field that counts has its key. */
    assert_true(trace.count >= 4);
    assert_string_equal(trace.entries[0].field, "groups[0].layers");
    assert_string_equal(trace.entries[0].key, "num_hidden_layers");
}

static void test_every_config_of_the_families_read(void **state) {
    size_t checked = 0;
    const cJSON *expected;
    cJSON_ArrayForEach(expected, models_of(*state)) {
        if (!is_read(string(expected, "architecture")))
            continue;
        check_layout(expected);
        checked++;
    }
    print_message("%zu configs read\n", checked);
    assert_true(checked >= 38);
}

/* A real config as a tree, by other means than ours: some hold Infinity, which cJSON does not
 * read. NULL when it is not there. */
static cJSON *parse_config(const char *path) {
    char *text = printed_load(path);
    if (text == NULL)
        return NULL;
    for (char *at = strstr(text, "Infinity"); at != NULL; at = strstr(at, "Infinity"))
        memcpy(at, "1e99    ", 8);
    cJSON *root = cJSON_Parse(text);
    free(text);
    return root;
}

/* The rest are refused, in a line that names the architecture, and none is misread. */
static void test_other_architectures_are_refused_by_name(void **state) {
    size_t refused = 0;
    const cJSON *expected;
    cJSON_ArrayForEach(expected, models_of(*state)) {
        if (is_read(string(expected, "architecture")))
            continue;
        char path[512];
        (void)snprintf(path, sizeof path, CONFIGS "%s/config.json", expected->string);
        cJSON *config = parse_config(path);
        const cJSON *first =
            cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(config, "architectures"), 0);
        const char *named =
            cJSON_IsString(first) ? first->valuestring : string(config, "model_type");
        assert_true(named[0] != '\0');
        struct model model;
        struct status_text text = {""};
        if (model_source_load(path, &model, NULL, NULL, NULL, &text) != STATUS_REFUSED)
            fail_msg("%s: not refused (%s)", expected->string, text.line);
        if (strstr(text.line, named) == NULL || strstr(text.line, "qwen3") == NULL)
            fail_msg("%s: \"%s\" does not name %s", expected->string, text.line, named);
        cJSON_Delete(config);
        refused++;
    }
    print_message("%zu configs refused\n", refused);
    assert_true(refused >= 80);
}

/* "config.json of the model (NAME) and ..." in a built-in model's source: its query heads and
 * native context are that config's. Returns false when the source names no config. */
static bool check_against_config(const char *name) {
    struct model model;
    assert_int_equal(model_source_load(name, &model, NULL, NULL, NULL, NULL), STATUS_OK);
    const char *open = strchr(model.source, '('), *close = strchr(model.source, ')');
    const bool assumed = strstr(model.assumed, "query_heads") != NULL;
    if (open == NULL || close == NULL) {
        assert_true(assumed);
        assert_int_equal(model.native_context, 0);
        return false;
    }
    assert_false(assumed);
    char path[512];
    (void)snprintf(path, sizeof path, CONFIGS "%.*s/config.json", (int)(close - open - 1),
                   open + 1);
    cJSON *root = parse_config(path);
    if (root == NULL)
        fail_msg("%s: its source %s is not there", name, path);
    const cJSON *config = cJSON_GetObjectItemCaseSensitive(root, "text_config");
    if (config == NULL)
        config = root;
    for (uint32_t g = 0; g < model.group_count; g++) {
        const struct model_group *group = &model.groups[g];
        if (group->kind == MODEL_INDEX || group->kind == MODEL_STATE)
            continue;
        if (group->query_heads != number(config, "num_attention_heads"))
            fail_msg("%s: %u query heads, its config has %llu", name, group->query_heads,
                     (unsigned long long)number(config, "num_attention_heads"));
    }
    const uint64_t native = number(config, "max_position_embeddings");
    const uint64_t own = number(config, "model_max_length");
    if (model.native_context != native && model.native_context != own)
        fail_msg("%s: native context %llu, its config has %llu", name,
                 (unsigned long long)model.native_context, (unsigned long long)native);
    cJSON_Delete(root);
    return true;
}

static void test_built_in_models_follow_their_configs(void **state) {
    (void)models_of(*state);
    size_t sourced = 0;
    for (size_t i = 0; i < model_source_count(); i++)
        sourced += check_against_config(model_source_name(i));
    print_message("%zu built-in models have a config\n", sourced);
    assert_true(sourced >= 14);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_config_of_the_families_read),
        cmocka_unit_test(test_other_architectures_are_refused_by_name),
        cmocka_unit_test(test_built_in_models_follow_their_configs),
    };
    return cmocka_run_group_tests(tests, open_layouts, close_layouts);
}
