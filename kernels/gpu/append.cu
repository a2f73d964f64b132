/* gpu_append: fp32 rows through the reference codecs into pages. What is to be written is known
 * only on the device, so a fixed grid walks over it: a warp takes pieces of one token's K or V, all
 * KV heads (they lie side by side in the source), and a lane encodes whole scale groups.
 * Compiled without fused multiply-adds, as all that rounds by a rule. */
#include "codec.cuh"
#include "gpu.h"
#include "gpu_ptx.cuh"

enum : uint32_t { APPEND_THREADS = 256, APPEND_WARPS = APPEND_THREADS / GPU_WARP_LANES };
/* More blocks would only look at the counts once more. */
enum : uint32_t { APPEND_MOST_BLOCKS_PER_UNIT = 4 };

/* K or V of one layer. */
struct append_side {
    const float *dev_rows; /* [row][kv_heads][dim] */
    struct page_plane plane;
    uint64_t row_values; /* from one source row to the next */
    float tensor_scale;
    uint32_t format;
    uint32_t groups;     /* in one KV head's row; of a record, its tiles */
    uint32_t all_groups; /* in all of them */
    uint32_t pieces;     /* in one token */
    bool rows_aligned;   /* every group of the source starts on 16 bytes */
};

struct append_arguments {
    struct append_side sides[2]; /* K, V; V without pieces where K holds it */
    uint8_t *dev_pages;
    const int32_t *dev_page_table;
    const uint64_t *dev_first_tokens;
    const uint64_t *dev_token_counts;
    const uint64_t *dev_first_rows;
    uint64_t row_count;
    uint64_t row_offset;
    uint64_t page_stride_bytes;
    uint64_t *dev_replaced; /* NaN, infinities; or NULL */
    uint32_t page_tokens;
    uint32_t columns;
    uint32_t seqs;
};

/* Groups of one piece: a lane takes one, or four where a group is a single value. */
GPU_CONSTEXPR uint32_t append_lane_groups(uint32_t group_values) {
    return group_values == 1 ? 4 : 1;
}

/* One group; sixteen bytes at a time where it is made of such and they are aligned. */
template <uint32_t values>
GPU_DEVICE void append_load(float (&x)[values], const float *from, bool aligned) {
    if constexpr (values % 4 == 0) {
        if (aligned) {
            for (uint32_t i = 0; i < values; i += 4) {
                uint32_t quad[4];
                ptx_load_global_once_v4(quad, from + i);
                memcpy(x + i, quad, sizeof quad);
            }
            return;
        }
    }
    for (uint32_t i = 0; i < values; i++)
        x[i] = from[i];
}

/* What format_encode_row does to values that are not finite. */
template <class Codec>
GPU_DEVICE void append_clean(float (&x)[Codec::VALUES], uint64_t &nan_values,
                             uint64_t &infinite_values) {
    for (uint32_t i = 0; i < Codec::VALUES; i++) {
        const uint32_t magnitude = format_bits_magnitude(x[i]);
        if (magnitude == 0x7F800000u) {
            x[i] = x[i] < 0.0f ? -FORMAT_INFINITY_STORED : FORMAT_INFINITY_STORED;
            infinite_values++;
        } else if (magnitude > 0x7F800000u && !Codec::HAS_NAN) {
            x[i] = 0.0f;
            nan_values++;
        }
    }
}

/* One piece of one token, for codec_switch. */
struct append_piece {
    const struct append_side &side;
    const float *row; /* the token's values, all heads */
    uint8_t *page;
    uint32_t page_tokens;
    uint32_t slot;
    uint32_t piece;
    uint64_t nan_values;
    uint64_t infinite_values;

    template <class Codec> GPU_DEVICE void group(Codec codec, uint32_t g) {
        enum : uint32_t { BYTES = Codec::PAYLOAD_BYTES, ALIGNMENT = codec_alignment(BYTES) };
        const float *from = row + (uint64_t)g * Codec::VALUES;
        float x[Codec::VALUES];
        append_load(x, from, side.rows_aligned);
        append_clean<Codec>(x, nan_values, infinite_values);
        const uint32_t head = g / side.groups;
        const uint32_t in_row = g - head * side.groups;
        const struct page_place at = page_locate(&side.plane, page_tokens, head, slot);
        uint8_t codes[BYTES];
        codec.encode(x, side.tensor_scale, codes,
                     page + at.scale_bytes + (uint64_t)in_row * Codec::SCALE_BYTES);
        codec_store<BYTES, ALIGNMENT>(page + at.payload_bytes + (uint64_t)in_row * BYTES, codes);
    }

