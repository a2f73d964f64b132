/* A launch: checks, the order of blocks, one block from its first thread to its last, and the end
 * of a block that went wrong. */
#include "simt_block.h"
#include "simt_race.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

struct simt_block simt_block;
struct simt_counts simt_counts;

/* ---- shared memory: [closed ... block's bytes | rest], the block's bytes as far up as 128-byte
 * alignment lets them ---- */

namespace {

constexpr size_t shared_alignment = 128;
constexpr uint32_t shared_base = 0x10000; /* so that no shared address is 0 */
/* Behind the arena, so that a byte past a block's end is no other variable. */
constexpr size_t arena_guard_bytes = 1024;
alignas(1024) unsigned char arena[SIMT_ARENA_BYTES + arena_guard_bytes];

void shared_open() {
    const size_t bytes = simt_block.launch->shared_bytes;
    const size_t start = (SIMT_ARENA_BYTES - bytes) / shared_alignment * shared_alignment;
    simt_block.shared = arena + start;
    simt_asan_open(arena, sizeof arena);
    const size_t before = std::min(start, arena_guard_bytes);
    memset(arena + (start - before), simt_poison, sizeof arena - (start - before));
    simt_asan_close(arena, sizeof arena);
    simt_asan_open(simt_block.shared, bytes);
}

/* What a plain build can see of writes beyond the block's bytes. */
bool shared_kept() {
    simt_asan_open(arena, sizeof arena);
    const unsigned char *const start = simt_block.shared;
    const unsigned char *const end = start + simt_block.launch->shared_bytes;
    const size_t before = std::min((size_t)(start - arena), arena_guard_bytes);
    const auto touched = [](unsigned char byte) { return byte != simt_poison; };
    return std::none_of(start - before, start, touched) &&
           std::none_of(end, static_cast<const unsigned char *>(arena) + sizeof arena, touched);
}

} // namespace

bool simt_shared_holds(const void *address) {
    const unsigned char *at = static_cast<const unsigned char *>(address);
    return at >= arena && at < arena + sizeof arena;
}

unsigned char *simt_shared() {
    return simt_block.shared;
}

uint32_t simt_shared_address(const void *pointer, simt_place place) {
    const unsigned char *at = static_cast<const unsigned char *>(pointer);
    simt_block.now->place = place;
    if (at < simt_block.shared || at > simt_block.shared + simt_block.launch->shared_bytes)
        simt_fail("ptx_shared_address at %s:%d: the pointer is not in the block's shared memory",
                  simt_file_name(place.file), place.line);
    return (uint32_t)(at - arena) + shared_base;
}

unsigned char *simt_shared_at(uint32_t address, uint32_t bytes, const char *what,
                              simt_place place) {
    const int64_t start = simt_block.shared - arena + shared_base;
    const int64_t at = (int64_t)address - start;
    if (at < 0 || at + bytes > simt_block.launch->shared_bytes)
        simt_fail("%s at %s:%d: byte %lld of %u bytes of shared memory", what,
                  simt_file_name(place.file), place.line, (long long)at,
                  simt_block.launch->shared_bytes);
    if (address % bytes != 0)
        simt_fail("%s at %s:%d: shared address is not aligned to %u", what,
                  simt_file_name(place.file), place.line, bytes);
    return simt_block.shared + at;
}

void simt_check_global(const void *address, uint32_t bytes, const char *what, simt_place place) {
    if (reinterpret_cast<uintptr_t>(address) % bytes != 0)
        simt_fail("%s at %s:%d: global address is not aligned to %u", what,
                  simt_file_name(place.file), place.line, bytes);
}

/* ---- orders ---- */

static const char *const order_names[] = {"forward", "reverse", "random", "warp_reverse", "rotate"};
static enum simt_order wanted_order = SIMT_ROTATE;
static uint64_t wanted_seed = 1;
static bool order_is_set;

void simt_set_order(enum simt_order order, uint64_t seed) {
    wanted_order = order;
    wanted_seed = seed;
    order_is_set = true;
}

