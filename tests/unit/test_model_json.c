/* Model files that are wrong: every refusal is one line that names the file, the key and what it
 * holds, or the byte where the JSON breaks; nothing crashes, whatever the bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static const char llama[] =
    "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\",\n"
    " \"hidden_size\": 4096, \"num_hidden_layers\": 32, \"num_attention_heads\": 32,\n"
    " \"num_key_value_heads\": 8, \"max_position_embeddings\": 8192,\n"
    " \"torch_dtype\": \"float16\", \"limits\": [0.0, Infinity, -Infinity, NaN]}";

static const char ours[] =
    "{\"name\": \"mine\", \"groups\": [{\"kind\": \"full\", \"layers\": 2, \"kv_heads\": 4,\n"
    " \"k_dim\": 64, \"v_dim\": 64}]}";

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

static void test_configs_that_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *json;
        const char *word;
    } cases[] = {
        {CONFIG("LlamaForCausalLM", "\"head_dim\": 0"), "head_dim is 0"},
        {CONFIG("LlamaForCausalLM", "\"head_dim\": -128"), "head_dim is -128"},
        {CONFIG("LlamaForCausalLM", "\"head_dim\": 128.5"), "head_dim is 128.5"},
        {CONFIG("LlamaForCausalLM", "\"head_dim\": 1e30"), "1e+30"},
        {CONFIG("LlamaForCausalLM", "\"head_dim\": 1e999"), "inf"},
        {CONFIG("LlamaForCausalLM", "\"head_dim\": Infinity"), "head_dim is inf"},
        {CONFIG("LlamaForCausalLM", "\"head_dim\": -Infinity"), "head_dim is -inf"},
        {CONFIG("LlamaForCausalLM", "\"head_dim\": NaN"), "NaN"},
        {CONFIG("LlamaForCausalLM", "\"head_dim\": \"128\""), "a string"},
        {CONFIG("LlamaForCausalLM", "\"head_dim\": true"), "true or false"},
        {CONFIG("LlamaForCausalLM", "\"head_dim\": [128]"), "a list"},
        {CONFIG("LlamaForCausalLM", "\"head_dim\": {}"), "an object"},
        {CONFIG("LlamaForCausalLM", "\"num_key_value_heads\": 5"), "5 KV heads"},
        {CONFIG("LlamaForCausalLM", "\"hidden_size\": 4096"), "hidden_size occurs twice"},
        {CONFIG("LlamaForCausalLM", "\"a\": {\"b\\n\": 1, \"b\\n\": 2}"), "b? occurs twice"},
        {CONFIG("LlamaForCausalLM", "\"max_position_embeddings\": 0.5"), "max_position"},
        {CONFIG("Qwen2ForCausalLM", "\"use_sliding_window\": 1"), "use_sliding_window"},
        {CONFIG("MistralForCausalLM", "\"sliding_window\": -1"), "sliding_window is -1"},
        {CONFIG("DeepseekV2ForCausalLM", "\"qk_rope_head_dim\": 64"), "kv_lora_rank is missing"},
        {"{\"architectures\": [\"LlamaForCausalLM\"]}", "num_hidden_layers (or n_layer"},
        {"{\"architectures\": [\"LlamaForCausalLM\"], \"num_hidden_layers\": 1e30}", "1e+30"},
        {"{\"architectures\": [\"LlamaForCausalLM\"], \"num_hidden_layers\": 1, "
         "\"num_attention_heads\": 3, \"hidden_size\": 64}",
         "does not divide"},
        {"[]", "an object"},
        {"7", "an object"},
        {"{\"a\": 1} x", "byte 9 (line 1, column 10)"},
        {"{\"a\": 1,\n \"b\": tru}", "line 2, column 7"},
        {"{\"a\": \"b", "inside a string"},
        {"{\"a\": [", "last bracket"},
        {"{\"a\": 1}}", "byte 8"},
        {"", "byte 0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct model model;
        struct status_text text = {""};
        if (parse(cases[i].json, &model, &text) != STATUS_BAD_INPUT)
            fail_msg("not refused: %s", cases[i].json);
        assert_says(&text, "test.json");
        assert_says(&text, cases[i].word);
    }
    struct model model;
    struct status_text text = {""};
    assert_int_equal(parse("{\"architectures\": [\"Evil\\nFor\\u001b[31m\"]}", &model, &text),
                     STATUS_REFUSED);
    assert_says(&text, "Evil?For?[31m");
    assert_int_equal(parse("{\"architectures\": 7, \"model_type\": []}", &model, &text),
                     STATUS_REFUSED);
    assert_says(&text, "names no architecture");
}

static void test_bytes_that_are_not_quite_json(void **state) {
    (void)state;
    /* A byte order mark and CRLF are fine. */
    struct model model = config("\xEF\xBB\xBF{\r\n\"model_type\": \"llama\",\r\n"
                                "\"num_hidden_layers\": 1, \"num_attention_heads\": 2,\r\n"
                                "\"hidden_size\": 64, \"text\": \"Infinity { [ NaN \\\" \"}\r\n");
    assert_int_equal(model.groups[0].k_dim, 32);
    struct status_text text = {""};
    assert_int_equal(model_config_parse("{\"a\": \0 1}", 10, "x", &model, NULL, NULL, NULL, &text),
                     STATUS_BAD_INPUT);
    assert_says(&text, "NUL");
    /* Nesting: 64 deep is read, 65 is refused, and a million does not reach the parser. */
    static const size_t depths[] = {63, 64, 1000000};
    for (size_t i = 0; i < 3; i++) {
        const size_t depth = depths[i], size = 5 + 2 * depth + 1;
        char *deep = malloc(size);
        assert_non_null(deep);
        memcpy(deep, "{\"a\":", 5);
        memset(deep + 5, '[', depth);
        memset(deep + 5 + depth, ']', depth);
        deep[size - 1] = '}';
        const enum status status =
            model_config_parse(deep, size, "x", &model, NULL, NULL, NULL, &text);
        assert_int_equal(status, i == 0 ? STATUS_REFUSED : STATUS_BAD_INPUT);
        assert_says(&text, i == 0 ? "no architecture" : "64 deep");
        free(deep);
    }
}

