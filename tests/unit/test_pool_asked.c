/* No byte without a name: for random models of every kind, random formats and records, lengths and
 * page sizes, the formula and the itemised differences add up to the bytes that the allocator
 * was really asked for. The formula is counted here once more, token by token; what was asked is
 * counted at the backend's door. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "counting_ops.h"
#include "pool.h"

enum { MAX_SEQS = 6, POOLS = 400, TRIES = 20 * POOLS };
#define LARGEST_POOL_BYTES ((uint64_t)4 << 20)

static struct generate_random random_state;

static uint32_t below(uint32_t bound) {
    return (uint32_t)generate_random_below(&random_state, bound);
}

struct asked {
    struct model model;
    uint64_t lengths[MAX_SEQS];
    struct pool_request request;
};

/* A dim that both formats hold: a multiple of their groups, of one value for plain ones. */
static uint32_t random_dim(const struct formula_storage *storage) {
    if (format_is_record(storage->k_format))
        return format_get(storage->k_format)->group_values;
    const uint32_t k = format_get(storage->k_format)->group_values;
    const uint32_t v = format_get(storage->v_format)->group_values;
    const uint32_t step = k > v ? k : v; /* group sizes are powers of two */
    return step * (1 + below(step == 1 ? 200 : 6));
}

/* Every field of every kind; a kind uses its own. */
static struct model_group random_group(enum model_kind kind,
                                       const struct formula_storage *storage) {
    struct model_group group = {.kind = kind, .layers = 1 + below(4)};
    group.read_by_layers = group.layers + below(2);
    group.kv_heads = 1 + below(5);
    group.query_heads = group.kv_heads * (1 + below(4));
    group.k_dim = random_dim(storage);
    group.v_dim = random_dim(storage);
    group.window_tokens = 1 + below(300);
    if (kind == MODEL_WINDOW && storage->k_format == storage->v_format && below(3) == 0)
        group.v_dim = 0;
    group.latent_dim = random_dim(storage);
    group.rope_dim = below(3) == 0 ? 0 : random_dim(storage);
    group.entry_dim = random_dim(storage);
    group.tokens_per_entry = 1 + below(8);
    group.key_dim = 32 * (1 + below(4));
    group.top_k = 1 + below(64);
    if (format_is_record(storage->k_format)) { /* what it holds as latent and rope */
        const struct format_info *record = format_get(storage->k_format);
        group.latent_dim = record->latent_dim;
        group.rope_dim = record->rope_dim;
    }
    group.heads = below(5);
    group.state_rows = 1 + below(20);
    group.state_cols = 1 + below(20);
    group.conv_channels = group.heads == 0 ? 7 : below(40);
    group.conv_taps = 1 + below(4);
    return group;
}

static void random_request(struct asked *asked) {
    *asked = (struct asked){.model = {.name = "random", .group_count = 1 + below(4)}};
    const bool record = below(5) == 0;
    const enum format_id k_format =
        record ? (enum format_id)(FORMAT_COUNT + 1 + below(FORMAT_INDEX_FP8_132 - FORMAT_COUNT - 1))
               : (enum format_id)below(FORMAT_COUNT);
    struct formula_storage storage = {
        .k_format = k_format,
        .v_format = record || below(2) == 0 ? k_format : (enum format_id)below(FORMAT_COUNT),
        .index = (enum formula_index_format)below(FORMULA_INDEX_COUNT),
        .state_value_bytes = below(2) == 0 ? 2 : 4,
        .window_as_full = below(6) == 0};
    for (uint32_t g = 0; g < asked->model.group_count; g++)
        asked->model.groups[g] = random_group((enum model_kind)below(MODEL_KIND_COUNT), &storage);
    asked->request = (struct pool_request){
        .model = &asked->model,
        .storage = storage,
        .lengths = asked->lengths,
        .seqs = 1 + below(MAX_SEQS),
        .page_tokens = 1 + below(below(3) == 0 ? 700 : 33),
        .share_prefix_tokens = below(3) == 0 ? below(400) : 0,
        .sequential_pages = below(2) == 0,
        .seed = below(1000),
    };
    for (uint32_t s = 0; s < asked->request.seqs; s++)
        asked->lengths[s] = below(6) == 0 ? 0 : below(below(2) == 0 ? 20 : 700);
}

