/* Sixteen tokens of one KV head in shared memory, as the tensor cores want to read them.
 *
 *     [K rows 16][V rows 16][K scales][V scales]     (latent pages: K alone)
 *
 * Row order. Row r of a tile holds token 4 (r % 8 / 2) + r % 2 + 2 (r / 8): the m16n8k16 fragments
 * then give lane t the four neighbouring tokens 4 t to 4 t + 3. A row's 16-byte chunks are swizzled
 * (exclusive or with a few bits of r), so that neither ldmatrix nor 8-byte loads meet bank
 * conflicts. Scales lie apart, [64 values of a row][row]: one 4-byte word holds the scales of 64
 * values (of mxfp4 128, or 2 bytes where a row is no multiple of that). */
#ifndef TILE_CUH
#define TILE_CUH

#include <math.h>

#include "attend_finish.cuh"
#include "decode.cuh"

enum { TILE_TOKENS = 16, TILE_UNIT_VALUES = 64, TILE_CHUNK_BYTES = 16 };

GPU_CONSTEXPR uint32_t tile_row_of(uint32_t token) {
    return (token & 1u) | ((token >> 1) & 6u) | ((token << 2) & 8u);
}

/* How many neighbouring rows' chunks fill the banks: the largest power of two in the number of
 * chunks, at most the eight that 128 bytes hold. */
GPU_CONSTEXPR uint32_t tile_period(uint32_t chunks) {
    return chunks % 8 == 0 ? 8 : chunks % 4 == 0 ? 4 : chunks % 2 == 0 ? 2 : 1;
}

/* What row r's chunk numbers are combined with. The bits are reversed, so that neighbouring rows
 * differ in the highest one: 8-byte loads of four rows take two chunks each. */
template <uint32_t chunks> GPU_CONSTEXPR uint32_t tile_swizzle(uint32_t r) {
    return tile_period(chunks) == 8   ? (r & 1u) << 2 | (r & 2u) | (r >> 2 & 1u)
           : tile_period(chunks) == 4 ? (r >> 1 & 1u) << 1 | (r >> 2 & 1u)
           : tile_period(chunks) == 2 ? (r >> 2 & 1u)
                                      : 0u;
}

template <class F> GPU_CONSTEXPR uint32_t tile_row_bytes(uint32_t dim) {
    return dim * F::BITS / 8;
}

/* A word of scales: its bytes (0 without block scales), and of how many units. Two units share one
 * where a unit's two bytes alone would be too narrow for an asynchronous copy. */
template <class F, uint32_t dim, bool has = F::SCALE != DECODE_SCALE_NONE> struct tile_scale {
    static constexpr uint32_t WORD_BYTES = 0, WORD_UNITS = 1;
};
template <class F, uint32_t dim> struct tile_scale<F, dim, true> {
    static constexpr uint32_t WORD_UNITS =
        F::UNIT_SCALE_BYTES == 2 && dim % (2 * TILE_UNIT_VALUES) == 0 ? 2 : 1;
    static constexpr uint32_t WORD_BYTES = F::UNIT_SCALE_BYTES * WORD_UNITS;
};

template <class F, uint32_t dim> GPU_CONSTEXPR uint32_t tile_scales_row_bytes() {
    typedef tile_scale<F, dim> scale;
    return scale::WORD_BYTES * (dim / (scale::WORD_UNITS * TILE_UNIT_VALUES));
}

