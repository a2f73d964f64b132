/* Steps over groups of every kind, on the cpu: what is verified, what is counted, and that a fault
 * in each part is found. Faults are planted between the step and the backend. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "measure_groups.h"
#include "result_groups.h"
#include "step_setup.h"
#include "verify.h"

enum { SEQS = 3, TOP_K = 24, KEY_DIM = 32 };
static const uint64_t lengths[SEQS] = {150, 3, 90};

/* 0 to 2: latents of which the first layer reads everything; 3 to 5: entries of 4 tokens with an
 * index that reads them too, a window beside; 6: state with a convolution; 7: convolution alone. */
static const struct model model = {
    .name = "every kind",
    .group_count = 8,
    .groups = {{.kind = MODEL_LATENT,
                .layers = 3,
                .read_by_layers = 3,
                .query_heads = 4,
                .latent_dim = 64,
                .rope_dim = 32},
               {.kind = MODEL_INDEX,
                .layers = 2,
                .read_by_layers = 2,
                .query_heads = 5,
                .key_dim = KEY_DIM,
                .tokens_per_entry = 1,
                .top_k = TOP_K},
               {.kind = MODEL_FULL,
                .layers = 5,
                .read_by_layers = 5,
                .query_heads = 4,
                .kv_heads = 2,
                .k_dim = 32,
                .v_dim = 64},
               {.kind = MODEL_COMPRESSED,
                .layers = 2,
                .read_by_layers = 4,
                .query_heads = 2,
                .entry_dim = 64,
                .tokens_per_entry = 4},
               {.kind = MODEL_INDEX,
                .layers = 2,
                .read_by_layers = 2,
                .query_heads = 3,
                .key_dim = KEY_DIM,
                .tokens_per_entry = 4,
                .top_k = 8},
               {.kind = MODEL_WINDOW,
                .layers = 1,
                .read_by_layers = 1,
                .query_heads = 2,
                .kv_heads = 1,
                .k_dim = 32,
                .v_dim = 0,
                .window_tokens = 20},
               {.kind = MODEL_STATE,
                .family = "kda",
                .layers = 3,
                .read_by_layers = 3,
                .heads = 3,
                .state_rows = 6,
                .state_cols = 16,
                .conv_channels = 10,
                .conv_taps = 3},
               {.kind = MODEL_STATE,
                .family = "short_conv",
                .layers = 2,
                .read_by_layers = 2,
                .conv_channels = 7,
                .conv_taps = 2}},
};

static uint64_t share_prefix_tokens;

static struct pool *make_pool(const struct backend_ops *ops, enum formula_index_format index,
                              uint32_t state_value_bytes) {
    const struct pool_request request = {
        .model = &model,
        .storage = {.k_format = FORMAT_Q8_0,
                    .v_format = FORMAT_Q8_0,
                    .index = index,
                    .state_value_bytes = state_value_bytes},
        .lengths = lengths,
        .seqs = SEQS,
        .page_tokens = 5,
        .share_prefix_tokens = share_prefix_tokens,
        .seed = 3,
    };
    return step_setup_pool(ops, &request);
}

/* Verifies everything; what it says goes to `text`. */
static enum status verify(const struct backend_ops *ops, enum formula_index_format index,
                          uint32_t state_value_bytes, struct verify_result *result,
                          struct status_text *text) {
    struct pool *pool = make_pool(ops, index, state_value_bytes);
    struct step *step = step_setup_step(ops, pool, 5, OPTIONS_DATA_NORMAL);
    const enum status status = verify_pool(ops, device, pool, step, 1, UINT64_MAX, result, text);
    step_destroy(step);
    pool_destroy(pool);
    return status;
}

