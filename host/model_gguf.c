/* A GGUF file as a model: which architectures are read and how their layers differ, what is
 * refused, and what is a guess. The bytes are gguf_header's, the layers gguf_layers'. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "gguf_header.h"
#include "gguf_layers.h"

static const struct gguf_architecture architectures[] = {
    {.name = "llama", .slides = true},
    {.name = "mistral3", .slides = true},
    {.name = "phi3", .slides = true},
    {.name = "phimoe", .slides = true},
    {.name = "starcoder2", .slides = true},
    {.name = "gemma2", .period = 2, .window = 4096},
    {.name = "gemma3", .period = 6},
    {.name = "gemma3n", .period = 5, .shares = true},
    {.name = "gemma4", .shares = true},
    {.name = "cohere2", .period = 4},
    {.name = "gpt-oss", .period = 2, .sinks = true},
    {.name = "exaone4", .period = 4},
    {.name = "olmo2", .period = 4},
    {.name = "llama4", .period = 4, .window = 8192},
    {.name = "laguna"},
    {.name = "step35"},
    {.name = "muse-glimmer"},
    {.name = "mimo2", .drafts_slide = true},
    {.name = "glm-dsa", .unsaid = true},
    {.name = "deepseek4", .pools = true},
    {.name = "deci", .gaps = true},
    {.name = "jamba", .recurrence = GGUF_NO_KV},
    {.name = "granitehybrid", .recurrence = GGUF_NO_KV},
    {.name = "lfm2", .recurrence = GGUF_NO_KV},
    {.name = "lfm2moe", .recurrence = GGUF_NO_KV},
    {.name = "plamo2", .recurrence = GGUF_NO_KV},
    {.name = "kimi-linear", .recurrence = GGUF_NO_KV},
    {.name = "nemotron_h", .recurrence = GGUF_NO_KV_FF},
    {.name = "nemotron_h_moe", .recurrence = GGUF_NO_KV_FF},
    {.name = "qwen3next", .recurrence = GGUF_INTERVAL},
    {.name = "qwen35", .recurrence = GGUF_INTERVAL},
    {.name = "qwen35moe", .recurrence = GGUF_INTERVAL},
    {.name = "minimax-01", .recurrence = GGUF_INTERVAL}, /* its state has no keys: refused */
    {.name = "falcon-h1", .recurrence = GGUF_ALONGSIDE},
    {.name = "mamba", .recurrence = GGUF_ALWAYS},
    {.name = "mamba2", .recurrence = GGUF_ALWAYS},
};

/* Architectures with nothing but plain keys, MLA's included. */
static const char *const plain[] = {
    "apertus",    "arcee",     "baichuan",      "bailingmoe",   "bailingmoe2", "bloom",
    "chatglm",    "command-r", "dbrx",          "deepseek",     "deepseek2",   "deepseek2-ocr",
    "deepseek32", "ernie4_5",  "exaone",        "ernie4_5-moe", "falcon",      "gemma",
    "glm4",       "glm4moe",   "gpt2",          "gptj",         "gptneox",     "granite",
    "granitemoe", "grok",      "hunyuan-dense", "hunyuan-moe",  "internlm2",   "minicpm",
    "minicpm3",   "mpt",       "minimax-m2",    "mistral4",     "nemotron",    "olmo",
    "olmoe",      "orion",     "phi2",          "qwen",         "qwen2",       "qwen2moe",
    "qwen2vl",    "qwen3",     "qwen3moe",      "qwen3vl",      "qwen3vlmoe",  "seed_oss",
    "smollm3",    "stablelm",  "starcoder",     "xverse",
};

static const struct gguf_architecture *find_architecture(const char *name, bool *known) {
    static const struct gguf_architecture others = {.name = ""};
    *known = true;
    for (size_t i = 0; i < sizeof architectures / sizeof architectures[0]; i++)
        if (strcmp(architectures[i].name, name) == 0)
            return &architectures[i];
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++)
        if (strcmp(plain[i], name) == 0)
            return &others;
    *known = false;
    return &others;
}

static bool says_something(const struct reader *reader, const char *key) {
    const cJSON *item = reader_find(reader, key, NULL);
    return item != NULL && !cJSON_IsFalse(item) &&
           !(cJSON_IsNumber(item) && item->valuedouble == 0.0);
}

/* The first of `keys` (which ends with NULL) that says something. */
static const char *first_of(const struct reader *reader, const char *const *keys) {
    while (*keys != NULL && !says_something(reader, *keys))
        keys++;
    return *keys;
}

/* Keys by which layers differ and which the reader of this architecture does not look at. */
static const char *find_unread(const struct reader *reader, const struct gguf_architecture *arch,
                               bool known) {
    static const char *const never[] = {"wkv.head_size", "posnet.block_count",
                                        "decoder_block_count", "attention.relative_buckets_count",
                                        NULL};
    static const char *const recurrent[] = {"ssm.state_size",
                                            "ssm.conv_kernel",
                                            "shortconv.l_cache",
                                            "kda.head_dim",
                                            "full_attention_interval",
                                            "attention.recurrent_layers",
                                            NULL};
    static const char *const pooled[] = {"attention.compress_ratios", NULL};
    static const char *const mixed[] = {
        "attention.sliding_window",     "attention.sliding_window_pattern",
        "attention.shared_kv_layers",   "attention.key_length_swa",
        "attention.indexer.key_length", NULL};
    const char *found = first_of(reader, never);
    if (found == NULL && arch->recurrence == GGUF_NEVER)
        found = first_of(reader, recurrent);
    if (found == NULL && !arch->pools)
        found = first_of(reader, pooled);
    if (found == NULL && !known)
        found = first_of(reader, mixed);
    return found;
}

