/* A block takes a page at a time, a thread one scale group of a row, or eight values of a format
 * without groups and of a record. Planes have the same order of rows on both sides. */
#include "attend_expand.h"

#include "codec.cuh"
#include "gpu_ptx.cuh"

enum : uint32_t { EXPAND_THREADS = 256 };

struct expand_side {
    struct page_plane from, to;
    uint32_t format;
    uint32_t dim;
};

struct expand_arguments {
    struct expand_side sides[2]; /* K, V */
    const uint8_t *dev_from;
    uint8_t *dev_to;
    uint64_t from_stride_bytes;
    uint64_t to_stride_bytes;
    uint32_t page_count;
    uint32_t rows; /* of one side in a page */
    uint32_t side_count;
    bool to_bf16;
};

/* `count` values as 16-bit numbers; to is aligned to what codec_alignment says. */
template <uint32_t count>
GPU_DEVICE void expand_store(uint8_t *to, const float (&values)[count], bool to_bf16) {
    enum : uint32_t { BYTES = 2 * count, ALIGNMENT = codec_alignment(2 * count) };
    uint8_t codes[BYTES];
    for (uint32_t i = 0; i < count; i += 2) {
        const float next = i + 1 < count ? values[i + 1] : 0.0f;
        const uint32_t pair =
            to_bf16 ? ptx_pack_bf16x2(values[i], next) : ptx_pack_f16x2(values[i], next);
        memcpy(codes + 2 * i, &pair, i + 1 < count ? 4 : 2);
    }
    codec_store<BYTES, ALIGNMENT>(to, codes);
}

/* One side of one page, for codec_switch. */
struct expand_page {
    const struct expand_side &side;
    const uint8_t *from; /* the page */
    uint8_t *to;
    uint32_t rows;
    bool to_bf16;

    /* Items of `bundle` scale groups. */
    template <uint32_t bundle, class Codec> GPU_DEVICE void items(Codec codec) {
        enum : uint32_t {
            VALUES = Codec::VALUES * bundle,
            BYTES = Codec::PAYLOAD_BYTES * bundle,
            ALIGNMENT = codec_alignment(BYTES),
        };
        const uint32_t row_items = side.dim / VALUES;
        for (uint32_t item = gpu_thread(); item < rows * row_items; item += gpu_threads()) {
            const uint32_t row = item / row_items, in_row = item - row * row_items;
            const struct page_place at = page_locate(&side.from, rows, 0, row);
            uint8_t codes[BYTES];
            codec_load<BYTES, ALIGNMENT>(codes, from + at.payload_bytes + (uint64_t)in_row * BYTES);
            const uint8_t *scales = from + at.scale_bytes;
            float values[VALUES];
            for (uint32_t g = 0; g < bundle; g++) {
                float *const group = values + g * Codec::VALUES;
                const float scale = codec.decode(
                    codes + g * Codec::PAYLOAD_BYTES,
                    scales + ((uint64_t)in_row * bundle + g) * Codec::SCALE_BYTES, group);
                for (uint32_t i = 0; i < Codec::VALUES; i++)
                    group[i] *= scale;
            }
            expand_store<VALUES>(to + page_locate(&side.to, rows, 0, row).payload_bytes +
                                     (uint64_t)in_row * VALUES * 2,
                                 values, to_bf16);
        }
    }

    /* Items of eight values of a record. */
    template <class Codec> GPU_DEVICE void row_items(Codec codec) {
        enum : uint32_t { VALUES = 8, ROW_ITEMS = Codec::VALUES / VALUES };
        for (uint32_t item = gpu_thread(); item < rows * ROW_ITEMS; item += gpu_threads()) {
            const uint32_t row = item / ROW_ITEMS, first = item % ROW_ITEMS * VALUES;
            const struct page_place at = page_locate(&side.from, rows, 0, row);
            float values[VALUES];
            for (uint32_t i = 0; i < VALUES; i++)
                values[i] = codec.value(from + at.payload_bytes, from + at.scale_bytes, first + i);
            expand_store<VALUES>(to + page_locate(&side.to, rows, 0, row).payload_bytes +
                                     (uint64_t)first * 2,
                                 values, to_bf16);
        }
    }

