/* GGUF headers, written here byte by byte: what is read of each kind of model, and what is refused
 * of headers that are cut, that lie about their lengths, or that hold what no header has. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gguf_bytes.h"
#include "model_source.h"

/* One at a time: they are large. */
static struct gguf_bytes header;

static enum status parse(struct model *model, struct status_text *text) {
    return model_gguf_parse((const char *)header.bytes, header.size, "m.gguf", model, NULL, text);
}

static struct model read_model(void) {
    struct model model;
    struct status_text text = {""};
    if (parse(&model, &text) != STATUS_OK)
        fail_msg("%s", text.line);
    return model;
}

static void assert_groups(const char *expected) {
    const struct model model = read_model();
    char words[512] = "";
    for (uint32_t g = 0; g < model.group_count; g++) {
        (void)snprintf(words + strlen(words), sizeof words - strlen(words), "%s",
                       g > 0 ? ", " : "");
        model_group_words(&model.groups[g], words + strlen(words),
                          (uint32_t)(sizeof words - strlen(words)));
    }
    if (strcmp(words, expected) != 0)
        fail_msg("%s, not %s", words, expected);
    assert_int_equal(model.native_context, 131072);
}

static void assert_refused(enum status status, const char *word) {
    struct model model;
    struct status_text text = {""};
    const enum status got = parse(&model, &text);
    if (got != status || strstr(text.line, word) == NULL || strstr(text.line, "m.gguf") == NULL)
        fail_msg("%s: \"%s\" does not say \"%s\"", status_name(got), text.line, word);
}

static void test_plain(void **state) {
    (void)state;
    gguf_model(&header, "llama", 32, 8);
    assert_groups("32 full 8x128");
    assert_string_equal(read_model().remark, "");
    gguf_model(&header, "llama", 32, 0);
    assert_groups("32 full 32x128"); /* as many as query heads */
    gguf_model(&header, "qwen3", 36, 8);
    gguf_u32(&header, "qwen3.attention.key_length", 192);
    gguf_u32(&header, "qwen3.attention.value_length", 64);
    assert_groups("36 full 8x192/64");
    gguf_model(&header, "glm4moe", 47, 8);
    gguf_u32(&header, "glm4moe.nextn_predict_layers", 1);
    assert_groups("46 full 8x128");
    /* KV heads per layer, and layers without: a pruned model. */
    static const uint32_t kv[] = {8, 0, 4, 8};
    gguf_model(&header, "deci", 4, 0);
    gguf_list(&header, "deci.attention.head_count_kv", GGUF_UINT32, 4, kv, 4);
    assert_groups("2 full 8x128, 1 full 4x128");
    gguf_model(&header, "llama", 4, 0);
    gguf_list(&header, "llama.attention.head_count_kv", GGUF_INT32, 4, kv, 4);
    assert_refused(STATUS_REFUSED, "llama.attention.head_count_kv is 0 in a layer");
    /* Older files. */
    gguf_model(&header, "llama", 2, 8);
    header.bytes[4] = 2;
    assert_groups("2 full 8x128");
}

