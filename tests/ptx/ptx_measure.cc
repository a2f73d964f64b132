#include "ptx_measure.h"

#include "ptx_backend.h"
#include "ptx_library.h"

namespace {

/* Of the 739 tokens of CONFORMANCE_LONG; the walk over the rest is ten whole trips of four warps
 * that take 16 tokens each, or five of 32. */
enum : uint32_t { END_TOKENS = 99 };

ptx_traffic minus(const ptx_traffic &a, const ptx_traffic &b) {
    return {a.issued - b.issued, a.bytes - b.bytes, a.sectors - b.sectors,
            a.wavefronts - b.wavefronts, a.least_wavefronts - b.least_wavefronts};
}

} // namespace

enum status ptx_measure(const conformance_case &which, const char *kernel, backend_device *device,
                        std::map<std::string, ptx_counter> &counters, uint64_t &tokens,
                        struct status_text *text) {
    conformance_world world;
    enum status status = conformance_create(&ptx_backend_ops, device, &which, &world, text);
    if (status == STATUS_OK)
        status = conformance_fill(&world, text);
    ptx_library_count(&counters);
    if (status == STATUS_OK)
        status = conformance_attend(&world, kernel, text);
    ptx_library_count(nullptr);
    if (status == STATUS_OK)
        status = conformance_check_outputs(&world, text);
    tokens = world.lengths[0];
    conformance_destroy(&world);
    return status;
}

enum status ptx_measure_loop(enum format_id format, uint32_t head_dim, uint32_t page_tokens,
                             backend_device *device, ptx_loop &out, struct status_text *text) {
    conformance_case which = {};
    which.k_format = which.v_format = format;
    which.k_dim = which.v_dim = head_dim;
    which.page_tokens = page_tokens;
    which.kv_heads = 1;
    which.group_size = 8;
    which.lengths = CONFORMANCE_LONG;
    which.tile_tokens = 64;
    which.workers = 1;
    std::map<std::string, ptx_counter> whole, end;
    uint64_t tokens = 0;
    enum status status = ptx_measure(which, "mma", device, whole, tokens, text);
    which.window_tokens = END_TOKENS;
    if (status == STATUS_OK)
        status = ptx_measure(which, "mma", device, end, tokens, text);
    if (status != STATUS_OK)
        return status;
    if (whole.size() != 1 || end.size() != 1)
        return status_set(text, STATUS_WRONG, "%zu and %zu launches where one is expected",
                          whole.size(), end.size());
    const ptx_counter &a = whole.begin()->second, &b = end.begin()->second;
    out.kv_values = (tokens - END_TOKENS) * 2 * head_dim;
    for (uint32_t i = 0; i < PTX_CLASSES; i++)
        out.issued[i] = a.issued[i] - b.issued[i];
    out.all = minus(a.all, b.all);
    out.copies = minus(a.copies, b.copies);
    return STATUS_OK;
}
