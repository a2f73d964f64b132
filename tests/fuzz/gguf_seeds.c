/* Writes the seeds of fuzz_gguf into a folder: one header per way of reading layers. The committed
 * ones are checked against it. Usage: gguf_seeds FOLDER. */
#include <stdio.h>

#include "gguf_bytes.h"

static struct gguf_bytes seed;

static int put(const char *folder, const char *name) {
    char path[1024];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    if (file == NULL || fwrite(seed.bytes, 1, seed.size, file) != seed.size || fclose(file) != 0) {
        (void)fprintf(stderr, "%s cannot be written\n", path);
        return 1;
    }
    return 0;
}

static void put_ssm(const char *arch) {
    static const char *const names[] = {"conv_kernel", "inner_size", "state_size", "time_step_rank",
                                        "group_count"};
    static const uint32_t values[] = {4, 4096, 128, 32, 8};
    for (size_t i = 0; i < 5; i++) {
        char key[128];
        (void)snprintf(key, sizeof key, "%s.ssm.%s", arch, names[i]);
        gguf_u32(&seed, key, values[i]);
    }
}

int main(int argc, char **argv) {
    if (argc != 2) {
        (void)fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
        return 2;
    }
    static const uint32_t kv[] = {0, 8, 0, 8}, flags[] = {1, 0, 1, 0};
    int failed = 0;
    gguf_model(&seed, "llama", 4, 8);
    failed |= put(argv[1], "plain");
    gguf_model(&seed, "gemma4", 4, 8);
    gguf_list(&seed, "gemma4.attention.sliding_window_pattern", GGUF_BOOL, 1, flags, 4);
    gguf_u32(&seed, "gemma4.attention.sliding_window", 512);
    gguf_u32(&seed, "gemma4.attention.key_length_swa", 256);
    gguf_u32(&seed, "gemma4.attention.shared_kv_layers", 2);
    failed |= put(argv[1], "window");
    gguf_model(&seed, "deepseek2", 4, 1);
    gguf_u32(&seed, "deepseek2.attention.kv_lora_rank", 512);
    gguf_u32(&seed, "deepseek2.rope.dimension_count", 64);
    gguf_u32(&seed, "deepseek2.attention.indexer.key_length", 128);
    failed |= put(argv[1], "latent");
    gguf_model(&seed, "nemotron_h", 4, 0);
    gguf_list(&seed, "nemotron_h.attention.head_count_kv", GGUF_UINT32, 4, kv, 4);
    gguf_list(&seed, "nemotron_h.feed_forward_length", GGUF_INT16, 2, kv, 4);
    put_ssm("nemotron_h");
    failed |= put(argv[1], "state");
    gguf_model(&seed, "qwen3next", 4, 2);
    put_ssm("qwen3next");
    gguf_key(&seed, "qwen3next.full_attention_interval", GGUF_UINT64);
    gguf_raw(&seed, 4, 8);
    failed |= put(argv[1], "interval");
    return failed;
}
