/* Private to the cpu backend: the open device and what its files share. */
#ifndef CPU_DEVICE_H
#define CPU_DEVICE_H

#include <stdint.h>

#include "backend.h"
#include "cpu_blas.h"
#include "cpu_tile.h"

struct backend_device {
    uint32_t threads;
    uint64_t llc_bytes;
    bool llc_told;
    const struct cpu_tile_ops *tile;
    uint64_t mark_ns[BACKEND_MARKS];
    uint64_t stream_result; /* keeps the ceiling's loads alive */
    uint64_t pace_result;   /* keeps its operations alive */
    struct cpu_blas blas;
};

enum { CPU_WORKERS_PER_THREAD = 8 }; /* so that a thread that was held up does less */

enum status cpu_append(struct backend_device *device, const struct backend_append *work,
                       struct format_replaced *replaced, struct status_text *text);
enum status cpu_attend(struct backend_device *device, const struct backend_attend *work,
                       struct status_text *text);
enum status cpu_attend_check(struct backend_device *device, const char *kernel,
                             const struct page_layout *page, uint32_t query_heads, bool selected,
                             struct status_text *text);
uint32_t cpu_attend_workers(struct backend_device *device, const char *kernel,
                            const struct page_layout *page, uint32_t query_heads);
uint64_t cpu_attend_workspace_bytes(struct backend_device *device, const char *kernel,
                                    const struct page_layout *page, uint32_t query_heads,
                                    uint32_t segment_count, uint32_t page_count);
enum status cpu_state_step(struct backend_device *device, const struct backend_state_step *work,
                           struct status_text *text);
enum status cpu_index_score(struct backend_device *device, const struct backend_index_score *work,
                            struct status_text *text);
enum status cpu_index_select(struct backend_device *device, const struct backend_index_select *work,
                             struct status_text *text);
enum status cpu_stream_read(struct backend_device *device, const void *dev_from, uint64_t bytes,
                            struct status_text *text);
enum status cpu_pace(struct backend_device *device, uint64_t rounds, struct status_text *text);
uint64_t cpu_pace_rounds(uint64_t rounds); /* of one thread; what they come to */
enum status cpu_stream_copy(struct backend_device *device, void *dev_to, const void *dev_from,
                            uint64_t bytes, struct status_text *text);
enum status cpu_libraries_open(struct backend_device *device, const char *kernel,
                               enum backend_weights weights, struct status_text *text);
enum status cpu_product(struct backend_device *device, const struct backend_product *work,
                        struct status_text *text);
uint64_t cpu_product_workspace_bytes(struct backend_device *device);
extern const char *const cpu_kernels[];
extern const enum backend_weights cpu_weights_formats[];

/* Device facts, read afresh. */
void cpu_facts(struct backend_device *device, struct backend_facts *out);
uint32_t cpu_usable_threads(void);
uint64_t cpu_sysfs_llc_bytes(void);

#endif