static void test_every_kind_is_verified(void **state) {
    (void)state;
    for (int index = 0; index < FORMULA_INDEX_COUNT; index++) {
        if (index == FORMULA_INDEX_FP8_132) /* holds keys of 128 */
            continue;
        struct backend_ops blind = *cpu;
        blind.memory_host = NULL;
        struct verify_result seen[2];
        for (int i = 0; i < 2; i++) {
            struct status_text text = {{0}};
            if (verify(i == 0 ? cpu : &blind, (enum formula_index_format)index, i == 0 ? 4 : 2,
                       &seen[i], &text) != STATUS_OK)
                fail_msg("%s", text.line);
            assert_true(seen[i].verified_fraction > 0.3);
        }
        assert_true(seen[0].kernel_error == seen[1].kernel_error);
    }
}

/* The faults, one at a time. */
static enum fault {
    FAULT_NONE,
    FAULT_SCORE,
    FAULT_PICK,
    FAULT_PICK_TWICE,
    FAULT_SELECTION_IGNORED,
    FAULT_STATE_VALUE,
    FAULT_STATE_OUTPUT,
    FAULT_STATE_UNTOUCHED,
    FAULT_CONV_COLUMN,
    FAULT_CONV_OUTPUT,
    FAULT_COUNT
} fault;
static const char *const fault_words[FAULT_COUNT] = {"",
                                                     "scores",
                                                     "choice",
                                                     "choice",
                                                     "kernel_error",
                                                     "state value",
                                                     "output",
                                                     "state value",
                                                     "convolution column",
                                                     "convolution output"};

static enum status index_score(struct backend_device *on, const struct backend_index_score *work,
                               struct status_text *text) {
    const enum status status = cpu->index_score(on, work, text);
    if (fault == FAULT_SCORE && work->dev_lengths[0] > 0)
        work->dev_scores[0] += 1.0f;
    return status;
}

static enum status index_select(struct backend_device *on, const struct backend_index_select *work,
                                struct status_text *text) {
    const enum status status = cpu->index_select(on, work, text);
    for (uint32_t s = 0; s < work->seqs; s++) {
        int32_t *chosen = work->dev_selected + (uint64_t)s * work->top_k;
        if (work->dev_lengths[s] <= work->top_k)
            continue;
        /* another one in place of the first, or the second once more */
        if (fault == FAULT_PICK)
            chosen[0] = chosen[0] > 0 ? chosen[0] - 1 : chosen[work->top_k - 1] + 1;
        if (fault == FAULT_PICK_TWICE)
            chosen[0] = chosen[1];
    }
    return status;
}

static enum status attend(struct backend_device *on, const struct backend_attend *work,
                          struct status_text *text) {
    struct backend_attend other = *work;
    if (fault == FAULT_SELECTION_IGNORED)
        other.dev_selected = NULL;
    return cpu->attend(on, &other, text);
}

static enum status state_step(struct backend_device *on, const struct backend_state_step *work,
                              struct status_text *text) {
    const struct backend_state_shape *shape = &work->shape;
    /* the partial entries of compressed groups have one head; theirs are found too */
    if (fault == FAULT_STATE_UNTOUCHED && shape->heads > 0) {
        struct backend_state_step other = *work;
        other.shape.heads = 0;
        return shape->conv_channels > 0 ? cpu->state_step(on, &other, text) : STATUS_OK;
    }
    const enum status status = cpu->state_step(on, work, text);
    const uint64_t last =
        (uint64_t)shape->heads * shape->rows * shape->cols * shape->seqs; /* of the last slot */
    if (shape->heads > 0 && fault == FAULT_STATE_VALUE)
        for (uint64_t i = 0; i < last; i += (uint64_t)shape->rows * shape->cols)
            ((float *)work->dev_state)[i] *= 1.01f;
    if (shape->heads > 0 && fault == FAULT_STATE_OUTPUT)
        for (uint64_t i = 0; i < (uint64_t)shape->seqs * shape->heads * shape->rows; i++)
            work->dev_outputs[i] *= 1.01f;
    for (uint64_t i = 0; i < (uint64_t)shape->seqs * shape->conv_channels; i++) {
        if (fault == FAULT_CONV_COLUMN)
            work->dev_conv[i * shape->conv_taps + 1] ^= 1u;
        if (fault == FAULT_CONV_OUTPUT)
            work->dev_conv_outputs[i] *= 1.01f;
    }
    return status;
}

