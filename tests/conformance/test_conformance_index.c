/* A sparse index on every backend that has one: scores of keys, the choice of the largest, and
 * attention over what was chosen, which every kernel does or refuses by name. Filters and
 * KVGAUGE_CONFORMANCE_EVERY as in test_conformance.c; CONFORMANCE_LONG_SCORES is how many scores
 * the longest choice is made from. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "conformance_devices.h"
#include "conformance_index.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* Shims ask for less. No axis below is as long, so that each meets the others. */
#ifndef CONFORMANCE_EVERY
#define CONFORMANCE_EVERY 5
#endif
#ifndef CONFORMANCE_LONG_SCORES
#define CONFORMANCE_LONG_SCORES 100000
#endif

static const uint32_t pages[] = {1, 16, 17, 64};

/* True for every n-th case, told by KVGAUGE_CONFORMANCE_EVERY; `number` counts them. */
static bool is_turn(size_t *number) {
    return (*number)++ % conformance_told("KVGAUGE_CONFORMANCE_EVERY", CONFORMANCE_EVERY) == 0;
}

static void check(enum status status, const struct status_text *text,
                  const struct conformance_case *which, const char *kernel) {
    char words[256];
    if (status == STATUS_OK)
        return;
    conformance_describe(which, words, sizeof words);
    fail_msg("%s, %s: %s: %s", kernel, words, status_name(status), text->line);
}

/* A cache of keys: one head, no V. */
static struct conformance_case keys_of(enum format_id format, uint32_t dim) {
    struct conformance_case which = conformance_plain(format, dim, dim, true);
    which.v_dim = 0;
    return which;
}

static void run_scores(const struct conformance_device *on, const struct conformance_case *which,
                       uint32_t heads) {
    struct conformance_world world;
    struct conformance_scores scores = {0};
    struct status_text text = {{0}};
    enum status status = conformance_create(on->ops, on->device, which, &world, &text);
    if (status == STATUS_OK)
        status = conformance_fill(&world, &text);
    if (status == STATUS_OK)
        status = conformance_score(&world, heads, &scores, &text);
    if (status == STATUS_OK)
        status = conformance_check_scores(&world, &scores, &text);
    if (status == STATUS_OK) /* scoring only reads */
        status = conformance_check_bytes(&world, &text);
    conformance_scores_destroy(&scores);
    conformance_destroy(&world);
    check(status, &text, which, "index_score");
}

static bool has_index(const struct conformance_device *on) {
    if (on->ops->index_score != NULL && on->ops->index_select != NULL)
        return true;
    print_message("skipped: %s has no sparse index\n", on->ops->name);
    return false;
}

static void test_scores(void **state) {
    (void)state;
    static const uint32_t dims[] = {64, 128}, heads[] = {1, 7, 32, 64};
    for (size_t b = 0; b < conformance_devices_count; b++) {
        const struct conformance_device *on = &conformance_devices[b];
        size_t number = 0, run = 0;
        if (!has_index(on))
            continue;
        for (int format = 0; format < FORMAT_COUNT; format++)
            for (size_t d = 0; d < COUNT(dims); d++)
                for (size_t h = 0; h < COUNT(heads); h++)
                    for (size_t p = 0; p < COUNT(pages); p++)
                        for (int l = 0; l < CONFORMANCE_LENGTHS_COUNT; l++) {
                            struct conformance_case which =
                                keys_of((enum format_id)format, dims[d]);
                            which.page_tokens = pages[p];
                            which.lengths = (enum conformance_lengths)l;
                            which.scale_amax = (h + p) % 2 == 1;
                            if (!conformance_has_format((uint32_t)format) ||
                                !conformance_has_dims(dims[d], dims[d]) ||
                                !format_fits((enum format_id)format, dims[d]) || !is_turn(&number))
                                continue;
                            run_scores(on, &which, heads[h]);
                            run++;
                        }
        print_message("index scores, %s: %zu cases run\n", on->ops->name, run);
    }
}

/* What scores are made of: chance; a few values, so that many are equal; what has no plain order.
 */
enum scores_kind { SCORES_NORMAL, SCORES_TIES, SCORES_EQUAL, SCORES_SPECIAL, SCORES_KINDS };

static float make_score(struct generate_random *random, enum scores_kind kind) {
    static const float special[] = {NAN,       -NAN, 0.0f,  -0.0f,     INFINITY,
                                    -INFINITY, 1.0f, -1.0f, 0x1p-149f, -0x1p-149f};
    switch (kind) {
    case SCORES_TIES:
        return (float)generate_random_below(random, 5) - 2.0f;
    case SCORES_EQUAL:
        return 0.5f;
    case SCORES_SPECIAL:
        return special[generate_random_below(random, COUNT(special))];
    default:
        return generate_random_normal(random);
    }
}

