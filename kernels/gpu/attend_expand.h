/* What the expand kernel does before it attends: every page of a layer decoded into 16-bit pages of
 * the same shape, at the same page ids. That is how llama.cpp attends over caches it has no kernel
 * for; the cost of it is what this kernel is there to show. */
#ifndef ATTEND_EXPAND_H
#define ATTEND_EXPAND_H

#include "gpu.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Plans the 16-bit pages: K and V both f16, or both bf16 where either has bf16's range (bf16,
 * mxfp4, fp4_mx_block16, records). STATUS_REFUSED where the other then has more bits than bf16
 * (f16, llama.cpp's blocks), and for fp8_ds_mla_656, whose values are fp32; else fails as page_plan
 * does. f16 holds every value exactly but those of llama.cpp's blocks, which it rounds: 18 bits of
 * q8_0 and iq4_nl, 15 and 16 of q4_0 and q5_0, and what a minimum makes of q4_1 and q5_1, to 11. */
enum status gpu_attend_expand_layout(const struct page_shape *from, struct page_layout *out,
                                     struct status_text *text);

/* All page_count pages of `from` into dev_to, as `to` was planned for their shape. Values are units
 * times group scales, rounded to nearest even; tensor scales stay factors of whoever attends. Slots
 * nobody wrote decode to anything. */
enum status gpu_attend_expand_pages(const struct gpu_machine *machine,
                                    const struct backend_cache *from, const struct page_layout *to,
                                    uint8_t *dev_to, struct status_text *text);

#ifdef __cplusplus
}
#endif
#endif