/* Bytes of one token, entry or key in one layer, from the definition of its kind. */
static uint64_t row_bytes(const struct model_group *group, const struct formula_storage *storage) {
    static const struct {
        uint32_t per_value, per_group, group; /* bytes, bytes, values */
    } keys[FORMULA_INDEX_COUNT] = {[FORMULA_INDEX_BF16] = {4, 0, 1},
                                   [FORMULA_INDEX_FP8_E4M3] = {2, 0, 1},
                                   [FORMULA_INDEX_FP8_132] = {2, 8, 128},
                                   [FORMULA_INDEX_MXFP4] = {1, 2, 32},
                                   [FORMULA_INDEX_NONE] = {0, 0, 1}}; /* in half bytes */
    switch (group->kind) {
    case MODEL_FULL:
    case MODEL_WINDOW:
        return group->kv_heads *
               ((uint64_t)format_row_bytes(storage->k_format, group->k_dim) +
                (group->v_dim > 0 ? format_row_bytes(storage->v_format, group->v_dim) : 0));
    case MODEL_LATENT:
        return format_row_bytes(storage->k_format, group->latent_dim + group->rope_dim);
    case MODEL_COMPRESSED:
        return format_row_bytes(storage->k_format, group->entry_dim);
    case MODEL_INDEX:
        return (keys[storage->index].per_value * group->key_dim +
                keys[storage->index].per_group * (group->key_dim / keys[storage->index].group)) /
               2;
    case MODEL_STATE:
    case MODEL_KIND_COUNT:
        break;
    }
    return 0;
}

/* Level 1 from the definition: one token after the other, a row of each kind where one is due. */
static uint64_t count_formula(const struct asked *asked) {
    const struct formula_storage *storage = &asked->request.storage;
    uint64_t bytes = 0;
    for (uint32_t g = 0; g < asked->model.group_count; g++) {
        const struct model_group *group = &asked->model.groups[g];
        const bool pools = group->kind == MODEL_COMPRESSED || group->kind == MODEL_INDEX;
        const uint64_t row = row_bytes(group, storage);
        for (uint32_t s = 0; s < asked->request.seqs; s++) {
            for (uint64_t t = 0; t < asked->lengths[s]; t++) {
                const bool left_behind = group->kind == MODEL_WINDOW && !storage->window_as_full &&
                                         asked->lengths[s] - t > group->window_tokens;
                const bool due = !pools || (t + 1) % group->tokens_per_entry == 0;
                bytes += left_behind || !due ? 0 : group->layers * row;
            }
            if (group->kind == MODEL_STATE)
                bytes += group->layers * ((uint64_t)group->heads * group->state_rows *
                                              group->state_cols * storage->state_value_bytes +
                                          (uint64_t)group->conv_channels * group->conv_taps * 2);
        }
    }
    return bytes;
}

/* Entries that are not whole: fp32, one per sequence and layer that pools. */
static uint64_t count_partial(const struct asked *asked) {
    uint64_t bytes = 0;
    for (uint32_t g = 0; g < asked->model.group_count; g++) {
        const struct model_group *group = &asked->model.groups[g];
        if (group->kind == MODEL_COMPRESSED && group->tokens_per_entry > 1)
            bytes += (uint64_t)asked->request.seqs * group->layers * group->entry_dim * 4;
    }
    return bytes;
}

static void assert_asked(struct backend_device *device, const struct asked *asked,
                         const struct pool_sizes *planned) {
    struct status_text text = {""};
    struct pool *pool;
    counting_reset(0);
    if (pool_create(&counting.ops, device, &asked->request, NULL, &pool, &text) != STATUS_OK)
        fail_msg("%s", text.line);
    assert_int_equal(pool_fill(pool, NULL, &text), STATUS_OK);
    struct pool_sizes sizes;
    pool_sizes_get(pool, &sizes);
    assert_memory_equal(&sizes, planned, sizeof sizes);
    assert_int_equal(sizes.formula_bytes, count_formula(asked));
    assert_int_equal(sizes.partial_bytes, count_partial(asked));
    const uint64_t named = sizes.formula_bytes + sizes.tail_bytes + sizes.alignment_bytes -
                           sizes.shared_bytes + sizes.partial_bytes + sizes.spare_bytes +
                           sizes.page_table_bytes + sizes.tensor_scale_bytes;
    uint64_t of_groups = sizes.page_table_bytes + sizes.tensor_scale_bytes;
    for (uint32_t g = 0; g < pool_group_count(pool); g++)
        of_groups += pool_group_bytes(pool, g);
    assert_int_equal(of_groups, named);
    uint64_t pool_bytes;
    (void)pool_dev_memory(pool, &pool_bytes);
    assert_int_equal(named, pool_bytes);
    assert_int_equal(named + sizes.harness_bytes, counting.asked_bytes);
    assert_int_equal(counting.held_bytes, counting.asked_bytes);
    pool_destroy(pool);
    assert_int_equal(counting.held_bytes, 0);
}

