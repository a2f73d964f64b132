/* Chooses the attend kernel for a shape, and gives a step's work to it. */
#include <stdio.h>
#include <string.h>

#include "attend_combine.h"
#include "attend_expand.h"
#include "attend_kernel.h"
#include "attend_simple.h"
#include "gpu.h"

enum {
    LANES = 32,
    HEADS_PER_TILE = 8,
    LEAST_STAGES = 2, /* of the kernels' rings: attend_walk.cuh */
    MOST_STAGES = 4,
    /* On its way to a multiprocessor at least, before more warps are worth more than more bytes:
     * about what an H200 needs to hide its memory's latency, and more than any other does. */
    IN_FLIGHT_BYTES = 32 * 1024,
};

const char *const gpu_attend_kernels[] = {"mma", "simple", "expand", NULL};

#define ATTEND_PAIR(K, V) extern const struct attend_kernel attend_pair_##K##_##V[];
#include "attend_pairs_list.h"
#undef ATTEND_PAIR

static const struct {
    enum format_id k, v;
    const struct attend_kernel *kernels;
} pairs[] = {
#define ATTEND_PAIR(K, V) {FORMAT_##K, FORMAT_##V, attend_pair_##K##_##V},
#include "attend_pairs_list.h"
#undef ATTEND_PAIR
};

/* One way to run: a kernel and how it is launched. */
struct choice {
    const struct attend_kernel *kernel;
    uint32_t warps;
    uint32_t stages;
    uint32_t shared_bytes;
    uint32_t blocks_per_unit;
    uint32_t head_chunks;
};

static const struct attend_kernel *pair_kernels(const struct page_shape *shape) {
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        if (pairs[i].k == shape->k_format && pairs[i].v == shape->v_format)
            return pairs[i].kernels;
    return NULL;
}

/* What one way to launch a kernel keeps busy on a multiprocessor. */
struct load {
    uint32_t warps;
    uint32_t in_flight_bytes;
};

static bool better(const struct load *a, const struct load *b) {
    const bool a_enough = a->in_flight_bytes >= IN_FLIGHT_BYTES;
    const bool b_enough = b->in_flight_bytes >= IN_FLIGHT_BYTES;
    if (a_enough != b_enough)
        return a_enough;
    if (a_enough && a->warps != b->warps)
        return a->warps > b->warps;
    if (a->in_flight_bytes != b->in_flight_bytes)
        return a->in_flight_bytes > b->in_flight_bytes;
    return a->warps > b->warps;
}

/* Warps of a block and stages of its rings, for this device's shared memory: enough bytes in
 * flight, then as many warps as run at once, then the more bytes; of equals the larger block. */
static void choose_launch(const struct gpu_machine *machine, struct choice *choice) {
    const struct attend_kernel *kernel = choice->kernel;
    struct load best = {0};
    for (uint32_t warps = kernel->most_warps; warps >= kernel->least_warps; warps--) {
        for (uint32_t stages = LEAST_STAGES; stages <= MOST_STAGES; stages++) {
            const uint32_t rings = kernel->rings_per_warp ? warps : 1;
            uint32_t ring = stages * kernel->stage_bytes;
            ring = ring > kernel->ring_least_bytes ? ring : kernel->ring_least_bytes;
            const uint32_t bytes = kernel->shared_bytes + rings * ring;
            if (bytes > machine->shared_bytes_per_block)
                continue;
            const uint32_t blocks =
                machine->blocks_per_unit(machine->self, kernel->entry, warps * LANES, bytes);
            const struct load load = {
                .warps = blocks * warps,
                .in_flight_bytes = blocks * rings * (stages - 1) * kernel->stage_bytes,
            };
            if (blocks == 0 || !better(&load, &best))
                continue;
            best = load;
            choice->warps = warps;
            choice->stages = stages;
            choice->shared_bytes = bytes;
            choice->blocks_per_unit = blocks;
        }
    }
}

/* The kernel that reads the cache for the fewest times, then with the least padding. */
static bool choose(const struct gpu_machine *machine, const struct page_shape *shape,
                   uint32_t group_heads, bool selected, struct choice *out) {
    *out = (struct choice){0};
    for (const struct attend_kernel *k = pair_kernels(shape); k != NULL && k->entry != NULL; k++) {
        if (k->k_dim != shape->k_dim || k->v_dim != shape->v_dim || k->latent != shape->v_in_k ||
            (selected && !k->selects))
            continue;
        const uint32_t heads = k->head_tiles * HEADS_PER_TILE;
        struct choice choice = {.kernel = k, .head_chunks = (group_heads + heads - 1) / heads};
        choose_launch(machine, &choice);
        if (choice.blocks_per_unit == 0)
            continue;
        if (out->kernel == NULL || choice.head_chunks < out->head_chunks ||
            (choice.head_chunks == out->head_chunks && k->head_tiles < out->kernel->head_tiles))
            *out = choice;
    }
    return out->kernel != NULL;
}