static void choose_order() {
    if (!order_is_set) {
        order_is_set = true;
        const char *name = std::getenv("KVGAUGE_SIMT_ORDER");
        for (int i = 0; name != nullptr && i <= SIMT_ROTATE; i++)
            if (strcmp(name, order_names[i]) == 0)
                wanted_order = (enum simt_order)i;
    }
    simt_block.order = wanted_order == SIMT_ROTATE
                           ? (enum simt_order)(simt_counts.launches % SIMT_ORDERS)
                           : wanted_order;
    simt_block.seed = wanted_seed + simt_counts.launches;
    simt_block.random = simt_block.seed * 0x9E3779B97F4A7C15u | 1u;
}

/* ---- failing ---- */

const char *simt_file_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash != nullptr ? slash + 1 : path;
}

namespace {

/* One kind of waiting, and how many threads do it. */
struct waiting {
    const char *what;
    simt_place place;
    uint32_t threads;
};

waiting waiting_of(const struct simt_thread &thread) {
    const struct simt_warp &warp = simt_block.warps[thread.warp];
    const uint32_t bit = 1u << thread.lane;
    if ((warp.done & bit) != 0)
        return {"exited", {nullptr, 0}, 1};
    if (((warp.arrived | warp.at_barrier) & bit) != 0)
        return {thread.waits_in, thread.place, 1};
    return {"able to go on", {nullptr, 0}, 1};
}

std::vector<waiting> all_waiting() {
    std::vector<waiting> kinds;
    for (uint32_t i = 0; i < simt_block.thread_count; i++) {
        const waiting one = waiting_of(simt_block.threads[i]);
        const auto same = std::find_if(kinds.begin(), kinds.end(), [&](const waiting &other) {
            return other.what == one.what && other.place.file == one.place.file &&
                   other.place.line == one.place.line;
        });
        if (same == kinds.end())
            kinds.push_back(one);
        else
            same->threads++;
    }
    return kinds;
}

void append(struct status_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void append(struct status_text *text, const char *format, ...) {
    const size_t used = strlen(text->line);
    va_list list;
    va_start(list, format);
    (void)vsnprintf(text->line + used, sizeof text->line - used, format, list);
    va_end(list);
}

} // namespace

/* The fibers of the block are left where they are: kernels own nothing that wants destroying. */
void simt_fail(const char *format, ...) {
    if (simt_block.now == nullptr || simt_block.failed)
        std::abort();
    struct simt_thread *me = simt_block.now;
    struct status_text *text = &simt_block.failure;
    (void)snprintf(text->line, sizeof text->line,
                   "%s: block %u thread %u, order %s seed %llu: ", simt_block.launch->name,
                   simt_position.block, me->thread, order_names[simt_block.order],
                   (unsigned long long)simt_block.seed);
    va_list list;
    va_start(list, format);
    const size_t used = strlen(text->line);
    (void)vsnprintf(text->line + used, sizeof text->line - used, format, list);
    va_end(list);
    const char *between = "; ";
    for (const waiting &kind : all_waiting()) {
        append(text, "%s%u threads %s", between, kind.threads, kind.what);
        if (kind.place.file != nullptr)
            append(text, " %s:%d", simt_file_name(kind.place.file), kind.place.line);
        between = ", ";
    }
    simt_block.failed = true;
    simt_block.now = nullptr;
    simt_fiber_switch(&me->fiber, &simt_block.caller, true);
    std::abort();
}

/* ---- threads and blocks ---- */

static void finish_thread() {
    struct simt_thread *me = simt_block.now;
    struct simt_warp *warp = &simt_block.warps[me->warp];
    if (simt_copies_pending(me))
        simt_fail("the thread ends with copies (cp.async) still on their way");
    if (warp->arrived != 0)
        simt_fail("the thread ends while other lanes wait for it in %s at %s:%d", warp->operation,
                  simt_file_name(warp->place.file), warp->place.line);
    if (simt_block.at_barrier != 0)
        simt_fail("divergent barrier: the thread ends while others wait for it");
    warp->done |= 1u << me->lane;
    simt_block.alive--;
    struct simt_thread *next = simt_pick();
    if (next == nullptr && simt_block.alive != 0)
        simt_fail("deadlock: no thread can go on");
    simt_block.now = next;
    if (next != nullptr)
        simt_position.thread = next->thread;
    simt_fiber_switch(&me->fiber, next != nullptr ? &next->fiber : &simt_block.caller, true);
    std::abort(); /* nobody switches to a finished fiber */
}

static void thread_entry() {
    simt_fiber_started(&simt_block.caller);
    simt_block.kernel->run(simt_block.launch->arguments);
    finish_thread();
}

static void prepare_threads() {
    for (uint32_t i = 0; i < simt_block.thread_count; i++) {
        struct simt_thread *thread = &simt_block.threads[i];
        thread->thread = i;
        thread->warp = i / GPU_WARP_LANES;
        thread->lane = i % GPU_WARP_LANES;
        thread->waits_in = nullptr;
        simt_copies_reset(thread);
        simt_fiber_prepare(&thread->fiber, i, thread_entry);
    }
    for (uint32_t i = 0; i < simt_block.warp_count; i++)
        simt_block.warps[i] = {};
    simt_block.ready_warps = 0;
    simt_ready_all();
}

static bool run_block(uint32_t number) {
    simt_position = {0, simt_block.thread_count, number, simt_block.launch->blocks};
    simt_block.alive = simt_block.thread_count;
    simt_block.at_barrier = 0;
    simt_block.failed = false;
    simt_block.now = nullptr;
    shared_open();
    prepare_threads();
    if (simt_race_on)
        simt_race_block();
    simt_counts.blocks++;
    simt_counts.threads += simt_block.thread_count;
    simt_run(simt_pick());
    simt_block.now = nullptr;
    if (!simt_block.failed && !shared_kept()) {
        simt_block.failed = true;
        (void)status_set(&simt_block.failure, STATUS_WRONG,
                         "%s: block %u wrote beyond its %u bytes of shared memory",
                         simt_block.launch->name, number, simt_block.launch->shared_bytes);
    }
    return !simt_block.failed;
}

static std::vector<uint32_t> block_order(uint32_t blocks) {
    std::vector<uint32_t> order(blocks);
    for (uint32_t i = 0; i < blocks; i++)
        order[i] = simt_block.order == SIMT_REVERSE ? blocks - 1 - i : i;
    if (simt_block.order == SIMT_RANDOM) {
        uint64_t state = simt_block.seed;
        for (uint32_t i = blocks; i > 1; i--) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            std::swap(order[i - 1], order[(uint32_t)(state >> 33) % i]);
        }
    }
    return order;
}