static void run_choice(const struct conformance_device *on, const uint64_t *lengths, uint32_t seqs,
                       uint32_t top_k, enum scores_kind kind) {
    struct status_text text = {{0}};
    struct generate_random random;
    uint64_t stride = 1;
    for (uint32_t s = 0; s < seqs; s++)
        stride = lengths[s] > stride ? lengths[s] : stride;
    stride += 3;
    float *scores = malloc(seqs * stride * sizeof *scores);
    int32_t *selected = malloc((size_t)seqs * top_k * sizeof *selected);
    assert_non_null(scores);
    assert_non_null(selected);
    generate_random_seed(&random, 31 + (uint64_t)kind);
    /* behind a length lies what would be chosen first */
    for (uint32_t s = 0; s < seqs; s++)
        for (uint64_t i = 0; i < stride; i++)
            scores[s * stride + i] = i < lengths[s] ? make_score(&random, kind) : INFINITY;
    const struct conformance_choice choice = {scores, lengths, stride, seqs, top_k};
    enum status status = conformance_choose(on->ops, on->device, &choice, selected, &text);
    if (status == STATUS_OK)
        status = conformance_check_choice(&choice, selected, &text);
    free(scores);
    free(selected);
    if (status != STATUS_OK)
        fail_msg("%s, scores of kind %d: %s", on->ops->name, (int)kind, text.line);
}

static void test_choice(void **state) {
    (void)state;
    static const uint64_t lengths[] = {0, 1, 31, 32, 33, 2047, 2048, 3001};
    static const uint32_t top_ks[] = {1, 2, 32, 100, 2048, 5000};
    const uint64_t long_one[] = {CONFORMANCE_LONG_SCORES};
    for (size_t b = 0; b < conformance_devices_count; b++) {
        const struct conformance_device *on = &conformance_devices[b];
        if (!has_index(on))
            continue;
        for (int kind = 0; kind < SCORES_KINDS; kind++) {
            for (size_t k = 0; k < COUNT(top_ks); k++)
                run_choice(on, lengths, COUNT(lengths), top_ks[k], (enum scores_kind)kind);
            run_choice(on, long_one, 1, 2048, (enum scores_kind)kind);
        }
    }
}

/* More sequences than one dimension of a grid of blocks takes. */
static void test_choice_of_large_batch(void **state) {
    (void)state;
    enum { SEQS = CONFORMANCE_LONG_SCORES >= 100000 ? 66000 : 200 };
    uint64_t *lengths = malloc(SEQS * sizeof *lengths);
    assert_non_null(lengths);
    for (uint32_t s = 0; s < SEQS; s++)
        lengths[s] = s % 6;
    for (size_t b = 0; b < conformance_devices_count; b++)
        if (has_index(&conformance_devices[b]))
            run_choice(&conformance_devices[b], lengths, SEQS, 3, SCORES_TIES);
    free(lengths);
}

/* STATUS_REFUSED: the kernel does not do this case. */
static enum status run_selected(const struct conformance_device *on, const char *kernel,
                                const struct conformance_case *which, uint32_t top_k,
                                bool ascending, struct status_text *text) {
    struct conformance_world world;
    enum status status = conformance_create(on->ops, on->device, which, &world, text);
    if (status == STATUS_OK)
        status = on->ops->attend_check(on->device, kernel, &world.cache.page,
                                       which->kv_heads * which->group_size, true, text);
    if (status == STATUS_OK)
        status = conformance_fill(&world, text);
    if (status == STATUS_OK)
        status = conformance_select_some(&world, top_k, ascending, text);
    if (status == STATUS_OK)
        status = conformance_attend(&world, kernel, text);
    if (status == STATUS_OK)
        status = conformance_check_outputs(&world, text);
    if (status == STATUS_OK)
        status = conformance_check_bytes(&world, text);
    conformance_destroy(&world);
    return status;
}

static const struct geometry {
    uint32_t k_dim, v_dim;
    bool latent;
} geometries[] = {{128, 128, false}, {576, 512, true},  {256, 256, false}, {64, 64, false},
                  {320, 256, true},  {192, 128, false}, {100, 36, false}};

/* What is not gone through one by one is left to chance. */
static void vary(struct conformance_case *which, size_t number) {
    static const enum format_id v_formats[] = {FORMAT_Q4_0, FORMAT_NVFP4, FORMAT_Q8_0};
    struct generate_random random;
    generate_random_seed(&random, number);
    if (!which->v_in_k && generate_random_below(&random, 4) == 0)
        which->v_format = v_formats[generate_random_below(&random, COUNT(v_formats))];
    which->lengths = generate_random_below(&random, 4) == 0 ? CONFORMANCE_LONG : CONFORMANCE_RAGGED;
    which->sinks = generate_random_below(&random, 2) == 0;
    which->far = generate_random_below(&random, 8) == 0;
}