/* Every beginning of a real file, in memory of exactly that size: a message, never a crash. */
static void check_truncations(const char *json, size_t size, bool own) {
    for (size_t cut = 0; cut < size; cut++) {
        char *part = malloc(cut > 0 ? cut : 1);
        assert_non_null(part);
        memcpy(part, json, cut);
        struct model model;
        struct status_text text = {""};
        const enum status status =
            own ? model_json_parse(part, cut, "cut.json", &model, &text)
                : model_config_parse(part, cut, "cut.json", &model, NULL, NULL, NULL, &text);
        if (status != STATUS_BAD_INPUT)
            fail_msg("cut at byte %zu: status %d", cut, (int)status);
        assert_says(&text, "cut.json: not valid JSON at byte");
        free(part);
    }
}

/* Some configs list a label for every token: 3 MB and more of keys nobody needs. */
static void test_a_large_config(void **state) {
    (void)state;
    enum { LABELS = 150000, BYTES = 26 };
    const char *start = "{\"model_type\": \"llama\", \"num_hidden_layers\": 1, "
                        "\"num_attention_heads\": 2, \"hidden_size\": 64, \"id2label\": {";
    char *large = malloc(strlen(start) + (size_t)LABELS * BYTES + 3);
    assert_non_null(large);
    char *at = large + sprintf(large, "%s", start);
    for (int i = 0; i < LABELS; i++)
        at += sprintf(at, "%s\"%d\": \"LABEL_%d\"", i > 0 ? "," : "", i, i);
    at += sprintf(at, "}}");
    const size_t size = (size_t)(at - large);
    assert_true(size > 3000000);
    struct model model;
    struct status_text text = {""};
    if (model_config_parse(large, size, "x", &model, NULL, NULL, NULL, &text) != STATUS_OK)
        fail_msg("%s", text.line);
    assert_int_equal(model.groups[0].k_dim, 32);
    assert_int_equal(model_config_parse(large, size - 1, "x", &model, NULL, NULL, NULL, &text),
                     STATUS_BAD_INPUT);
    assert_says(&text, "the text ends before the last bracket");
    free(large);
}

