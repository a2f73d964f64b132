/* Code addresses to lines of source. */
#include "simt_symbol.h"

#include "simt_block.h"

#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <unistd.h>

static const char *load_address() {
    static const char *base;
    if (base == nullptr) {
        Dl_info info;
        if (dladdr(reinterpret_cast<const void *>(&simt_launch), &info) != 0)
            base = static_cast<const char *>(info.dli_fbase);
    }
    return base;
}

uint32_t simt_symbol_offset(const void *pc) {
    return (uint32_t)(static_cast<const char *>(pc) - load_address() - 1);
}

/* addr2line prints a function and "file:line" for each inlined frame, the innermost first. */
static bool take_line(FILE *from, char *out, size_t out_bytes) {
    char line[1024];
    while (fgets(line, sizeof line, from) != nullptr) {
        line[strcspn(line, " \n")] = '\0';
        const char *name = simt_file_name(line);
        if (strncmp(name, "simt_", 5) == 0 || strncmp(name, "gpu_model", 9) == 0 ||
            strchr(name, '?') != nullptr || strncmp(line, "/usr/", 5) == 0)
            continue;
        (void)snprintf(out, out_bytes, "%s", name);
        return true;
    }
    return false;
}

void simt_symbol_place(uint32_t offset, char *out, size_t out_bytes) {
    (void)snprintf(out, out_bytes, "pc 0x%x", offset);
    char program[512], command[640];
    const ssize_t bytes = readlink("/proc/self/exe", program, sizeof program - 1);
    if (bytes <= 0 || offset == 0)
        return;
    program[bytes] = '\0';
    if (strchr(program, '\'') != nullptr)
        return;
    (void)snprintf(command, sizeof command, "addr2line -i -e '%s' 0x%x 2>&1", program, offset);
    FILE *lines = popen(command, "r");
    if (lines == nullptr)
        return;
    (void)take_line(lines, out, out_bytes);
    (void)pclose(lines);
}