static void test_windows(void **state) {
    (void)state;
    gguf_model(&header, "gemma3", 12, 8);
    gguf_u32(&header, "gemma3.attention.sliding_window", 1024);
    assert_groups("10 window 8x128 of 1024, 2 full 8x128");
    gguf_u32(&header, "gemma3.attention.sliding_window_pattern", 4);
    assert_groups("9 window 8x128 of 1024, 3 full 8x128");
    gguf_model(&header, "gpt-oss", 4, 8);
    gguf_u32(&header, "gpt-oss.attention.sliding_window", 128);
    assert_groups("2 window 8x128 of 128, 2 full 8x128");
    assert_true(read_model().groups[1].sinks);
    static const uint32_t slides[] = {0, 1, 1, 0};
    gguf_model(&header, "mimo2", 4, 8);
    gguf_list(&header, "mimo2.attention.sliding_window_pattern", GGUF_BOOL, 1, slides, 4);
    gguf_u32(&header, "mimo2.attention.sliding_window", 128);
    assert_groups("2 full 8x128, 2 window 8x128 of 128");
    assert_true(!read_model().groups[0].drafts && read_model().groups[1].drafts);
    gguf_model(&header, "phi3", 4, 8);
    gguf_u32(&header, "phi3.attention.sliding_window", 2047);
    assert_groups("4 window 8x128 of 2047");
    gguf_model(&header, "phi3", 4, 8);
    gguf_u32(&header, "phi3.attention.sliding_window", 262144);
    assert_groups("4 full 8x128"); /* never binds */
    gguf_model(&header, "llama4", 4, 8);
    assert_groups("3 window 8x128 of 8192, 1 full 8x128");
    gguf_model(&header, "exaone4", 4, 8);
    assert_groups("4 full 8x128");
    /* Flags per layer, heads per layer, dims of their own, and layers that share. */
    static const uint32_t flags[] = {1, 1, 0, 1, 0}, kv[] = {8, 8, 2, 8, 2};
    gguf_model(&header, "gemma4", 5, 0);
    gguf_list(&header, "gemma4.attention.head_count_kv", GGUF_UINT32, 4, kv, 5);
    gguf_list(&header, "gemma4.attention.sliding_window_pattern", GGUF_BOOL, 1, flags, 5);
    gguf_u32(&header, "gemma4.attention.sliding_window", 512);
    gguf_u32(&header, "gemma4.attention.key_length", 512);
    gguf_u32(&header, "gemma4.attention.value_length", 512);
    gguf_u32(&header, "gemma4.attention.key_length_swa", 256);
    gguf_u32(&header, "gemma4.attention.value_length_swa", 256);
    assert_refused(STATUS_BAD_INPUT, "gemma4.attention.shared_kv_layers is missing");
    gguf_u32(&header, "gemma4.attention.shared_kv_layers", 2);
    assert_groups("2 window 8x256 of 512, 1 full 2x512");
    assert_int_equal(read_model().groups[0].read_by_layers, 3);
    assert_int_equal(read_model().groups[1].read_by_layers, 2);
    gguf_model(&header, "qwen3", 4, 8);
    gguf_u32(&header, "qwen3.attention.sliding_window", 512);
    assert_refused(STATUS_REFUSED, "qwen3.attention.sliding_window is set without");
}

static void test_latents(void **state) {
    (void)state;
    gguf_model(&header, "deepseek2", 61, 1);
    gguf_u32(&header, "deepseek2.attention.kv_lora_rank", 512);
    gguf_u32(&header, "deepseek2.rope.dimension_count", 64);
    gguf_u32(&header, "deepseek2.attention.key_length", 576);
    gguf_u32(&header, "deepseek2.attention.value_length", 512);
    assert_groups("61 latent 512+64");
    assert_non_null(strstr(read_model().remark, "key_length_mla"));
    gguf_u32(&header, "deepseek2.attention.key_length_mla", 192);
    assert_groups("61 latent 512+64");
    assert_string_equal(read_model().remark, "");
    gguf_model(&header, "glm-dsa", 3, 1);
    gguf_u32(&header, "glm-dsa.attention.kv_lora_rank", 512);
    gguf_u32(&header, "glm-dsa.rope.dimension_count", 64);
    gguf_u32(&header, "glm-dsa.attention.indexer.key_length", 128);
    gguf_u32(&header, "glm-dsa.attention.indexer.top_k", 2048);
    assert_groups("3 latent 512+64, 3 index 128 per 1");
    static const uint32_t ratios[] = {0, 128, 4, 4, 0};
    gguf_model(&header, "deepseek4", 4, 1);
    gguf_u32(&header, "deepseek4.attention.key_length", 512);
    gguf_u32(&header, "deepseek4.attention.sliding_window", 128);
    gguf_u32(&header, "deepseek4.attention.indexer.key_length", 128);
    gguf_list(&header, "deepseek4.attention.compress_ratios", GGUF_UINT32, 4, ratios, 5);
    assert_groups("4 window 1x512 K=V of 128, 1 compressed 512 per 128, 2 compressed 512 per 4, 2 "
                  "index 128 per 4");
    static const uint32_t strange[] = {0, 1, 2, 2};
    gguf_model(&header, "deepseek4", 4, 1);
    gguf_list(&header, "deepseek4.attention.compress_ratios", GGUF_UINT32, 4, strange, 4);
    assert_refused(STATUS_REFUSED, "deepseek4.attention.compress_ratios[1] is 1");
}

/* The keys of a recurrent layer. */
static void put_ssm(const char *arch, uint32_t inner, uint32_t size, uint32_t rank,
                    uint32_t groups) {
    const struct {
        const char *name;
        uint32_t value;
    } numbers[] = {{".ssm.conv_kernel", 4},
                   {".ssm.inner_size", inner},
                   {".ssm.state_size", size},
                   {".ssm.time_step_rank", rank},
                   {".ssm.group_count", groups}};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        char key[128];
        (void)snprintf(key, sizeof key, "%s%s", arch, numbers[i].name);
        gguf_u32(&header, key, numbers[i].value);
    }
}

