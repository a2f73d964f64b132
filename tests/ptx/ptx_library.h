/* The kernels of one architecture: a folder of PTX modules, decoded as they are launched. */
#ifndef PTX_LIBRARY_H
#define PTX_LIBRARY_H

#include "gpu.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Takes the place of any folder opened before. STATUS_MISSING: no modules there. */
enum status ptx_library_open(const char *folder, struct status_text *text);
/* The kernel that GPU_ENTRY named (struct ptx_entry) is in one of the modules. */
bool ptx_library_has(const void *entry);
/* Runs all blocks. STATUS_WRONG with what and where when something is wrong with the kernel. */
enum status ptx_launch(const struct gpu_launch *launch, struct status_text *text);

#ifdef __cplusplus
}

#include <map>
#include <string>

struct ptx_counter;
/* Counts of the launches to come, by the launches' names; null: none. */
void ptx_library_count(std::map<std::string, ptx_counter> *counters);
#endif
#endif
