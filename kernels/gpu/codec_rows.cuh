/* Stored rows to fp32 in shared memory, through the reference codecs. */
#ifndef CODEC_ROWS_CUH
#define CODEC_ROWS_CUH

#include "attend_finish.cuh"
#include "codec.cuh"

/* Decodes tokens [first, first + count) of a segment, all threads of the block, for codec_switch:
 * units times their group scale. */
struct codec_rows {
    const struct attend_arguments &a;
    const struct attend_place &place;
    const struct page_plane &plane;
    uint32_t kv_head;
    uint32_t dim;
    uint32_t first; /* counted from the segment's first token */
    uint32_t count;
    float *tile; /* [count][dim] */

    template <class Codec> GPU_DEVICE void operator()(Codec codec) {
        const uint32_t groups = dim / Codec::VALUES;
        for (uint32_t item = gpu_thread(); item < count * groups; item += gpu_threads()) {
            const uint32_t token = item / groups, g = item - token * groups;
            uint32_t slot;
            const int32_t page = attend_page(a, place, place.first_slot + first + token, &slot);
            const uint8_t *base = a.dev_pages + (uint64_t)page * a.page_stride_bytes;
            const struct page_place at = page_locate(&plane, a.page_tokens.divisor, kv_head, slot);
            float units[Codec::VALUES];
            const float scale =
                codec.decode(base + at.payload_bytes + (uint64_t)g * Codec::PAYLOAD_BYTES,
                             base + at.scale_bytes + (uint64_t)g * Codec::SCALE_BYTES, units);
            for (uint32_t i = 0; i < Codec::VALUES; i++)
                tile[(uint64_t)token * dim + g * Codec::VALUES + i] = units[i] * scale;
        }
    }
};

#endif
