/* Kernels by the name they have in C++. */
#include "ptx_library.h"

#include "ptx_counter.h"
#include "ptx_entry.h"
#include "ptx_parse.h"
#include "ptx_run.h"

#include <cstdlib>
#include <cxxabi.h>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace {

struct found_kernel {
    const ptx_module *module;
    const ptx_entry_text *text;
    std::unique_ptr<ptx_kernel> kernel; /* once it was launched */
};

std::vector<std::unique_ptr<ptx_module>> modules;
std::map<std::string, found_kernel> kernels;
std::map<const void *, found_kernel *> by_entry;
std::map<std::string, ptx_counter> *counters;
uint64_t launches;

/* Without spaces, and numbers without the suffix by which some spell that they are unsigned. */
std::string plain(const std::string &name) {
    std::string out;
    for (size_t i = 0; i < name.size(); i++) {
        const bool suffix = name[i] == 'u' && i > 0 && name[i - 1] >= '0' && name[i - 1] <= '9' &&
                            (name[i + 1] == ',' || name[i + 1] == '>');
        if (name[i] != ' ' && name[i] != '&' && !suffix)
            out += name[i];
    }
    return out;
}

/* _Z5sceneI4actILj3EEEv3set: "void scene<act<3u> >(set)" -> "scene<act<3>>" */
std::string key_of_symbol(const std::string &symbol) {
    int status = 0;
    char *demangled = abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status);
    std::string name = demangled != nullptr ? demangled : symbol;
    std::free(demangled);
    if (name.compare(0, 5, "void ") == 0)
        name.erase(0, 5);
    return plain(name.substr(0, name.rfind('(')));
}

/* "... [with Arguments = set; void (* kernel)(Arguments) = scene<act<3> >]" */
std::string key_of_entry(const ptx_entry &entry) {
    const std::string spelling = entry.spelling;
    const size_t at = spelling.rfind(" = ");
    return plain(spelling.substr(at + 3, spelling.rfind(']') - at - 3));
}

found_kernel *find(const void *entry) {
    const auto known = by_entry.find(entry);
    if (known != by_entry.end())
        return known->second;
    const auto found = kernels.find(key_of_entry(*static_cast<const ptx_entry *>(entry)));
    return by_entry[entry] = found != kernels.end() ? &found->second : nullptr;
}

void read_module(const std::filesystem::path &path) {
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    modules.push_back(ptx_parse_module(text.str(), path.string()));
    for (const ptx_entry_text &entry : modules.back()->entries)
        kernels[key_of_symbol(entry.name)] = {modules.back().get(), &entry, nullptr};
}

void launch_kernel(const gpu_launch &launch, found_kernel &found) {
    if (found.kernel == nullptr)
        found.kernel = ptx_parse_kernel(*found.module, *found.text);
    const ptx_kernel &kernel = *found.kernel;
    if (launch.blocks == 0 || launch.threads == 0 || launch.threads > 1024 ||
        launch.threads % PTX_LANES != 0)
        ptx_fail("launch of %u blocks of %u threads", launch.blocks, launch.threads);
    if (launch.arguments_bytes != kernel.parameter_bytes)
        ptx_fail("launch with %u bytes of arguments, not %u", launch.arguments_bytes,
                 kernel.parameter_bytes);
    const ptx_grid grid = {launch.blocks, launch.threads, launch.shared_bytes, launches++ % 2 == 1};
    ptx_run(kernel, grid, launch.arguments,
            counters != nullptr ? &(*counters)[launch.name] : nullptr);
}

} // namespace

enum status ptx_library_open(const char *folder, struct status_text *text) {
    by_entry.clear();
    kernels.clear();
    modules.clear();
    try {
        std::error_code error;
        for (const auto &file : std::filesystem::directory_iterator(folder, error))
            if (file.path().extension() == ".ptx")
                read_module(file.path());
    } catch (const ptx_failure &failure) {
        return status_set(text, STATUS_WRONG, "%s: %s", folder, failure.what());
    }
    return modules.empty() ? status_set(text, STATUS_MISSING, "no .ptx files in %s", folder)
                           : STATUS_OK;
}

bool ptx_library_has(const void *entry) {
    return find(entry) != nullptr;
}

enum status ptx_launch(const struct gpu_launch *launch, struct status_text *text) {
    found_kernel *const found = launch->entry != nullptr ? find(launch->entry) : nullptr;
    if (found == nullptr)
        return status_set(text, STATUS_WRONG, "%s: no such kernel in the PTX", launch->name);
    try {
        launch_kernel(*launch, *found);
    } catch (const ptx_failure &failure) {
        return status_set(text, STATUS_WRONG, "%s: %s", launch->name, failure.what());
    }
    return STATUS_OK;
}

void ptx_library_count(std::map<std::string, ptx_counter> *wanted) {
    counters = wanted;
}