static void test_states(void **state) {
    (void)state;
    gguf_model(&header, "qwen3next", 8, 2);
    put_ssm("qwen3next", 4096, 128, 32, 16);
    assert_groups("6 state gated_delta_net 32x128x128, 2 full 2x128");
    struct model model = read_model();
    assert_int_equal(model.groups[0].conv_channels, 8192);
    assert_int_equal(model.groups[0].conv_taps, 3);
    static const uint32_t kv[] = {0, 0, 8, 0}, ff[] = {0, 1024, 0, 0};
    gguf_model(&header, "nemotron_h", 4, 0);
    put_ssm("nemotron_h", 8192, 128, 128, 8);
    gguf_list(&header, "nemotron_h.attention.head_count_kv", GGUF_UINT32, 4, kv, 4);
    gguf_list(&header, "nemotron_h.feed_forward_length", GGUF_UINT32, 4, ff, 4);
    assert_groups("2 state mamba2 128x64x128, 1 full 8x128");
    assert_int_equal(read_model().groups[0].conv_channels, 8192 + 2 * 8 * 128);
    gguf_model(&header, "jamba", 4, 0);
    put_ssm("jamba", 8192, 16, 256, 0);
    gguf_list(&header, "jamba.attention.head_count_kv", GGUF_UINT32, 4, kv, 4);
    assert_groups("3 state mamba1 8192x1x16, 1 full 8x128");
    gguf_model(&header, "falcon-h1", 4, 8);
    put_ssm("falcon-h1", 3072, 256, 24, 1);
    assert_groups("4 full 8x128, 4 state mamba2 24x128x256");
    gguf_model(&header, "mamba2", 4, 0);
    put_ssm("mamba2", 8192, 128, 128, 8);
    assert_groups("4 state mamba2 128x64x128");
    gguf_model(&header, "lfm2", 4, 0);
    gguf_u32(&header, "lfm2.shortconv.l_cache", 3);
    gguf_list(&header, "lfm2.attention.head_count_kv", GGUF_UINT32, 4, kv, 4);
    assert_groups("3 state short_conv 4096 channels, 1 full 8x128");
    static const uint32_t mla[] = {0, 0, 0, 1};
    gguf_model(&header, "kimi-linear", 4, 0);
    gguf_u32(&header, "kimi-linear.ssm.conv_kernel", 4);
    gguf_u32(&header, "kimi-linear.kda.head_dim", 128);
    gguf_u32(&header, "kimi-linear.attention.kv_lora_rank", 512);
    gguf_u32(&header, "kimi-linear.rope.dimension_count", 64);
    gguf_list(&header, "kimi-linear.attention.head_count_kv", GGUF_UINT32, 4, mla, 4);
    assert_groups("3 state kda 32x128x128, 1 latent 512+64");
}

static void test_architectures_that_are_not_known(void **state) {
    (void)state;
    gguf_model(&header, "novel", 4, 8);
    assert_groups("4 full 8x128");
    assert_string_equal(read_model().assumed, "layout");
    assert_non_null(strstr(read_model().remark, "a guess: novel"));
    gguf_u32(&header, "novel.attention.sliding_window", 512);
    assert_refused(STATUS_REFUSED, "novel.attention.sliding_window (512)");
    gguf_model(&header, "novel", 4, 8);
    put_ssm("novel", 8192, 16, 256, 0);
    assert_refused(STATUS_REFUSED, "novel.ssm.");
    gguf_model(&header, "rwkv6", 4, 0);
    gguf_u32(&header, "rwkv6.wkv.head_size", 64);
    assert_refused(STATUS_REFUSED, "rwkv6.wkv.head_size (64)");
    gguf_model(&header, "deepseek41", 4, 1);
    gguf_list(&header, "deepseek41.attention.compress_ratios", GGUF_UINT32, 4, (uint32_t[]){1}, 1);
    assert_refused(STATUS_REFUSED, "deepseek41.attention.compress_ratios (a list)");
    gguf_model(&header, "deepseek4", 4, 1);
    assert_refused(STATUS_BAD_INPUT, "deepseek4.attention.compress_ratios is missing");
    gguf_model(&header, "minimax-01", 8, 8);
    assert_refused(STATUS_BAD_INPUT, "minimax-01.ssm.conv_kernel is missing");
    gguf_model(&header, "bert", 4, 8);
    gguf_key(&header, "bert.attention.causal", GGUF_BOOL);
    gguf_raw(&header, 0, 1);
    assert_refused(STATUS_REFUSED, "bert.attention.causal is false");
    gguf_model(&header, "llama", 4, 8);
    gguf_string(&header, "general.type", "adapter");
    assert_refused(STATUS_REFUSED, "general.type is \"adapter\"");
    gguf_start(&header, 3);
    gguf_string(&header, "general.architecture", "llama");
    assert_refused(STATUS_BAD_INPUT, "the first file");
    gguf_start(&header, 3);
    gguf_u32(&header, "general.architecture", 7);
    assert_refused(STATUS_BAD_INPUT, "general.architecture holds a number");
    gguf_start(&header, 3);
    assert_refused(STATUS_BAD_INPUT, "general.architecture holds nothing");
}