    /* Tile g of a record, whose codec replaces what is not finite: that is only counted here. */
    template <class Codec> GPU_DEVICE void tile(Codec codec, uint32_t g) {
        const uint32_t head = g / Codec::TILES, which = g - head * Codec::TILES;
        const float *from = row + (uint64_t)head * Codec::VALUES;
        for (uint32_t i = which * Codec::TILE; i < (which + 1) * Codec::TILE && i < Codec::VALUES;
             i++) {
            const uint32_t magnitude = format_bits_magnitude(from[i]);
            nan_values += magnitude > 0x7F800000u ? 1 : 0;
            infinite_values += magnitude == 0x7F800000u ? 1 : 0;
        }
        const struct page_place at = page_locate(&side.plane, page_tokens, head, slot);
        codec.encode(from, which, page + at.payload_bytes, page + at.scale_bytes);
    }

    template <class Codec> GPU_DEVICE void operator()(Codec codec) {
        enum : uint32_t { LANE_GROUPS = Codec::IS_RECORD ? 1 : append_lane_groups(Codec::VALUES) };
        const uint32_t first = piece * LANE_GROUPS * GPU_WARP_LANES + gpu_thread() % GPU_WARP_LANES;
        for (uint32_t i = 0; i < LANE_GROUPS; i++) {
            const uint32_t g = first + i * GPU_WARP_LANES;
            if (g >= side.all_groups)
                break;
            if constexpr (Codec::IS_RECORD)
                tile(codec, g);
            else
                group(codec, g);
        }
    }
};

/* Piece `item` of the new tokens of one sequence. */
GPU_DEVICE void append_item(const struct append_arguments &a, uint32_t seq, uint64_t item,
                            uint64_t &nan_values, uint64_t &infinite_values) {
    const uint32_t token_pieces = a.sides[0].pieces + a.sides[1].pieces;
    const uint64_t i = item / token_pieces;
    const uint32_t in_token = (uint32_t)(item - i * token_pieces);
    const bool is_v = in_token >= a.sides[0].pieces;
    const struct append_side &side = a.sides[is_v ? 1 : 0];
    const uint64_t token = a.dev_first_tokens[seq] + i;
    const uint64_t row = (a.row_offset + a.dev_first_rows[seq] + i) % a.row_count;
    const uint64_t page = token / a.page_tokens;
    const int32_t id = a.dev_page_table[(uint64_t)seq * a.columns + page % a.columns];
    struct append_piece work = {
        side,
        side.dev_rows + row * side.row_values,
        a.dev_pages + (uint64_t)id * a.page_stride_bytes,
        a.page_tokens,
        (uint32_t)(token - page * a.page_tokens),
        in_token - (is_v ? a.sides[0].pieces : 0),
        0,
        0,
    };
    codec_switch(side.format, work);
    nan_values += work.nan_values;
    infinite_values += work.infinite_values;
}

/* Sums of this lane's and all lower lanes' values. */
GPU_DEVICE uint64_t append_scan(uint64_t value, uint32_t lane) {
    for (uint32_t step = 1; step < GPU_WARP_LANES; step *= 2) {
        const uint64_t lower = gpu_shuffle(value, lane >= step ? lane - step : 0);
        value += lane >= step ? lower : 0;
    }
    return value;
}

/* How many lanes say yes. */
GPU_DEVICE uint32_t append_count(bool yes) {
    uint32_t count = yes ? 1 : 0;
    for (uint32_t bits = 1; bits < GPU_WARP_LANES; bits *= 2)
        count += gpu_shuffle_xor(count, bits);
    return count;
}

/* The items of all sequences are numbered through, and warp w of W does w, w + W, ...: 32
 * sequences' counts are looked at together, and what falls among them is done. */