static struct backend_ops faulty_ops(void) {
    struct backend_ops ops = *cpu;
    ops.index_score = index_score;
    ops.index_select = index_select;
    ops.attend = attend;
    ops.state_step = state_step;
    return ops;
}

static void test_faults_are_found(void **state) {
    (void)state;
    const struct backend_ops ops = faulty_ops();
    for (int which = FAULT_NONE; which < FAULT_COUNT; which++) {
        struct verify_result result;
        struct status_text text = {{0}};
        fault = (enum fault)which;
        const enum status status = verify(&ops, FORMULA_INDEX_BF16, 4, &result, &text);
        if (status != (which == FAULT_NONE ? STATUS_OK : STATUS_WRONG) ||
            strstr(text.line, fault_words[which]) == NULL)
            fail_msg("fault %d: status %d, \"%s\"", which, (int)status, text.line);
    }
    fault = FAULT_NONE;
}

/* By hand, q8_0: 34 bytes of 32 values. */
static void test_bytes_of_groups(void **state) {
    (void)state;
    struct pool *pool = make_pool(cpu, FORMULA_INDEX_BF16, 4);
    struct step *step = step_setup_step(cpu, pool, 5, OPTIONS_DATA_NORMAL);
    const uint64_t tokens = 150 + 3 + 90, chosen = 24 + 3 + 24, entries = 37 + 0 + 22;
    /* two layers of latents read what was chosen, the first of three everything */
    assert_int_equal(step_group_read_bytes(step, 0), (tokens + 2 * chosen) * 3 * 34);
    assert_int_equal(step_group_written_bytes(step, 0), 3 * SEQS * 3 * 34);
    assert_int_equal(step_group_read_bytes(step, 1), 2 * tokens * KEY_DIM * 2);
    assert_int_equal(step_group_read_bytes(step, 2), 5 * tokens * 2 * (34 + 68));
    /* four readers of 8 entries each; two layers keep partial entries */
    const uint64_t partial = 2 * SEQS * 64 * 4;
    assert_int_equal(step_group_read_bytes(step, 3), 4 * (8 + 8) * 68 + partial);
    assert_int_equal(step_group_written_bytes(step, 3), 2 * 2 * 68 + partial);
    assert_int_equal(step_group_read_bytes(step, 4), 2 * entries * KEY_DIM * 2);
    assert_int_equal(step_group_read_bytes(step, 5), (20 + 3 + 20) * 34);
    assert_int_equal(step_group_read_bytes(step, 6), 3 * SEQS * (3 * 6 * 16 * 4 + 10 * 3 * 2));
    assert_int_equal(step_group_written_bytes(step, 6), step_group_read_bytes(step, 6));
    assert_int_equal(step_group_read_bytes(step, 7), 2 * SEQS * 7 * 2 * 2);
    /* attention and index alone make a step's reads; all that is written its writes */
    uint64_t read = 0, written = 0;
    for (uint32_t g = 0; g < model.group_count; g++) {
        read += g < 6 ? step_group_read_bytes(step, g) : 0;
        written += step_group_written_bytes(step, g);
    }
    assert_int_equal(step_read_bytes(step), read - partial);
    assert_int_equal(step_written_bytes(step), written);
    step_destroy(step);
    pool_destroy(pool);
}

/* 82 tokens of the third sequence are the first one's: 16 whole pages, of entries 4. What two
 * sequences point to is read once. */
static void test_bytes_of_shared_pages(void **state) {
    (void)state;
    share_prefix_tokens = 82;
    struct pool *pool = make_pool(cpu, FORMULA_INDEX_BF16, 4);
    share_prefix_tokens = 0;
    struct step *step = step_setup_step(cpu, pool, 5, OPTIONS_DATA_NORMAL);
    const uint64_t tokens = 150 + 3 + 90 - 16 * 5, entries = 37 + 0 + 22 - 4 * 5;
    assert_int_equal(step_group_read_bytes(step, 1), 2 * tokens * KEY_DIM * 2);
    assert_int_equal(step_group_read_bytes(step, 2), 5 * tokens * 2 * (34 + 68));
    assert_int_equal(step_group_read_bytes(step, 4), 2 * entries * KEY_DIM * 2);
    assert_int_equal(step_group_written_bytes(step, 2), 5 * SEQS * 2 * (34 + 68));
    step_destroy(step);
    pool_destroy(pool);
}