/* Where the parts of a tile lie. VD 0: V is read from K's rows. */
template <class K, class V, uint32_t KD, uint32_t VD> struct tile_parts {
    static constexpr uint32_t K_ROW = tile_row_bytes<K>(KD), V_ROW = tile_row_bytes<V>(VD);
    static constexpr uint32_t K_SCALE_BYTES = tile_scale<K, KD>::WORD_BYTES;
    static constexpr uint32_t V_SCALE_BYTES = tile_scale<V, VD>::WORD_BYTES;
    static constexpr uint32_t K_SCALES_ROW = tile_scales_row_bytes<K, KD>();
    static constexpr uint32_t V_SCALES_ROW = tile_scales_row_bytes<V, VD>();
    /* V's scales follow K's in a page: where those are no whole words, on two bytes alone */
    static constexpr uint32_t V_SCALE_PIECE = K_SCALES_ROW % 4 == 0 ? V_SCALE_BYTES : 2;
    static constexpr uint32_t V_AT = TILE_TOKENS * K_ROW;
    static constexpr uint32_t K_SCALES_AT = V_AT + TILE_TOKENS * V_ROW;
    static constexpr uint32_t V_SCALES_AT = K_SCALES_AT + TILE_TOKENS * K_SCALES_ROW;
    /* the next tile starts on a new set of banks */
    static constexpr uint32_t BYTES = (V_SCALES_AT + TILE_TOKENS * V_SCALES_ROW + 127) / 128 * 128;
    /* rows as stored, where a format keeps codes and scales in one block */
    static constexpr uint32_t K_RAW_ROW = KD / 32 * K::RAW_BLOCK_BYTES;
    static constexpr uint32_t V_RAW_ROW = VD / 32 * V::RAW_BLOCK_BYTES;
    static constexpr bool RAW = K_RAW_ROW > 0 || V_RAW_ROW > 0;
};

/* The widest copy that every row of `bytes` starts on: 16, 8 or 4 bytes, or 2 (no asynchronous
 * copy is that narrow). */
GPU_CONSTEXPR uint32_t tile_copy_bytes(uint32_t bytes) {
    return bytes % 16 == 0 ? 16 : bytes % 8 == 0 ? 8 : bytes % 4 == 0 ? 4 : 2;
}

/* In one copy, or in several of `piece` bytes where the source starts on no more. */
template <uint32_t bytes, uint32_t piece = bytes>
GPU_DEVICE void tile_copy(uint32_t shared_to, const uint8_t *from, bool real) {
    if constexpr (piece < bytes) {
        GPU_UNROLL
        for (uint32_t at = 0; at < bytes; at += piece)
            tile_copy<piece>(shared_to + at, from + at, real);
    } else if (bytes == 16) {
        ptx_cp_async_16(shared_to, from, real);
    } else if (bytes == 8) {
        ptx_cp_async_8(shared_to, from, real);
    } else if (bytes == 4) {
        ptx_cp_async_4(shared_to, from, real);
    } else {
        ptx_store_shared_u16(shared_to, real ? *reinterpret_cast<const uint16_t *>(from) : 0u);
    }
}

/* Where one KV head's rows begin, in a page: K's values, and the other planes relative to them. A
 * page is smaller than 4 GiB (gpu_attend_check), so that 32 bits tell one plane from another. */
struct tile_source {
    const uint8_t *k_values; /* of page 0 */
    uint32_t page_stride_bytes;
    uint32_t v_values, k_scales, v_scales; /* bytes from k_values on */
};

GPU_DEVICE struct tile_source tile_source_make(const struct attend_arguments &a, uint32_t kv_head) {
    const uint64_t rows = (uint64_t)kv_head * a.page_tokens.divisor;
    const uint64_t k_values = a.k.values_offset_bytes + rows * a.k.row_payload_bytes;
    struct tile_source source;
    source.k_values = a.dev_pages + k_values;
    source.page_stride_bytes = (uint32_t)a.page_stride_bytes;
    source.v_values = (uint32_t)(a.v.values_offset_bytes + rows * a.v.row_payload_bytes - k_values);
    source.k_scales = (uint32_t)(a.k.scales_offset_bytes + rows * a.k.row_scale_bytes - k_values);
    source.v_scales = (uint32_t)(a.v.scales_offset_bytes + rows * a.v.row_scale_bytes - k_values);
    return source;
}

/* K's first row of one page. */
GPU_DEVICE const uint8_t *tile_page(const struct tile_source &source, int32_t page) {
    return source.k_values + (uint64_t)(uint32_t)page * source.page_stride_bytes;
}

