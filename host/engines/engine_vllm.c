/* vLLM: what its settings mean for the blocks of vllm_groups.c, the difference to the formula item
 * by item, and the two lines it prints at start. */
#include "engine_parts.h"
#include "number.h"
#include "vllm_groups.h"

enum {
    MAX_MODEL_LEN,
    BLOCK_SIZE,
    MAX_NUM_BATCHED_TOKENS,
    ASYNC_SCHEDULING,
    DISABLE_HYBRID,
    MAMBA_CACHE_MODE,
    MAMBA_BLOCK_SIZE,
    MAMBA_SSM_CACHE_DTYPE,
    GPU_MEMORY_UTILIZATION,
    KV_CACHE_MEMORY_BYTES,
    NUM_GPU_BLOCKS_OVERRIDE,
};

static const struct engine_setting_row settings[] = {
    [MAX_MODEL_LEN] = {"max-model-len", ENGINE_TOKENS, NULL},
    [BLOCK_SIZE] = {"block-size", ENGINE_COUNT, NULL},
    [MAX_NUM_BATCHED_TOKENS] = {"max-num-batched-tokens", ENGINE_COUNT, NULL},
    [ASYNC_SCHEDULING] = {"async-scheduling", ENGINE_WORD, "true false"},
    [DISABLE_HYBRID] = {"disable-hybrid-kv-cache-manager", ENGINE_SWITCH, NULL},
    [MAMBA_CACHE_MODE] = {"mamba-cache-mode", ENGINE_WORD, "none align all"},
    [MAMBA_BLOCK_SIZE] = {"mamba-block-size", ENGINE_COUNT, NULL},
    [MAMBA_SSM_CACHE_DTYPE] = {"mamba-ssm-cache-dtype", ENGINE_WORD,
                               "auto float32 float16 bfloat16"},
    [GPU_MEMORY_UTILIZATION] = {"gpu-memory-utilization", ENGINE_FRACTION, NULL},
    [KV_CACHE_MEMORY_BYTES] = {"kv-cache-memory-bytes", ENGINE_BYTES, NULL},
    [NUM_GPU_BLOCKS_OVERRIDE] = {"num-gpu-blocks-override", ENGINE_COUNT, NULL},
};

/* vllm/engine/arg_utils.py: for the server, on devices of 70 GiB and more; 2,048 below. */
enum { USUAL_BATCHED_TOKENS = 8192 };

static enum status check(const struct engine_question *question, const struct engine_layout *layout,
                         struct status_text *text) {
    const struct formula_storage *storage = &question->storage;
    bool latent = false, index = false;
    for (uint32_t g = 0; g < layout->count; g++) {
        latent = latent || layout->groups[g].of->kind == MODEL_LATENT;
        index = index || layout->groups[g].of->kind == MODEL_INDEX;
    }
    const struct engine_setting *block = &question->settings[BLOCK_SIZE];
    if (block->given && block->number % 16 != 0)
        return status_set(text, STATUS_REFUSED,
                          "vLLM: --engine-opt block-size=%llu: its attention kernels need a "
                          "multiple of 16",
                          (unsigned long long)block->number);
    const bool pair = storage->k_format != storage->v_format;
    switch (!pair ? storage->k_format : FORMAT_COUNT) {
    case FORMAT_NVFP4:
        if (latent)
            return status_set(text, STATUS_REFUSED,
                              "%s has no nvfp4 cache with MLA; bf16, f16, fp8 and fp8_ds_mla_656 "
                              "it has",
                              engine_vllm.version);
        return STATUS_OK;
    case FORMAT_FP8_E5M2:
        if (latent && index)
            return status_set(text, STATUS_REFUSED,
                              "%s has no fp8_e5m2 cache with sparse MLA; bf16, fp8_e4m3 and "
                              "fp8_ds_mla_656 it has",
                              engine_vllm.version);
        return STATUS_OK;
    case FORMAT_BF16:
    case FORMAT_F16:
    case FORMAT_FP8_E4M3:
    case FORMAT_FP8_DS_MLA_656:
        return STATUS_OK;
    default:
        return engine_refuse_format(&engine_vllm, question,
                                    "bf16, f16, fp8_e4m3, fp8_e5m2, nvfp4, K and V alike, and "
                                    "fp8_ds_mla_656",
                                    text);
    }
}