/* Group g takes g + 1 us, 10 ns less in each round, and a second in the untimed first one, where
 * the order is as in every second one. */
static uint64_t groups_asked;
static uint64_t elapsed_of_groups(struct backend_device *on, uint32_t from_mark, uint32_t to_mark) {
    (void)on, (void)from_mark, (void)to_mark;
    const uint64_t round = groups_asked / model.group_count;
    const uint64_t i = groups_asked++ % model.group_count;
    const uint64_t g = round % 2 == 0 ? i : model.group_count - 1 - i;
    return round == 0 ? 1000000000 : 1000 * (g + 1) + 60 - 10 * round;
}

static void test_groups_are_timed(void **state) {
    (void)state;
    struct backend_ops ops = *cpu;
    ops.elapsed_ns = elapsed_of_groups;
    groups_asked = 0;
    struct pool *pool = make_pool(&ops, FORMULA_INDEX_BF16, 4);
    struct step *step = step_setup_step(&ops, pool, 5, OPTIONS_DATA_NORMAL);
    double ns[MODEL_MAX_GROUPS] = {0};
    struct status_text text = {{0}};
    assert_int_equal(measure_groups(&ops, device, step, model.group_count, ns, &text), STATUS_OK);
    struct result_groups groups;
    result_groups_take(pool, step, &groups);
    assert_int_equal(groups.count, model.group_count);
    uint64_t formula = 0;
    for (uint32_t g = 0; g < groups.count; g++) {
        assert_true(fabs(ns[g] - (1000.0 * (g + 1) + 30)) < 1e-9); /* rounds 1 to 5 */
        groups.groups[g].ns = ns[g];
        formula += groups.groups[g].formula_bytes;
    }
    struct pool_sizes sizes;
    pool_sizes_get(pool, &sizes);
    assert_int_equal(formula, sizes.formula_bytes);
    struct writer_value values[MODEL_MAX_GROUPS * RESULT_GROUP_FIELD_COUNT];
    result_groups_values(&groups, values);
    double share = 0;
    for (uint32_t g = 0; g < groups.count; g++)
        share += values[g * RESULT_GROUP_FIELD_COUNT + RESULT_GROUP_SHARE].as.real;
    assert_true(share > 99.999 && share < 100.001);
    char words[2048];
    result_groups_words(&groups, words, sizeof words);
    assert_non_null(strstr(words, "2 index 32 per 4"));
    step_destroy(step);
    pool_destroy(pool);
}

/* A backend without the kernels says so instead of leaving something out. */
static void test_missing_kernels_are_refused(void **state) {
    (void)state;
    struct pool *pool = make_pool(cpu, FORMULA_INDEX_BF16, 4);
    struct backend_ops poor = *cpu;
    struct step *step;
    struct status_text text = {{0}};
    poor.index_select = NULL;
    assert_int_equal(step_create(&poor, device, pool, NULL, 5, OPTIONS_DATA_NORMAL, &step, &text),
                     STATUS_REFUSED);
    assert_non_null(strstr(text.line, "index"));
    poor = *cpu;
    poor.state_step = NULL;
    assert_int_equal(step_create(&poor, device, pool, NULL, 5, OPTIONS_DATA_NORMAL, &step, &text),
                     STATUS_REFUSED);
    assert_non_null(strstr(text.line, "state"));
    pool_destroy(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_kind_is_verified),
        cmocka_unit_test(test_faults_are_found),
        cmocka_unit_test(test_bytes_of_groups),
        cmocka_unit_test(test_bytes_of_shared_pages),
        cmocka_unit_test(test_groups_are_timed),
        cmocka_unit_test(test_missing_kernels_are_refused),
    };
    return cmocka_run_group_tests(tests, step_setup_open, step_setup_close);
}
