/* A paged KV pool: one allocation that holds all pages of all groups and layers of a model, and the
 * state slots of those that have state, with page tables, lengths and per-tensor scales beside
 * them.
 *
 * pool_pages.h decides which page holds which tokens (free list, page tables, reference counts,
 * window recycling); this file puts that on a device and counts the bytes, level by level. */
#ifndef POOL_H
#define POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "backend.h"
#include "formula.h"
#include "generate.h"
#include "memory.h"
#include "model.h"
#include "pool_pages.h"
#include "pool_slots.h"
#include "status.h"

struct pool_request {
    const struct model *model; /* one rank's */
    struct formula_storage storage;
    bool kv_scale_amax;
    const uint64_t *lengths; /* [seqs] tokens each sequence will reach */
    uint32_t seqs;
    uint32_t page_tokens;
    uint64_t share_prefix_tokens;
    bool sequential_pages; /* else a seeded permutation of the whole pool */
    uint64_t seed;
    enum options_data data;
    bool rotate; /* rows are rotated before they are quantised, by llama.cpp's rule (rotate.h) */
};

/* What a request will take, before anything is allocated. Every byte has a name:
 *   pool = formula + tail + alignment + partial + spare + tables + scales - shared
 * (a shared prefix makes shared_bytes > 0: logical bytes that have no pages of their own). */
struct pool_sizes {
    uint64_t formula_bytes;      /* level 1, all sequences */
    uint64_t tail_bytes;         /* unused slots: last pages, a window's first page */
    uint64_t alignment_bytes;    /* padding of pages and of state slots */
    uint64_t shared_bytes;       /* taken off: pages several sequences point to */
    uint64_t paged_bytes;        /* level 2 = formula + tail + alignment - shared */
    uint64_t partial_bytes;      /* entries of compressed groups that are not whole yet, fp32 */
    uint64_t spare_bytes;        /* pages the pool keeps beyond those in use (window recycling) */
    uint64_t page_table_bytes;   /* int32 page ids and sequence lengths */
    uint64_t tensor_scale_bytes; /* fp32, one per layer and per K or V, formats that have one */
    uint64_t
        pool_bytes; /* level 3 = paged + partial + spare + tables + scales: what is allocated */
    uint64_t harness_bytes; /* asked beside the pool, no part of it: the rows that are appended
                               and the arguments of the appends */
};

struct pool; /* opaque */

enum status pool_plan(const struct pool_request *request, struct pool_sizes *out,
                      struct status_text *text);

/* Plans, checks `budget` (STATUS_OUT_OF_MEMORY names the bytes asked and those there are),
 * allocates once, poisons every slot. Copies what it needs of `request`, but keeps the model
 * pointer. */
enum status pool_create(const struct backend_ops *ops, struct backend_device *device,
                        const struct pool_request *request, const struct memory_budget *budget,
                        struct pool **out, struct status_text *text);
void pool_destroy(struct pool *pool); /* NULL is fine */

/* Appends every sequence up to its requested length, chunk by chunk, through the backend's
 * append, in every layer; `should_stop` (may be NULL) is asked between chunks. */
enum status pool_fill(struct pool *pool, bool (*should_stop)(void), struct status_text *text);

/* The allocation itself: where it starts on the device, and pool_bytes of it. */
const void *pool_dev_memory(const struct pool *pool, uint64_t *bytes);
void pool_sizes_get(const struct pool *pool, struct pool_sizes *out);
/* Level 4: what the device lost to the pool; false where it does not say. Free memory before less
 * free memory after; on a device that shares the host's memory its own count, since there others
 * take and give at the same time. */
bool pool_driver_bytes(const struct pool *pool, uint64_t *out);
/* Level 5: resident bytes of the allocation; false where not known. */
bool pool_resident_bytes(const struct pool *pool, uint64_t *out);
void pool_replaced_get(const struct pool *pool, struct format_replaced *out);

/* How many values of a group's K rows were rotated together, and so must be its queries'; 0:
 * none. */
uint32_t pool_rotate_points(const struct pool *pool, uint32_t group);

/* One group as the kernels see it. */
const struct model *pool_model(const struct pool *pool);
uint32_t pool_seqs(const struct pool *pool);
uint32_t pool_group_count(const struct pool *pool);
const struct model_group *pool_group(const struct pool *pool, uint32_t group);
/* Level 1 and level 3 of one group: pages and slots, without tables and scales. */
uint64_t pool_group_formula_bytes(const struct pool *pool, uint32_t group);
uint64_t pool_group_bytes(const struct pool *pool, uint32_t group);

/* Rows in pages: keys and values, latents, entries, index keys. False for state groups, and for
 * index keys that are not kept (--index-format none); what follows is for groups that have them. */
bool pool_group_has_rows(const struct pool *pool, uint32_t group);
const struct page_layout *pool_group_page(const struct pool *pool, uint32_t group);
/* The cache of one layer (0 <= layer < group's layers). */
void pool_cache(const struct pool *pool, uint32_t group, uint32_t layer, struct backend_cache *out);
/* Rows of each sequence: its tokens, or whole entries. [seqs], here and on the device. */
const uint64_t *pool_group_rows(const struct pool *pool, uint32_t group);
const uint64_t *pool_group_dev_rows(const struct pool *pool, uint32_t group);
/* The rows appended to one layer; a layer uses bank rows starting at its own offset: row t of
 * sequence s is bank row (pool_first_row(...) + t) % rows. */
const struct generate_bank *pool_bank(const struct pool *pool, uint32_t group);
uint64_t pool_first_row(const struct pool *pool, uint32_t group, uint32_t layer, uint32_t seq);
const uint64_t *pool_lengths(const struct pool *pool); /* [seqs] tokens */
const uint64_t *pool_dev_lengths(const struct pool *pool);
const struct pool_pages *pool_group_pages(const struct pool *pool, uint32_t group);
/* Work that rewrites the last row of every sequence in one layer: the append of a step. */
void pool_step_append(const struct pool *pool, uint32_t group, uint32_t layer,
                      struct backend_append *out);

/* State slots; NULL where the group has none. */
const struct pool_slots *pool_group_slots(const struct pool *pool, uint32_t group);
/* The slots of one layer, all sequences; NULL where a part is empty. */
void *pool_dev_state(const struct pool *pool, uint32_t group, uint32_t layer);
uint16_t *pool_dev_conv(const struct pool *pool, uint32_t group, uint32_t layer);

#endif