static void test_numbers_that_are_none(void **state) {
    (void)state;
    gguf_start(&header, 3);
    gguf_string(&header, "general.architecture", "llama");
    gguf_key(&header, "llama.block_count", GGUF_UINT64);
    gguf_raw(&header, (uint64_t)1 << 60, 8);
    assert_refused(STATUS_BAD_INPUT, "llama.block_count is 1.15292e+18");
    gguf_start(&header, 3);
    gguf_string(&header, "general.architecture", "llama");
    gguf_key(&header, "llama.block_count", GGUF_INT32);
    gguf_raw(&header, UINT32_MAX, 4);
    assert_refused(STATUS_BAD_INPUT, "llama.block_count is -1");
    gguf_start(&header, 3);
    gguf_string(&header, "general.architecture", "llama");
    gguf_key(&header, "llama.block_count", GGUF_FLOAT32);
    gguf_raw(&header, 0x7FC00000u, 4); /* NaN */
    assert_refused(STATUS_BAD_INPUT, "llama.block_count is ");
    gguf_start(&header, 3);
    gguf_string(&header, "general.architecture", "llama");
    gguf_string(&header, "llama.block_count", "32");
    assert_refused(STATUS_BAD_INPUT, "llama.block_count holds a string");
    static const uint32_t kv[] = {8, 8};
    gguf_model(&header, "llama", 4, 0);
    gguf_list(&header, "llama.attention.head_count_kv", GGUF_UINT16, 2, kv, 2);
    assert_refused(STATUS_BAD_INPUT, "head_count_kv has 2 entries for 4 layers");
    gguf_model(&header, "llama", 32, 8);
    gguf_u32(&header, "llama.block_count", 32);
    assert_refused(STATUS_BAD_INPUT, "the key block_count occurs twice");
    gguf_model(&header, "llama", 32, 8);
    gguf_u32(&header, "llama", 32);
    assert_refused(STATUS_BAD_INPUT, "the key llama occurs twice");
}

static void test_hostile_headers(void **state) {
    (void)state;
    gguf_model(&header, "llama", 32, 8);
    memcpy(header.bytes, "GGML", 4);
    assert_refused(STATUS_BAD_INPUT, "does not start with GGUF");
    gguf_start(&header, 1);
    assert_refused(STATUS_BAD_INPUT, "neither 2 nor 3");
    gguf_start(&header, 3u << 24);
    assert_refused(STATUS_BAD_INPUT, "big-endian");
    gguf_start(&header, 3);
    gguf_count(&header, (uint64_t)1 << 60);
    assert_refused(STATUS_BAD_INPUT, "more than 4096 keys");
    gguf_start(&header, 3);
    header.bytes[15] = 0x10; /* tensors */
    assert_refused(STATUS_BAD_INPUT, "2^24 tensors");
    static const uint64_t lengths[] = {(uint64_t)1 << 60, UINT64_MAX, 1000000, 100};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        gguf_start(&header, 3);
        gguf_count(&header, 1);
        gguf_raw(&header, lengths[i], 8); /* of a key */
        assert_refused(STATUS_BAD_INPUT, "byte 32");
        gguf_start(&header, 3);
        gguf_key(&header, "general.name", GGUF_STRING);
        gguf_raw(&header, lengths[i], 8);
        assert_refused(STATUS_BAD_INPUT, "longer than the file");
        for (uint32_t type = GGUF_UINT8; type <= GGUF_FLOAT64; type++) {
            gguf_start(&header, 3);
            gguf_key(&header, "llama.list", GGUF_ARRAY);
            gguf_raw(&header, type, 4);
            gguf_raw(&header, lengths[i], 8);
            assert_refused(STATUS_BAD_INPUT, type == GGUF_ARRAY ? "a list of lists" : "byte 58");
        }
    }
    gguf_start(&header, 3);
    gguf_key(&header, "llama.x", 13);
    assert_refused(STATUS_BAD_INPUT, "unknown type");
    gguf_start(&header, 3);
    gguf_key(&header, "llama.x", GGUF_ARRAY);
    gguf_raw(&header, 99, 4);
    gguf_raw(&header, 0, 8);
    assert_refused(STATUS_BAD_INPUT, "unknown type");
    static const char *const keys[] = {"", "a b", "a\nb", "a\x1b[31m", "\xC3\xA9"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        gguf_start(&header, 3);
        gguf_u32(&header, keys[i], 1);
        assert_refused(STATUS_BAD_INPUT, "a key ");
    }
    header.size = 0;
    assert_refused(STATUS_BAD_INPUT, "empty");
}

