/* gpu_index_select: a block per sequence finds the least score that is chosen, eight bits of its
 * key at a time, and then writes the chosen places in order. All that is added up are whole
 * numbers, so that the outcome is the same whatever runs first. */
#include "gpu.h"
#include "gpu_ptx.cuh"
#include "index_order.h"

enum : uint32_t {
    SELECT_THREADS = 512,
    SELECT_WARPS = SELECT_THREADS / GPU_WARP_LANES,
    SELECT_DIGIT_BITS = 8,
    SELECT_DIGITS = 1u << SELECT_DIGIT_BITS,
    SELECT_EACH = 4, /* neighbouring places that a thread looks at together */
};

struct select_arguments {
    const float *dev_scores; /* [seqs][score_stride] */
    const uint64_t *dev_lengths;
    int32_t *dev_selected; /* [seqs][top_k] */
    uint64_t score_stride;
    uint32_t top_k;
};

struct select_shared {
    /* a warp's own: scores crowd in a few digits, and each warp waits for itself alone */
    uint32_t counts[SELECT_WARPS][SELECT_DIGITS];
    uint32_t totals[SELECT_DIGITS];
    uint32_t of_warps[SELECT_WARPS]; /* chosen places in what each warp looks at */
    uint32_t digit, wanted;
};

/* Sums of this lane's and all lower lanes' values. */
GPU_DEVICE uint32_t select_scan(uint32_t value, uint32_t lane) {
    for (uint32_t step = 1; step < GPU_WARP_LANES; step *= 2) {
        const uint32_t lower = gpu_shuffle(value, lane >= step ? lane - step : 0);
        value += lane >= step ? lower : 0;
    }
    return value;
}

/* Leaves which digit the `wanted`-th largest has, and how many are wanted of that digit's. */
GPU_DEVICE void select_digit(struct select_shared &shared, uint32_t wanted) {
    const uint32_t lane = gpu_thread() % GPU_WARP_LANES;
    if (gpu_thread() < SELECT_DIGITS) {
        uint32_t total = 0;
        for (uint32_t w = 0; w < SELECT_WARPS; w++)
            total += shared.counts[w][gpu_thread()];
        shared.totals[gpu_thread()] = total;
    }
    gpu_sync_block();
    if (gpu_thread() < GPU_WARP_LANES) { /* each lane a few digits, the highest first */
        constexpr uint32_t each = SELECT_DIGITS / GPU_WARP_LANES;
        uint32_t digit = SELECT_DIGITS - 1 - lane * each, own = 0;
        for (uint32_t i = 0; i < each; i++)
            own += shared.totals[digit - i];
        const uint32_t through = select_scan(own, lane);
        uint32_t above = through - own;
        if (above < wanted && wanted <= through) {
            while (above + shared.totals[digit] < wanted)
                above += shared.totals[digit--];
            shared.digit = digit;
            shared.wanted = wanted - above;
        }
    }
    gpu_sync_block();
}

/* The key of the `wanted`-th largest of `count` scores; of the keys that are equal to it, `wanted`
 * are left to be chosen. */
GPU_DEVICE uint32_t select_least(struct select_shared &shared, const float *scores, uint32_t count,
                                 uint32_t &wanted) {
    const uint32_t warp = gpu_thread() / GPU_WARP_LANES;
    uint32_t key = 0; /* its bits from `shift` on */
    for (uint32_t shift = 32; shift > 0;) {
        const uint32_t known = shift; /* bits above are as in `key` */
        shift -= SELECT_DIGIT_BITS;
        for (uint32_t i = gpu_thread(); i < SELECT_WARPS * SELECT_DIGITS; i += SELECT_THREADS)
            shared.counts[i / SELECT_DIGITS][i % SELECT_DIGITS] = 0;
        gpu_sync_block();
        for (uint32_t i = gpu_thread(); i < count; i += SELECT_THREADS) {
            const uint32_t own = index_order_key(scores[i]);
            if ((uint64_t)(own ^ key) >> known == 0)
                gpu_atomic_add(&shared.counts[warp][own >> shift & (SELECT_DIGITS - 1)], 1u);
        }
        gpu_sync_block();
        select_digit(shared, wanted);
        key |= shared.digit << shift;
        wanted = shared.wanted;
    }
    return key;
}

/* How many places before this thread's are above and equal, in the high and low half, and of all
 * threads. A thread's own are at most SELECT_EACH. */
