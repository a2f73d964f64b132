/* What a step does to the pool and asks of the backend: the last rows and nothing else, every slot,
 * every layer of every index. Verification compares a step with itself; this does not. On the cpu,
 * whose memory is looked at in place. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "step_setup.h"
#include "verify.h"

enum { SEQS = STEP_SETUP_SEQS, PAGE_TOKENS = STEP_SETUP_PAGE_TOKENS, POISON = 0xA5 };

static const struct model *const model = &step_setup_model;

/* Copies one row of all heads from a page of `from` to the same place of `to`. */
static void copy_row(uint8_t *to, const uint8_t *from, const struct page_layout *page,
                     uint64_t page_at, uint32_t slot) {
    const struct page_plane *planes[] = {&page->k, &page->v};
    for (int side = 0; side < (page->shape.v_in_k ? 1 : 2); side++) {
        for (uint32_t head = 0; head < page->shape.kv_heads; head++) {
            const struct page_place place =
                page_locate(planes[side], page->shape.page_tokens, head, slot);
            memcpy(to + page_at + place.payload_bytes, from + page_at + place.payload_bytes,
                   planes[side]->row_payload_bytes);
            memcpy(to + page_at + place.scale_bytes, from + page_at + place.scale_bytes,
                   planes[side]->row_scale_bytes);
        }
    }
}

/* Where everything is wiped, a step puts back the last row of each sequence in each layer, as it
 * was, and leaves the rest. */
static void test_a_step_writes_the_last_rows(void **state) {
    (void)state;
    struct pool *pool = step_setup_mixed_pool(cpu, 2);
    /* before any step: what it writes wrong must not be what it is compared with */
    uint64_t pool_bytes;
    const uint8_t *start = pool_dev_memory(pool, &pool_bytes);
    uint8_t *whole = malloc(pool_bytes);
    assert_non_null(whole);
    memcpy(whole, start, pool_bytes);
    struct step *step = step_setup_step(cpu, pool, 5, OPTIONS_DATA_NORMAL);
    for (uint32_t g = 0; g < model->group_count; g++) {
        if (!pool_group_has_rows(pool, g))
            continue;
        const struct page_layout *page = pool_group_page(pool, g);
        struct backend_cache cache;
        pool_cache(pool, g, 0, &cache);
        const uint64_t layer_bytes = cache.page_count * page->stride_bytes;
        const uint64_t bytes = layer_bytes * model->groups[g].layers;
        uint8_t *pages = (uint8_t *)(uintptr_t)cache.dev_pages;
        const uint8_t *filled = whole + (pages - start);
        uint8_t *right = malloc(bytes);
        assert_non_null(right);
        memset(pages, POISON, bytes);
        memset(right, POISON, bytes);
        for (uint32_t layer = 0; layer < model->groups[g].layers; layer++) {
            for (uint32_t s = 0; s < SEQS; s++) {
                const uint64_t rows = pool_group_rows(pool, g)[s];
                if (rows == 0)
                    continue;
                const uint64_t id =
                    (uint64_t)pool_pages_find(pool_group_pages(pool, g), s, rows - 1);
                copy_row(right, filled, page, layer * layer_bytes + id * page->stride_bytes,
                         (uint32_t)((rows - 1) % PAGE_TOKENS));
            }
        }
        struct status_text text = {{0}};
        if (step_append(step, &text) != STATUS_OK)
            fail_msg("%s", text.line);
        if (memcmp(pages, right, bytes) != 0)
            fail_msg("group %u: not the last rows alone", g);
        memcpy(pages, filled, bytes);
        free(right);
    }
    free(whole);
    step_destroy(step);
    pool_destroy(pool);
}

struct range {
    const uint8_t *from, *to;
};

/* Each layer's slots lie on 16 bytes, inside the pool, and on nobody else's. */
static void test_slots_lie_apart(void **state) {
    (void)state;
    struct pool *pool = step_setup_mixed_pool(cpu, 2);
    struct range ranges[32];
    size_t count = 0;
    uint64_t pool_bytes;
    const uint8_t *start = pool_dev_memory(pool, &pool_bytes);
    for (uint32_t g = 0; g < model->group_count; g++) {
        const struct pool_slots *slots = pool_group_slots(pool, g);
        for (uint32_t layer = 0; slots != NULL && layer < model->groups[g].layers; layer++) {
            const uint8_t *held = pool_dev_state(pool, g, layer);
            const uint8_t *conv = (const uint8_t *)pool_dev_conv(pool, g, layer);
            if (held != NULL)
                ranges[count++] = (struct range){held, held + SEQS * slots->slot_bytes};
            if (conv != NULL)
                ranges[count++] = (struct range){conv, conv + SEQS * slots->conv_slot_bytes};
        }
    }
    assert_int_equal(count, 2 + 3 + 3); /* two layers of partial entries, three of both */
    for (size_t i = 0; i < count; i++) {
        assert_true((uintptr_t)ranges[i].from % 16 == 0);
        assert_true(ranges[i].from >= start && ranges[i].to <= start + pool_bytes);
        for (size_t j = 0; j < i; j++)
            assert_true(ranges[i].to <= ranges[j].from || ranges[i].from >= ranges[j].to);
    }
    pool_destroy(pool);
}

