/* Page geometry: where the vector of one token and one KV head lies inside a page.
 * A page holds page_tokens tokens of one group in one layer:
 *     [K values][V values][K scales][V scales], each [KV head][token][row bytes]
 * Value planes start on 16 bytes, scale planes are packed behind them, and the page stride is
 * rounded up to 16, or to what a record asks for. A latent page has K rows only (latent then rope);
 * its V is the first v_dim values of K. A record's page is vLLM's: all payloads, then all scales.
 * Which page holds which token is the page table's business (host/pool). */
#ifndef PAGE_H
#define PAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "format.h"
#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { PAGE_ALIGNMENT_BYTES = 16 };

/* What is asked for. */
struct page_shape {
    uint32_t kv_heads;
    uint32_t page_tokens; /* any from 1 up */
    uint32_t k_dim;       /* values of a K row; latent + rope for a latent */
    uint32_t v_dim;       /* values of a V row; with v_in_k, how many of K's first values */
    bool v_in_k;          /* K and V are one row (latent, or a window that keeps one vector) */
    enum format_id k_format;
    enum format_id v_format; /* equal to k_format when v_in_k */
};

/* One plane pair: the rows of K or of V. */
struct page_plane {
    uint64_t values_offset_bytes; /* from the page's start */
    uint64_t scales_offset_bytes;
    uint32_t row_payload_bytes; /* stride between tokens in the value plane */
    uint32_t row_scale_bytes;   /* stride between tokens in the scale plane, 0 without scales */
};

struct page_layout {
    struct page_shape shape;
    struct page_plane k;
    struct page_plane v;    /* equal to k when v_in_k */
    uint64_t payload_bytes; /* K and V values and scales of a full page: what the formula counts */
    uint64_t padding_bytes; /* stride_bytes - payload_bytes */
    uint64_t stride_bytes;  /* from one page to the next */
};

/* Fails with STATUS_REFUSED when a format cannot hold a dim (the text says which dims work),
 * STATUS_BAD_INPUT for zero sizes, STATUS_OVERFLOW past 64 bits. */
enum status page_plan(const struct page_shape *shape, struct page_layout *out,
                      struct status_text *text);

struct page_place {
    uint64_t payload_bytes; /* offset of the row's codes from the page's start */
    uint64_t scale_bytes;   /* offset of the row's first scale */
};

/* Where a row lies: `plane` is &layout->k or &layout->v. The same function for host and device. */
#if defined(__CUDACC__)
__host__ __device__
#endif
    static inline struct page_place
    page_locate(const struct page_plane *plane, uint32_t page_tokens, uint32_t head,
                uint32_t token) {
    const uint64_t row = (uint64_t)head * page_tokens + token;
    struct page_place place;
    place.payload_bytes = plane->values_offset_bytes + row * plane->row_payload_bytes;
    place.scale_bytes = plane->scales_offset_bytes + row * plane->row_scale_bytes;
    return place;
}

#ifdef __cplusplus
}
#endif
#endif
