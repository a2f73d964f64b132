/* Device memory: plain host memory between guard bytes. */
#include "simt_block.h"
#include "simt_memory.h"

#include <algorithm>
#include <cstring>
#include <list>
#include <sys/mman.h>

namespace {

constexpr size_t guard_bytes = 1024; /* keeps the alignment that a GPU's allocator gives, 256 */
constexpr uint8_t guard_byte = 0xB7;

std::list<simt_range> ranges;

size_t mapped_bytes(const simt_range &range) {
    return (size_t)(range.end - range.start) + 2 * guard_bytes;
}

} // namespace

void *simt_memory_allocate(uint64_t bytes, const char *what) {
    if (bytes == 0 || bytes > SIZE_MAX / 4)
        return nullptr;
    void *mapped = mmap(nullptr, (size_t)bytes + 2 * guard_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED)
        return nullptr;
    unsigned char *start = static_cast<unsigned char *>(mapped) + guard_bytes;
    simt_range range = {start, start + bytes, what, {}};
    if (simt_race_enabled())
        range.cells.resize((size_t)bytes);
    memset(start - guard_bytes, guard_byte, guard_bytes);
    memset(start, simt_poison, (size_t)bytes);
    memset(start + bytes, guard_byte, guard_bytes);
    simt_asan_close(start - guard_bytes, guard_bytes);
    simt_asan_close(start + bytes, guard_bytes);
    ranges.push_front(std::move(range));
    return start;
}

void simt_memory_free(void *memory) {
    const auto found = std::find_if(ranges.begin(), ranges.end(),
                                    [&](const simt_range &range) { return range.start == memory; });
    if (found == ranges.end())
        return;
    simt_asan_open(found->start - guard_bytes, mapped_bytes(*found));
    (void)munmap(found->start - guard_bytes, mapped_bytes(*found));
    ranges.erase(found);
}

struct simt_range *simt_memory_find(const void *address, bool *guard) {
    const unsigned char *at = static_cast<const unsigned char *>(address);
    for (simt_range &range : ranges)
        if (at >= range.start - guard_bytes && at < range.end + guard_bytes) {
            *guard = at < range.start || at >= range.end;
            return &range;
        }
    return nullptr;
}

enum status simt_memory_check(struct status_text *text) {
    enum status status = STATUS_OK;
    for (const simt_range &range : ranges) {
        unsigned char *const before = range.start - guard_bytes;
        simt_asan_open(before, guard_bytes);
        simt_asan_open(range.end, guard_bytes);
        const auto touched = [](unsigned char byte) { return byte != guard_byte; };
        const unsigned char *low = std::find_if(before, range.start, touched);
        const unsigned char *high = std::find_if(range.end, range.end + guard_bytes, touched);
        if (status == STATUS_OK && (low != range.start || high != range.end + guard_bytes)) {
            const bool is_low = low != range.start;
            status = status_set(text, STATUS_WRONG,
                                "%s: byte %lld %s the %s of %llu bytes was "
                                "written",
                                simt_block.launch->name,
                                (long long)(is_low ? range.start - low : high - range.end),
                                is_low ? "before" : "behind", range.what.c_str(),
                                (unsigned long long)(range.end - range.start));
        }
        simt_asan_close(before, guard_bytes);
        simt_asan_close(range.end, guard_bytes);
    }
    return status;
}