static void run_selected_cases(const struct conformance_device *on, const char *kernel) {
    static const uint32_t group_sizes[] = {1, 4, 16}, top_ks[] = {1, 40, 200};
    size_t number = 0, turn = 0, run = 0, refused = 0;
    struct status_text text = {{0}};
    for (size_t g = 0; g < COUNT(geometries); g++)
        for (int format = 0; format < FORMAT_COUNT; format++)
            for (size_t s = 0; s < COUNT(group_sizes); s++)
                for (size_t p = 0; p < COUNT(pages); p++, number++) {
                    const struct geometry *dims = &geometries[g];
                    struct conformance_case which = conformance_plain(
                        (enum format_id)format, dims->k_dim, dims->v_dim, dims->latent);
                    which.group_size = group_sizes[s];
                    which.page_tokens = pages[p];
                    which.tile_tokens = 16;
                    vary(&which, number);
                    if (!conformance_has_format(which.k_format) ||
                        !conformance_has_format(which.v_format) ||
                        !conformance_has_dims(which.k_dim, which.v_dim) ||
                        !format_fits(which.k_format, which.k_dim) ||
                        !format_fits(which.v_format, which.v_dim) || !is_turn(&turn))
                        continue;
                    const enum status status =
                        run_selected(on, kernel, &which, top_ks[number % COUNT(top_ks)],
                                     number / 3 % 2 == 0, &text);
                    refused += status == STATUS_REFUSED;
                    run += status != STATUS_REFUSED;
                    if (status != STATUS_REFUSED)
                        check(status, &text, &which, kernel);
                }
    if (refused > 0)
        print_message("skipped: %s %s: %s (the last of %zu)\n", on->ops->name, kernel, text.line,
                      refused);
    print_message("selected tokens, %s %s: %zu cases run\n", on->ops->name, kernel, run);
}

static void test_selected(void **state) {
    (void)state;
    for (size_t b = 0; b < conformance_devices_count; b++)
        for (const char *const *kernel = conformance_devices[b].ops->kernels; *kernel != NULL;
             kernel++)
            if (conformance_is_named("KVGAUGE_CONFORMANCE_KERNELS", *kernel))
                run_selected_cases(&conformance_devices[b], *kernel);
}

/* The judges notice one wrong score, one written too many, one wrong pick, one wrong token. */
static void test_judges(void **state) {
    (void)state;
    const struct conformance_device *on = &conformance_devices[0];
    const struct conformance_case which = keys_of(FORMAT_BF16, 128);
    struct conformance_world world;
    struct conformance_scores scores;
    struct status_text text = {{0}};
    if (!has_index(on))
        return;
    check(conformance_create(on->ops, on->device, &which, &world, &text), &text, &which, "create");
    check(conformance_fill(&world, &text), &text, &which, "fill");
    check(conformance_score(&world, 4, &scores, &text), &text, &which, "index_score");
    float *last = scores.scores + 4 * scores.stride + 129; /* of CONFORMANCE_RAGGED */
    const float good = *last;
    *last = good * 1.01f + 0.1f;
    assert_int_equal(conformance_check_scores(&world, &scores, &text), STATUS_WRONG);
    *last = NAN;
    assert_int_equal(conformance_check_scores(&world, &scores, &text), STATUS_WRONG);
    *last = good;
    last[1] = 0;
    assert_int_equal(conformance_check_scores(&world, &scores, &text), STATUS_WRONG);

    int32_t selected[5 * 10];
    const struct conformance_choice choice = {scores.scores, world.lengths, scores.stride, 5, 10};
    check(conformance_choose(on->ops, on->device, &choice, selected, &text), &text, &which,
          "index_select");
    assert_int_equal(conformance_check_choice(&choice, selected, &text), STATUS_OK);
    selected[4 * 10 + 9]--;
    assert_int_equal(conformance_check_choice(&choice, selected, &text), STATUS_WRONG);
    conformance_scores_destroy(&scores);
    conformance_destroy(&world);
}

static void test_judge_of_tokens(void **state) {
    (void)state;
    const struct conformance_device *on = &conformance_devices[0];
    const struct conformance_case which = conformance_plain(FORMAT_BF16, 128, 128, false);
    struct conformance_world world;
    struct status_text text = {{0}};
    check(conformance_create(on->ops, on->device, &which, &world, &text), &text, &which, "create");
    check(conformance_fill(&world, &text), &text, &which, "fill");
    check(conformance_select_some(&world, 20, true, &text), &text, &which, "select");
    check(conformance_attend(&world, "simple", &text), &text, &which, "simple");
    assert_int_equal(conformance_check_outputs(&world, &text), STATUS_OK);
    int32_t *list = world.selected + 4 * 20; /* of the longest sequence */
    list[7] = list[7] + 1 == list[8] ? list[7] - 1 : list[7] + 1;
    assert_int_equal(conformance_check_outputs(&world, &text), STATUS_WRONG);
    conformance_destroy(&world);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scores),
        cmocka_unit_test(test_choice),
        cmocka_unit_test(test_choice_of_large_batch),
        cmocka_unit_test(test_selected),
        cmocka_unit_test(test_judges),
        cmocka_unit_test(test_judge_of_tokens),
    };
    return cmocka_run_group_tests(tests, conformance_devices_open, conformance_devices_close);
}