/* Whether there is a decoder of that format to build mma kernels with. */
static bool has_decoder(enum format_id format) {
    switch (format) {
#define MMA_FORMAT(ID, id) case FORMAT_##ID:
#include "mma_formats.def"
#undef MMA_FORMAT
        return true;
    default:
        return false;
    }
}

static enum status refuse_shape(const struct gpu_machine *machine, const char *kernel,
                                const struct page_shape *shape, struct status_text *text) {
    const char *k_name = format_get(shape->k_format)->name;
    const char *v_name = format_get(shape->v_format)->name;
    const struct attend_kernel *kernels = pair_kernels(shape);
    const enum format_id unread = has_decoder(shape->k_format) ? shape->v_format : shape->k_format;
    if (!has_decoder(unread))
        return status_set(
            text, STATUS_REFUSED,
            "kernel %s has no decoder of %s (--kernel simple reads it, and expand where 16 "
            "bits hold its values)",
            kernel, format_get(unread)->name);
    if (kernels == NULL)
        return status_set(text, STATUS_REFUSED,
                          "kernel %s is not built for K %s with V %s (--kernel simple reads any "
                          "pair; -DKVGAUGE_PAIRS=all builds the others)",
                          kernel, k_name, v_name);
    char dims[160] = "";
    bool known = false;
    for (const struct attend_kernel *k = kernels; k->entry != NULL; k++) {
        known = known || (k->k_dim == shape->k_dim && k->v_dim == shape->v_dim &&
                          k->latent == shape->v_in_k);
        char one[32];
        (void)snprintf(one, sizeof one, "%s%u/%u%s", dims[0] != '\0' ? ", " : "", k->k_dim,
                       k->v_dim, k->latent ? " latent" : "");
        if (k->head_tiles == 1 && strlen(dims) + strlen(one) < sizeof dims)
            (void)strcat(dims, one);
    }
    if (known)
        return status_set(text, STATUS_REFUSED,
                          "kernel %s for K %s %u and V %s %u needs more shared memory than the %u "
                          "bytes a block has here (--kernel simple does with less)",
                          kernel, k_name, shape->k_dim, v_name, shape->v_dim,
                          machine->shared_bytes_per_block);
    return status_set(text, STATUS_REFUSED,
                      "kernel %s is not built for head dims %u/%u%s of K %s and V %s: there are "
                      "%s (--kernel simple does any)",
                      kernel, shape->k_dim, shape->v_dim, shape->v_in_k ? " latent" : "", k_name,
                      v_name, dims);
}

/* The pages that are attended: the cache's own, or their 16-bit copies. */
static enum status attended_page(const char *kernel, const struct page_layout *page,
                                 struct page_layout *out, struct status_text *text) {
    *out = *page;
    return strcmp(kernel, "expand") == 0 ? gpu_attend_expand_layout(&page->shape, out, text)
                                         : STATUS_OK;
}

enum status gpu_attend_check_page(const struct page_layout *page, struct status_text *text) {
    if (page->stride_bytes <= UINT32_MAX && page->shape.page_tokens < (uint32_t)1 << 30)
        return STATUS_OK;
    return status_set(
        text, STATUS_REFUSED,
        "pages of %u tokens and %llu bytes: the kernels count positions within a page "
        "in 30 bits and bytes in 32",
        page->shape.page_tokens, (unsigned long long)page->stride_bytes);
}

