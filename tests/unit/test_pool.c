/* Pools of random models, formats, lengths and page sizes: what was planned is what is allocated,
 * to the byte, and after filling every slot holds its token or poison. On every backend. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool.h"

enum { MAX_SEQS = 5, POOLS = 120 };
#define LARGEST_POOL_BYTES ((uint64_t)6 << 20)

static struct generate_random random_state;

static uint32_t below(uint32_t bound) {
    return (uint32_t)generate_random_below(&random_state, bound);
}

static struct model_group random_group(void) {
    struct model_group group = {.layers = 1 + below(3), .sinks = below(2) == 1};
    group.read_by_layers = group.layers + below(2);
    group.kind = (enum model_kind)below(3); /* full, window, latent */
    if (group.kind == MODEL_LATENT) {
        group.latent_dim = 32 * (1 + below(16));
        group.rope_dim = 32 * below(3);
        group.query_heads = 1 + below(16);
        return group;
    }
    group.kv_heads = 1 + below(4);
    group.query_heads = group.kv_heads * (1 + below(4));
    group.k_dim = 32 * (1 + below(6));
    group.v_dim = group.kind == MODEL_WINDOW && below(4) == 0 ? 0 : 32 * (1 + below(6));
    if (group.kind == MODEL_WINDOW)
        group.window_tokens = 1 + below(200);
    return group;
}

struct asked {
    struct model model;
    uint64_t lengths[MAX_SEQS];
    struct pool_request request;
};

static void random_request(struct asked *asked) {
    *asked = (struct asked){.model = {.name = "random", .group_count = 1 + below(3)}};
    bool one_row = false;
    for (uint32_t g = 0; g < asked->model.group_count; g++) {
        asked->model.groups[g] = random_group();
        one_row = one_row || asked->model.groups[g].kind == MODEL_LATENT ||
                  asked->model.groups[g].v_dim == 0;
    }
    const enum format_id k_format = (enum format_id)below(FORMAT_COUNT);
    const uint32_t seqs = 1 + below(MAX_SEQS);
    for (uint32_t s = 0; s < seqs; s++)
        asked->lengths[s] = below(5) == 0 ? 0 : below(900);
    asked->request = (struct pool_request){
        .model = &asked->model,
        .storage = {.k_format = k_format,
                    .v_format = one_row ? k_format : (enum format_id)below(FORMAT_COUNT),
                    .index = FORMULA_INDEX_NONE,
                    .state_value_bytes = 4,
                    .window_as_full = below(5) == 0},
        .kv_scale_amax = below(2) == 1,
        .lengths = asked->lengths,
        .seqs = seqs,
        .page_tokens = 1 + below(below(2) == 0 ? 600 : 40),
        .share_prefix_tokens = below(3) == 0 ? below(600) : 0,
        .sequential_pages = below(4) == 0,
        .seed = below(1000),
        .data = (enum options_data)below(OPTIONS_DATA_SINK + 1),
    };
}

static void assert_identity(const struct pool_sizes *sizes) {
    assert_int_equal(sizes->paged_bytes, sizes->formula_bytes + sizes->tail_bytes +
                                             sizes->alignment_bytes - sizes->shared_bytes);
    assert_int_equal(sizes->pool_bytes, sizes->paged_bytes + sizes->spare_bytes +
                                            sizes->page_table_bytes + sizes->tensor_scale_bytes);
}

