/* Every backend that opens, every kernel it lists: formats x head dims and pairs of formats
 * exhaustively, everything else by pairwise covering. KVGAUGE_CONFORMANCE_CASES is how many cases
 * of the covering each kernel gets; at least one whole covering runs whatever it says.
 * KVGAUGE_CONFORMANCE_EVERY=n, for builds a hundred times slower than others: of each list the
 * first kernel takes the cases 0, n, 2n, the next one 1, n + 1 and so on, so that with no more than
 * n kernels no case runs twice. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conformance.h"
#include "conformance_devices.h"
#include "pairwise.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

enum { MAX_ROWS = 1000, MAX_REASONS = 100 };
/* Sanitizers and shims ask for less. */
#ifndef CONFORMANCE_CASES
#define CONFORMANCE_CASES 1500
#endif
#ifndef CONFORMANCE_EVERY
#define CONFORMANCE_EVERY 1
#endif
/* Their rows are the widest and their query heads the most: where instructions are interpreted, or
 * every access is looked at, every n-th of them. */
#ifndef CONFORMANCE_RECORDS_EVERY
#define CONFORMANCE_RECORDS_EVERY 1
#endif

static const struct geometry {
    uint32_t k_dim, v_dim;
    bool latent;
} geometries[] = {
    {64, 64, false},   {80, 80, false},   {96, 96, false},   {128, 128, false},
    {192, 128, false}, {256, 256, false}, {512, 512, false}, {100, 36, false},
    {576, 512, true},  {320, 256, true},  {512, 512, true},
};
static const uint32_t groups[] = {1, 2, 3, 4, 5, 7, 8, 12, 16, 64, 128};
static const uint32_t pages[] = {1, 2, 5, 16, 17, 32, 64, 256, 544};
static const uint32_t heads[] = {1, 2, 5};
static const uint32_t workers[] = {1, 2, 3, 8, 61};
static const uint32_t tiles[] = {16, 64};
static const struct window {
    uint64_t tokens;
    bool ring;
} windows[] = {{0, false}, {1, true}, {7, true}, {128, true}, {1, false}, {7, false}, {128, false}};
enum { LARGEST_GQA_GROUP = 16 };

/* What became of the cases of one kernel. */
struct tally {
    unsigned run, wrong, refused, not_storable;
    bool stop; /* at the first wrong case */
    /* of the case that comes next; it is left out unless `number` is a multiple of `every` */
    size_t number, every;
    struct {
        struct status_text why;
        unsigned count;
    } reasons[MAX_REASONS]; /* of refusals; the last one also stands for those beyond */
};

static void count_refusal(struct tally *tally, const struct status_text *why) {
    size_t i = 0;
    while (i < MAX_REASONS - 1 && tally->reasons[i].count > 0 &&
           strcmp(tally->reasons[i].why.line, why->line) != 0)
        i++;
    tally->reasons[i].why = *why;
    tally->reasons[i].count++;
    tally->refused++;
}

static void run_case(const struct conformance_device *on, const char *kernel,
                     const struct conformance_case *which, struct tally *tally) {
    char words[256];
    struct status_text text = {{0}};
    if (!conformance_has_format(which->k_format) || !conformance_has_format(which->v_format) ||
        !conformance_has_dims(which->k_dim, which->v_dim))
        return;
    if (tally->number++ % tally->every != 0 || (tally->wrong > 0 && tally->stop))
        return;
    if (!format_fits(which->k_format, which->k_dim) ||
        (!which->v_in_k && !format_fits(which->v_format, which->v_dim))) {
        struct conformance_world world;
        assert_int_equal(conformance_create(on->ops, on->device, which, &world, &text),
                         STATUS_REFUSED);
        conformance_destroy(&world);
        tally->not_storable++;
        return;
    }
    const enum status status = conformance_run(on->ops, on->device, kernel, which, &text);
    conformance_describe(which, words, sizeof words);
    if (status == STATUS_REFUSED) {
        count_refusal(tally, &text);
        return;
    }
    tally->run++;
    if (status != STATUS_OK) {
        tally->wrong++;
        print_error("%s %s, %s: %s: %s\n", on->ops->name, kernel, words, status_name(status),
                    text.line);
    }
}

static void conclude(const char *what, const struct conformance_device *on, const char *kernel,
                     const struct tally *tally) {
    for (size_t i = 0; i < MAX_REASONS && tally->reasons[i].count > 0; i++)
        print_message("skipped: %s %s: %s (%u cases)\n", on->ops->name, kernel,
                      tally->reasons[i].why.line, tally->reasons[i].count);
    print_message("%s, %s %s: %u cases run, %u skipped as refused, %u that the format cannot "
                  "hold\n",
                  what, on->ops->name, kernel, tally->run, tally->refused, tally->not_storable);
    assert_int_equal(tally->wrong, 0);
    if (getenv("KVGAUGE_CONFORMANCE_FORMATS") == NULL && getenv("KVGAUGE_CONFORMANCE_DIMS") == NULL)
        assert_true(tally->run > 0 || tally->refused > 0);
}