enum status gpu_attend_check(const struct gpu_machine *machine, const char *kernel,
                             const struct page_layout *page, uint32_t query_heads, bool selected,
                             struct status_text *text) {
    bool known = false;
    for (const char *const *name = gpu_attend_kernels; *name != NULL; name++)
        known = known || strcmp(*name, kernel) == 0;
    if (!known)
        return status_set(text, STATUS_REFUSED, "kernel %s: there are mma, simple and expand",
                          kernel);
    if (selected && strcmp(kernel, "expand") == 0)
        return status_set(text, STATUS_REFUSED,
                          "kernel expand: copies all pages, whatever tokens are selected (--kernel "
                          "mma and simple read those alone)");
    const struct page_shape *shape = &page->shape;
    if (query_heads == 0 || query_heads % shape->kv_heads != 0)
        return status_set(text, STATUS_REFUSED,
                          "%u query heads over %u KV heads: a whole number per KV head is needed",
                          query_heads, shape->kv_heads);
    if (gpu_attend_check_page(page, text) != STATUS_OK)
        return STATUS_REFUSED;
    if (strcmp(kernel, "simple") == 0) {
        if (gpu_attend_simple_shared_bytes(machine, shape->k_dim, shape->v_dim) == 0)
            return status_set(text, STATUS_REFUSED,
                              "kernel simple: head dims %u/%u do not fit the %u bytes of shared "
                              "memory a block has",
                              shape->k_dim, shape->v_dim, machine->shared_bytes_per_block);
        return STATUS_OK;
    }
    struct page_layout attended;
    enum status status = attended_page(kernel, page, &attended, text);
    struct choice choice;
    if (status == STATUS_OK && attended.stride_bytes > UINT32_MAX)
        status = status_set(text, STATUS_REFUSED,
                            "pages of %llu bytes in 16 bits: the kernels count bytes within a page "
                            "in 32",
                            (unsigned long long)attended.stride_bytes);
    if (status != STATUS_OK ||
        choose(machine, &attended.shape, query_heads / shape->kv_heads, selected, &choice))
        return status;
    if (selected && choose(machine, shape, query_heads / shape->kv_heads, false, &choice))
        return status_set(text, STATUS_REFUSED,
                          "kernel mma: selected tokens are read in latents and head dim 512, not "
                          "with head dims %u/%u (--kernel simple does any)",
                          shape->k_dim, shape->v_dim);
    return refuse_shape(machine, kernel, &attended.shape, text);
}

uint32_t gpu_attend_workers(const struct gpu_machine *machine, const char *kernel,
                            const struct page_layout *page, uint32_t query_heads) {
    const uint32_t group_heads = query_heads / page->shape.kv_heads;
    uint32_t blocks, chunks;
    if (strcmp(kernel, "simple") == 0) {
        blocks = machine->blocks_per_unit(
            machine->self, gpu_attend_simple_entry(), ATTEND_SIMPLE_THREADS,
            gpu_attend_simple_shared_bytes(machine, page->shape.k_dim, page->shape.v_dim));
        chunks = group_heads;
    } else {
        struct page_layout attended;
        struct choice choice;
        if (attended_page(kernel, page, &attended, NULL) != STATUS_OK ||
            !choose(machine, &attended.shape, group_heads, false, &choice))
            return 1;
        blocks = choice.blocks_per_unit;
        chunks = choice.head_chunks;
    }
    const uint32_t workers = machine->units * blocks / chunks;
    return workers > 0 ? workers : 1;
}

static uint64_t partial_bytes(const struct page_layout *page, uint32_t query_heads,
                              uint32_t segment_count) {
    const uint64_t heads = query_heads / page->shape.kv_heads;
    const uint64_t bytes =
        segment_count * heads * (page->shape.v_dim + ATTEND_PARTIAL_NUMBERS) * sizeof(float);
    return (bytes + PAGE_ALIGNMENT_BYTES - 1) / PAGE_ALIGNMENT_BYTES * PAGE_ALIGNMENT_BYTES;
}

uint64_t gpu_attend_workspace_bytes(const char *kernel, const struct page_layout *page,
                                    uint32_t query_heads, uint32_t segment_count,
                                    uint32_t page_count) {
    uint64_t bytes = partial_bytes(page, query_heads, segment_count);
    struct page_layout attended;
    if (strcmp(kernel, "expand") == 0 && attended_page(kernel, page, &attended, NULL) == STATUS_OK)
        bytes += page_count * attended.stride_bytes;
    return bytes;
}

/* x / divisor for every x below 2^31, as one multiplication and a shift (Granlund and Montgomery:
 * with shift = ceil(log2(divisor)) and a multiplier rounded up, 31-bit x never see the error). */
static struct attend_divider make_divider(uint32_t divisor) {
    struct attend_divider out = {.divisor = divisor, .whole = divisor == 1};
    if (divisor == 1)
        return out;
    uint32_t bits = 0;
    while (((uint64_t)1 << bits) < divisor)
        bits++;
    out.shift = bits - 1;
    out.multiplier = (uint32_t)((((uint64_t)1 << (32 + bits - 1)) + divisor - 1) / divisor);
    return out;
}

struct attend_arguments gpu_attend_cache_arguments(const struct backend_cache *cache) {
    const struct page_layout *page = &cache->page;
    return (struct attend_arguments){
        .dev_pages = cache->dev_pages,
        .dev_page_table = cache->dev_page_table,
        .page_stride_bytes = page->stride_bytes,
        .k = page->k,
        .v = page->v,
        .page_tokens = make_divider(page->shape.page_tokens),
        .columns = cache->page_table_columns,
        .kv_heads = page->shape.kv_heads,
        .head_chunks = 1,
        .k_dim = page->shape.k_dim,
        .v_dim = page->shape.v_dim,
        .k_format = page->shape.k_format,
        .v_format = page->shape.v_format,
        .v_in_k = page->shape.v_in_k,
    };
}