static struct vllm_choices read_choices(const struct engine_question *question) {
    const struct engine_setting *given = question->settings;
    const uint64_t batched = engine_number(&given[MAX_NUM_BATCHED_TOKENS], USUAL_BATCHED_TOKENS);
    /* Two batches are under way when one is scheduled while the other runs. */
    const uint64_t batches = given[ASYNC_SCHEDULING].number == 0 ? 2 : 1;
    const uint64_t dtype = given[MAMBA_SSM_CACHE_DTYPE].number;
    return (struct vllm_choices){
        .block_tokens = engine_number(&given[BLOCK_SIZE], 0),
        .in_flight_tokens = batched * batches,
        .mode = (enum vllm_mode)given[MAMBA_CACHE_MODE].number,
        .state_step = engine_number(&given[MAMBA_BLOCK_SIZE], 0),
        .state_value_bytes = dtype == 0   ? question->storage.state_value_bytes
                             : dtype == 1 ? 4
                                          : 2,
        .windows_in_full = given[DISABLE_HYBRID].number != 0,
    };
}

/* Without full attention there is nothing to make windows alike to. */
static bool has_full(const struct engine_layout *layout) {
    for (uint32_t g = 0; g < layout->count; g++)
        if (layout->groups[g].of->kind == MODEL_FULL || layout->groups[g].of->kind == MODEL_LATENT)
            return true;
    return false;
}

static void add_attention(const struct vllm_spec *spec, uint64_t seqs, struct engine_answer *out,
                          bool *fits) {
    const struct engine_group *group = spec->group;
    const uint64_t layers = engine_times(fits, spec->layers, seqs);
    const uint64_t held = engine_times(fits, layers, spec->token_bytes);
    const uint64_t room = engine_times(fits, spec->block_count, spec->block_tokens);
    const bool window = spec->kind == VLLM_WINDOW;
    /* Bytes a token has beyond the formula's, for the tokens that the formula keeps. */
    engine_add_item(out, "index keys as fp8 with an fp32 scale",
                    engine_change(fits, engine_times(fits, layers, group->kept_tokens),
                                  spec->token_bytes, group->token_bytes));
    engine_add_item(out,
                    window ? "window blocks: tokens in flight"
                           : "window layers kept in full (no hybrid manager)",
                    engine_change(fits, held, spec->tokens_held, group->kept_tokens));
    engine_add_item(out,
                    window ? "window blocks: rounding, and one block more"
                           : "unused tokens of last blocks",
                    engine_change(fits, held, room, spec->tokens_held));
}

static void add_state(const struct vllm_spec *spec, uint64_t seqs, struct engine_answer *out,
                      bool *fits) {
    const struct engine_group *group = spec->group;
    const uint64_t layers = engine_times(fits, spec->layers, seqs);
    engine_add_item(
        out, "recurrent state in its own type",
        engine_change(fits, layers, spec->state_bytes, group->state_bytes + group->conv_bytes));
    engine_add_item(
        out, "more than one state a sequence, for prefix caching",
        engine_change(fits, engine_times(fits, layers, spec->state_bytes), spec->block_count, 1));
    engine_add_item(out, "states padded to the attention page",
                    engine_change(fits, engine_times(fits, layers, spec->block_count),
                                  spec->page_bytes, spec->state_bytes));
}

static void add_items(const struct vllm_plan *plan, uint64_t seqs, struct engine_answer *out,
                      bool *fits) {
    for (uint32_t s = 0; s < plan->count; s++) {
        const struct vllm_spec *spec = &plan->specs[s];
        if (spec->kind == VLLM_STATE)
            add_state(spec, seqs, out, fits);
        else
            add_attention(spec, seqs, out, fits);
        if (plan->one_table)
            continue;
        const uint64_t places = engine_times(fits, spec->table_count, plan->layers_per_table);
        const uint64_t pages = engine_times(fits, spec->block_count, seqs);
        engine_add_item(
            out, "pages of padding layers",
            engine_change(fits, engine_times(fits, pages, spec->page_bytes), places, spec->layers));
    }
    engine_add_item(out, "null block", (int64_t)plan->block_bytes);
}

static void note_plan(const struct engine_question *question, const struct vllm_plan *plan,
                      struct engine_answer *out) {
    char page[NUMBER_TEXT_BYTES], block[NUMBER_TEXT_BYTES];
    const struct vllm_spec *first = &plan->specs[0];
    for (uint32_t s = 1; s < plan->count && first->kind == VLLM_STATE; s++)
        first = &plan->specs[s];
    number_group_digits(plan->one_table ? plan->block_bytes : first->page_bytes, page);
    number_group_digits(first->block_tokens, block);
    if (plan->one_table)
        engine_note(out, "blocks of %s tokens, %s B over all layers", block, page);
    else
        engine_note(out, "%llu block tables of %llu layers, pages of %s B, %s %s tokens",
                    (unsigned long long)plan->table_count,
                    (unsigned long long)plan->layers_per_table, page,
                    first->kind == VLLM_STATE ? "blocks of" : "attention blocks of", block);
    if (plan->one_table && first->group->of->kind == MODEL_LATENT &&
        !question->settings[BLOCK_SIZE].given)
        engine_note(out, "block-size of FlashMLA taken; other MLA backends have 32 or 128");
    for (uint32_t s = 0; s < plan->count; s++)
        if (plan->specs[s].group->of->kind == MODEL_INDEX &&
            question->storage.k_format == FORMAT_FP8_E4M3)
            engine_note(out, "FlashInfer's sparse MLA; FlashMLA's fp8 is fp8_ds_mla_656");
    for (uint32_t s = 0; s < plan->count; s++)
        if (plan->specs[s].kind == VLLM_WINDOW &&
            !question->settings[MAX_NUM_BATCHED_TOKENS].given) {
            engine_note(out, "max-num-batched-tokens %d taken (2048 on devices below 70 GiB)",
                        USUAL_BATCHED_TOKENS);
            break;
        }
}