/* The sizes again, from the pages in use and the strides, without the planner's arithmetic. */
static void assert_sizes_counted(const struct pool *pool, const struct asked *asked,
                                 const struct pool_sizes *sizes) {
    uint64_t used_bytes = 0, free_bytes = 0, scale_bytes = 0;
    uint64_t table_bytes = asked->request.seqs * sizeof(uint64_t);
    uint64_t logical_bytes = 0;
    for (uint32_t g = 0; g < pool_group_count(pool); g++) {
        const struct pool_pages *pages = pool_group_pages(pool, g);
        const struct page_layout *page = pool_group_page(pool, g);
        const uint64_t layers = pool_group(pool, g)->layers;
        used_bytes += (pages->page_count - pages->free_count) * layers * page->stride_bytes;
        free_bytes += pages->free_count * layers * page->stride_bytes;
        table_bytes += (uint64_t)pages->seqs * pages->columns * sizeof(int32_t);
        for (uint64_t i = 0; i < (uint64_t)pages->seqs * pages->columns; i++)
            logical_bytes += pages->table[i] >= 0 ? layers * page->stride_bytes : 0;
        const bool k_has = format_get(page->shape.k_format)->has_tensor_scale;
        const bool v_has =
            !page->shape.v_in_k && format_get(page->shape.v_format)->has_tensor_scale;
        scale_bytes += layers * ((uint64_t)k_has + v_has) * sizeof(float);
    }
    assert_int_equal(sizes->paged_bytes, used_bytes);
    assert_int_equal(sizes->spare_bytes, free_bytes);
    assert_int_equal(sizes->page_table_bytes, table_bytes);
    assert_int_equal(sizes->tensor_scale_bytes, scale_bytes);
    assert_int_equal(sizes->shared_bytes, logical_bytes - used_bytes);
}

/* Which sequence's token lies in each slot; -1: none. */
static int64_t *map_slots(const struct pool *pool, const struct pool_pages *pages,
                          uint32_t **owners) {
    const uint64_t slots = (uint64_t)pages->page_count * pages->page_tokens;
    int64_t *tokens = malloc((slots + 1) * sizeof *tokens);
    *owners = malloc((slots + 1) * sizeof **owners);
    assert_non_null(tokens);
    assert_non_null(*owners);
    for (uint64_t i = 0; i < slots; i++)
        tokens[i] = -1;
    for (uint32_t s = 0; s < pages->seqs; s++) {
        const uint64_t length = pool_lengths(pool)[s];
        assert_int_equal(pages->lengths[s], length);
        const uint64_t first = pages->window_tokens > 0 && length > pages->window_tokens
                                   ? length - pages->window_tokens
                                   : 0;
        for (uint64_t t = first; t < length; t++) {
            const uint64_t slot = (uint64_t)pool_pages_find(pages, s, t) * pages->page_tokens +
                                  t % pages->page_tokens;
            tokens[slot] = (int64_t)t;
            (*owners)[slot] = s;
        }
    }
    return tokens;
}

static void assert_row(const struct pool *pool, uint32_t g, uint32_t layer, bool v, uint64_t slot,
                       uint32_t head, int64_t token, uint32_t seq, const uint8_t *stored_pages) {
    struct backend_cache cache;
    pool_cache(pool, g, layer, &cache);
    const struct page_shape *shape = &cache.page.shape;
    const struct page_plane *plane = v ? &cache.page.v : &cache.page.k;
    const enum format_id format = v ? shape->v_format : shape->k_format;
    const uint32_t dim = v ? shape->v_dim : shape->k_dim;
    uint8_t payload[4096], scales[1024];
    if (token < 0) {
        format_poison_row(format, payload, scales, dim);
    } else {
        const struct generate_bank *bank = pool_bank(pool, g);
        const uint64_t row = (pool_first_row(pool, g, layer, seq) + (uint64_t)token) % bank->rows;
        format_encode_row(format, (v ? bank->v : bank->k) + (row * shape->kv_heads + head) * dim,
                          dim, v ? cache.v_tensor_scale : cache.k_tensor_scale, payload, scales,
                          NULL);
    }
    const struct page_place at =
        page_locate(plane, shape->page_tokens, head, (uint32_t)(slot % shape->page_tokens));
    const uint8_t *page = stored_pages + slot / shape->page_tokens * cache.page.stride_bytes;
    assert_memory_equal(page + at.payload_bytes, payload, plane->row_payload_bytes);
    if (plane->row_scale_bytes > 0)
        assert_memory_equal(page + at.scale_bytes, scales, plane->row_scale_bytes);
}