/* One warp copies a tile's rows of one plane out of neighbouring slots of one page, all of them
 * wanted: the addresses follow each other, a lane's 512 bytes apart.
 *
 * Where a lane's first chunk goes. When a turn of the warp is a whole number of rows, every turn
 * copies the same chunks of other tokens, whose row numbers share no bits with the first turn's:
 * all but constants is then the same for all turns. */
template <uint32_t row_bytes> GPU_DEVICE uint32_t tile_rows_place(uint32_t lane) {
    constexpr uint32_t chunks = row_bytes / TILE_CHUNK_BYTES;
    const uint32_t row = tile_row_of(lane / chunks);
    return gpu_keep(row * row_bytes +
                    ((lane % chunks) ^ tile_swizzle<chunks>(row)) * TILE_CHUNK_BYTES);
}

/* To the rows that lie `at` bytes after `tile`, which starts on 128 bytes: the swizzle of a turn is
 * combined with the address itself. `from`: the first token's row plus 16 bytes for each lane
 * before this one. */
template <uint32_t row_bytes>
GPU_DEVICE void tile_copy_rows_linear(uint32_t tile, uint32_t at, const uint8_t *from,
                                      uint32_t place, uint32_t lane) {
    constexpr uint32_t chunks = row_bytes / TILE_CHUNK_BYTES;
    GPU_UNROLL
    for (uint32_t i = 0; i < chunks / 2; i++) {
        if (GPU_WARP_LANES % chunks == 0) {
            const uint32_t row = tile_row_of(i * (GPU_WARP_LANES / chunks));
            const uint32_t swizzle = tile_swizzle<chunks>(row) * TILE_CHUNK_BYTES;
            ptx_cp_async_16(((tile + place) ^ swizzle) + (at + row * row_bytes), from + i * 512,
                            true);
        } else {
            const uint32_t index = lane + GPU_WARP_LANES * i;
            const uint32_t row = tile_row_of(index / chunks), chunk = index % chunks;
            ptx_cp_async_16(tile + at + row * row_bytes +
                                (chunk ^ tile_swizzle<chunks>(row)) * TILE_CHUNK_BYTES,
                            from + i * 512, true);
        }
    }
}

/* The same for scales: a row's words go to different places. `from`: one word for each lane. */
template <uint32_t row_bytes, uint32_t unit_bytes>
GPU_DEVICE uint32_t tile_scales_place(uint32_t lane) {
    constexpr uint32_t words = row_bytes / unit_bytes;
    return gpu_keep((lane % words * TILE_TOKENS + tile_row_of(lane / words)) * unit_bytes);
}

template <uint32_t row_bytes, uint32_t unit_bytes, uint32_t piece = unit_bytes>
GPU_DEVICE void tile_copy_scales_linear(uint32_t tile, uint32_t at, const uint8_t *from,
                                        uint32_t place, uint32_t lane) {
    constexpr uint32_t words = row_bytes / unit_bytes;
    GPU_UNROLL
    for (uint32_t i = 0; i < (words * TILE_TOKENS + 31) / 32; i++) {
        const uint32_t index = lane + GPU_WARP_LANES * i;
        const uint32_t to =
            GPU_WARP_LANES % words == 0
                ? place + tile_row_of(i * (GPU_WARP_LANES / words)) * unit_bytes
                : (index % words * TILE_TOKENS + tile_row_of(index / words)) * unit_bytes;
        if (words * TILE_TOKENS % 32 == 0 || index < words * TILE_TOKENS)
            tile_copy<unit_bytes, piece>(tile + to + at, from + i * 32 * unit_bytes, true);
    }
}

/* The warp's 16 tokens anywhere. Lanes 2 n and 2 n + 1 copy token n, every other piece of its row
 * each, so that a lane asks for one place only and sectors of 32 bytes are used whole. */
