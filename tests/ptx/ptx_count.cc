/* What one attend step of a kernel does, per launch of it, as JSON lines: instructions by class,
 * the 32-byte sectors of its global accesses, and passes over the banks of shared memory. ptx_count
 * FORMAT HEAD_DIM PAGE_TOKENS [KERNEL [QUERY_HEADS]] One sequence of 739 tokens and one KV head, by
 * workers of an equal part each; the modules come from KVGAUGE_PTX_FOLDER. Exact, and no timing:
 * what sectors and conflicts cost is up to a GPU. */
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>

#include "ptx_backend.h"
#include "ptx_measure.h"
#include "ptx_parse.h"

namespace {

const char *const class_names[PTX_CLASSES] = {
    "integer", "float", "convert",    "move",     "control", "global",
    "shared",  "param", "async_copy", "ldmatrix", "mma",     "warp",
};

std::string arch() {
    std::filesystem::path folder = getenv("KVGAUGE_PTX_FOLDER");
    return (folder.has_filename() ? folder : folder.parent_path()).filename().string();
}

/* Bytes of the sectors for one that was asked for. */
double ratio(const ptx_traffic &traffic) {
    return traffic.bytes > 0 ? 32.0 * (double)traffic.sectors / (double)traffic.bytes : 0.0;
}

void print_traffic(const ptx_traffic &traffic) {
    printf("\"global_bytes\":%llu,\"sectors\":%llu,\"sector_ratio\":%.3f,"
           "\"shared_wavefronts\":%llu,\"bank_conflicts\":%llu",
           (unsigned long long)traffic.bytes, (unsigned long long)traffic.sectors, ratio(traffic),
           (unsigned long long)traffic.wavefronts,
           (unsigned long long)(traffic.wavefronts - traffic.least_wavefronts));
}

void print(const std::string &kernel, const ptx_counter &counter, const conformance_case &which,
           uint64_t tokens) {
    printf("{\"kernel\":\"%s\",\"arch\":\"compute_%s\",\"page_tokens\":%u,\"tokens\":%llu,"
           "\"query_heads\":%u,\"kv_values\":%llu,\"issued\":{",
           kernel.c_str(), arch().c_str(), which.page_tokens, (unsigned long long)tokens,
           which.group_size, (unsigned long long)(tokens * (which.k_dim + which.v_dim)));
    uint64_t all = 0;
    for (uint32_t i = 0; i < PTX_CLASSES; i++) {
        printf("\"%s\":%llu,", class_names[i], (unsigned long long)counter.issued[i]);
        all += counter.issued[i];
    }
    printf("\"all\":%llu},", (unsigned long long)all);
    print_traffic(counter.all);
    printf(",\"copy_bytes\":%llu,\"copy_sectors\":%llu,\"copy_sector_ratio\":%.3f}\n",
           (unsigned long long)counter.copies.bytes, (unsigned long long)counter.copies.sectors,
           ratio(counter.copies));
}

/* "x.ptx:12 (a.cuh:3 in b.cuh:4)" -> "a.cuh:3 in b.cuh:4" */
std::string source_of(const ptx_kernel &kernel, const ptx_instruction &instruction) {
    const std::string place = ptx_instruction_place(kernel, instruction);
    const size_t at = place.find('(');
    return at == std::string::npos ? place : place.substr(at + 1, place.size() - at - 2);
}

void print_lines(const std::string &kernel, const ptx_counter &counter) {
    std::map<std::string, ptx_traffic> lines;
    for (const auto &one : counter.instructions)
        ptx_traffic_add(lines[source_of(*counter.kernel, *one.first)], one.second);
    for (const auto &line : lines) {
        printf("{\"kernel\":\"%s\",\"line\":\"%s\",\"issued\":%llu,", kernel.c_str(),
               line.first.c_str(), (unsigned long long)line.second.issued);
        print_traffic(line.second);
        printf("}\n");
    }
}

enum status count(const conformance_case &which, const char *kernel, bool with_lines,
                  backend_device *device, struct status_text *text) {
    std::map<std::string, ptx_counter> counters;
    uint64_t tokens = 0;
    const enum status status = ptx_measure(which, kernel, device, counters, tokens, text);
    for (const auto &one : counters) {
        print(one.first, one.second, which, tokens);
        if (with_lines)
            print_lines(one.first, one.second);
    }
    return status;
}

} // namespace

int main(int argc, char **argv) {
    enum format_id format = FORMAT_COUNT;
    for (int i = 0; argc >= 4 && i < FORMAT_COUNT; i++)
        if (format_get((enum format_id)i)->name == std::string(argv[1]))
            format = (enum format_id)i;
    if (format == FORMAT_COUNT) {
        fprintf(stderr,
                "ptx_count FORMAT HEAD_DIM PAGE_TOKENS [KERNEL [QUERY_HEADS [lines]]], with "
                "KVGAUGE_PTX_FOLDER\n");
        return 2;
    }
    conformance_case which = {};
    which.k_format = which.v_format = format;
    which.k_dim = which.v_dim = (uint32_t)atoi(argv[2]);
    which.page_tokens = (uint32_t)atoi(argv[3]);
    which.kv_heads = 1;
    which.group_size = argc > 5 ? (uint32_t)atoi(argv[5]) : 8;
    which.lengths = CONFORMANCE_LONG;
    which.tile_tokens = 64;
    which.workers = 1;
    struct status_text text = {};
    backend_device *device = nullptr;
    const backend_options options = {};
    enum status status = ptx_backend_ops.open(&options, &device, &text);
    if (status == STATUS_OK)
        status = count(which, argc > 4 ? argv[4] : "mma", argc > 6, device, &text);
    if (status != STATUS_OK)
        fprintf(stderr, "%s: %s\n", status_name(status), text.line);
    ptx_backend_ops.close(device);
    return status == STATUS_OK ? 0 : 1;
}