/* `image`: a copy of the whole pool; `dev`: where it lies on the device. */
static void assert_group_bytes(const struct pool *pool, uint32_t g, const uint8_t *image,
                               const uint8_t *dev) {
    struct status_text text = {{0}};
    const struct pool_pages *pages = pool_group_pages(pool, g);
    const struct page_shape *shape = &pool_group_page(pool, g)->shape;
    if (pool_pages_check(pages, &text) != STATUS_OK)
        fail_msg("%s", text.line);
    uint32_t *owners;
    int64_t *tokens = map_slots(pool, pages, &owners);
    struct backend_cache cache;
    for (uint32_t layer = 0; layer < pool_group(pool, g)->layers; layer++) {
        pool_cache(pool, g, layer, &cache);
        const uint8_t *stored = image + (cache.dev_pages - dev);
        for (uint64_t slot = 0; slot < (uint64_t)pages->page_count * pages->page_tokens; slot++) {
            /* a recycled page may hold a token its window has left behind */
            if (tokens[slot] < 0 && pages->window_tokens > 0)
                continue;
            for (uint32_t head = 0; head < shape->kv_heads; head++)
                for (int v = 0; v < (shape->v_in_k ? 1 : 2); v++)
                    assert_row(pool, g, layer, v == 1, slot, head, tokens[slot], owners[slot],
                               stored);
        }
    }
    const uint8_t *table = image + ((const uint8_t *)cache.dev_page_table - dev);
    assert_memory_equal(table, pages->table,
                        (uint64_t)pages->seqs * pages->columns * sizeof *pages->table);
    free(tokens);
    free(owners);
}

static uint8_t *read_pool(const struct backend_ops *ops, struct backend_device *device,
                          const struct pool *pool) {
    uint64_t bytes;
    const void *dev = pool_dev_memory(pool, &bytes);
    uint8_t *image = malloc(bytes);
    assert_non_null(image);
    assert_int_equal(ops->memory_read(device, image, dev, bytes, NULL), STATUS_OK);
    return image;
}

/* The append of a step rewrites what is there. */
static void assert_step_changes_nothing(const struct backend_ops *ops,
                                        struct backend_device *device, const struct pool *pool,
                                        const uint8_t *image) {
    struct status_text text = {{0}};
    for (uint32_t g = 0; g < pool_group_count(pool); g++) {
        for (uint32_t layer = 0; layer < pool_group(pool, g)->layers; layer++) {
            struct backend_append work;
            pool_step_append(pool, g, layer, &work);
            assert_int_equal(ops->append(device, &work, NULL, &text), STATUS_OK);
        }
    }
    assert_int_equal(ops->synchronize(device, &text), STATUS_OK);
    uint8_t *after = read_pool(ops, device, pool);
    uint64_t bytes;
    (void)pool_dev_memory(pool, &bytes);
    assert_memory_equal(after, image, bytes);
    free(after);
}

static void build_and_check(const struct backend_ops *ops, struct backend_device *device,
                            const struct asked *asked, const struct pool_sizes *planned) {
    struct status_text text = {{0}};
    const struct memory_budget budget = {.budget_bytes = planned->pool_bytes};
    struct pool *pool;
    assert_int_equal(pool_create(ops, device, &asked->request, &budget, &pool, &text), STATUS_OK);
    struct pool_sizes sizes;
    pool_sizes_get(pool, &sizes);
    assert_memory_equal(&sizes, planned, sizeof sizes);
    uint64_t bytes, resident;
    const uint8_t *dev = pool_dev_memory(pool, &bytes);
    assert_int_equal(bytes, planned->pool_bytes);
    if (pool_resident_bytes(pool, &resident))
        assert_true(resident >= bytes);
    if (pool_fill(pool, NULL, &text) != STATUS_OK)
        fail_msg("%s", text.line);
    assert_sizes_counted(pool, asked, planned);
    uint8_t *image = read_pool(ops, device, pool);
    for (uint32_t g = 0; g < pool_group_count(pool); g++)
        assert_group_bytes(pool, g, image, dev);
    assert_memory_equal(image + ((const uint8_t *)pool_dev_lengths(pool) - dev), asked->lengths,
                        asked->request.seqs * sizeof(uint64_t));
    assert_step_changes_nothing(ops, device, pool, image);
    free(image);
    struct format_replaced replaced;
    pool_replaced_get(pool, &replaced);
    assert_int_equal(replaced.nan_values + replaced.infinite_values, 0);
    pool_destroy(pool);
}