/* Calls cases(device, kernel, tally) for every kernel of every device. */
static void for_each_kernel(const char *what,
                            void (*cases)(const struct conformance_device *on, const char *kernel,
                                          struct tally *tally)) {
    for (size_t b = 0; b < conformance_devices_count; b++) {
        const struct conformance_device *on = &conformance_devices[b];
        for (const char *const *kernel = on->ops->kernels; *kernel != NULL; kernel++) {
            if (!conformance_is_named("KVGAUGE_CONFORMANCE_KERNELS", *kernel))
                continue;
            const size_t every = conformance_told("KVGAUGE_CONFORMANCE_EVERY", CONFORMANCE_EVERY);
            assert_true(every > 0);
            const size_t turn = (size_t)(kernel - on->ops->kernels) % every;
            struct tally tally = {
                .stop = conformance_told("KVGAUGE_CONFORMANCE_STOP", 0) > 0,
                .number = every - turn,
                .every = every,
            };
            cases(on, *kernel, &tally);
            conclude(what, on, *kernel, &tally);
        }
    }
}

static void run_formats_and_dims(const struct conformance_device *on, const char *kernel,
                                 struct tally *tally) {
    for (int format = 0; format < FORMAT_COUNT; format++) {
        for (size_t g = 0; g < COUNT(geometries); g++) {
            const struct conformance_case which =
                conformance_plain((enum format_id)format, geometries[g].k_dim, geometries[g].v_dim,
                                  geometries[g].latent);
            run_case(on, kernel, &which, tally);
        }
    }
}

static void test_formats_and_dims(void **state) {
    (void)state;
    for_each_kernel("formats x head dims", run_formats_and_dims);
}

/* Scale planes are packed: after an odd number of K's rows, V's scales start on the least that a
 * row of K's is a multiple of. */
static void run_odd_rows(const struct conformance_device *on, const char *kernel,
                         struct tally *tally) {
    for (int format = 0; format < FORMAT_COUNT; format++) {
        struct conformance_case which = conformance_plain((enum format_id)format, 192, 128, false);
        which.kv_heads = 1;
        which.page_tokens = 17;
        run_case(on, kernel, &which, tally);
    }
}

static void test_odd_rows(void **state) {
    (void)state;
    for_each_kernel("odd rows", run_odd_rows);
}

/* Every packed record at its own width: pages of all kinds, few and many query heads, V a part of
 * the row and all of it, and once a window in recycled pages. */
static void run_records(const struct conformance_device *on, const char *kernel,
                        struct tally *tally) {
    size_t number = 0;
    static const uint32_t page_tokens[] = {1, 16, 17, 64}, group_sizes[] = {3, 16, 64, 128};
    for (int id = FORMAT_COUNT + 1; id < FORMAT_END; id++) {
        const struct format_info *record = format_get((enum format_id)id);
        const uint32_t width = record->group_values;
        for (size_t p = 0; p < COUNT(page_tokens); p++) {
            for (size_t g = 0; g < COUNT(group_sizes); g++) {
                if (number++ % CONFORMANCE_RECORDS_EVERY != 0)
                    continue;
                struct conformance_case which = conformance_plain(
                    (enum format_id)id, width, g % 2 == 0 ? width : width - record->rope_dim, true);
                which.page_tokens = page_tokens[p];
                which.group_size = group_sizes[g];
                which.sinks = g == p;
                which.lengths = p == 3 && g < 2 ? CONFORMANCE_LONG : CONFORMANCE_RAGGED;
                which.far = p == 1 && g == 2;
                which.data = (enum options_data)(g % (OPTIONS_DATA_SINK + 1));
                run_case(on, kernel, &which, tally);
            }
            if (number++ % CONFORMANCE_RECORDS_EVERY != 0)
                continue;
            struct conformance_case which =
                conformance_plain((enum format_id)id, width, width, true);
            which.page_tokens = page_tokens[p];
            which.window_tokens = 128;
            which.ring = true;
            run_case(on, kernel, &which, tally);
        }
    }
}

static void test_records(void **state) {
    (void)state;
    for_each_kernel("records", run_records);
}

/* K in 16 or 8 bits beside each format of fewer bits for V, with all that differs between group
 * sizes: heads in one tile, in two, and in part of one. */
