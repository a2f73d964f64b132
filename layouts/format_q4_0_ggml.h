/* q4_0_ggml: the bytes of q4_0 in llama.cpp's own order: blocks of 18 bytes, the f16 scale first
 * and then the codes. Same quantiser, same values as q4_0. */
#ifndef FORMAT_Q4_0_GGML_H
#define FORMAT_Q4_0_GGML_H

#include <stddef.h>

#include "format_q4_0.h"

/* ggml's block_q4_0. */
struct format_q4_0_ggml_block {
    uint16_t d;
    uint8_t codes[FORMAT_Q4_0_PAYLOAD_BYTES];
};

static_assert(FORMAT_Q4_0_GGML_VALUES == FORMAT_Q4_0_VALUES && FORMAT_Q4_0_GGML_SCALE_BYTES == 0 &&
                  FORMAT_Q4_0_GGML_PAYLOAD_BYTES == sizeof(struct format_q4_0_ggml_block) &&
                  sizeof(struct format_q4_0_ggml_block) == 18 &&
                  offsetof(struct format_q4_0_ggml_block, codes) == FORMAT_Q4_0_SCALE_BYTES,
              "a block is its scale and its codes, nothing between");

FORMAT_HD static inline void format_q4_0_ggml_encode(const float *x, float tensor_scale,
                                                     uint8_t *payload, uint8_t *scale) {
    (void)scale;
    format_q4_0_encode(x, tensor_scale, payload + FORMAT_Q4_0_SCALE_BYTES, payload);
}

/* 32 values into `units`; returns the group scale, read from the block. */
FORMAT_HD static inline float format_q4_0_ggml_decode(const uint8_t *payload, const uint8_t *scale,
                                                      float *units) {
    (void)scale;
    return format_q4_0_decode(payload + FORMAT_Q4_0_SCALE_BYTES, payload, units);
}

FORMAT_HD static inline void format_q4_0_ggml_poison(uint8_t *payload, uint8_t *scale) {
    (void)scale;
    format_q4_0_poison(payload + FORMAT_Q4_0_SCALE_BYTES, payload);
}

#endif