static void each_device(void (*body)(const struct backend_ops *, struct backend_device *)) {
    unsigned opened = 0;
    for (const struct backend_ops *const *ops = backend_list(); *ops != NULL; ops++) {
        struct status_text text = {{0}};
        struct backend_device *device;
        if ((*ops)->open(&(struct backend_options){.threads = 2}, &device, &text) != STATUS_OK) {
            print_message("skipped: %s: %s\n", (*ops)->name, text.line);
            continue;
        }
        body(*ops, device);
        (*ops)->close(device);
        opened++;
    }
    assert_true(opened > 0);
}

static void random_pools(const struct backend_ops *ops, struct backend_device *device) {
    generate_random_seed(&random_state, 77);
    unsigned built = 0, shared = 0, spare = 0;
    for (unsigned i = 0; built < POOLS && i < 20 * POOLS; i++) {
        struct asked asked;
        random_request(&asked);
        struct pool_sizes sizes;
        struct status_text text = {{0}};
        if (pool_plan(&asked.request, &sizes, &text) != STATUS_OK)
            fail_msg("%s", text.line);
        assert_identity(&sizes);
        if (sizes.pool_bytes > LARGEST_POOL_BYTES)
            continue;
        build_and_check(ops, device, &asked, &sizes);
        built++;
        shared += sizes.shared_bytes > 0;
        spare += sizes.spare_bytes > 0;
    }
    print_message("%s: %u pools built, %u with shared pages, %u with spare ones\n", ops->name,
                  built, shared, spare);
    assert_true(built == POOLS && shared > 5 && spare > 5);
}

static void test_random_pools(void **state) {
    (void)state;
    each_device(random_pools);
}

static bool stop_at_once(void) {
    return true;
}

static void budget_and_interrupt(const struct backend_ops *ops, struct backend_device *device) {
    struct asked asked;
    struct pool_sizes sizes;
    struct status_text text = {{0}};
    generate_random_seed(&random_state, 3);
    do {
        random_request(&asked);
        assert_int_equal(pool_plan(&asked.request, &sizes, &text), STATUS_OK);
    } while (sizes.paged_bytes == 0 || sizes.pool_bytes > LARGEST_POOL_BYTES);
    const struct memory_budget small = {.budget_bytes = sizes.pool_bytes - 1,
                                        .source = "a test's budget"};
    struct pool *pool;
    assert_int_equal(pool_create(ops, device, &asked.request, &small, &pool, &text),
                     STATUS_OUT_OF_MEMORY);
    assert_null(pool);
    char number[32];
    (void)snprintf(number, sizeof number, "%llu", (unsigned long long)sizes.pool_bytes);
    assert_non_null(strstr(text.line, number));
    (void)snprintf(number, sizeof number, "%llu", (unsigned long long)sizes.pool_bytes - 1);
    assert_non_null(strstr(text.line, number));
    assert_non_null(strstr(text.line, "a test's budget"));

    assert_int_equal(pool_create(ops, device, &asked.request, NULL, &pool, &text), STATUS_OK);
    assert_int_equal(pool_fill(pool, stop_at_once, &text), STATUS_INTERRUPTED);
    /* nothing written yet: no sequence points at a page */
    struct backend_cache cache;
    pool_cache(pool, 0, 0, &cache);
    for (uint64_t i = 0; i < (uint64_t)cache.seqs * cache.page_table_columns; i++) {
        int32_t id = 0;
        assert_int_equal(ops->memory_read(device, &id, cache.dev_page_table + i, sizeof id, &text),
                         STATUS_OK);
        assert_int_equal(id, -1);
    }
    pool_destroy(pool);
    pool_destroy(NULL);
}

static void test_budget_and_interrupt(void **state) {
    (void)state;
    each_device(budget_and_interrupt);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_budget_and_interrupt),
        cmocka_unit_test(test_random_pools),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