    template <class Codec> GPU_DEVICE void operator()(Codec codec) {
        if constexpr (Codec::IS_RECORD) {
            row_items(codec);
        } else {
            enum : uint32_t { BUNDLE = Codec::VALUES == 1 ? 8 : 1 };
            if (side.dim % (BUNDLE * Codec::VALUES) == 0)
                items<BUNDLE>(codec);
            else
                items<1>(codec);
        }
    }
};

GPU_KERNEL(EXPAND_THREADS, 2) attend_expand_kernel(const struct expand_arguments a) {
    for (uint64_t page = gpu_block(); page < a.page_count; page += gpu_blocks()) {
        for (uint32_t side = 0; side < a.side_count; side++) {
            struct expand_page work = {a.sides[side], a.dev_from + page * a.from_stride_bytes,
                                       a.dev_to + page * a.to_stride_bytes, a.rows, a.to_bf16};
            codec_switch(a.sides[side].format, work);
        }
    }
}

/* Scales with fp32's exponents. */
static bool expand_needs_range(enum format_id format) {
    return format_is_record(format) || format == FORMAT_BF16 || format == FORMAT_MXFP4 ||
           format == FORMAT_FP4_MX_BLOCK16;
}

/* Values of more than bf16's 8 significant bits; nvfp4's and fp8's have fewer. */
static bool expand_needs_precision(enum format_id format) {
    return format == FORMAT_F16 || format == FORMAT_Q8_0 || format == FORMAT_Q8_0_GGML ||
           format == FORMAT_Q4_0 || format == FORMAT_Q4_0_GGML || format == FORMAT_Q4_1 ||
           format == FORMAT_Q5_0 || format == FORMAT_Q5_1 || format == FORMAT_IQ4_NL;
}

extern "C" enum status gpu_attend_expand_layout(const struct page_shape *from,
                                                struct page_layout *out, struct status_text *text) {
    struct page_shape shape = *from;
    if (from->k_format == FORMAT_FP8_DS_MLA_656)
        return status_set(text, STATUS_REFUSED,
                          "kernel expand: %s has fp32 scales, and no 16-bit format holds what they "
                          "make of its codes (--kernel simple reads it)",
                          format_get(from->k_format)->name);
    const bool bf16 = expand_needs_range(from->k_format) || expand_needs_range(from->v_format);
    if (bf16 && (expand_needs_precision(from->k_format) || expand_needs_precision(from->v_format)))
        return status_set(text, STATUS_REFUSED,
                          "kernel expand: %s and %s share no 16-bit format, as one needs the range "
                          "of bf16 and the other the precision of f16",
                          format_get(from->k_format)->name, format_get(from->v_format)->name);
    shape.k_format = bf16 ? FORMAT_BF16 : FORMAT_F16;
    shape.v_format = shape.k_format;
    return page_plan(&shape, out, text);
}

extern "C" enum status gpu_attend_expand_pages(const struct gpu_machine *machine,
                                               const struct backend_cache *from,
                                               const struct page_layout *to, uint8_t *dev_to,
                                               struct status_text *text) {
    const struct page_shape &shape = from->page.shape;
    struct expand_arguments a = {};
    a.sides[0] = {from->page.k, to->k, (uint32_t)shape.k_format, shape.k_dim};
    a.sides[1] = {from->page.v, to->v, (uint32_t)shape.v_format, shape.v_dim};
    a.dev_from = from->dev_pages;
    a.dev_to = dev_to;
    a.from_stride_bytes = from->page.stride_bytes;
    a.to_stride_bytes = to->stride_bytes;
    a.page_count = from->page_count;
    a.rows = shape.kv_heads * shape.page_tokens;
    a.side_count = shape.v_in_k ? 1 : 2;
    a.to_bf16 = to->shape.k_format == FORMAT_BF16;

    const void *entry = GPU_ENTRY(struct expand_arguments, attend_expand_kernel);
    const uint32_t fit = machine->blocks_per_unit(machine->self, entry, EXPAND_THREADS, 0);
    const uint32_t most = machine->units * (fit > 0 ? fit : 1);
    struct gpu_launch launch = {};
    launch.name = "attend_expand";
    launch.entry = entry;
    launch.blocks = a.page_count < most ? a.page_count : most;
    launch.threads = EXPAND_THREADS;
    launch.arguments = &a;
    launch.arguments_bytes = sizeof a;
    return machine->launch(machine->self, &launch, text);
}