static void run_format_pairs(const struct conformance_device *on, const char *kernel,
                             struct tally *tally) {
    static const uint32_t dims[] = {128, 256}, group_sizes[] = {4, 12};
    for (int k = 0; k < FORMAT_COUNT; k++) {
        for (int v = 0; v < FORMAT_COUNT; v++) {
            if (format_get((enum format_id)v)->value_bits >=
                format_get((enum format_id)k)->value_bits)
                continue;
            for (size_t d = 0; d < COUNT(dims); d++) {
                struct conformance_case which =
                    conformance_plain((enum format_id)k, dims[d], dims[d], false);
                which.v_format = (enum format_id)v;
                which.group_size = group_sizes[d];
                which.sinks = true;
                run_case(on, kernel, &which, tally);
            }
        }
    }
}

static void test_format_pairs(void **state) {
    (void)state;
    for_each_kernel("pairs of formats", run_format_pairs);
}

/* What a covering of pairs leaves to chance, since three axes must meet in one kernel: every length
 * around the edges of every page, and a ring of pages that wraps within one walk. */
static void run_edges(const struct conformance_device *on, const char *kernel,
                      struct tally *tally) {
    for (size_t p = 0; p < COUNT(pages); p++) {
        struct conformance_case which = conformance_plain(FORMAT_BF16, 128, 128, false);
        which.page_tokens = pages[p];
        for (int lengths = 0; lengths < CONFORMANCE_LENGTHS_COUNT; lengths++) {
            which.lengths = (enum conformance_lengths)lengths;
            run_case(on, kernel, &which, tally);
        }
        which.lengths = CONFORMANCE_LONG;
        which.ring = true;
        for (size_t w = 0; w < COUNT(windows); w++) {
            which.window_tokens = windows[w].tokens;
            if (windows[w].ring)
                run_case(on, kernel, &which, tally);
        }
    }
}

static void test_edges(void **state) {
    (void)state;
    for_each_kernel("edges of pages", run_edges);
}

enum axis {
    AXIS_K_FORMAT,
    AXIS_V_FORMAT,
    AXIS_GEOMETRY,
    AXIS_GROUP,
    AXIS_PAGE,
    AXIS_LENGTHS,
    AXIS_WINDOW,
    AXIS_SINKS,
    AXIS_WORKERS,
    AXIS_TILE,
    AXIS_SHARE,
    AXIS_HEADS,
    AXIS_DATA,
    AXIS_AMAX,
    AXIS_FAR,
    AXIS_COUNT
};

static bool format_and_dim_meet(uint32_t format, uint32_t dim) {
    return format == PAIRWISE_ANY || format_fits((enum format_id)format, dim);
}

static bool case_is_named(const uint32_t *v) {
    return (v[AXIS_K_FORMAT] == PAIRWISE_ANY || conformance_has_format(v[AXIS_K_FORMAT])) &&
           (v[AXIS_V_FORMAT] == PAIRWISE_ANY || conformance_has_format(v[AXIS_V_FORMAT])) &&
           (v[AXIS_GEOMETRY] == PAIRWISE_ANY ||
            conformance_has_dims(geometries[v[AXIS_GEOMETRY]].k_dim,
                                 geometries[v[AXIS_GEOMETRY]].v_dim));
}

static bool case_is_possible(const uint32_t *v) {
    const bool decided = v[AXIS_GEOMETRY] != PAIRWISE_ANY;
    const bool latent = decided && geometries[v[AXIS_GEOMETRY]].latent;
    if (!case_is_named(v))
        return false;
    if (decided && (!format_and_dim_meet(v[AXIS_K_FORMAT], geometries[v[AXIS_GEOMETRY]].k_dim) ||
                    !format_and_dim_meet(v[AXIS_V_FORMAT], geometries[v[AXIS_GEOMETRY]].v_dim)))
        return false;
    /* a latent is one row, so it has one format and no heads */
    if (latent && v[AXIS_K_FORMAT] != PAIRWISE_ANY && v[AXIS_V_FORMAT] != PAIRWISE_ANY &&
        v[AXIS_K_FORMAT] != v[AXIS_V_FORMAT])
        return false;
    if (latent && v[AXIS_HEADS] != PAIRWISE_ANY && heads[v[AXIS_HEADS]] != 1)
        return false;
    const bool large_group =
        v[AXIS_GROUP] != PAIRWISE_ANY && groups[v[AXIS_GROUP]] > LARGEST_GQA_GROUP;
    if (large_group &&
        ((decided && !latent) || (v[AXIS_HEADS] != PAIRWISE_ANY && heads[v[AXIS_HEADS]] != 1) ||
         (v[AXIS_K_FORMAT] != PAIRWISE_ANY && v[AXIS_V_FORMAT] != PAIRWISE_ANY &&
          v[AXIS_K_FORMAT] != v[AXIS_V_FORMAT])))
        return false;
    /* pages that are recycled are not shared */
    return v[AXIS_SHARE] != 1 || v[AXIS_WINDOW] == PAIRWISE_ANY || !windows[v[AXIS_WINDOW]].ring;
}