static struct attend_arguments make_arguments(const struct backend_attend *work,
                                              const struct page_layout *page, uint8_t *dev_pages) {
    const double log2_e = 1.4426950408889634;
    struct backend_cache cache = work->cache;
    cache.page = *page;
    cache.dev_pages = dev_pages;
    struct attend_arguments arguments = gpu_attend_cache_arguments(&cache);
    arguments.dev_queries = work->dev_queries;
    arguments.dev_sinks = work->dev_sinks;
    arguments.dev_outputs = work->dev_outputs;
    arguments.dev_segments = work->plan.dev_segments;
    arguments.dev_row_first = work->plan.dev_row_first;
    arguments.dev_worker_first = work->plan.dev_worker_first;
    arguments.dev_selected = work->dev_selected;
    arguments.dev_partials = work->dev_workspace;
    arguments.selected_stride = work->selected_stride;
    arguments.segment_count = work->plan.segment_count;
    arguments.row_count = work->plan.row_count;
    arguments.worker_count = work->plan.worker_count;
    arguments.query_heads = work->query_heads;
    arguments.group_heads = work->query_heads / page->shape.kv_heads;
    arguments.score_scale = (float)(work->softmax_scale * log2_e * work->cache.k_tensor_scale);
    arguments.v_tensor_scale =
        page->shape.v_in_k ? work->cache.k_tensor_scale : work->cache.v_tensor_scale;
    return arguments;
}

static enum status launch_mma(const struct gpu_machine *machine, const struct page_shape *shape,
                              struct attend_arguments *arguments, struct status_text *text) {
    struct choice choice;
    const bool selected = arguments->dev_selected != NULL;
    if (!choose(machine, shape, arguments->group_heads, selected, &choice))
        return refuse_shape(machine, "mma", shape, text);
    arguments->head_chunks = choice.head_chunks;
    arguments->stages = choice.stages;
    const uint64_t blocks = (uint64_t)arguments->worker_count * choice.head_chunks;
    if (blocks > INT32_MAX)
        return status_set(text, STATUS_REFUSED, "%llu blocks are more than one launch can have",
                          (unsigned long long)blocks);
    char name[80];
    (void)snprintf(name, sizeof name, "attend_mma %s/%s %u/%u x%u",
                   format_get(shape->k_format)->name, format_get(shape->v_format)->name,
                   shape->k_dim, shape->v_dim, choice.kernel->head_tiles * HEADS_PER_TILE);
    const struct gpu_launch launch = {
        .name = name,
        .entry = choice.kernel->entry,
        .blocks = (uint32_t)blocks,
        .threads = choice.warps * LANES,
        .shared_bytes = choice.shared_bytes,
        .arguments = arguments,
        .arguments_bytes = sizeof *arguments,
    };
    return machine->launch(machine->self, &launch, text);
}

enum status gpu_attend(const struct gpu_machine *machine, const struct backend_attend *work,
                       struct status_text *text) {
    const struct page_layout *page = &work->cache.page;
    if (work->dev_selected != NULL &&
        (uint64_t)work->cache.seqs * work->cache.page_table_columns > UINT32_MAX)
        return status_set(text, STATUS_REFUSED,
                          "selected tokens: %u sequences of %u columns are more entries of a page "
                          "table than 32 bits number",
                          work->cache.seqs, work->cache.page_table_columns);
    struct page_layout attended;
    enum status status = attended_page(work->kernel, page, &attended, text);
    uint8_t *dev_pages = work->cache.dev_pages;
    if (status == STATUS_OK && strcmp(work->kernel, "expand") == 0) {
        uint8_t *dev_copy = (uint8_t *)work->dev_workspace +
                            partial_bytes(page, work->query_heads, work->plan.segment_count);
        status = gpu_attend_expand_pages(machine, &work->cache, &attended, dev_copy, text);
        dev_pages = dev_copy;
    }
    if (status != STATUS_OK)
        return status;
    struct attend_arguments arguments = make_arguments(work, &attended, dev_pages);
    status = strcmp(work->kernel, "simple") == 0
                 ? gpu_attend_simple(machine, &arguments, text)
                 : launch_mma(machine, &attended.shape, &arguments, text);
    if (status != STATUS_OK || work->plan.segment_count == work->plan.row_count)
        return status; /* no row has two segments */
    return gpu_attend_combine(machine, &arguments, text);
}
