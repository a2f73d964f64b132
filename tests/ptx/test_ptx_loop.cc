/* The main loop of the mma kernel at head dim 128, as nvcc writes it for one architecture: copies
 * use every sector they touch, no access of shared memory meets a bank conflict. Prints, per
 * format, what the interpreter counts for a value of the cache; a Markdown table. */
#include <cstdio>
#include <cstdlib>

#include "ptx_backend.h"
#include "ptx_measure.h"

namespace {

enum : uint32_t { HEAD_DIM = 128 };

double issued(const ptx_loop &loop) {
    uint64_t all = 0;
    for (const uint64_t one : loop.issued)
        all += one;
    return 32.0 * (double)all / (double)loop.kv_values;
}

double ratio(const ptx_traffic &traffic) {
    return 32.0 * (double)traffic.sectors / (double)traffic.bytes;
}

/* Formats of whole blocks are not planar: their copies and their sorting are as they can be. */
bool is_planar(enum format_id format) {
    return format != FORMAT_Q8_0_GGML && format != FORMAT_Q4_0_GGML;
}

/* The others have no mma kernel. */
bool has_decoder(enum format_id format) {
    switch (format) {
#define MMA_FORMAT(ID, id) case FORMAT_##ID:
#include "mma_formats.def"
#undef MMA_FORMAT
        return true;
    default:
        return false;
    }
}

/* 0, or 1 with a line that says what is wrong. */
unsigned judge(enum format_id format, const ptx_loop &loop) {
    const uint64_t conflicts = loop.all.wavefronts - loop.all.least_wavefronts;
    const bool whole = loop.copies.sectors * 32 == loop.copies.bytes;
    if (!is_planar(format) || (whole && conflicts == 0))
        return 0;
    printf("WRONG: %s: %llu sectors for %llu bytes, %llu bank conflicts\n",
           format_get(format)->name, (unsigned long long)loop.copies.sectors,
           (unsigned long long)loop.copies.bytes, (unsigned long long)conflicts);
    return 1;
}

} // namespace

int main() {
    struct status_text text = {};
    backend_device *device = nullptr;
    const backend_options options = {};
    enum status status = ptx_backend_ops.open(&options, &device, &text);
    if (status != STATUS_OK) {
        fprintf(stderr, "%s: %s\n", status_name(status), text.line);
        return 1;
    }
    unsigned failures = 0;
    printf(
        "| format | instructions per value | of them mma | ldmatrix | shared | copy | "
        "copied bytes per value | sectors per sector needed | in pages of 17 | bank conflicts |\n"
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n");
    for (int i = 0; i < FORMAT_COUNT; i++) {
        const enum format_id format = (enum format_id)i;
        if (!has_decoder(format))
            continue;
        ptx_loop loop, odd;
        status = ptx_measure_loop(format, HEAD_DIM, 16, device, loop, &text);
        if (status == STATUS_OK)
            status = ptx_measure_loop(format, HEAD_DIM, 17, device, odd, &text);
        if (status != STATUS_OK) {
            printf("WRONG: %s: %s: %s\n", format_get(format)->name, status_name(status), text.line);
            failures++;
            continue;
        }
        const double values = (double)loop.kv_values;
        printf("| %s | %.2f | %.3f | %.3f | %.3f | %.3f | %.3f | %.2f | %.2f | %llu |\n",
               format_get(format)->name, issued(loop), 32 * (double)loop.issued[PTX_MMA] / values,
               32 * (double)loop.issued[PTX_LDMATRIX] / values,
               32 * (double)loop.issued[PTX_SHARED] / values,
               32 * (double)loop.issued[PTX_COPY] / values, (double)loop.copies.bytes / values,
               ratio(loop.copies), ratio(odd.copies),
               (unsigned long long)(loop.all.wavefronts - loop.all.least_wavefronts));
        failures += judge(format, loop);
    }
    ptx_backend_ops.close(device);
    printf("%u failures\n", failures);
    return failures == 0 ? 0 : 1;
}
