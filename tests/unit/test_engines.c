/* What engines allocate and print: that formula and items make the engine's bytes, to the byte, for
 * every built-in model, format and length, and each rule on a case counted by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine_questions.h"

/* Every answer there is, with settings that turn every rule on. Refusals name a reason. */
static unsigned check_sums(const struct engine *engine, const struct model *model,
                           const char *settings) {
    static const uint64_t lengths[] = {1, 15, 16, 100, 1000, 8192, 131072, 1000003};
    static const uint64_t batches[] = {1, 3, 32};
    unsigned answers = 0;
    for (int format = 0; format < FORMAT_COUNT; format++) {
        for (size_t i = 0; i < sizeof lengths / sizeof lengths[0] * 3; i++) {
            struct engine_question question = {.model = model,
                                               .storage = storage_of((enum format_id)format),
                                               .tokens = lengths[i / 3],
                                               .seqs = batches[i % 3],
                                               .has_memory = i % 2 != 0,
                                               .memory_bytes = (uint64_t)80 << 30,
                                               .weights_bytes = (uint64_t)20 << 30};
            question.storage.window_as_full = i % 5 == 4;
            question.storage.state_value_bytes = i % 4 == 3 ? 2 : 4;
            set(&question, engine->name, settings);
            struct engine_answer answer;
            struct status_text text = {""};
            const enum status status = engine_ask(engine, &question, &answer, &text);
            if (status != STATUS_OK) {
                if (status != STATUS_REFUSED || text.line[0] == '\0')
                    fail_msg("%s, %s: %s", engine->name, model->name, text.line);
                continue;
            }
            answers++;
            int64_t sum = (int64_t)answer.formula_bytes;
            for (size_t k = 0; k < answer.item_count; k++) {
                sum += answer.items[k].bytes;
                assert_true(answer.items[k].bytes != 0);
            }
            assert_true(answer.item_count < ENGINE_MAX_ITEMS);
            assert_int_equal(sum, answer.bytes);
        }
    }
    return answers;
}

static void items_add_up_for_every_model_format_and_length(void **state) {
    (void)state;
    static const char *const settings[][2] = {
        {"vllm", ""},
        {"vllm", "disable-hybrid-kv-cache-manager mamba-ssm-cache-dtype=bfloat16"},
        {"vllm", "mamba-cache-mode=align block-size=32 max-num-batched-tokens=512"},
        {"vllm", "mamba-cache-mode=all mamba-block-size=256 async-scheduling=false"},
        {"llama.cpp", ""},
        {"llama.cpp", "kv-unified parallel=40"},
        {"llama.cpp", "swa-full ubatch-size=64"},
        {"sglang", ""},
        {"sglang", "page-size=64 disable-hybrid-swa-memory disable-radix-cache"},
        {"sglang", "swa-full-tokens-ratio=0.3 prefill-kv-cache-dequant-dtype=nvfp4"},
        {"contiguous", "max-len=2m"},
        {"contiguous", ""},
    };
    unsigned answers = 0;
    for (size_t i = 0; i < model_source_count(); i++) {
        const struct model model = load(model_source_name(i));
        for (size_t s = 0; s < sizeof settings / sizeof settings[0]; s++)
            answers += check_sums(engine_find(settings[s][0]), &model, settings[s][1]);
    }
    assert_true(answers > 20000);
}

static void vllm_windows_in_full_or_by_blocks(void **state) {
    (void)state;
    const struct formula_storage bf16 = storage_of(FORMAT_BF16);
    struct engine_answer answer =
        ask_model("vllm", "disable-hybrid-kv-cache-manager", "gpt-oss-20b", bf16, 8192, 32, 0);
    assert_int_equal((int)((double)answer.formula_bytes / gib * 100 + 0.5), 609);
    assert_int_equal(answer.formula_bytes, 6543114240); /* 6.09375 GiB */
    assert_int_equal((int)((double)answer.bytes / gib * 100 + 0.5), 1200);
    assert_int_equal(answer.bytes - 24 * 32768, 12884901888); /* 12 GiB and the null block */
    /* 127 + 512 tokens: 40 blocks and one more, beside 512 of full attention, and the null block;
     * 12 layers share a block of 32,768 bytes. */
    answer = ask_model("vllm", "max-num-batched-tokens=512 async-scheduling=false", "gpt-oss-20b",
                       bf16, 8192, 1, 0);
    assert_int_equal(answer.bytes, (512 + 41 + 1) * 12 * 32768);
    assert_int_equal(item(&answer, "null block"), 12 * 32768);
    /* 8,192 tokens in flight: windows as good as full, and one block more each. */
    answer = ask_model("vllm", "", "gpt-oss-20b", bf16, 8192, 32, 0);
    assert_int_equal(answer.bytes, (uint64_t)(32 * (512 + 513) + 1) * 12 * 32768);
    /* 120b, 5.38 GiB: 4,899 blocks of 16 at 73,728 bytes a token. */
    answer = ask_model("vllm", "disable-hybrid-kv-cache-manager", "gpt-oss-120b", bf16, 131072, 1,
                       4899.0 * 16 * 73728 / gib);
    assert_true(answer.tokens == 0); /* it does not start with sequences that long */
    notes(&answer, "vLLM would not start");
    answer = ask_model("vllm", "disable-hybrid-kv-cache-manager", "gpt-oss-120b", bf16, 8192, 1,
                       4899.0 * 16 * 73728 / gib);
    assert_int_equal(answer.tokens, 78384);
}