static enum status check_launch(const struct gpu_launch *launch, struct status_text *text) {
    const auto *kernel = static_cast<const struct simt_kernel *>(launch->entry);
    if (kernel == nullptr)
        return status_set(text, STATUS_WRONG, "%s: launch of no kernel", launch->name);
    if (launch->blocks == 0 || launch->blocks > 0x7FFFFFFFu)
        return status_set(text, STATUS_WRONG, "%s: launch of %u blocks", launch->name,
                          launch->blocks);
    if (launch->threads == 0 || launch->threads > SIMT_MAX_THREADS ||
        launch->threads % GPU_WARP_LANES != 0)
        return status_set(text, STATUS_WRONG, "%s: launch of %u threads a block", launch->name,
                          launch->threads);
    if (launch->shared_bytes > SIMT_ARENA_BYTES)
        return status_set(text, STATUS_WRONG, "%s: launch with %u bytes of shared memory",
                          launch->name, launch->shared_bytes);
    if (launch->arguments_bytes != kernel->arguments_bytes)
        return status_set(text, STATUS_WRONG, "%s: launch with %u bytes of arguments, not %u",
                          launch->name, launch->arguments_bytes, kernel->arguments_bytes);
    return STATUS_OK;
}

enum status simt_launch(const struct gpu_launch *launch, struct status_text *text) {
    enum status status = check_launch(launch, text);
    if (status != STATUS_OK)
        return status;
    choose_order();
    simt_counts.launches++;
    simt_block.launch = launch;
    simt_block.kernel = static_cast<const struct simt_kernel *>(launch->entry);
    simt_block.thread_count = launch->threads;
    simt_block.warp_count = launch->threads / GPU_WARP_LANES;
    simt_block.caller = {};
    if (simt_race_on)
        simt_race_launch();
    for (const uint32_t number : block_order(launch->blocks))
        if (!run_block(number))
            return status_set(text, STATUS_WRONG, "%s", simt_block.failure.line);
    return simt_memory_check(text);
}