/* What the backend was given: attention and scores by the pages they read, state by its slots. */
enum asked_for { ASKED_ATTEND, ASKED_SCORE, ASKED_STATE };
static struct {
    enum asked_for what;
    const void *where;
} asked[64];
static size_t asked_count;

static void note(enum asked_for what, const void *where) {
    assert_true(asked_count < sizeof asked / sizeof asked[0]);
    asked[asked_count].what = what;
    asked[asked_count++].where = where;
}

static size_t times_asked(enum asked_for what, const void *where) {
    size_t times = 0;
    for (size_t i = 0; i < asked_count; i++)
        times += asked[i].what == what && asked[i].where == where;
    return times;
}

static enum status attend(struct backend_device *on, const struct backend_attend *work,
                          struct status_text *text) {
    note(ASKED_ATTEND, work->cache.dev_pages);
    return cpu->attend(on, work, text);
}

static enum status index_score(struct backend_device *on, const struct backend_index_score *work,
                               struct status_text *text) {
    note(ASKED_SCORE, work->cache.dev_pages);
    return cpu->index_score(on, work, text);
}

static enum status state_step(struct backend_device *on, const struct backend_state_step *work,
                              struct status_text *text) {
    note(ASKED_STATE, work->dev_state);
    return cpu->state_step(on, work, text);
}

/* How often a group's layers were asked for, of which each that is due was at least once. */
static size_t assert_layers_asked(const struct pool *pool, uint32_t g) {
    const struct model_group *group = &model->groups[g];
    size_t times = 0;
    for (uint32_t layer = 0; layer < group->layers; layer++) {
        struct backend_cache cache = {0};
        if (pool_group_has_rows(pool, g))
            pool_cache(pool, g, layer, &cache);
        const size_t read =
            times_asked(group->kind == MODEL_INDEX ? ASKED_SCORE : ASKED_ATTEND, cache.dev_pages);
        const size_t stepped = times_asked(ASKED_STATE, pool_dev_state(pool, g, layer));
        if (pool_group_has_rows(pool, g) && read == 0)
            fail_msg("group %u layer %u is not read", g, layer);
        if (pool_group_slots(pool, g) != NULL && stepped != 1)
            fail_msg("group %u layer %u is stepped %zu times", g, layer, stepped);
        times += pool_group_has_rows(pool, g) ? read : 0;
    }
    return times;
}

/* Once per reader in a whole step, index keys whether anybody asks for them or not; and the same
 * where a group is timed by itself. */
static void test_every_layer_is_asked(void **state) {
    (void)state;
    struct backend_ops ops = *cpu;
    ops.attend = attend;
    ops.index_score = index_score;
    ops.state_step = state_step;
    struct pool *pool = step_setup_mixed_pool(cpu, 2);
    struct step *step = step_setup_step(&ops, pool, 5, OPTIONS_DATA_NORMAL);
    struct status_text text = {{0}};
    asked_count = 0;
    assert_int_equal(step_append(step, &text), STATUS_OK);
    assert_int_equal(step_attend(step, &text), STATUS_OK);
    for (uint32_t g = 0; g < model->group_count; g++)
        assert_int_equal(assert_layers_asked(pool, g), model->groups[g].kind == MODEL_STATE
                                                           ? 0
                                                           : model->groups[g].read_by_layers);
    for (uint32_t g = 0; g < model->group_count; g++) {
        asked_count = 0;
        assert_int_equal(step_group_run(step, g, &text), STATUS_OK);
        assert_int_equal(assert_layers_asked(pool, g), model->groups[g].kind == MODEL_STATE
                                                           ? 0
                                                           : model->groups[g].read_by_layers);
    }
    step_destroy(step);
    pool_destroy(pool);
}

/* Faults that one check alone sees. */
enum fault {
    FAULT_NONE,
    FAULT_UNASKED_SCORE,
    FAULT_STATE_IN_A_STEP,
    FAULT_FAINT_STATE,
    FAULT_COUNT
};
static enum fault fault;
static const uint8_t *unasked_pages; /* index keys that choose for nobody */
static bool behind_append;           /* of a whole step, where no outputs are wiped between */