static void test_truncated_at_every_byte(void **state) {
    (void)state;
    check_truncations(llama, strlen(llama), false);
    check_truncations(ours, strlen(ours), true);
    const char *json = model_source_json(0);
    check_truncations(json, strlen(json) - 2, true); /* "}\n": nothing is lost with the newline */
}

static void test_our_own_json_that_is_refused(void **state) {
    (void)state;
#define GROUP(rest) "{\"name\": \"m\", \"groups\": [{\"kind\": \"full\", " rest "}]}"
    static const struct {
        const char *json;
        const char *word;
    } cases[] = {
        {"{\"groups\": []}", "name"},
        {"{\"name\": \"m\"}", "groups"},
        {"{\"name\": \"m\", \"groups\": {}}", "groups: a list"},
        {"{\"name\": \"m\", \"groups\": []}", "0 groups"},
        {"{\"name\": 7, \"groups\": []}", "name holds a number"},
        {"{\"name\": \"a\\nb\", \"groups\": []}", "control characters"},
        {"{\"name\": \"m\", \"groups\": [7]}", "a group is an object"},
        {"{\"name\": \"m\", \"groups\": [{\"kind\": \"none\"}]}", "compressed"},
        {"{\"name\": \"m\", \"assumed\": \"x\", \"groups\": []}", "assumed: a list"},
        {"{\"name\": \"m\", \"assumed\": [7], \"groups\": []}", "assumed"},
        {"{\"name\": \"m\", \"native_context\": 0, \"groups\": []}", "native_context is 0"},
        {GROUP("\"layers\": 1, \"kv_heads\": 1, \"k_dim\": 64"), "v_dim"},
        {GROUP("\"layers\": 10001"), "layers is 10001"},
        {GROUP("\"layers\": -1"), "layers is -1"},
        {GROUP("\"kv_heads\": 1e30"), "1e+30"},
        {GROUP("\"kvheads\": 1"), "unknown key kvheads"},
        {GROUP("\"k\\u001bdim\": 1"), "unknown key k?dim"},
        {GROUP("\"sinks\": 1"), "sinks"},
        {GROUP("\"drafts\": 1"), "drafts: true or false"},
        {"{\"name\": \"m\", \"groups\": [{\"kind\": \"index\", \"layers\": 1, \"key_dim\": 64, "
         "\"drafts\": true}]}",
         "groups[0] (index): drafts: full, window and latent groups"},
        {GROUP("\"layers\": 1, \"layers\": 1"), "occurs twice"},
        {"{\"name\": \"m\", \"groups\": [{\"kind\": \"window\", \"layers\": 1, \"kv_heads\": 1, "
         "\"k_dim\": 64, \"window_tokens\": 8}]}",
         "a window group needs v_dim"},
    };
#undef GROUP
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct model model;
        struct status_text text = {""};
        if (model_json_parse(cases[i].json, strlen(cases[i].json), "own.json", &model, &text) !=
            STATUS_BAD_INPUT)
            fail_msg("not refused: %s", cases[i].json);
        assert_says(&text, cases[i].word);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_configs_that_are_refused),
        cmocka_unit_test(test_bytes_that_are_not_quite_json),
        cmocka_unit_test(test_a_large_config),
        cmocka_unit_test(test_truncated_at_every_byte),
        cmocka_unit_test(test_our_own_json_that_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
