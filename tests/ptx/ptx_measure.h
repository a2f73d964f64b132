/* Counts of one attend step by the PTX interpreter: ptx_count prints them, test_ptx_loop holds the
 * main loop to what it should be. */
#ifndef PTX_MEASURE_H
#define PTX_MEASURE_H

#include <map>
#include <string>

extern "C" {
#include "conformance.h"
}
#include "ptx_counter.h"

/* Fills a cache and attends it with `kernel`, outputs checked. counters: by launch of the attend
 * step; tokens: of the first sequence. */
enum status ptx_measure(const conformance_case &which, const char *kernel, backend_device *device,
                        std::map<std::string, ptx_counter> &counters, uint64_t &tokens,
                        struct status_text *text);

/* What the main loop alone does for `kv_values` values of the cache. */
struct ptx_loop {
    uint64_t kv_values;
    uint64_t issued[PTX_CLASSES];
    ptx_traffic all, copies;
};

/* The mma kernel on one sequence of one KV head and eight query heads, walked over in full and over
 * its end alone; the difference of both. It has new maxima in it as this data brings them. */
enum status ptx_measure_loop(enum format_id format, uint32_t head_dim, uint32_t page_tokens,
                             backend_device *device, ptx_loop &out, struct status_text *text);

#endif
