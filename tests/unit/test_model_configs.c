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

/* Whether an expected group is (part of) this one of ours; the words are the fact file's. */
static bool is_part_of(const struct model_group *group, const cJSON *expected) {
    const char *word = string(expected, "kind");
    const bool pooled = strcmp(word, "csa") == 0 || strcmp(word, "hca") == 0;
    const bool heads = group->kv_heads == number(expected, "kv_heads") &&
                       group->k_dim == number(expected, "k_dim") &&
                       group->v_dim == number(expected, "v_dim");
    switch (group->kind) {
    case MODEL_FULL:
        return (strcmp(word, "full") == 0 || strcmp(word, "full_indexed") == 0) && heads;
    case MODEL_WINDOW:
        if (group->v_dim == 0) /* one row for K and V */
            return (strcmp(word, "window_latent") == 0 || pooled) &&
                   group->k_dim == number(expected, "latent_dim") &&
                   group->window_tokens == number(expected, "window");
        return (strcmp(word, "sliding") == 0 || strcmp(word, "chunked") == 0) && heads &&
               group->window_tokens == number(expected, "window");
    case MODEL_LATENT:
        return (strcmp(word, "mla") == 0 || strcmp(word, "mla_indexed") == 0) &&
               group->latent_dim == number(expected, "latent_dim") &&
               group->rope_dim == number(expected, "rope_dim");
    case MODEL_COMPRESSED:
        return pooled && group->entry_dim == number(expected, "latent_dim") &&
               group->tokens_per_entry == number(expected, "compress_ratio");
    case MODEL_INDEX:
        return group->key_dim == number(expected, "index_dim");
    case MODEL_STATE:
        return (uint64_t)group->heads * group->state_rows * group->state_cols ==
                   number(expected, "state_elements") &&
               cJSON_HasObjectItem(expected, "state_elements") &&
               group->conv_channels * group->conv_taps ==
                   number(expected, "conv_channels") * number(expected, "conv_columns");
    case MODEL_KIND_COUNT:
        break;
    }
    return false;
}

/* Every group has as many layers as those of the fact file that are part of it. */
static void check_groups(const char *name, const struct model *model, const cJSON *groups) {
    for (uint32_t g = 0; g < model->group_count; g++) {
        uint64_t layers = 0;
        const cJSON *expected;
        cJSON_ArrayForEach(expected, groups) {
            if (is_part_of(&model->groups[g], expected))
                layers += number(expected, "layers");
        }
        if (layers != model->groups[g].layers)
            fail_msg("%s: groups[%u] has %u layers, expected %llu", name, g,
                     model->groups[g].layers, (unsigned long long)layers);
    }
}

/* Layers that own a cache: entries and index keys stand beside a window or a latent. */
static uint64_t cache_layers(const struct model *model) {
    uint64_t layers = 0;
    for (uint32_t g = 0; g < model->group_count; g++)
        if (model->groups[g].kind != MODEL_COMPRESSED && model->groups[g].kind != MODEL_INDEX)
            layers += model->groups[g].layers;
    return layers;
}

static void assert_traced(const char *name, const struct model_trace *trace, const char *field) {
    for (size_t i = 0; i < trace->count; i++)
        if (strstr(trace->entries[i].field, field) != NULL && trace->entries[i].key[0] != '\0')
            return;
    fail_msg("%s: nothing says where %s came from", name, field);
}

