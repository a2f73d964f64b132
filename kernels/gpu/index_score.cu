/* gpu_index_score: tensor cores where index_kernels.def has the format and the dim is 128, else the
 * plain codecs. A block takes a piece of one sequence; lengths are known on the device alone, and
 * pieces behind a sequence's end are empty. */
#include <stdio.h>

#include "codec_rows.cuh"
#include "gpu.h"
#include "index_mma.cuh"

enum : uint32_t {
    SIMPLE_THREADS = 128,
    SIMPLE_WARPS = SIMPLE_THREADS / GPU_WARP_LANES,
    SIMPLE_MOST_TILE_TOKENS = 32,
    SIMPLE_TARGET_BYTES = 32768,
    /* Pieces: enough for each multiprocessor to be left with little in the end, but not so short
     * that bringing the queries is much of the work. */
    PIECE_LEAST_TOKENS = 512,
    WAVES = 4,
    LEAST_STAGES = ATTEND_LEAST_STAGES,
    MOST_STAGES = ATTEND_MOST_STAGES,
};

/* One tile of keys lies in shared memory in fp32; a warp takes one after the other, and each lane
 * some of the heads. */
GPU_KERNEL(SIMPLE_THREADS, 4) index_simple(const struct index_arguments a) {
    GPU_SHARED(memory);
    float *tile = reinterpret_cast<float *>(memory); /* [tile_tokens][k_dim] */
    const struct backend_segment segment = index_piece(a);
    const struct attend_place place = attend_locate<>(a.cache, segment);
    const uint32_t warp = gpu_thread() / GPU_WARP_LANES, lane = gpu_thread() % GPU_WARP_LANES;
    const uint32_t count = (uint32_t)segment.token_count, dim = a.cache.k_dim;
    const uint64_t first_head = (uint64_t)segment.seq * a.heads;
    const float *queries = a.cache.dev_queries + first_head * dim;
    float *scores = a.dev_scores + segment.seq * a.score_stride + segment.first_token;
    for (uint32_t first = 0; first < count; first += a.tile_tokens) {
        const uint32_t tokens = count - first < a.tile_tokens ? count - first : a.tile_tokens;
        struct codec_rows rows = {a.cache, place, a.cache.k, 0, dim, first, tokens, tile};
        codec_switch(a.cache.k_format, rows);
        gpu_sync_block();
        for (uint32_t t = warp; t < tokens; t += SIMPLE_WARPS) {
            const float *key = tile + (uint64_t)t * dim;
            float sum = 0.0f;
            for (uint32_t h = lane; h < a.heads; h += GPU_WARP_LANES) {
                const float *query = queries + (uint64_t)h * dim;
                float product = 0.0f;
                for (uint32_t i = 0; i < dim; i++)
                    product += query[i] * key[i];
                sum += a.dev_weights[first_head + h] * index_relu(product);
            }
            for (uint32_t bits = 1; bits < GPU_WARP_LANES; bits *= 2)
                sum += gpu_shuffle_xor(sum, bits);
            if (lane == 0)
                scores[first + t] = sum * a.k_tensor_scale;
        }
        gpu_sync_block();
    }
}

/* How a kernel is launched on this device. */
struct index_choice {
    char name[48];
    const void *entry;
    uint32_t threads;
    uint32_t shared_bytes;
    uint32_t blocks_per_unit;
    uint32_t stages;
};

/* As many stages as leave room for a second block. */
template <class K>
static void choose_mma(const struct gpu_machine *machine, const void *entry, uint32_t chunks,
                       struct index_choice &out) {
    typedef index_mma_shape<typename decode_for_scores<K>::type> S;
    for (uint32_t stages = MOST_STAGES; stages >= LEAST_STAGES && out.blocks_per_unit < 2;
         stages--) {
        const uint64_t bytes =
            (uint64_t)chunks * S::CHUNK_BYTES + INDEX_MMA_WARPS * stages * S::STAGE_BYTES;
        const uint32_t threads = INDEX_MMA_WARPS * GPU_WARP_LANES;
        if (bytes > machine->shared_bytes_per_block)
            continue;
        const uint32_t blocks =
            machine->blocks_per_unit(machine->self, entry, threads, (uint32_t)bytes);
        if (blocks <= out.blocks_per_unit)
            continue;
        out.entry = entry;
        out.threads = threads;
        out.shared_bytes = (uint32_t)bytes;
        out.blocks_per_unit = blocks;
        out.stages = stages;
    }
}