/* Window layers of twice the bytes a token: full attention gets blocks twice as long. */
static void vllm_unifies_pages(void **state) {
    (void)state;
    struct engine_answer answer =
        ask_model("vllm", "", "gemma-4-31b", storage_of(FORMAT_BF16), 32768, 1, 0);
    notes(&answer, "6 block tables of 10 layers, pages of 262,144 B, attention blocks of 32");
    /* 5 tables of window blocks: min(1,023 + 16,384, 32,768) tokens of 16, one more. */
    assert_int_equal(answer.bytes, (uint64_t)(32768 / 32 + 5 * (1088 + 1) + 1) * 10 * 262144);
    struct status_text text = {""};
    const struct model uneven = {.name = "uneven",
                                 .group_count = 2,
                                 .groups = {{.kind = MODEL_FULL,
                                             .layers = 1,
                                             .read_by_layers = 1,
                                             .query_heads = 8,
                                             .kv_heads = 2,
                                             .k_dim = 96,
                                             .v_dim = 96},
                                            {.kind = MODEL_WINDOW,
                                             .layers = 1,
                                             .read_by_layers = 1,
                                             .query_heads = 8,
                                             .kv_heads = 2,
                                             .k_dim = 64,
                                             .v_dim = 64,
                                             .window_tokens = 128}}};
    const struct engine_question question = {
        .model = &uneven, .storage = storage_of(FORMAT_BF16), .tokens = 4096, .seqs = 1};
    assert_int_equal(engine_ask(engine_find("vllm"), &question, &answer, &text), STATUS_REFUSED);
    assert_non_null(strstr(text.line, "do not divide"));
}

static void vllm_attention_pages_cover_a_state(void **state) {
    (void)state;
    static const char qwen3_next[] =
        "{\"name\": \"qwen3-next\", \"source\": \"config\", \"native_context\": 262144, \"groups\":"
        "[{\"kind\": \"full\", \"layers\": 12, \"query_heads\": 16, \"kv_heads\": 2, \"k_dim\": "
        "256, \"v_dim\": 256}, {\"kind\": \"state\", \"layers\": 36, \"family\": "
        "\"gated_delta_net\", \"heads\": 32, \"state_rows\": 128, \"state_cols\": 128, "
        "\"conv_channels\": 8192, \"conv_taps\": 3}]}";
    struct model model;
    struct status_text text = {""};
    if (model_json_parse(qwen3_next, sizeof qwen3_next - 1, "test", &model, &text) != STATUS_OK)
        fail_msg("%s", text.line);
    struct engine_question question = {
        .model = &model, .storage = storage_of(FORMAT_BF16), .tokens = 8192, .seqs = 1};
    set(&question, "vllm", "mamba-ssm-cache-dtype=bfloat16");
    struct engine_answer answer = ask("vllm", &question);
    notes(&answer, "4 block tables of 12 layers, pages of 1,114,112 B, attention blocks of 544");
    assert_int_equal(answer.bytes, (uint64_t)(16 + 3 + 1) * 12 * 1114112);
    /* Seen in start-up logs: Qwen3.6-35B-A3B, f32 state, 1,056; 27B of 16 layers, bf16, 784 and fp8
     * 1,568 tokens. */
    answer = ask_model("vllm", "", "qwen3.6-35b-a3b", storage_of(FORMAT_BF16), 8192, 1, 0);
    notes(&answer, "blocks of 1,056");
    answer = ask_model("vllm", "", "qwen3.8-27b", storage_of(FORMAT_BF16), 8192, 1, 0);
    notes(&answer, "blocks of 784");
    /* One sequence of 262,144 tokens in fp8, prefix caching: 8.33 GiB are needed. */
    answer = ask_model("vllm", "mamba-cache-mode=align", "qwen3.8-27b", storage_of(FORMAT_FP8_E4M3),
                       262144, 1, 0);
    notes(&answer, "blocks of 1,568");
    assert_int_equal(
        (int)(((double)answer.bytes - (double)item(&answer, "null block")) / gib * 100 + 0.5), 833);
}