/* What does not fit a format is refused by name, whatever stands beside it. */
static bool has_pool(const struct asked *asked, struct pool_sizes *sizes) {
    struct status_text text = {""};
    const enum status status = pool_plan(&asked->request, sizes, &text);
    if (status == STATUS_OK)
        return true;
    assert_int_equal(status, STATUS_REFUSED);
    assert_true(strlen(text.line) > 0);
    return false;
}

static void test_every_byte_has_a_name(void **state) {
    (void)state;
    struct status_text text = {""};
    struct backend_device *device;
    assert_int_equal(
        backend_find("cpu")->open(&(struct backend_options){.threads = 2}, &device, &text),
        STATUS_OK);
    generate_random_seed(&random_state, 4711);
    unsigned built = 0, kinds[MODEL_KIND_COUNT] = {0}, formats[FORMAT_END] = {0};
    unsigned partial = 0, tails = 0, aligned = 0, shared = 0, spare = 0, scales = 0;
    for (unsigned i = 0; i < TRIES && built < POOLS; i++) {
        struct asked asked;
        struct pool_sizes sizes;
        random_request(&asked);
        if (!has_pool(&asked, &sizes) || sizes.pool_bytes > LARGEST_POOL_BYTES)
            continue;
        assert_asked(device, &asked, &sizes);
        built++;
        formats[asked.request.storage.k_format]++;
        for (uint32_t g = 0; g < asked.model.group_count; g++)
            kinds[asked.model.groups[g].kind]++;
        tails += sizes.tail_bytes > 0;
        aligned += sizes.alignment_bytes > 0;
        shared += sizes.shared_bytes > 0;
        partial += sizes.partial_bytes > 0;
        spare += sizes.spare_bytes > 0;
        scales += sizes.tensor_scale_bytes > 0;
    }
    backend_find("cpu")->close(device);
    print_message("%u pools: %u with tails, %u padded, %u shared, %u with partial entries, %u with "
                  "spare pages, %u with tensor scales\n",
                  built, tails, aligned, shared, partial, spare, scales);
    for (int kind = 0; kind < MODEL_KIND_COUNT; kind++)
        print_message("  %s: %u groups\n", model_kind_name((enum model_kind)kind), kinds[kind]);
    assert_int_equal(built, POOLS);
    for (int kind = 0; kind < MODEL_KIND_COUNT; kind++)
        assert_true(kinds[kind] > 0);
    assert_true(tails > 0 && aligned > 0 && shared > 0 && partial > 0 && spare > 0 && scales > 0);
    for (int id = 0; id < FORMAT_END; id++)
        assert_true(formats[id] > 0 || id == FORMAT_COUNT ||
                    format_get((enum format_id)id)->key_dim > 0);
}

/* A pool that found no memory half-way holds nothing, whichever request it was. */
static void test_nothing_is_kept(void **state) {
    (void)state;
    struct status_text text = {""};
    struct backend_device *device;
    assert_int_equal(
        backend_find("cpu")->open(&(struct backend_options){.threads = 2}, &device, &text),
        STATUS_OK);
    generate_random_seed(&random_state, 12);
    struct asked asked;
    struct pool_sizes sizes;
    do
        random_request(&asked);
    while (!has_pool(&asked, &sizes) || asked.model.group_count < 2 ||
           sizes.pool_bytes > LARGEST_POOL_BYTES);
    const uint64_t all = sizes.pool_bytes + sizes.harness_bytes;
    struct pool *pool;
    for (unsigned part = 1; part <= 8; part++) {
        counting_reset(all * part / 8 - (part == 8));
        assert_int_equal(pool_create(&counting.ops, device, &asked.request, NULL, &pool, &text),
                         STATUS_OUT_OF_MEMORY);
        assert_null(pool);
        assert_int_equal(counting.held_bytes, 0);
    }
    counting_reset(all);
    assert_int_equal(pool_create(&counting.ops, device, &asked.request, NULL, &pool, &text),
                     STATUS_OK);
    assert_int_equal(counting.peak_bytes, all);
    pool_destroy(pool);
    backend_find("cpu")->close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_byte_has_a_name),
        cmocka_unit_test(test_nothing_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