GPU_KERNEL(APPEND_THREADS, 2) append_kernel(const struct append_arguments a) {
    const uint32_t lane = gpu_thread() % GPU_WARP_LANES;
    const uint64_t warps = (uint64_t)gpu_blocks() * APPEND_WARPS;
    const uint32_t token_pieces = a.sides[0].pieces + a.sides[1].pieces;
    uint64_t next = (uint64_t)gpu_block() * APPEND_WARPS + gpu_thread() / GPU_WARP_LANES;
    uint64_t start = 0; /* number of the first item of these 32 sequences */
    uint64_t nan_values = 0, infinite_values = 0;
    for (uint32_t first_seq = 0; first_seq < a.seqs; first_seq += GPU_WARP_LANES) {
        const bool real = lane < a.seqs - first_seq;
        const uint64_t items = real ? a.dev_token_counts[first_seq + lane] * token_pieces : 0;
        const uint64_t before_next = append_scan(items, lane);
        const uint64_t end = start + gpu_shuffle(before_next, GPU_WARP_LANES - 1);
        for (; next < end; next += warps) {
            const uint32_t holder = append_count(before_next <= next - start);
            const uint64_t first = gpu_shuffle(before_next - items, holder);
            append_item(a, first_seq + holder, next - start - first, nan_values, infinite_values);
        }
        start = end;
    }
    if (a.dev_replaced != nullptr) {
        if (nan_values != 0)
            gpu_atomic_add(&a.dev_replaced[0], nan_values);
        if (infinite_values != 0)
            gpu_atomic_add(&a.dev_replaced[1], infinite_values);
    }
}

/* What a lane encodes at once. */
static uint32_t append_group_values(enum format_id format) {
    switch (format) {
#define RECORD(ID, ...)                                                                            \
    case FORMAT_##ID:                                                                              \
        return FORMAT_##ID##_TILE;
#include "records.def"
#undef RECORD
    default:
        return format_get(format)->group_values;
    }
}

static void append_fill_side(const struct page_shape &shape, enum format_id format, uint32_t dim,
                             const struct page_plane &plane, const float *dev_rows,
                             float tensor_scale, struct append_side &out) {
    const uint32_t values = append_group_values(format);
    const uint32_t piece_groups = append_lane_groups(values) * GPU_WARP_LANES;
    out.dev_rows = dev_rows;
    out.plane = plane;
    out.row_values = (uint64_t)shape.kv_heads * dim;
    out.tensor_scale = tensor_scale;
    out.format = format;
    out.groups = (dim + values - 1) / values;
    out.all_groups = out.groups * shape.kv_heads;
    out.pieces = (out.all_groups + piece_groups - 1) / piece_groups;
    out.rows_aligned = (uintptr_t)dev_rows % 16 == 0; /* and whole groups follow */
}

extern "C" enum status gpu_append(const struct gpu_machine *machine,
                                  const struct backend_append *work, uint64_t *dev_replaced,
                                  struct status_text *text) {
    const struct backend_cache &cache = work->cache;
    const struct page_shape &shape = cache.page.shape;
    struct append_arguments a = {};
    append_fill_side(shape, shape.k_format, shape.k_dim, cache.page.k, work->dev_k_rows,
                     cache.k_tensor_scale, a.sides[0]);
    if (!shape.v_in_k)
        append_fill_side(shape, shape.v_format, shape.v_dim, cache.page.v, work->dev_v_rows,
                         cache.v_tensor_scale, a.sides[1]);
    a.dev_pages = cache.dev_pages;
    a.dev_page_table = cache.dev_page_table;
    a.dev_first_tokens = work->dev_first_tokens;
    a.dev_token_counts = work->dev_token_counts;
    a.dev_first_rows = work->dev_first_rows;
    a.row_count = work->row_count;
    a.row_offset = work->row_offset;
    a.page_stride_bytes = cache.page.stride_bytes;
    a.dev_replaced = dev_replaced;
    a.page_tokens = shape.page_tokens;
    a.columns = cache.page_table_columns;
    a.seqs = cache.seqs;

    const void *entry = GPU_ENTRY(struct append_arguments, append_kernel);
    const uint32_t fit = machine->blocks_per_unit(machine->self, entry, APPEND_THREADS, 0);
    const uint32_t blocks = fit < APPEND_MOST_BLOCKS_PER_UNIT ? fit : APPEND_MOST_BLOCKS_PER_UNIT;
    struct gpu_launch launch = {};
    launch.name = "append";
    launch.entry = entry;
    launch.blocks = machine->units * (blocks > 0 ? blocks : 1);
    launch.threads = APPEND_THREADS;
    launch.arguments = &a;
    launch.arguments_bytes = sizeof a;
    return machine->launch(machine->self, &launch, text);
}