/* Every number of every group has a key, or words in its place. */
static void check_trace(const char *name, const struct model *model,
                        const struct model_trace *trace) {
    for (uint32_t g = 0; g < model->group_count; g++) {
        const struct model_group *group = &model->groups[g];
        const struct {
            const char *field;
            uint64_t value;
        } fields[] = {{"query_heads", group->query_heads},
                      {"kv_heads", group->kind == MODEL_FULL ? group->kv_heads : 0},
                      {"k_dim", group->k_dim},
                      {"v_dim", group->v_dim},
                      {"window_tokens", group->window_tokens},
                      {"latent_dim", group->latent_dim},
                      {"rope_dim", group->rope_dim},
                      {"entry_dim", group->entry_dim},
                      {"tokens_per_entry", group->tokens_per_entry > 1},
                      {"key_dim", group->key_dim},
                      {"top_k", group->top_k},
                      {"heads", group->heads},
                      {"state_rows", group->state_rows > 1},
                      {"state_cols", group->state_cols},
                      {"conv_channels", group->conv_channels},
                      {"conv_taps", group->conv_taps}};
        for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
            if (fields[i].value > 0)
                assert_traced(name, trace, fields[i].field);
    }
    assert_traced(name, trace, "layers");
    assert_true(trace->count < sizeof trace->entries / sizeof trace->entries[0]);
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
    assert_string_equal(model.assumed, ""); /* none is a guess */
    assert_true(strstr(model.remark, "guess") == NULL);
    check_groups(name, &model, cJSON_GetObjectItemCaseSensitive(expected, "groups"));
    check_trace(name, &model, &trace);
    if (cache_layers(&model) != number(expected, "cache_layers"))
        fail_msg("%s: %llu layers own a cache", name, (unsigned long long)cache_layers(&model));
    const struct formula_storage storage = {.k_format = FORMAT_BF16,
                                            .v_format = FORMAT_BF16,
                                            .index = FORMULA_INDEX_BF16,
                                            .state_value_bytes = 4};
    struct formula_result result;
    assert_int_equal(formula_compute(&model, &storage, 1 << 20, 1, &result, NULL), STATUS_OK);
    assert_int_equal(result.kv_rate.tokens, 1);
    assert_int_equal(result.kv_rate.bytes, number(expected, "bytes_per_token_bf16"));
    assert_int_equal(result.index_rate.tokens, 1);
    assert_int_equal(result.index_rate.bytes, number(expected, "indexer_bytes_per_token_bf16"));
    assert_int_equal(result.fixed_bytes_per_seq, number(expected, "fixed_bytes_per_sequence"));
}

static void test_every_config_is_read(void **state) {
    size_t checked = 0;
    const cJSON *expected;
    cJSON_ArrayForEach(expected, models_of(*state)) {
        check_layout(expected);
        checked++;
    }
    print_message("%zu configs read\n", checked);
    assert_true(checked >= 124);
}

/* Where a cut text ends, in its message: "byte N (line L, column C)". */
static void check_cut(const char *name, const char *text, size_t size) {
    struct model model;
    struct status_text why = {""};
    if (model_config_parse(text, size, name, &model, NULL, NULL, NULL, &why) != STATUS_BAD_INPUT)
        fail_msg("%s cut at %zu: not refused", name, size);
    const char *at = strstr(why.line, "at byte ");
    if (at == NULL || strstr(why.line, "(line ") == NULL || strtoull(at + 8, NULL, 10) > size)
        fail_msg("%s cut at %zu: %s", name, size, why.line);
}

/* At some 60 places each, the last just before the closing bracket. */
static void test_cut_off_anywhere_is_refused(void **state) {
    size_t cuts = 0;
    const cJSON *expected;
    cJSON_ArrayForEach(expected, models_of(*state)) {
        char path[512];
        (void)snprintf(path, sizeof path, CONFIGS "%s/config.json", expected->string);
        char *text = printed_load(path);
        assert_non_null(text);
        const size_t end = (size_t)(strrchr(text, '}') - text);
        for (size_t i = 0; i <= 60; i++, cuts++)
            check_cut(expected->string, text, end * i / 60);
        free(text);
    }
    print_message("%zu cuts\n", cuts);
    assert_true(cuts >= 7000);
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
        cmocka_unit_test(test_every_config_is_read),
        cmocka_unit_test(test_cut_off_anywhere_is_refused),
        cmocka_unit_test(test_built_in_models_follow_their_configs),
    };
    return cmocka_run_group_tests(tests, open_layouts, close_layouts);
}