static void sglang_slots(void **state) {
    (void)state;
    const struct formula_storage bf16 = storage_of(FORMAT_BF16);
    struct engine_answer answer = ask_model("sglang", "", "llama-3.3-70b", bf16, 8192, 2, 0);
    assert_int_equal(answer.bytes - answer.formula_bytes, 327680);
    answer = ask_model("sglang", "page-size=64", "llama-3.3-70b", bf16, 8190, 2, 0);
    assert_int_equal(item(&answer, "padding slots, one page"), 64 * 327680);
    assert_int_equal(item(&answer, "slots beyond the tokens asked"), 2 * 2 * 327680);
    /* Window layers get 0.8 of the slots, whatever their window. */
    answer = ask_model("sglang", "", "gpt-oss-20b", bf16, 8192, 1, 0);
    assert_int_equal(answer.bytes, (8192 + 1 + 6553 + 1) * 24576);
    says(&answer, "full_layer_tokens=8192, swa_layer_tokens=6553");
    /* Three states a sequence and the padding one. */
    answer = ask_model("sglang", "", "qwen3.8-27b", bf16, 8192, 2, 0);
    assert_int_equal(item(&answer, "padding state"), 153944064);
    assert_int_equal(item(&answer, "states beyond one a sequence, for the prefix cache"),
                     4 * 153944064);
}

static void llama_cpp_cells(void **state) {
    (void)state;
    /* Published: 768, 408 and 216 MiB at 131,072 tokens. */
    static const struct {
        enum format_id format;
        const char *line;
    } sizes[] = {{FORMAT_F16, "size =  768.00 MiB (131072 cells,   6 layers,  1/1 seqs), K (f16): "
                              " 384.00 MiB, V (f16):  384.00 MiB"},
                 {FORMAT_Q8_0, "size =  408.00 MiB"},
                 {FORMAT_Q4_0, "size =  216.00 MiB"}};
    for (size_t i = 0; i < 3; i++) {
        const struct engine_answer answer = ask_model("llama.cpp", "", "nemotron-3-nano-30b-a3b",
                                                      storage_of(sizes[i].format), 131072, 1, 0);
        says(&answer, sizes[i].line);
        /* 23 layers of 6,144 x 3 columns, four bytes instead of two. */
        assert_int_equal(item(&answer, "convolution columns in f32"), 23 * 6144 * 3 * 2);
    }
    const struct formula_storage f16 = storage_of(FORMAT_F16);
    struct engine_answer answer = ask_model("llama.cpp", "", "gpt-oss-20b", f16, 1000, 3, 0);
    says(&answer, "(  1024 cells,  12 layers,  3/3 seqs)");
    says(&answer, "(   768 cells,  12 layers,  3/3 seqs)"); /* 128 + 512 */
    answer = ask_model("llama.cpp", "kv-unified", "gpt-oss-20b", f16, 1000, 3, 0);
    says(&answer, "(  3072 cells,  12 layers,  3/1 seqs)");
    says(&answer, "(  1024 cells,  12 layers,  3/1 seqs)"); /* 3 x 128 + 512 */
    answer = ask_model("llama.cpp", "swa-full", "gpt-oss-20b", f16, 8192, 32, 0);
    assert_int_equal(answer.bytes, 12884901888); /* 12 GiB again */
}

/* Sparse MLA: latents without V, and index keys of 128 values in the type of K. */
static void llama_cpp_latents_and_index_keys(void **state) {
    (void)state;
    struct engine_answer answer =
        ask_model("llama.cpp", "", "deepseek-v3.2", storage_of(FORMAT_Q8_0), 8192, 1, 0);
    assert_int_equal(answer.bytes, (uint64_t)8192 * 61 * (576 + 128) * 34 / 32);
    assert_int_equal(item(&answer, "index keys in the type of K"), 8192 * 61 * (136 - 128));
    says(&answer, "V (q8_0):    0.00 MiB");
}

/* Sparse MLA elsewhere: keys of 132 bytes; SGLang's fp8 latent is 656, one page of 64 is padding.
 */