/* entry stays NULL where there is none, or shared memory does not suffice for so many heads. */
static struct index_choice choose(const struct gpu_machine *machine, const struct page_shape *shape,
                                  uint32_t chunks) {
    struct index_choice out = {};
    if (shape->k_dim != INDEX_MMA_DIM)
        return out;
    switch (shape->k_format) {
#define INDEX_KERNEL(ID, id)                                                                       \
    case FORMAT_##ID:                                                                              \
        choose_mma<decode_##id>(                                                                   \
            machine, GPU_ENTRY(struct index_arguments, index_mma<decode_##id>), chunks, out);      \
        break;
#include "index_kernels.def"
#undef INDEX_KERNEL
    default:
        break;
    }
    (void)snprintf(out.name, sizeof out.name, "index_mma %s", format_get(shape->k_format)->name);
    return out;
}

/* As many tokens as the target holds, at least one; the bytes may still be more than there are. */
static struct index_choice choose_simple(const struct gpu_machine *machine, uint32_t dim,
                                         uint32_t &tile_tokens) {
    const uint64_t row_bytes = (uint64_t)dim * sizeof(float);
    tile_tokens = SIMPLE_MOST_TILE_TOKENS;
    while (tile_tokens > 1 && tile_tokens * row_bytes > SIMPLE_TARGET_BYTES)
        tile_tokens /= 2;
    struct index_choice out = {};
    if (tile_tokens * row_bytes > machine->shared_bytes_per_block)
        return out;
    (void)snprintf(out.name, sizeof out.name, "index_simple");
    out.entry = GPU_ENTRY(struct index_arguments, index_simple);
    out.threads = SIMPLE_THREADS;
    out.shared_bytes = (uint32_t)(tile_tokens * row_bytes);
    out.blocks_per_unit =
        machine->blocks_per_unit(machine->self, out.entry, out.threads, out.shared_bytes);
    return out;
}

/* Cuts sequences into pieces: a few waves of blocks where the longest is long enough. */
static bool cut(const struct gpu_machine *machine, const struct backend_index_score *work,
                uint32_t blocks_per_unit, struct index_arguments &a) {
    const uint64_t at_once = blocks_per_unit > 0 ? blocks_per_unit : 1;
    const uint64_t wanted = machine->units * at_once * WAVES;
    const uint64_t most = (work->longest + PIECE_LEAST_TOKENS - 1) / PIECE_LEAST_TOKENS;
    uint64_t pieces = (wanted + work->cache.seqs - 1) / work->cache.seqs;
    pieces = pieces < most ? pieces : most;
    const uint64_t whole = INDEX_MMA_WARPS * 2 * TILE_TOKENS; /* what a block does at a time */
    a.piece_tokens =
        (uint32_t)(((work->longest + pieces - 1) / pieces + whole - 1) / whole * whole);
    a.pieces = (uint32_t)((work->longest + a.piece_tokens - 1) / a.piece_tokens);
    return (uint64_t)a.pieces * work->cache.seqs <= INT32_MAX;
}

static enum status check(const struct backend_index_score *work, struct status_text *text) {
    const struct page_shape &shape = work->cache.page.shape;
    if (shape.kv_heads != 1)
        return status_set(text, STATUS_REFUSED, "index scores: keys of one KV head, not of %u",
                          shape.kv_heads);
    if (work->longest > INT32_MAX)
        return status_set(text, STATUS_REFUSED, "index scores: at most %d keys of a sequence",
                          INT32_MAX);
    return gpu_attend_check_page(&work->cache.page, text);
}

extern "C" enum status gpu_index_score(const struct gpu_machine *machine,
                                       const struct backend_index_score *work,
                                       struct status_text *text) {
    const enum status status = check(work, text);
    if (status != STATUS_OK || work->longest == 0 || work->cache.seqs == 0)
        return status;
    const struct page_shape &shape = work->cache.page.shape;
    const uint32_t heads_at_once = INDEX_MMA_TILES * UNIT_HEADS;
    struct index_arguments a = {};
    a.cache = gpu_attend_cache_arguments(&work->cache);
    a.cache.dev_queries = work->dev_queries;
    a.cache.query_heads = a.cache.group_heads = work->heads;
    a.cache.head_chunks = (work->heads + heads_at_once - 1) / heads_at_once;
    a.dev_weights = work->dev_weights;
    a.dev_lengths = work->dev_lengths;
    a.dev_scores = work->dev_scores;
    a.score_stride = work->score_stride;
    a.heads = work->heads;
    a.k_tensor_scale = work->cache.k_tensor_scale;
    struct index_choice choice = choose(machine, &shape, a.cache.head_chunks);
    if (choice.entry == nullptr)
        choice = choose_simple(machine, shape.k_dim, a.tile_tokens);
    a.cache.stages = choice.stages;
    if (choice.entry == nullptr || !cut(machine, work, choice.blocks_per_unit, a))
        return status_set(
            text, STATUS_REFUSED,
            "index scores: keys of %u values, or %u sequences of up to %llu, are more "
            "than one launch can do here",
            shape.k_dim, work->cache.seqs, (unsigned long long)work->longest);
    struct gpu_launch launch = {};
    launch.name = choice.name;
    launch.entry = choice.entry;
    launch.blocks = a.pieces * work->cache.seqs;
    launch.threads = choice.threads;
    launch.shared_bytes = choice.shared_bytes;
    launch.arguments = &a;
    launch.arguments_bytes = sizeof a;
    return machine->launch(machine->self, &launch, text);
}