/* Ends anywhere: refused with the byte, and never read past (the sanitizers would say). */
static void test_truncated_at_every_byte(void **state) {
    (void)state;
    gguf_model(&header, "gemma3", 12, 8);
    gguf_u32(&header, "gemma3.attention.sliding_window", 1024);
    gguf_tokens(&header, 0);
    memcpy(header.bytes + header.size - 40, "tokenizer.ggml.kinds", 20);
    const size_t whole = header.size;
    for (size_t size = 0; size < whole; size++) {
        char *part = malloc(size > 0 ? size : 1);
        assert_non_null(part);
        memcpy(part, header.bytes, size);
        struct model model;
        struct status_text text = {""};
        if (model_gguf_parse(part, size, "m.gguf", &model, NULL, &text) != STATUS_BAD_INPUT)
            fail_msg("cut at %zu: not refused", size);
        if (size > 0 && strstr(text.line, "at byte ") == NULL)
            fail_msg("cut at %zu: %s", size, text.line);
        free(part);
    }
}

/* Lists longer than any model has layers, and long strings, are passed over. */
static void test_what_is_not_kept(void **state) {
    (void)state;
    static const uint32_t nothing[10001];
    gguf_model(&header, "llama", 32, 8);
    gguf_list(&header, "tokenizer.ggml.token_type", GGUF_INT32, 4, nothing, 10001);
    static char essay[5001];
    memset(essay, 'a', 5000);
    gguf_string(&header, "tokenizer.chat_template", essay);
    gguf_key(&header, "general.trained", GGUF_BOOL);
    gguf_raw(&header, 1, 1);
    gguf_key(&header, "general.loss", GGUF_FLOAT64);
    gguf_raw(&header, 0x3FF8000000000000u, 8);
    assert_groups("32 full 8x128");
    gguf_raw(&header, 0x1234, 8); /* the tensors, which nobody looks at */
    assert_groups("32 full 8x128");
}

static void test_files_and_their_trace(void **state) {
    (void)state;
    char folder[] = "kvgauge-test-XXXXXX", path[64];
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/mine.bin", folder); /* by its look, not its name */
    gguf_model(&header, "llama", 32, 8);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(header.bytes, 1, header.size, file), header.size);
    assert_int_equal(fclose(file), 0);
    struct model model;
    struct model_trace trace;
    enum format_id format = FORMAT_COUNT;
    char reason[96] = "";
    assert_int_equal(model_source_load(path, &model, &trace, &format, reason, NULL), STATUS_OK);
    assert_string_equal(model.name, "mine.bin");
    assert_string_equal(model.source, path);
    assert_int_equal(format, FORMAT_F16);
    assert_non_null(strstr(reason, "llama.cpp"));
    bool found = false;
    for (size_t i = 0; i < trace.count; i++)
        found = found || (strcmp(trace.entries[i].field, "kv_heads") == 0 &&
                          strcmp(trace.entries[i].key, "llama.attention.head_count_kv") == 0);
    assert_true(found);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_latents),
        cmocka_unit_test(test_states),
        cmocka_unit_test(test_architectures_that_are_not_known),
        cmocka_unit_test(test_numbers_that_are_none),
        cmocka_unit_test(test_hostile_headers),
        cmocka_unit_test(test_truncated_at_every_byte),
        cmocka_unit_test(test_what_is_not_kept),
        cmocka_unit_test(test_files_and_their_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
