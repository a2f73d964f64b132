/* The second pass of every attend kernel: rows with more than one segment become one result. */
#ifndef ATTEND_COMBINE_H
#define ATTEND_COMBINE_H

#include "attend_arguments.h"
#include "gpu.h"

#ifdef __cplusplus
extern "C" {
#endif

enum status gpu_attend_combine(const struct gpu_machine *machine,
                               const struct attend_arguments *arguments, struct status_text *text);

#ifdef __cplusplus
}
#endif
#endif