static enum status check_unread(struct reader *reader, const struct gguf_architecture *arch,
                                bool known, const char *name) {
    if (cJSON_IsFalse(reader_find(reader, "attention.causal", NULL)))
        return reader_fail(reader, STATUS_REFUSED, "attention.causal",
                           "is false: such a model keeps no cache");
    const char *found = find_unread(reader, arch, known);
    if (found == NULL)
        return STATUS_OK;
    char value[64];
    reader_describe(reader_find(reader, found, NULL), value, sizeof value);
    return reader->status = status_set(
               reader->text, STATUS_REFUSED,
               "%s: %s%s (%s) says that layers of %s differ in a way that is not understood",
               reader->origin, reader->where, found, value, name);
}

static enum status read_architecture(struct reader *reader, const char *name) {
    bool known;
    const struct gguf_architecture *arch = find_architecture(name, &known);
    if (check_unread(reader, arch, known, name) == STATUS_OK)
        (void)gguf_layers_read(reader, arch);
    reader->model->native_context =
        reader_want(reader, "native_context", "context_length", 1, UINT32_MAX, 0, "");
    reader->model->hidden_size = reader_hint(reader, "embedding_length");
    reader->model->experts = reader_hint(reader, "expert_count");
    if (!known && reader->status == STATUS_OK) {
        char remark[160];
        (void)snprintf(remark, sizeof remark, "a guess: %s is not known, read as plain attention",
                       name);
        reader_remark(reader, remark);
        reader_assume(reader, "layout");
    }
    return reader->status;
}

/* `root` is the header as a tree. */
static enum status read_root(struct reader *reader) {
    const cJSON *general = cJSON_GetObjectItemCaseSensitive(reader->root, "general");
    const cJSON *type = cJSON_GetObjectItemCaseSensitive(general, "type");
    const cJSON *named = cJSON_GetObjectItemCaseSensitive(general, "architecture");
    char name[48];
    reader->status = json_text_string(named, reader->origin, "general.architecture", name,
                                      sizeof name, reader->text);
    if (reader->status != STATUS_OK)
        return reader->status;
    if (type != NULL && !(cJSON_IsString(type) && strcmp(type->valuestring, "model") == 0)) {
        char held[64], what[128];
        reader_describe(type, held, sizeof held);
        (void)snprintf(what, sizeof what, "is %s: a file of a whole model is expected", held);
        return reader_fail(reader, STATUS_REFUSED, "general.type", what);
    }
    if (!cJSON_IsObject(cJSON_GetObjectItemCaseSensitive(reader->root, name)))
        return reader_fail(reader, STATUS_BAD_INPUT, name,
                           "has no keys here (of a split model, give the first file)");
    (void)reader_enter(reader, name);
    return read_architecture(reader, name);
}

static enum status read_file(FILE *file, uint64_t size, const char *origin, struct model *out,
                             struct model_trace *trace, struct status_text *text) {
    *out = (struct model){0};
    if (trace != NULL)
        trace->count = 0;
    (void)snprintf(out->name, sizeof out->name, "%.90s", origin);
    (void)snprintf(out->source, sizeof out->source, "%.250s", origin);
    cJSON *root = NULL;
    enum status status = gguf_header_read(file, size, origin, &root, text);
    if (status != STATUS_OK)
        return status;
    struct reader reader = {
        .root = root, .config = root, .origin = origin, .model = out, .trace = trace, .text = text};
    status = read_root(&reader);
    cJSON_Delete(root);
    return status == STATUS_OK ? model_check(out, text) : status;
}

enum status model_gguf_parse(const char *bytes, size_t size, const char *origin, struct model *out,
                             struct model_trace *trace, struct status_text *text) {
    if (size == 0)
        return status_set(text, STATUS_BAD_INPUT, "%.300s: not a GGUF header: it is empty", origin);
    /* The stream only reads. */
    FILE *file = fmemopen((void *)(uintptr_t)bytes, size, "rb");
    if (file == NULL)
        return status_set(text, STATUS_OUT_OF_MEMORY, "%.300s: no memory for its header", origin);
    const enum status status = read_file(file, size, origin, out, trace, text);
    (void)fclose(file);
    return status;
}

enum status model_gguf_load(const char *path, struct model *out, struct model_trace *trace,
                            struct status_text *text) {
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return status_set(text, STATUS_BAD_INPUT, "--model %.300s: %s", path, strerror(errno));
    enum status status = STATUS_OK;
    off_t size = -1;
    if (fseeko(file, 0, SEEK_END) == 0)
        size = ftello(file);
    if (size < 0 || fseeko(file, 0, SEEK_SET) != 0)
        status = status_set(text, STATUS_BAD_INPUT, "--model %.300s: %s", path, strerror(errno));
    else
        status = read_file(file, (uint64_t)size, path, out, trace, text);
    (void)fclose(file);
    return status;
}
