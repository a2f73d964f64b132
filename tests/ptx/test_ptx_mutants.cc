/* Does the suite see what the shim cannot? Faults planted in the PTX of real kernels, as a wrong
 * string in kernels/gpu/gpu_ptx.cuh or a barrier forgotten would put them there: each must be told
 * by the interpreter or show in the outputs. Modules: KVGAUGE_PTX_FOLDER. */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

extern "C" {
#include "conformance.h"
}
#include "ptx_backend.h"

namespace {

namespace fs = std::filesystem;

const struct mutant {
    const char *name, *find, *put; /* put null: the digit behind what is found grows by one */
} mutants[] = {
    {"nothing", "this stands nowhere", ""},
    {"V read as it lies", "x4\\.trans\\.shared", "x4.shared"},
    {"A's middle registers swapped", "(mma\\S+ \\{[^}]*\\}, \\{\\S+, )(\\S+), (\\S+),",
     "$1$3, $2,"},
    {"B's registers swapped", "(mma\\S+ \\{[^}]*\\}, \\{[^}]*\\}, \\{)(\\S+), (\\S+)\\}",
     "$1$3, $2}"},
    {"waits too short", "wait_group ", nullptr},
    {"no barrier of the warp", "bar\\.warp\\.sync[^;]*;", ""},
    {"no barrier of the block", "bar\\.sync[^;]*;", ""},
    {"P not transposed", "movmatrix\\S+ (\\S+), (\\S+);", "mov.b32 $1, $2;"},
    {"real and unreal copies swapped", "setp\\.eq\\.s32 p,", "setp.ne.s32 p,"},
    {"no power of two", "ex2\\S+ (\\S+), (\\S+);", "mov.b32 $1, $2;"},
    {"pairs packed the other way", "(cvt\\.rn\\.b?f16x2\\.f32 \\S+ )(\\S+), (\\S+);", "$1$3, $2;"},
};

std::string read(const fs::path &path) {
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
}

std::string planted(const mutant &which, std::string text) {
    if (which.put != nullptr)
        return std::regex_replace(text, std::regex(which.find), which.put);
    const size_t length = strlen(which.find);
    for (size_t at = text.find(which.find); at != std::string::npos;
         at = text.find(which.find, at + length))
        text[at + length]++;
    return text;
}

/* The folder's modules, those of bf16 and nvfp4 with the fault in them. False: it changed nothing.
 */
bool plant(const mutant &which, const fs::path &from, const fs::path &to) {
    bool changed = false;
    fs::remove_all(to);
    fs::create_directories(to);
    for (const auto &file : fs::directory_iterator(from)) {
        const std::string name = file.path().filename().string();
        if (file.path().extension() != ".ptx")
            continue;
        if (name != "attend_pair_BF16_BF16.ptx" && name != "attend_pair_NVFP4_NVFP4.ptx") {
            fs::create_symlink(fs::absolute(file.path()), to / name);
            continue;
        }
        const std::string text = read(file.path());
        const std::string faulty = planted(which, text);
        changed = changed || faulty != text;
        std::ofstream(to / name) << faulty;
    }
    return changed;
}

enum status run(enum format_id format, uint32_t group_size, struct status_text *text) {
    conformance_case which = {};
    which.k_format = which.v_format = format;
    which.k_dim = which.v_dim = 128;
    which.kv_heads = 2;
    which.group_size = group_size;
    which.page_tokens = 16;
    which.lengths = CONFORMANCE_RAGGED;
    which.tile_tokens = 64;
    which.workers = 3;
    backend_device *device = nullptr;
    const backend_options options = {};
    enum status status = ptx_backend_ops.open(&options, &device, text);
    if (status != STATUS_OK)
        return STATUS_MISSING;
    status = conformance_run(&ptx_backend_ops, device, "mma", &which, text);
    ptx_backend_ops.close(device);
    return status;
}

/* True when what happened is what should. */
bool judge(const mutant &which, const fs::path &from, const fs::path &to) {
    const bool sound = &which == mutants;
    if (plant(which, from, to) == sound) {
        printf("%s: the PTX has no such place\n", which.name);
        return false;
    }
    struct status_text text = {};
    enum status status = run(FORMAT_BF16, 4, &text);
    if (status == STATUS_OK)
        status = run(FORMAT_NVFP4, 12, &text);
    printf("%s: %s: %s\n", which.name, status_name(status), text.line);
    return status == (sound ? STATUS_OK : STATUS_WRONG);
}

} // namespace

int main() {
    const char *const folder = getenv("KVGAUGE_PTX_FOLDER");
    std::string own = (fs::temp_directory_path() / "kvgauge_ptx_XXXXXX").string();
    if (folder == nullptr || mkdtemp(own.data()) == nullptr) {
        fprintf(stderr, "test_ptx_mutants wants KVGAUGE_PTX_FOLDER and a place for files\n");
        return 2;
    }
    setenv("KVGAUGE_PTX_FOLDER", (own + "/modules").c_str(), 1);
    unsigned failures = 0;
    for (const mutant &which : mutants)
        failures += judge(which, folder, own + "/modules") ? 0 : 1;
    fs::remove_all(own);
    printf("%u failures\n", failures);
    return failures == 0 ? 0 : 1;
}