GPU_CONSTEXPR uint32_t tile_token_of(uint32_t lane) {
    return lane / 2;
}

template <uint32_t row_bytes>
GPU_DEVICE void tile_copy_rows(uint32_t shared_to, const uint8_t *from, bool real, uint32_t lane) {
    constexpr uint32_t chunks = row_bytes / TILE_CHUNK_BYTES;
    const uint32_t row = tile_row_of(tile_token_of(lane));
    const uint32_t own = (lane % 2 ^ tile_swizzle<chunks>(row)) * TILE_CHUNK_BYTES;
    const uint32_t to = shared_to + row * row_bytes;
    const uint8_t *source = from + lane % 2 * TILE_CHUNK_BYTES;
    GPU_UNROLL
    for (uint32_t i = 0; i < chunks / 2; i++)
        ptx_cp_async_16(to + ((2 * i * TILE_CHUNK_BYTES) ^ own), source + 2 * i * TILE_CHUNK_BYTES,
                        real);
}

template <uint32_t row_bytes, uint32_t unit_bytes, uint32_t piece = unit_bytes>
GPU_DEVICE void tile_copy_scales(uint32_t shared_to, const uint8_t *from, bool real,
                                 uint32_t lane) {
    constexpr uint32_t words = row_bytes / unit_bytes;
    const uint32_t row = tile_row_of(tile_token_of(lane));
    GPU_UNROLL
    for (uint32_t i = 0; i < (words + 1) / 2; i++) {
        const uint32_t word = lane % 2 + 2 * i;
        if (words % 2 == 0 || word < words)
            tile_copy<unit_bytes, piece>(shared_to + (word * TILE_TOKENS + row) * unit_bytes,
                                         from + word * unit_bytes, real);
    }
}

/* Rows as they are stored, one after the other by token, for formats of whole blocks. */
template <uint32_t row_bytes>
GPU_DEVICE void tile_copy_raw(uint32_t shared_to, const uint8_t *from, bool real, uint32_t lane) {
    constexpr uint32_t width = tile_copy_bytes(row_bytes), pieces = row_bytes / width;
    const uint32_t to = shared_to + tile_token_of(lane) * row_bytes;
    for (uint32_t piece = lane % 2; piece < pieces; piece += 2)
        tile_copy<width>(to + piece * width, from + piece * width, real);
}

/* Raw rows to a tile's planes: a lane per block of 32 values, two bytes at a time, since blocks
 * start on nothing better. */
template <class F, uint32_t dim>
GPU_DEVICE void tile_repack(uint32_t values_to, uint32_t scales_to, uint32_t raw, uint32_t lane,
                            uint32_t lanes) {
    constexpr uint32_t row_bytes = tile_row_bytes<F>(dim), blocks = dim / 32;
    constexpr uint32_t chunks = row_bytes / TILE_CHUNK_BYTES, block_bytes = 32 * F::BITS / 8;
    for (uint32_t index = lane; index < TILE_TOKENS * blocks; index += lanes) {
        const uint32_t token = index / blocks, block = index % blocks, row = tile_row_of(token);
        const uint32_t from = raw + (token * blocks + block) * F::RAW_BLOCK_BYTES;
        ptx_store_shared_u16(scales_to + (block / 2 * TILE_TOKENS + row) * 4 + block % 2 * 2,
                             ptx_load_shared_u16(from));
        GPU_UNROLL
        for (uint32_t word = 0; word < block_bytes / 4; word++) {
            const uint32_t low = ptx_load_shared_u16(from + 2 + word * 4);
            const uint32_t high = ptx_load_shared_u16(from + 4 + word * 4);
            const uint32_t byte = block * block_bytes + word * 4;
            const uint32_t chunk = byte / TILE_CHUNK_BYTES ^ tile_swizzle<chunks>(row);
            ptx_store_shared_u32(values_to + row * row_bytes + chunk * TILE_CHUNK_BYTES + byte % 16,
                                 low | high << 16);
        }
    }
}

#endif
