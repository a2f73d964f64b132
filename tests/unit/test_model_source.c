/* What a --model word may be and what is said when it is none of that: names, geometry, paths,
 * and the rules of each family on configs written for the purpose. Input that is wrong or hostile:
 * test_model_json; real configs: test_model_configs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model_source.h"

/* One line, not empty, of printable characters. */
static void assert_one_line(const struct status_text *text) {
    assert_true(text->line[0] != '\0');
    for (const char *c = text->line; *c != '\0'; c++)
        assert_true((unsigned char)*c >= 0x20 && *c != 0x7F);
}

static void assert_says(const struct status_text *text, const char *word) {
    assert_one_line(text);
    if (strstr(text->line, word) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", text->line, word);
}

static struct model load(const char *spec) {
    struct model model;
    struct status_text text = {""};
    if (model_source_load(spec, &model, NULL, NULL, NULL, &text) != STATUS_OK)
        fail_msg("%s", text.line);
    return model;
}

static void assert_not_loaded(const char *spec, enum status status, const char *word) {
    struct model model;
    struct status_text text = {""};
    assert_int_equal(model_source_load(spec, &model, NULL, NULL, NULL, &text), status);
    assert_says(&text, word);
}

static void test_names(void **state) {
    (void)state;
    assert_string_equal(load("llama-3.3-70b").name, "llama-3.3-70b");
    assert_string_equal(load("Qwen/Qwen3-Coder-30B-A3B").name, "qwen3-coder-30b-a3b");
    assert_not_loaded("qwen3-coder-30b", STATUS_BAD_INPUT, "nearest: qwen3-coder-30b-a3b");
    assert_not_loaded("org/gpt-oss-21b", STATUS_BAD_INPUT, "gpt-oss-20b");
    assert_not_loaded("zzzzzzzzzzzz", STATUS_BAD_INPUT, "kvgauge models");
    assert_not_loaded("", STATUS_BAD_INPUT, "kvgauge models");
    assert_not_loaded("no-such-folder/model.json", STATUS_BAD_INPUT, "No such file");
    char longest[4000];
    memset(longest, 'q', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    assert_not_loaded(longest, STATUS_BAD_INPUT, "--model");
}

static void test_geometry(void **state) {
    (void)state;
    static const struct {
        const char *spec;
        enum model_kind kind;
        uint32_t layers, query_heads, kv_heads, k_dim, v_dim, window, latent, rope;
    } cases[] = {
        {"8x128", MODEL_FULL, 1, 64, 8, 128, 128, 0, 0, 0},
        {"8x128/g4", MODEL_FULL, 1, 32, 8, 128, 128, 0, 0, 0},
        {"8x128x32l", MODEL_FULL, 32, 64, 8, 128, 128, 0, 0, 0},
        {"8x128/g4x32l", MODEL_FULL, 32, 32, 8, 128, 128, 0, 0, 0},
        {"1x192/128/g1", MODEL_FULL, 1, 1, 1, 192, 128, 0, 0, 0},
        {"8x128w1024/g4", MODEL_WINDOW, 1, 32, 8, 128, 128, 1024, 0, 0},
        {"8x192/128w9/g4x2l", MODEL_WINDOW, 2, 32, 8, 192, 128, 9, 0, 0},
        {"latent512+64/g16", MODEL_LATENT, 1, 16, 0, 0, 0, 0, 512, 64},
        {"latent512", MODEL_LATENT, 1, 64, 0, 0, 0, 0, 512, 0},
        {"latent512+64x61l", MODEL_LATENT, 61, 64, 0, 0, 0, 0, 512, 64},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct model model = load(cases[i].spec);
        const struct model_group *group = &model.groups[0];
        assert_string_equal(model.name, cases[i].spec);
        assert_int_equal(model.group_count, 1);
        assert_int_equal(group->kind, cases[i].kind);
        assert_int_equal(group->layers, cases[i].layers);
        assert_int_equal(group->read_by_layers, cases[i].layers);
        assert_int_equal(group->query_heads, cases[i].query_heads);
        assert_int_equal(group->kv_heads, cases[i].kv_heads);
        assert_int_equal(group->k_dim, cases[i].k_dim);
        assert_int_equal(group->v_dim, cases[i].v_dim);
        assert_int_equal(group->window_tokens, cases[i].window);
        assert_int_equal(group->latent_dim, cases[i].latent);
        assert_int_equal(group->rope_dim, cases[i].rope);
        const bool given = strstr(cases[i].spec, "/g") != NULL;
        assert_int_equal(group->query_heads_assumed, !given);
        assert_string_equal(model.assumed, given ? "" : "query_heads");
    }
    static const char *const wrong[] = {
        "8x",          "0x128",           "8x0",
        "8x128/g0",    "8x128/g",         "8x128x0l",
        "8x128x",      "8x128x32",        "8x128x32lx",
        "8x128w0",     "8x128w",          "8x128/",
        "8x128/0",     "8x128 ",          "8x128/g4/g4",
        "65537x128",   "8x65537",         "8x128x10001l",
        "latent",      "latent0",         "latent512+",
        "latent512+0", "latent512+64/16", "8x99999999999999999999999",
        "8x-128",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_not_loaded(wrong[i], STATUS_BAD_INPUT, "8x128/g4x32l");
}

/* A temporary folder with one file in it. */
struct place {
    char folder[64];
    char path[128];
};

static struct place put(const char *name, const void *bytes, size_t size) {
    struct place place = {.folder = "kvgauge-test-XXXXXX"};
    assert_non_null(mkdtemp(place.folder));
    (void)snprintf(place.path, sizeof place.path, "%s/%s", place.folder, name);
    FILE *file = fopen(place.path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
    return place;
}

static void take_away(const struct place *place) {
    assert_int_equal(unlink(place->path), 0);
    assert_int_equal(rmdir(place->folder), 0);
}

static const char llama[] =
    "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\",\n"
    " \"hidden_size\": 4096, \"num_hidden_layers\": 32, \"num_attention_heads\": 32,\n"
    " \"num_key_value_heads\": 8, \"max_position_embeddings\": 8192,\n"
    " \"torch_dtype\": \"float16\", \"limits\": [0.0, Infinity, -Infinity, NaN]}";

static const char ours[] =
    "{\"name\": \"mine\", \"groups\": [{\"kind\": \"full\", \"layers\": 2, \"kv_heads\": 4,\n"
    " \"k_dim\": 64, \"v_dim\": 64}]}";

static void test_paths(void **state) {
    (void)state;
    struct place place = put("config.json", llama, strlen(llama));
    struct model model = load(place.path);
    assert_string_equal(model.name, place.folder); /* a config is called by its folder */
    assert_int_equal(model.groups[0].kv_heads, 8);
    assert_int_equal(model.groups[0].k_dim, 128);
    assert_int_equal(model.native_context, 8192);
    model = load(place.folder);
    assert_string_equal(model.name, place.folder);
    char with_slash[80];
    (void)snprintf(with_slash, sizeof with_slash, "%s/", place.folder);
    assert_string_equal(load(with_slash).name, place.folder);
    take_away(&place);

    place = put("anything.txt", ours, strlen(ours));
    model = load(place.path);
    assert_string_equal(model.name, "mine");
    assert_int_equal(model.groups[0].query_heads, 32); /* 8 per KV head, and marked so */
    assert_true(model.groups[0].query_heads_assumed);
    assert_not_loaded(place.folder, STATUS_BAD_INPUT, "config.json");
    take_away(&place);

    place = put("model.gguf", "GGUF", 4);
    assert_not_loaded(place.path, STATUS_BAD_INPUT, "byte 4: the file ends too early");
    take_away(&place);
    place = put("model.gguf", "{}", 2);
    assert_not_loaded(place.path, STATUS_BAD_INPUT, "does not start with GGUF");
    take_away(&place);

    /* A built-in name is not taken over by a file that happens to be called so. */
    place = put("gpt-oss-20b", llama, strlen(llama));
    assert_string_equal(load(place.path).source, place.path);
    assert_string_equal(load("gpt-oss-20b").name, "gpt-oss-20b");
    take_away(&place);
    place = put("empty.json", "", 0);
    assert_not_loaded(place.path, STATUS_BAD_INPUT, "byte 0");
    take_away(&place);
}

static enum status parse(const char *json, struct model *model, struct status_text *text) {
    return model_config_parse(json, strlen(json), "test.json", model, NULL, NULL, NULL, text);
}

static struct model config(const char *json) {
    struct model model;
    struct status_text text = {""};
    if (parse(json, &model, &text) != STATUS_OK)
        fail_msg("%s", text.line);
    return model;
}

#define CONFIG(architecture, rest)                                                                 \
    "{\"architectures\": [\"" architecture "\"], \"num_hidden_layers\": 32, "                      \
    "\"num_attention_heads\": 32, \"hidden_size\": 4096, " rest "}"

static void test_rules_of_the_families(void **state) {
    (void)state;
    /* null counts as missing; no KV heads: as many as query heads. */
    struct model model =
        config(CONFIG("LlamaForCausalLM", "\"num_key_value_heads\": null, \"head_dim\": null"));
    assert_int_equal(model.groups[0].kv_heads, 32);
    assert_int_equal(model.groups[0].k_dim, 128);
    assert_int_equal(model.native_context, 0);
    model = config(CONFIG("LlamaForCausalLM", "\"sliding_window\": 64"));
    assert_int_equal(model.groups[0].kind, MODEL_FULL);
    model = config(CONFIG("MistralForCausalLM", "\"sliding_window\": 64, \"head_dim\": 96"));
    assert_int_equal(model.groups[0].kind, MODEL_WINDOW);
    assert_int_equal(model.groups[0].window_tokens, 64);
    assert_int_equal(model.groups[0].k_dim, 96);
    model = config(
        CONFIG("MistralForCausalLM", "\"sliding_window\": 64, \"max_position_embeddings\": 64"));
    assert_int_equal(model.groups[0].kind, MODEL_FULL); /* never reached */
    model = config(CONFIG("MixtralForCausalLM", "\"sliding_window\": null"));
    assert_int_equal(model.groups[0].kind, MODEL_FULL);
    model =
        config(CONFIG("Qwen2ForCausalLM", "\"sliding_window\": 64, \"use_sliding_window\": false"));
    assert_int_equal(model.groups[0].kind, MODEL_FULL);
    assert_int_equal(model.group_count, 1);
    model =
        config(CONFIG("Qwen2ForCausalLM", "\"sliding_window\": 64, \"use_sliding_window\": true"));
    assert_int_equal(model.group_count, 2); /* max_window_layers is 28 */
    assert_int_equal(model.groups[0].layers, 28);
    assert_int_equal(model.groups[1].kind, MODEL_WINDOW);
    assert_int_equal(model.groups[1].layers, 4);
    assert_int_equal(model.groups[1].read_by_layers, 4);
    model = config(CONFIG("Qwen3MoeForCausalLM", "\"sliding_window\": 64, \"max_window_layers\": "
                                                 "0, \"use_sliding_window\": true"));
    assert_int_equal(model.group_count, 1);
    assert_int_equal(model.groups[0].kind, MODEL_WINDOW);
    model = config(CONFIG("DeepseekV3ForCausalLM",
                          "\"kv_lora_rank\": 512, \"qk_rope_head_dim\": 64, \"head_dim\": 7"));
    assert_int_equal(model.groups[0].latent_dim, 512);
    assert_int_equal(model.groups[0].rope_dim, 64);
    assert_int_equal(model.groups[0].query_heads, 32);
    /* model_type decides where no architecture is named. */
    model = config("{\"model_type\": \"llama\", \"num_hidden_layers\": 1, "
                   "\"num_attention_heads\": 2, \"hidden_size\": 64}");
    assert_int_equal(model.groups[0].k_dim, 32);
}

static void test_the_format_a_config_asks_for(void **state) {
    (void)state;
    static const struct {
        const char *json;
        enum format_id format;
        const char *word;
    } cases[] = {
        {CONFIG("LlamaForCausalLM", "\"torch_dtype\": \"float16\""), FORMAT_F16, "float16"},
        {CONFIG("LlamaForCausalLM", "\"dtype\": \"bfloat16\""), FORMAT_BF16, "dtype: bfloat16"},
        {CONFIG("LlamaForCausalLM", "\"torch_dtype\": \"x\\n\\u001b[31m\""), FORMAT_BF16, "x??"},
        {CONFIG("LlamaForCausalLM", "\"torch_dtype\": 7"), FORMAT_BF16, "no type"},
        {CONFIG("LlamaForCausalLM",
                "\"torch_dtype\": \"bfloat16\", \"quantization_config\": {\"kv_cache_scheme\": "
                "{\"num_bits\": 8, \"type\": \"float\"}}"),
         FORMAT_FP8_E4M3, "kv_cache_scheme"},
        {CONFIG("LlamaForCausalLM",
                "\"torch_dtype\": \"float16\", \"quantization_config\": {\"kv_cache_scheme\": "
                "{\"num_bits\": 8, \"type\": \"int\"}}"),
         FORMAT_F16, "float16"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct model model;
        enum format_id format = FORMAT_COUNT;
        char reason[96] = "";
        assert_int_equal(model_config_parse(cases[i].json, strlen(cases[i].json), "test.json",
                                            &model, NULL, &format, reason, NULL),
                         STATUS_OK);
        assert_int_equal(format, cases[i].format);
        if (strstr(reason, cases[i].word) == NULL)
            fail_msg("\"%s\" does not say \"%s\"", reason, cases[i].word);
    }
}

static void test_numbers_remember_their_keys(void **state) {
    (void)state;
    static const char *const entries[][2] = {
        {"layers", "num_hidden_layers"},
        {"query_heads", "num_attention_heads"},
        {"kv_heads", "num_key_value_heads"},
        {"k_dim, v_dim", "hidden_size / heads"},
        {"native_context", "max_position_embeddings"},
    };
    struct model model;
    struct model_trace trace;
    assert_int_equal(
        model_config_parse(llama, strlen(llama), "x", &model, &trace, NULL, NULL, NULL), STATUS_OK);
    assert_int_equal(trace.count, 5);
    for (size_t i = 0; i < 5; i++) {
        assert_string_equal(trace.entries[i].field, entries[i][0]);
        assert_string_equal(trace.entries[i].key, entries[i][1]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_geometry),
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_rules_of_the_families),
        cmocka_unit_test(test_the_format_a_config_asks_for),
        cmocka_unit_test(test_numbers_remember_their_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