/* The two lines of start-up, and how many tokens the memory holds: for sequences of the longest
 * length, `question->tokens`, of which `plan` is. */
static void count_tokens(const struct engine_question *question, const struct vllm_plan *plan,
                         struct engine_answer *out) {
    const struct engine_setting *given = question->settings;
    uint64_t memory = question->memory_bytes, blocks = out->bytes / plan->block_bytes;
    if (given[GPU_MEMORY_UTILIZATION].given)
        memory = (uint64_t)((double)memory * given[GPU_MEMORY_UTILIZATION].fraction);
    memory = memory > question->weights_bytes ? memory - question->weights_bytes : 0;
    const bool told = given[KV_CACHE_MEMORY_BYTES].given;
    memory = told ? given[KV_CACHE_MEMORY_BYTES].number : memory;
    const bool bounded = question->has_memory || told || given[NUM_GPU_BLOCKS_OVERRIDE].given;
    if (bounded)
        blocks = engine_number(&given[NUM_GPU_BLOCKS_OVERRIDE], memory / plan->block_bytes);
    if (blocks < plan->blocks_per_request) {
        engine_note(out,
                    "vLLM would not start: one sequence of max-model-len takes %llu blocks, "
                    "and there are %llu",
                    (unsigned long long)plan->blocks_per_request, (unsigned long long)blocks);
        return;
    }
    /* In vLLM's own double arithmetic, or the last token differs. */
    const double concurrency = (double)blocks / (double)plan->blocks_per_request;
    const double product = concurrency * (double)question->tokens;
    if (!(product < (double)INT64_MAX))
        return; /* states alone: no length limits how many */
    const uint64_t tokens = (uint64_t)product;
    char grouped[NUMBER_TEXT_BYTES], length[NUMBER_TEXT_BYTES];
    number_group_digits(tokens, grouped);
    number_group_digits(question->tokens, length);
    engine_say(out, "GPU KV cache size: %s tokens", grouped);
    engine_say(out, "Maximum concurrency for %s tokens per request: %.2fx", length, concurrency);
    out->has_tokens = bounded;
    out->tokens = tokens;
}

static enum status plan(const struct engine_question *asked, struct engine_answer *out,
                        struct status_text *text) {
    struct engine_layout layout;
    struct vllm_plan made, longest_made;
    struct engine_question longest = *asked;
    longest.tokens = engine_number(&asked->settings[MAX_MODEL_LEN], asked->tokens);
    if (longest.tokens < asked->tokens)
        return status_set(text, STATUS_REFUSED,
                          "vLLM: %llu tokens are past --engine-opt max-model-len=%llu",
                          (unsigned long long)asked->tokens, (unsigned long long)longest.tokens);
    enum status status = engine_layout_read(&engine_vllm, asked, &layout, text);
    if (status == STATUS_OK)
        status = check(asked, &layout, text);
    if (status != STATUS_OK)
        return status;
    struct vllm_choices choices = read_choices(asked);
    choices.windows_in_full = choices.windows_in_full && has_full(&layout);
    status = vllm_plan_make(asked, &layout, &choices, &made, text);
    if (status == STATUS_OK)
        status = vllm_plan_make(&longest, &layout, &choices, &longest_made, text);
    if (status != STATUS_OK)
        return status;
    bool fits = true;
    const uint64_t blocks = engine_plus(
        &fits, engine_times(&fits, made.blocks_per_request, asked->seqs), 1 /* the null block */);
    out->bytes = engine_times(&fits, blocks, made.block_bytes);
    add_items(&made, asked->seqs, out, &fits);
    if (!fits)
        return engine_too_large(&engine_vllm, text);
    note_plan(asked, &made, out);
    count_tokens(&longest, &longest_made, out);
    return STATUS_OK;
}

const struct engine engine_vllm = {
    .name = "vllm",
    .version = "vLLM 0.27.1",
    .settings = settings,
    .setting_count = sizeof settings / sizeof settings[0],
    .plan = plan,
};