static void sparse_latents_elsewhere(void **state) {
    (void)state;
    struct engine_answer answer =
        ask_model("vllm", "", "deepseek-v3.2", storage_of(FORMAT_BF16), 8192, 2, 0);
    assert_int_equal(answer.bytes, (uint64_t)(2 * 128 + 1) * 64 * 61 * (1152 + 132));
    answer = ask_model("vllm", "", "deepseek-v3.2", storage_of(FORMAT_FP8_E4M3), 8192, 2, 0);
    notes(&answer, "FlashMLA's fp8 is fp8_ds_mla_656");
    answer = ask_model("sglang", "", "deepseek-v3.2", storage_of(FORMAT_FP8_E4M3), 8192, 2, 0);
    assert_int_equal(answer.bytes, (uint64_t)(2 * 8192 + 64) * 61 * (656 + 132));
    assert_int_equal(item(&answer, "latents with scales, rotary in 16 bits"),
                     (uint64_t)2 * 8192 * 61 * (656 - 576));
}

/* The check that keeps the others honest. */
static enum status lie(const struct engine_question *question, struct engine_answer *out,
                       struct status_text *text) {
    (void)question, (void)text;
    out->bytes = out->formula_bytes + 1;
    return STATUS_OK;
}

static void items_that_do_not_add_up_are_a_defect(void **state) {
    (void)state;
    const struct engine liar = {.name = "liar", .version = "1", .plan = lie};
    const struct model model = load("llama-3.3-70b");
    const struct engine_question question = {
        .model = &model, .storage = storage_of(FORMAT_BF16), .tokens = 8192, .seqs = 1};
    struct engine_answer answer;
    struct status_text text = {""};
    assert_int_equal(engine_ask(&liar, &question, &answer, &text), STATUS_WRONG);
    assert_non_null(strstr(text.line, "a defect of kvgauge"));
}

static void contiguous_reserves_the_longest(void **state) {
    (void)state;
    struct engine_answer answer =
        ask_model("contiguous", "", "llama-3.3-70b", storage_of(FORMAT_BF16), 8192, 4, 200);
    assert_int_equal(answer.bytes, (uint64_t)4 * 131072 * 327680);
    assert_int_equal(item(&answer, "K and V reserved beyond the tokens asked"),
                     (uint64_t)4 * (131072 - 8192) * 327680);
    assert_int_equal(answer.tokens, 5 * 131072);
}

