/* Private to the pool: what pool.c builds and pool_fill.c fills. */
#ifndef POOL_STATE_H
#define POOL_STATE_H

#include "pool_layout.h"
#include "rotate.h"

struct pool_group_state {
    struct pool_pages pages;
    struct generate_bank bank;
    struct backend_memory bank_memory; /* K rows, then V rows */
    bool bank_on_device;               /* bank.k and bank.v point into bank_memory */
    const float *dev_k_rows;
    const float *dev_v_rows;
    float k_tensor_scale;
    float v_tensor_scale;
    uint64_t *rows;                  /* [seqs] what each sequence reaches */
    struct backend_memory arguments; /* of appends: first rows, counts, bank rows: [3][seqs] */
    struct rotate_points rotated;
};

struct pool {
    const struct backend_ops *ops;
    struct backend_device *device;
    const struct model *model;
    struct pool_layout layout;
    uint64_t *lengths; /* [seqs] what each sequence reaches */
    uint32_t seqs;
    uint64_t share_prefix_tokens;
    bool one_start; /* every sequence and layer starts at the bank's first row */
    struct backend_memory memory;
    uint64_t driver_bytes;    /* what the device lost to it; 0: not known */
    uint64_t *host_arguments; /* [3][seqs], of the append that is being made */
    struct format_replaced replaced;
    struct pool_group_state groups[MODEL_MAX_GROUPS];
};

static inline uint8_t *pool_state_at(const struct pool *pool, uint64_t offset_bytes) {
    return (uint8_t *)pool->memory.dev_address + offset_bytes;
}

/* Writes `image` at dev_to and repeats it up to `bytes`, which need not be a multiple of it. The
 * device copies what is there behind itself: it does that faster than the host can write. */
enum status pool_state_repeat(const struct backend_ops *ops, struct backend_device *device,
                              void *dev_to, const void *image, uint64_t image_bytes, uint64_t bytes,
                              struct status_text *text);

/* Copies a group's page table to the device. */
enum status pool_state_send_table(struct pool *pool, uint32_t group, struct status_text *text);

#endif
