/* How the mma kernels go through a segment: which tokens it is, where they lie, and the queries
 * they meet. */
#ifndef ATTEND_WALK_CUH
#define ATTEND_WALK_CUH

#include "unit.cuh"

/* One warp's walk over a segment. Positions count from the first slot of the segment's first page.
 */
struct attend_walk {
    struct attend_place place;
    struct tile_source source;
    uint32_t begin, end; /* positions that are wanted */
    uint32_t start;      /* of the first tile: begin, or 16-aligned below it where pages allow */
    uint32_t last;       /* end - 1 */
    uint32_t ahead;      /* how far into a tile this lane's token is; linear: 0 */
    bool linear;         /* 16 neighbouring tokens always lie in one page */
};

template <bool selects>
GPU_DEVICE struct attend_walk attend_walk_make(const struct attend_arguments &a,
                                               const struct backend_segment &segment) {
    struct attend_walk walk;
    walk.place = attend_locate<selects>(a, segment);
    walk.source = tile_source_make(a, segment.kv_head);
    walk.begin = walk.place.first_slot;
    walk.end = walk.begin + (uint32_t)segment.token_count;
    walk.linear =
        a.page_tokens.divisor % TILE_TOKENS == 0 && !(selects && a.dev_selected != nullptr);
    walk.last = walk.end - 1;
    walk.ahead = gpu_keep(walk.linear ? 0 : tile_token_of(gpu_thread() % GPU_WARP_LANES));
    walk.start =
        walk.linear && walk.end > walk.begin ? walk.begin / TILE_TOKENS * TILE_TOKENS : walk.begin;
    return walk;
}

/* Where the tokens of a tile lie: asked for one tile ahead, so that no copy waits for the table. */
struct attend_ahead {
    int32_t page;  /* linear: of the tile; else of this lane's token */
    uint32_t slot; /* likewise */
};

template <bool selects>
GPU_DEVICE struct attend_ahead attend_look_ahead(const struct attend_arguments &a,
                                                 const struct attend_walk &walk,
                                                 uint32_t position) {
    const uint32_t mine = position + walk.ahead;
    struct attend_ahead ahead;
    ahead.page =
        attend_page<selects>(a, walk.place, mine < walk.last ? mine : walk.last, &ahead.slot);
    return ahead;
}

enum { ATTEND_LEAST_STAGES = 2, ATTEND_MOST_STAGES = 4 };

/* Waits for the oldest stage of a ring; the others stay on their way. */
GPU_DEVICE void attend_wait_stage(uint32_t stages) {
    ptx_cp_async_wait<2>();
    if (stages < 4) {
        ptx_cp_async_wait<1>();
        if (stages < 3)
            ptx_cp_async_wait<0>();
    }
}

/* The block's query heads as 16-bit rows in shared memory; heads past the group are zeros. */
template <class F, uint32_t dim, uint32_t heads>
GPU_DEVICE void attend_stage_queries(const struct attend_arguments &a,
                                     const struct backend_segment &segment, uint32_t first_head,
                                     uint32_t rows, uint32_t row_bytes) {
    /* as many loads on their way as a thread has trips, up to this: they are all waited for once */
    constexpr uint32_t together = 8, pairs = heads * (dim / 2);
    const float *from = a.dev_queries + attend_output_row(a, segment, first_head) * dim;
    const uint32_t real = (a.group_heads - first_head) * (dim / 2);
    for (uint32_t first = gpu_thread(); first < pairs; first += together * gpu_threads()) {
        float low[together], high[together];
        GPU_UNROLL
        for (uint32_t i = 0; i < together; i++) {
            const uint32_t pair = first + i * gpu_threads();
            const bool wanted = pair < pairs && pair < real;
            low[i] = wanted ? from[2 * pair] : 0.0f;
            high[i] = wanted ? from[2 * pair + 1] : 0.0f;
        }
        GPU_UNROLL
        for (uint32_t i = 0; i < together; i++) {
            const uint32_t pair = first + i * gpu_threads();
            if (pair < pairs)
                ptx_store_shared_u32(rows + pair / (dim / 2) * row_bytes + pair % (dim / 2) * 4,
                                     unit_pack<F>(low[i], high[i]));
        }
    }
}

/* The lane's B fragments of one unit and one tile of eight heads. */
template <class F>
GPU_DEVICE void attend_query_fragments(uint32_t (&out)[8], uint32_t rows, uint32_t row_bytes,
                                       uint32_t unit, const struct unit_lane &lane) {
    const uint32_t row = rows + lane.g * row_bytes + unit * TILE_UNIT_VALUES * 2;
    GPU_UNROLL
    for (uint32_t i = 0; i < 8; i++) {
        const uint32_t step = i / 2, pair = i % 2;
        const uint32_t low = unit_query_value<F>(step, pair, 0, lane.t);
        const uint32_t high = unit_query_value<F>(step, pair, 1, lane.t);
        out[i] = ptx_load_shared_u16(row + low * 2) | ptx_load_shared_u16(row + high * 2) << 16;
        if constexpr (F::BITS == 4 && unit_has_zero<F>()) {
            if (step & 1) /* q4_0's high nibbles come out 16 times too large */
                out[i] = F::multiply(out[i], 0x2C002C00u);
        }
    }
}

#endif
