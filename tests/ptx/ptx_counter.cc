/* Sectors and bank conflicts of one warp's access. */
#include "ptx_counter.h"

#include <algorithm>

namespace {

enum : uint32_t { SECTOR_BYTES = 32, BANKS = 32, BANK_BYTES = 4, LARGEST_BYTES = 16 };

void add(const ptx_warp &warp, const ptx_instruction &in, const ptx_traffic &traffic) {
    ptx_counter &counter = *warp.block->counter;
    counter.kernel = warp.block->kernel;
    ptx_traffic_add(counter.all, traffic);
    ptx_traffic_add(counter.instructions[&in], traffic);
    if (in.kind == PTX_COPY)
        ptx_traffic_add(counter.copies, traffic);
}

} // namespace

void ptx_traffic_add(ptx_traffic &to, const ptx_traffic &from) {
    to.issued += from.issued;
    to.bytes += from.bytes;
    to.sectors += from.sectors;
    to.wavefronts += from.wavefronts;
    to.least_wavefronts += from.least_wavefronts;
}

void ptx_count_global(const ptx_warp &warp, const ptx_instruction &in, const uint64_t *addresses,
                      uint32_t lanes, uint32_t bytes) {
    uint64_t sectors[PTX_LANES];
    uint32_t touched = 0;
    for (uint32_t lane = 0; lane < PTX_LANES; lane++)
        if ((lanes >> lane & 1) != 0)
            sectors[touched++] = addresses[lane] / SECTOR_BYTES; /* aligned: never two */
    std::sort(sectors, sectors + touched);
    const uint64_t distinct = (uint64_t)(std::unique(sectors, sectors + touched) - sectors);
    add(warp, in, {1, (uint64_t)touched * bytes, distinct, 0, 0});
}

/* Lanes are served in as many parts as their bytes fill the banks; lanes that want the same word
 * share it, and a part takes as many passes as its busiest bank has words. */
void ptx_count_shared(const ptx_warp &warp, const ptx_instruction &in, const uint64_t *addresses,
                      uint32_t bytes) {
    ptx_traffic traffic = {1, 0, 0, 0, 0};
    const uint32_t together = bytes <= BANK_BYTES ? PTX_LANES : PTX_LANES * BANK_BYTES / bytes;
    for (uint32_t first = 0; first < PTX_LANES; first += together) {
        uint32_t words[PTX_LANES * LARGEST_BYTES / BANK_BYTES], count = 0;
        for (uint32_t lane = first; lane < first + together; lane++)
            for (uint32_t at = 0; at < bytes && (warp.now >> lane & 1) != 0; at += BANK_BYTES)
                words[count++] = (uint32_t)(addresses[lane] + at) / BANK_BYTES;
        if (count == 0)
            continue;
        std::sort(words, words + count);
        count = (uint32_t)(std::unique(words, words + count) - words);
        uint32_t in_bank[BANKS] = {};
        for (uint32_t i = 0; i < count; i++)
            in_bank[words[i] % BANKS]++;
        traffic.wavefronts += *std::max_element(in_bank, in_bank + BANKS);
        traffic.least_wavefronts++;
    }
    add(warp, in, traffic);
}