GPU_DEVICE uint32_t select_before(struct select_shared &shared, uint32_t own, uint32_t &all) {
    const uint32_t warp = gpu_thread() / GPU_WARP_LANES, lane = gpu_thread() % GPU_WARP_LANES;
    const uint32_t through = select_scan(own, lane);
    if (lane == GPU_WARP_LANES - 1)
        shared.of_warps[warp] = through;
    gpu_sync_block();
    uint32_t before = through - own;
    all = 0;
    for (uint32_t w = 0; w < SELECT_WARPS; w++) {
        before += w < warp ? shared.of_warps[w] : 0;
        all += shared.of_warps[w];
    }
    gpu_sync_block();
    return before;
}

/* All places above the least key, and the first `equal_wanted` of those with that key. */
GPU_DEVICE void select_write(struct select_shared &shared, const float *scores, uint32_t count,
                             uint32_t least, uint32_t equal_wanted, uint32_t wanted, int32_t *out) {
    uint32_t above = 0, equal = 0; /* before the places that are looked at */
    for (uint32_t base = 0; base < count; base += SELECT_THREADS * SELECT_EACH) {
        if (above + (equal < equal_wanted ? equal : equal_wanted) == wanted)
            break;
        const uint32_t first = base + gpu_thread() * SELECT_EACH;
        uint32_t keys[SELECT_EACH], own = 0;
        GPU_UNROLL
        for (uint32_t i = 0; i < SELECT_EACH; i++) {
            const bool real = first < count && i < count - first;
            keys[i] = real ? index_order_key(scores[first + i]) : 0;
            own += real && keys[i] > least ? 1u << 16 : 0;
            own += real && keys[i] == least ? 1u : 0;
        }
        uint32_t all;
        const uint32_t before = select_before(shared, own, all);
        uint32_t own_above = above + (before >> 16), own_equal = equal + (before & 0xFFFFu);
        GPU_UNROLL
        for (uint32_t i = 0; i < SELECT_EACH; i++) {
            const bool real = first < count && i < count - first;
            const bool is_above = real && keys[i] > least, is_equal = real && keys[i] == least;
            if (is_above || (is_equal && own_equal < equal_wanted))
                out[own_above + (own_equal < equal_wanted ? own_equal : equal_wanted)] =
                    (int32_t)(first + i);
            own_above += is_above;
            own_equal += is_equal;
        }
        above += all >> 16;
        equal += all & 0xFFFFu;
    }
}

GPU_KERNEL(SELECT_THREADS, 2) index_select_kernel(const struct select_arguments a) {
    GPU_SHARED(memory);
    struct select_shared &shared = *reinterpret_cast<struct select_shared *>(memory);
    const uint32_t seq = gpu_block(), count = (uint32_t)a.dev_lengths[seq];
    const uint32_t wanted = count < a.top_k ? count : a.top_k;
    const float *scores = a.dev_scores + seq * a.score_stride;
    int32_t *out = a.dev_selected + (uint64_t)seq * a.top_k;
    for (uint32_t i = wanted + gpu_thread(); i < a.top_k; i += SELECT_THREADS)
        out[i] = -1;
    if (wanted == count) {
        for (uint32_t i = gpu_thread(); i < count; i += SELECT_THREADS)
            out[i] = (int32_t)i;
        return;
    }
    uint32_t equal_wanted = wanted;
    const uint32_t least = select_least(shared, scores, count, equal_wanted);
    select_write(shared, scores, count, least, equal_wanted, wanted, out);
}

extern "C" enum status gpu_index_select(const struct gpu_machine *machine,
                                        const struct backend_index_select *work,
                                        struct status_text *text) {
    if (work->seqs == 0 || work->top_k == 0)
        return STATUS_OK;
    if (work->longest > INT32_MAX || work->top_k > INT32_MAX || work->seqs > INT32_MAX)
        return status_set(text, STATUS_REFUSED,
                          "index: %u of %llu scores for %u sequences; each of these at most %d",
                          work->top_k, (unsigned long long)work->longest, work->seqs, INT32_MAX);
    struct select_arguments a = {};
    a.dev_scores = work->dev_scores;
    a.dev_lengths = work->dev_lengths;
    a.dev_selected = work->dev_selected;
    a.score_stride = work->score_stride;
    a.top_k = work->top_k;
    struct gpu_launch launch = {};
    launch.name = "index_select";
    launch.entry = GPU_ENTRY(struct select_arguments, index_select_kernel);
    launch.blocks = work->seqs;
    launch.threads = SELECT_THREADS;
    launch.shared_bytes = sizeof(struct select_shared);
    launch.arguments = &a;
    launch.arguments_bytes = sizeof a;
    return machine->launch(machine->self, &launch, text);
}