static void refusals_say_why(void **state) {
    (void)state;
    static const struct {
        const char *engine, *settings, *model;
        enum format_id format;
        const char *why;
    } cases[] = {
        {"vllm", "", "glm-4.7-flash", FORMAT_NVFP4, "no nvfp4 cache with MLA"},
        {"vllm", "", "deepseek-v3.2", FORMAT_FP8_E5M2, "no fp8_e5m2 cache with sparse MLA"},
        {"vllm", "", "llama-3.3-70b", FORMAT_Q8_0, "has no q8_0 cache"},
        {"vllm", "", "deepseek-v4-flash", FORMAT_BF16,
         "deepseek-v4-flash: how vLLM 0.27.1 keeps compressed entries is not known"},
        {"vllm", "mamba-cache-mode=all", "qwen3.8-27b", FORMAT_BF16, "mamba-block-size"},
        {"vllm", "block-size=20", "llama-3.3-70b", FORMAT_BF16, "block-size=20"},
        {"vllm", "max-model-len=1k", "llama-3.3-70b", FORMAT_BF16, "max-model-len=1024"},
        {"llama.cpp", "", "llama-3.3-70b", FORMAT_NVFP4, "has no nvfp4 cache"},
        {"llama.cpp", "", "minimax-m3.1-flash", FORMAT_F16, "--index-format none"},
        {"llama.cpp", "ctx-size=1k", "llama-3.3-70b", FORMAT_F16, "ctx-size=1024"},
        {"llama.cpp", "parallel=1", "llama-3.3-70b", FORMAT_F16, "parallel=1"},
        {"sglang", "", "llama-3.3-70b", FORMAT_Q4_0, "has no q4_0 cache"},
        {"sglang", "", "gpt-oss-20b", FORMAT_NVFP4, "4-bit cache with window layers"},
        {"sglang", "max-total-tokens=1k", "llama-3.3-70b", FORMAT_BF16, "max-total-tokens=1024"},
        {"sglang", "max-mamba-cache-size=3", "qwen3.8-27b", FORMAT_BF16, "max-mamba-cache-size=3"},
        {"contiguous", "", "glm-4.5-air", FORMAT_BF16, "max-len=N"},
        {"contiguous", "max-len=1k", "llama-3.3-70b", FORMAT_BF16, "reserved at 1024"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct model model = load(cases[i].model);
        struct engine_question question = {
            .model = &model, .storage = storage_of(cases[i].format), .tokens = 8192, .seqs = 2};
        struct engine_answer answer;
        struct status_text text = {""};
        set(&question, cases[i].engine, cases[i].settings);
        assert_int_equal(engine_ask(engine_find(cases[i].engine), &question, &answer, &text),
                         STATUS_REFUSED);
        if (strstr(text.line, cases[i].why) == NULL)
            fail_msg("\"%s\" does not say \"%s\"", text.line, cases[i].why);
    }
}

static void settings_are_the_engines_own(void **state) {
    (void)state;
    static const struct {
        const char *engine, *text, *why;
    } cases[] = {
        {"vllm", "blok-size=16", "nearest: block-size"},
        {"vllm", "swa-full", "unknown to vllm"},
        {"llama.cpp", "nosuch=1", "it takes ctx-size, parallel, kv-unified"},
        {"llama.cpp", "ubatch-size", "a value is expected"},
        {"llama.cpp", "ubatch-size=0", "--engine-opt ubatch-size 0: a whole number from 1"},
        {"llama.cpp", "swa-full=maybe", "true or false"},
        {"vllm", "mamba-cache-mode=some", "allowed are none align all"},
        {"vllm", "gpu-memory-utilization=1.5", "above 0 and at most 1"},
        {"sglang", "mamba-full-memory-ratio=0", "above 0"},
        {"contiguous", "max-len=max", "a number of tokens"},
        {"vllm", "kv-cache-memory-bytes=10XB", "bytes are expected"},
    };
    struct engine_setting settings[ENGINE_MAX_SETTINGS];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char copy[64], *texts[] = {copy};
        struct status_text text = {""};
        (void)strcpy(copy, cases[i].text);
        assert_int_equal(
            engine_read_settings(engine_find(cases[i].engine), texts, 1, settings, &text),
            STATUS_BAD_INPUT);
        if (strstr(text.line, cases[i].why) == NULL)
            fail_msg("\"%s\" does not say \"%s\"", text.line, cases[i].why);
    }
    for (size_t i = 0; i < engine_count(); i++) {
        assert_true(engine_get(i)->setting_count <= ENGINE_MAX_SETTINGS);
        assert_ptr_equal(engine_find(engine_get(i)->name), engine_get(i));
    }
    assert_null(engine_find("nosuch"));
}

static void huge_sizes_are_refused(void **state) {
    (void)state;
    const struct model model = load("gpt-oss-20b");
    for (size_t i = 0; i < engine_count(); i++) {
        struct engine_question question = {.model = &model,
                                           .storage = storage_of(FORMAT_BF16),
                                           .tokens = (uint64_t)1 << 46,
                                           .seqs = 4096};
        struct engine_answer answer;
        struct status_text text = {""};
        set(&question, engine_get(i)->name,
            strcmp(engine_get(i)->name, "contiguous") == 0 ? "max-len=200000000000000" : "");
        assert_int_equal(engine_ask(engine_get(i), &question, &answer, &text), STATUS_OVERFLOW);
    }
    /* A block that no page holds. */
    const struct model hybrid = load("qwen3.8-27b");
    struct engine_question question = {
        .model = &hybrid, .storage = storage_of(FORMAT_BF16), .tokens = 8192, .seqs = 1};
    struct engine_answer answer;
    struct status_text text = {""};
    set(&question, "vllm",
        "mamba-cache-mode=all mamba-block-size=4294967295 block-size=4294967280");
    assert_int_equal(engine_ask(engine_find("vllm"), &question, &answer, &text), STATUS_OVERFLOW);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_add_up_for_every_model_format_and_length),
        cmocka_unit_test(vllm_windows_in_full_or_by_blocks),
        cmocka_unit_test(vllm_unifies_pages),
        cmocka_unit_test(vllm_attention_pages_cover_a_state),
        cmocka_unit_test(sglang_slots),
        cmocka_unit_test(llama_cpp_cells),
        cmocka_unit_test(llama_cpp_latents_and_index_keys),
        cmocka_unit_test(sparse_latents_elsewhere),
        cmocka_unit_test(items_that_do_not_add_up_are_a_defect),
        cmocka_unit_test(contiguous_reserves_the_longest),
        cmocka_unit_test(refusals_say_why),
        cmocka_unit_test(settings_are_the_engines_own),
        cmocka_unit_test(huge_sizes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
