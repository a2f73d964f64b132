/* Global memory: the host's own, with a list of what is allocated. */
#include "ptx_memory.h"

#include "ptx_program.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace {

constexpr uint64_t alignment = 256;

struct range {
    uint64_t start, end;
    std::string what;
};
std::vector<range> ranges;
bool holds(const range &r, uint64_t address, uint32_t bytes) {
    return address >= r.start && address < r.end && bytes <= r.end - address;
}

[[noreturn]] void fail_outside(uint64_t address, uint32_t bytes, const char *what) {
    for (const range &r : ranges)
        if (address + bytes + alignment > r.start && address < r.end + alignment)
            ptx_fail("%s of %u bytes at byte %lld of %s (%llu bytes): out of bounds", what, bytes,
                     (long long)(address - r.start), r.what.c_str(),
                     (unsigned long long)(r.end - r.start));
    ptx_fail("%s of %u bytes at 0x%llx: out of bounds of all global memory", what, bytes,
             (unsigned long long)address);
}

} // namespace

struct ptx_memory_range ptx_memory_last;

void *ptx_memory_allocate(uint64_t bytes, const char *what) {
    if (bytes == 0 || bytes > SIZE_MAX / 4)
        return nullptr;
    const size_t rounded = (size_t)((bytes + alignment - 1) / alignment * alignment);
    void *memory = std::aligned_alloc(alignment, rounded);
    if (memory == nullptr)
        return nullptr;
    memset(memory, 0xFF, rounded);
    const uint64_t start = reinterpret_cast<uintptr_t>(memory);
    ranges.push_back({start, start + bytes, what});
    return memory;
}

void ptx_memory_free(void *memory) {
    const auto found = std::find_if(ranges.begin(), ranges.end(), [&](const range &r) {
        return r.start == reinterpret_cast<uintptr_t>(memory);
    });
    if (found == ranges.end())
        return;
    ranges.erase(found);
    ptx_memory_last = {};
    std::free(memory);
}

void ptx_memory_find(uint64_t address, uint32_t bytes, const char *what) {
    const auto found = std::find_if(ranges.begin(), ranges.end(),
                                    [&](const range &r) { return holds(r, address, bytes); });
    if (found == ranges.end())
        fail_outside(address, bytes, what);
    if (address % bytes != 0)
        ptx_fail("%s of %u bytes at byte %llu of %s: misaligned", what, bytes,
                 (unsigned long long)(address - found->start), found->what.c_str());
    ptx_memory_last = {found->start, found->end - found->start};
}