static enum status faulty_append(struct backend_device *on, const struct backend_append *work,
                                 struct format_replaced *replaced, struct status_text *text) {
    behind_append = true;
    return cpu->append(on, work, replaced, text);
}

static enum status faulty_memory_fill(struct backend_device *on, void *dev_to, uint8_t byte,
                                      uint64_t bytes, struct status_text *text) {
    behind_append = false;
    return cpu->memory_fill(on, dev_to, byte, bytes, text);
}

static enum status faulty_score(struct backend_device *on, const struct backend_index_score *work,
                                struct status_text *text) {
    const enum status status = cpu->index_score(on, work, text);
    if (fault == FAULT_UNASKED_SCORE && work->cache.dev_pages == unasked_pages)
        work->dev_scores[0] += 1.0f;
    return status;
}

static enum status faulty_state(struct backend_device *on, const struct backend_state_step *work,
                                struct status_text *text) {
    if (fault == FAULT_STATE_IN_A_STEP && behind_append)
        return STATUS_OK;
    const enum status status = cpu->state_step(on, work, text);
    const struct backend_state_shape *shape = &work->shape;
    const uint64_t values = (uint64_t)shape->seqs * shape->heads * shape->rows * shape->cols;
    if (fault == FAULT_FAINT_STATE)
        for (uint64_t i = 0; i < values; i++)
            ((float *)work->dev_state)[i] *= 1.0002f;
    return status;
}

static void test_single_faults_are_found(void **state) {
    (void)state;
    static const char *const words[FAULT_COUNT] = {"", "index group 5", "state value",
                                                   "state value"};
    struct backend_ops ops = *cpu;
    ops.append = faulty_append;
    ops.memory_fill = faulty_memory_fill;
    ops.index_score = faulty_score;
    ops.state_step = faulty_state;
    for (int which = FAULT_NONE; which < FAULT_COUNT; which++) {
        struct pool *pool = step_setup_mixed_pool(&ops, 4);
        struct step *step = step_setup_step(&ops, pool, 5, OPTIONS_DATA_NORMAL);
        struct backend_cache cache;
        pool_cache(pool, 5, 0, &cache);
        unasked_pages = cache.dev_pages;
        fault = (enum fault)which;
        struct verify_result result;
        struct status_text text = {{0}};
        const enum status status =
            verify_pool(&ops, device, pool, step, 1, UINT64_MAX, &result, &text);
        if (status != (which == FAULT_NONE ? STATUS_OK : STATUS_WRONG) ||
            strstr(text.line, words[which]) == NULL)
            fail_msg("fault %d: status %d, \"%s\"", which, (int)status, text.line);
        step_destroy(step);
        pool_destroy(pool);
    }
    fault = FAULT_NONE;
}

/* A kernel of the end of the list, which runs only when it is named: as the others refuse. */
static enum status refuse_all_but_the_last(struct backend_device *on, const char *kernel,
                                           const struct page_layout *page, uint32_t query_heads,
                                           bool selected, struct status_text *text) {
    if (strcmp(kernel, "simple") != 0)
        return status_set(text, STATUS_REFUSED, "kernel %s: not this time", kernel);
    return cpu->attend_check(on, kernel, page, query_heads, selected, text);
}

static void test_a_kernel_by_name_alone(void **state) {
    (void)state;
    struct backend_ops ops = *cpu;
    ops.attend_check = refuse_all_but_the_last;
    assert_string_equal(ops.kernels[1], "simple");
    assert_null(ops.kernels[2]);
    struct pool *pool = step_setup_mixed_pool(&ops, 4);
    for (uint32_t by_name = 0; by_name < 2; by_name++) {
        ops.kernels_by_name = by_name;
        struct step *step = NULL;
        struct status_text text = {{0}};
        const enum status unasked =
            step_create(&ops, device, pool, NULL, 3, OPTIONS_DATA_NORMAL, &step, &text);
        assert_int_equal(unasked, by_name == 0 ? STATUS_OK : STATUS_REFUSED);
        if (by_name == 1)
            assert_string_equal(text.line, "kernel tiled: not this time");
        step_destroy(step);
        if (step_create(&ops, device, pool, "simple", 3, OPTIONS_DATA_NORMAL, &step, &text) !=
            STATUS_OK)
            fail_msg("%s", text.line);
        step_destroy(step);
    }
    pool_destroy(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_step_writes_the_last_rows),
        cmocka_unit_test(test_slots_lie_apart),
        cmocka_unit_test(test_every_layer_is_asked),
        cmocka_unit_test(test_single_faults_are_found),
        cmocka_unit_test(test_a_kernel_by_name_alone),
    };
    return cmocka_run_group_tests(tests, step_setup_open, step_setup_close);
}
