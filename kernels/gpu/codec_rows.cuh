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

    /* Where token `token` of the tile is stored: its page, and the row in it. */
    GPU_DEVICE const uint8_t *locate(uint32_t token, struct page_place &at) {
        uint32_t slot;
        const int32_t page = attend_page(a, place, place.first_slot + first + token, &slot);
        at = page_locate(&plane, a.page_tokens.divisor, kv_head, slot);
        return a.dev_pages + (uint64_t)page * a.page_stride_bytes;
    }

    /* A warp per row. */
    template <class Codec> GPU_DEVICE void rows(Codec codec) {
        const uint32_t warp = gpu_thread() / GPU_WARP_LANES, lane = gpu_thread() % GPU_WARP_LANES;
        for (uint32_t token = warp; token < count; token += gpu_threads() / GPU_WARP_LANES) {
            struct page_place at;
            const uint8_t *base = locate(token, at);
            for (uint32_t i = lane; i < dim; i += GPU_WARP_LANES)
                tile[(uint64_t)token * dim + i] =
                    codec.value(base + at.payload_bytes, base + at.scale_bytes, i);
        }
    }

    /* A thread per group. */
    template <class Codec> GPU_DEVICE void groups(Codec codec) {
        const uint32_t row_groups = dim / Codec::VALUES;
        for (uint32_t item = gpu_thread(); item < count * row_groups; item += gpu_threads()) {
            const uint32_t token = item / row_groups, g = item - token * row_groups;
            struct page_place at;
            const uint8_t *base = locate(token, at);
            float units[Codec::VALUES];
            const float scale =
                codec.decode(base + at.payload_bytes + (uint64_t)g * Codec::PAYLOAD_BYTES,
                             base + at.scale_bytes + (uint64_t)g * Codec::SCALE_BYTES, units);
            for (uint32_t i = 0; i < Codec::VALUES; i++)
                tile[(uint64_t)token * dim + g * Codec::VALUES + i] = units[i] * scale;
        }
    }

    template <class Codec> GPU_DEVICE void operator()(Codec codec) {
        if constexpr (Codec::IS_RECORD)
            rows(codec);
        else
            groups(codec);
    }
};

#endif