static const struct pairwise axes = {
    .axis_count = AXIS_COUNT,
    .axis_sizes = {[AXIS_K_FORMAT] = FORMAT_COUNT,
                   [AXIS_V_FORMAT] = FORMAT_COUNT,
                   [AXIS_GEOMETRY] = COUNT(geometries),
                   [AXIS_GROUP] = COUNT(groups),
                   [AXIS_PAGE] = COUNT(pages),
                   [AXIS_LENGTHS] = CONFORMANCE_LENGTHS_COUNT,
                   [AXIS_WINDOW] = COUNT(windows),
                   [AXIS_SINKS] = 2,
                   [AXIS_WORKERS] = COUNT(workers),
                   [AXIS_TILE] = COUNT(tiles),
                   [AXIS_SHARE] = 2,
                   [AXIS_HEADS] = COUNT(heads),
                   [AXIS_DATA] = OPTIONS_DATA_SINK + 1,
                   [AXIS_AMAX] = 2,
                   [AXIS_FAR] = 2},
    .allowed = case_is_possible,
};

static struct conformance_case case_of(const uint32_t *v) {
    const struct geometry *geometry = &geometries[v[AXIS_GEOMETRY]];
    return (struct conformance_case){.k_format = (enum format_id)v[AXIS_K_FORMAT],
                                     .v_format = (enum format_id)v[AXIS_V_FORMAT],
                                     .k_dim = geometry->k_dim,
                                     .v_dim = geometry->v_dim,
                                     .v_in_k = geometry->latent,
                                     .kv_heads = heads[v[AXIS_HEADS]],
                                     .group_size = groups[v[AXIS_GROUP]],
                                     .page_tokens = pages[v[AXIS_PAGE]],
                                     .lengths = (enum conformance_lengths)v[AXIS_LENGTHS],
                                     .window_tokens = windows[v[AXIS_WINDOW]].tokens,
                                     .ring = windows[v[AXIS_WINDOW]].ring,
                                     .share_prefix = v[AXIS_SHARE] == 1,
                                     .sinks = v[AXIS_SINKS] == 1,
                                     .scale_amax = v[AXIS_AMAX] == 1,
                                     .far = v[AXIS_FAR] == 1,
                                     .data = (enum options_data)v[AXIS_DATA],
                                     .tile_tokens = tiles[v[AXIS_TILE]],
                                     .workers = workers[v[AXIS_WORKERS]]};
}

/* Coverings of different seeds, one after the other, the first of them whole. */
static void run_pairwise(const struct conformance_device *on, const char *kernel,
                         struct tally *tally) {
    bool any_named = false;
    for (uint32_t format = 0; format < FORMAT_COUNT; format++)
        any_named = any_named || conformance_has_format(format);
    if (!any_named) /* records alone are asked for */
        return;
    uint32_t *rows = malloc(MAX_ROWS * AXIS_COUNT * sizeof *rows);
    assert_non_null(rows);
    const size_t wanted = conformance_told("KVGAUGE_CONFORMANCE_CASES", CONFORMANCE_CASES);
    size_t done = 0;
    for (uint64_t seed = 2026; done < wanted || seed == 2026; seed++) {
        const size_t count = pairwise_generate(&axes, seed, rows, MAX_ROWS);
        assert_true(count > 0);
        assert_int_equal(pairwise_missing(&axes, rows, count), 0);
        for (size_t i = 0; i < count && (done < wanted || seed == 2026); i++, done++) {
            assert_true(case_is_possible(rows + i * AXIS_COUNT));
            const struct conformance_case which = case_of(rows + i * AXIS_COUNT);
            run_case(on, kernel, &which, tally);
        }
    }
    free(rows);
}

static void test_pairwise(void **state) {
    (void)state;
    for_each_kernel("pairwise", run_pairwise);
}

/* The covering itself: nothing missing without rules, and a left-out row is missed. */
static void test_pairwise_covers(void **state) {
    (void)state;
    const struct pairwise free_axes = {.axis_count = 5, .axis_sizes = {4, 3, 3, 2, 5}};
    uint32_t rows[5 * 60];
    const size_t count = pairwise_generate(&free_axes, 1, rows, 60);
    assert_in_range(count, 20, 40);
    assert_int_equal(pairwise_missing(&free_axes, rows, count), 0);
    assert_true(pairwise_missing(&free_axes, rows, count - 1) > 0);
    assert_int_equal(pairwise_generate(&free_axes, 1, rows, 5), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_formats_and_dims),
        cmocka_unit_test(test_odd_rows),
        cmocka_unit_test(test_records),
        cmocka_unit_test(test_format_pairs),
        cmocka_unit_test(test_edges),
        cmocka_unit_test(test_pairwise_covers),
        cmocka_unit_test(test_pairwise),
    };
    return cmocka_run_group_tests(tests, conformance_devices_open, conformance_devices_close);
}
