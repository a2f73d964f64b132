/* The sampling loop over a backend whose clock the test writes: who has a turn when, where the
 * canary reads, what stops a contender, what is kept when something fails. No real time is looked
 * at: the wall's clock is the test's too. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "interrupt.h"
#include "measure.h"
#include "progress.h"

enum {
    CONTENDERS = 3,
    TRACE_BYTES = 200000,
    APPEND_NS = 10,
    ATTEND_NS = 100,
    STEP_NS = 1000, /* unless scripted */
    LAUNCH_NS = 7,
};

static const struct backend_ops *cpu;
static struct backend_ops fake;
static struct backend_device *device;
static struct pool *pools[CONTENDERS];
static struct step *steps[CONTENDERS];
static struct measure_contender contenders[CONTENDERS];
static uint64_t pool_bytes;

/* The world as the test has it: one clock for the device, one for the wall. */
static struct world {
    char trace[TRACE_BYTES]; /* l launch, s canary, A B C steps, . a look */
    size_t traced;
    bool timing; /* between the first mark and the wait behind the last one */
    uint64_t device_ns, marks[BACKEND_MARKS];
    uint64_t wall_ns, wall_step_ns;                           /* added at each look */
    bool wall_back;                                           /* it goes back instead */
    uint64_t canary_ns, canary_faster_from, canary_faster_ns; /* from that reading on */
    uint64_t canaries;
    uint64_t steps, interrupt_at, fail_at;
    const char *fail_what; /* "mark", "sync", "step", "canary", "canary sync" */
    uint64_t (*step_ns)(char who, uint64_t nth);
    uint64_t nth[CONTENDERS];               /* steps of each, warm-up included */
    uint64_t stuck_from, stuck_to, back_at; /* steps during which the clock misbehaves */
} world;

/* In place of host/interrupt.c's and host/progress.c's. */
bool interrupt_asked(void) {
    return world.interrupt_at > 0 && world.steps >= world.interrupt_at;
}
uint64_t progress_now_ns(void) {
    world.wall_ns = world.wall_back ? world.wall_ns - 1 : world.wall_ns + world.wall_step_ns;
    return world.wall_ns;
}

static void note(char what) {
    assert_true(world.traced + 1 < TRACE_BYTES);
    world.trace[world.traced++] = what;
    world.trace[world.traced] = '\0';
}

static bool fails(const char *what) {
    return world.fail_what != NULL && strcmp(world.fail_what, what) == 0 &&
           world.steps >= world.fail_at;
}

static enum status fake_mark(struct backend_device *on, uint32_t mark, struct status_text *text) {
    (void)on;
    if (fails("mark"))
        return status_set(text, STATUS_IO, "mark fails");
    assert_true(mark < BACKEND_MARKS);
    world.marks[mark] = world.device_ns;
    world.timing = true;
    return STATUS_OK;
}

static enum status fake_synchronize(struct backend_device *on, struct status_text *text) {
    (void)on;
    world.timing = false;
    const char last = world.traced > 0 ? world.trace[world.traced - 1] : 's';
    if (last == 's' || last == 'l')
        return fails("canary sync") ? status_set(text, STATUS_IO, "canary sync fails") : STATUS_OK;
    return fails("sync") ? status_set(text, STATUS_IO, "sync fails") : STATUS_OK;
}

static uint64_t fake_elapsed(struct backend_device *on, uint32_t from, uint32_t to) {
    (void)on;
    return world.marks[to] - world.marks[from];
}

static enum status fake_stream(struct backend_device *on, const void *dev_from, uint64_t bytes,
                               struct status_text *text) {
    (void)on, (void)dev_from;
    if (bytes == 64) {
        note('l');
        world.device_ns += LAUNCH_NS;
        return STATUS_OK;
    }
    assert_int_equal(bytes, pool_bytes);
    if (fails("canary"))
        return status_set(text, STATUS_IO, "canary fails");
    note('s');
    world.device_ns += world.canary_faster_from > 0 && world.canaries >= world.canary_faster_from
                           ? world.canary_faster_ns
                           : world.canary_ns;
    world.canaries++;
    return STATUS_OK;
}

static enum status fake_append(struct backend_device *on, const struct backend_append *work,
                               struct format_replaced *replaced, struct status_text *text) {
    (void)on, (void)work, (void)replaced, (void)text;
    world.device_ns += APPEND_NS;
    return STATUS_OK;
}

static enum status fake_attend(struct backend_device *on, const struct backend_attend *work,
                               struct status_text *text) {
    (void)on, (void)work, (void)text;
    world.device_ns += ATTEND_NS;
    return STATUS_OK;
}

static uint64_t constant(char who, uint64_t nth) {
    (void)who, (void)nth;
    return STEP_NS;
}

/* The last part of a step: says whose it is, and makes it as long as the script has it. */
static enum status fake_part(void *context, struct status_text *text) {
    const uint32_t i = *(const uint32_t *)context;
    const char who = (char)('A' + (int)i);
    if (fails("step"))
        return status_set(text, STATUS_IO, "step fails");
    note(who);
    world.device_ns += world.step_ns(who, world.nth[i]++) - APPEND_NS - ATTEND_NS;
    world.steps++;
    if (world.steps >= world.stuck_from && world.steps < world.stuck_to)
        world.device_ns = world.marks[0];
    if (world.steps == world.back_at)
        world.device_ns = world.marks[0] - 5;
    return STATUS_OK;
}

static void fake_look(void *context) {
    assert_ptr_equal(context, &world);
    assert_false(world.timing);
    note('.');
}

static int make_everything(void **state) {
    (void)state;
    static const struct model model = {
        .name = "test",
        .group_count = 1,
        .groups = {{.kind = MODEL_FULL,
                    .layers = 1,
                    .read_by_layers = 1,
                    .kv_heads = 1,
                    .query_heads = 1,
                    .k_dim = 64,
                    .v_dim = 64}},
    };
    static const uint64_t lengths[] = {40};
    const struct pool_request request = {
        .model = &model,
        .storage = {.k_format = FORMAT_BF16,
                    .v_format = FORMAT_BF16,
                    .index = FORMULA_INDEX_NONE,
                    .state_value_bytes = 4},
        .lengths = lengths,
        .seqs = 1,
        .page_tokens = 16,
        .seed = 1,
    };
    cpu = backend_find("cpu");
    fake = *cpu;
    fake.mark = fake_mark;
    fake.synchronize = fake_synchronize;
    fake.elapsed_ns = fake_elapsed;
    fake.stream_read = fake_stream;
    fake.append = fake_append;
    fake.attend = fake_attend;
    struct status_text text = {{0}};
    if (fake.open(&(struct backend_options){.threads = 1}, &device, &text) != STATUS_OK)
        fail_msg("%s", text.line);
    for (int i = 0; i < CONTENDERS; i++)
        if (pool_create(&fake, device, &request, NULL, &pools[i], &text) != STATUS_OK ||
            pool_fill(pools[i], NULL, &text) != STATUS_OK ||
            step_create(&fake, device, pools[i], NULL, 1, OPTIONS_DATA_NORMAL, &steps[i], &text) !=
                STATUS_OK)
            fail_msg("%s", text.line);
    (void)pool_dev_memory(pools[0], &pool_bytes);
    return 0;
}

static int free_everything(void **state) {
    (void)state;
    for (int i = 0; i < CONTENDERS; i++) {
        measure_series_free(&contenders[i].series);
        step_destroy(steps[i]);
        pool_destroy(pools[i]);
    }
    fake.close(device);
    return 0;
}

static void start(void) {
    static uint32_t names[CONTENDERS] = {0, 1, 2};
    world = (struct world){
        .device_ns = 1000000, .canary_ns = STEP_NS, .step_ns = constant, .wall_step_ns = 1};
    for (uint32_t i = 0; i < CONTENDERS; i++) {
        measure_series_free(&contenders[i].series);
        contenders[i] = (struct measure_contender){.pool = pools[i], .step = steps[i]};
        contenders[i].work[MEASURE_REDUCE] =
            (struct measure_work){.run = fake_part, .context = &names[i]};
    }
}

static enum status run(uint32_t count, const struct measure_limits *limits,
                       struct status_text *text) {
    return measure_run(&fake, device, contenders, count, limits, text);
}

static void run_well(uint32_t count, const struct measure_limits *limits) {
    struct status_text text = {{0}};
    if (run(count, limits, &text) != STATUS_OK)
        fail_msg("%s", text.line);
}

/* The trace behind launches and warm-up. */
static const char *rounds(uint32_t count) {
    const char *at = world.trace;
    while (*at == 'l')
        at++;
    assert_true(at - world.trace > 10);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(*at++, 'A' + (int)i);
    return at;
}

static void test_order(void **state) {
    (void)state;
    const struct measure_limits limits = {.samples = 4};
    start();
    run_well(3, &limits);
    assert_string_equal(rounds(3), "sAsBsCsCsBsAsAsBsCsCsBsAs");
    start();
    run_well(1, &limits);
    assert_string_equal(rounds(1), "sAsAsAsAs");
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(contenders[i].series.count, i == 0 ? 4 : 0);
    assert_int_equal(contenders[0].seen.stop, MEASURE_STOP_SAMPLES);
    assert_int_equal(contenders[1].seen.stop, MEASURE_STOP_NOT);
}

/* It has half of the time at most: short steps are several between two readings. */
static void test_canary_of_short_steps(void **state) {
    (void)state;
    const struct measure_limits limits = {.samples = 4};
    start();
    world.canary_ns = 5 * STEP_NS / 2;
    run_well(2, &limits);
    assert_string_equal(rounds(2), "sABBsAABsBAs");
}

/* Whoever looks at the device does so where nothing is timed, as often as the canary sings. */
static void test_looks_between_samples(void **state) {
    (void)state;
    const struct measure_limits limits = {.samples = 4, .look = fake_look, .look_context = &world};
    start();
    world.canary_ns = 5 * STEP_NS / 2;
    run_well(2, &limits);
    assert_string_equal(rounds(2), "s.ABBs.AABs.BAs");
}

static void test_parts_add_up(void **state) {
    (void)state;
    const struct measure_limits limits = {.samples = 7};
    start();
    run_well(1, &limits);
    const struct measure_series *series = &contenders[0].series;
    for (uint64_t i = 0; i < 7; i++) {
        assert_int_equal(series->part_ns[MEASURE_APPEND][i], APPEND_NS);
        assert_int_equal(series->part_ns[MEASURE_ATTEND][i], ATTEND_NS);
        assert_int_equal(series->part_ns[MEASURE_REDUCE][i], STEP_NS - APPEND_NS - ATTEND_NS);
        assert_int_equal(series->part_ns[MEASURE_WEIGHTS][i], 0);
        assert_int_equal(series->step_ns[i], STEP_NS);
    }
    assert_int_equal(contenders[0].seen.interval.low, STEP_NS);
    assert_int_equal(contenders[0].seen.interval.high, STEP_NS);
    assert_true(fabs(contenders[0].seen.launch_ns - LAUNCH_NS) < 1e-9);
}

/* Exactly as many as asked, whatever they are like and however long it takes. */
static void test_samples_are_exact(void **state) {
    (void)state;
    static const uint64_t counts[] = {1, 2, 5, 64, 65, 20000};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        const struct measure_limits limits = {
            .samples = counts[i], .max_noise_percent = 100, .min_time_s = 0, .max_time_s = 0};
        start();
        run_well(2, &limits);
        for (int c = 0; c < 2; c++) {
            assert_int_equal(contenders[c].series.count, counts[i]);
            assert_int_equal(contenders[c].seen.stop, MEASURE_STOP_SAMPLES);
            assert_int_equal(contenders[c].seen.interval.high, counts[i] < 6 ? 0 : STEP_NS);
        }
    }
}

static void test_stops_where_the_interval_is_narrow(void **state) {
    (void)state;
    struct measure_limits limits = {.max_noise_percent = 1, .max_time_s = 1e9};
    start();
    run_well(1, &limits);
    assert_int_equal(contenders[0].series.count, MEASURE_ORDER_LEAST);
    assert_int_equal(contenders[0].seen.stop, MEASURE_STOP_INTERVAL);
    assert_string_equal(measure_stop_name(contenders[0].seen.stop), "interval");
    /* narrow at once, but there have to be so many seconds of steps */
    limits.min_time_s = 20.5 * STEP_NS * 1e-9;
    start();
    run_well(1, &limits);
    assert_int_equal(contenders[0].series.count, 21);
    assert_int_equal(contenders[0].seen.stop, MEASURE_STOP_INTERVAL);
}

/* 1,000 and a scatter of 200 to both sides. */
static uint64_t scattered(char who, uint64_t nth) {
    (void)who;
    return STEP_NS - 200 + nth * 7919 % 401;
}

static double noise_of_first(uint64_t count) {
    static uint64_t sorted[MEASURE_MOST_SAMPLES];
    memcpy(sorted, contenders[0].series.step_ns, count * sizeof *sorted);
    measure_order_sort(sorted, count);
    return measure_order_noise_percent(sorted, count);
}

static void test_goes_on_until_it_is_narrow(void **state) {
    (void)state;
    const struct measure_limits limits = {.max_noise_percent = 4, .max_time_s = 1e9};
    start();
    world.step_ns = scattered;
    run_well(1, &limits);
    const uint64_t count = contenders[0].series.count;
    assert_int_equal(contenders[0].seen.stop, MEASURE_STOP_INTERVAL);
    assert_true(noise_of_first(count) <= 4);
    uint64_t first = MEASURE_ORDER_LEAST; /* where a look at every sample had stopped */
    while (noise_of_first(first) > 4)
        first++;
    assert_true(first > 20);
    assert_true(count >= first && count <= first + 1 + first / 8);
}

static uint64_t never_narrow(char who, uint64_t nth) {
    (void)who;
    return nth % 2 == 0 ? STEP_NS : 2 * STEP_NS;
}

/* Of up to 8 samples the interval is all of them, of 9 it leaves the slowest out. */
static uint64_t one_slow(char who, uint64_t nth) {
    (void)who;
    return nth == 3 ? 2 * STEP_NS : STEP_NS;
}

static void test_stops_at_the_time(void **state) {
    (void)state;
    /* looks: one of the start, then one before each sample that may be */
    struct measure_limits limits = {.max_noise_percent = 1, .max_time_s = 30e-9};
    start();
    world.step_ns = never_narrow;
    run_well(1, &limits);
    assert_int_equal(contenders[0].seen.stop, MEASURE_STOP_TIME);
    assert_string_equal(measure_stop_name(contenders[0].seen.stop), "max-time");
    assert_int_equal(contenders[0].series.count, 29);
    /* two have twice the time together */
    start();
    world.step_ns = never_narrow;
    run_well(2, &limits);
    assert_int_equal(contenders[0].series.count + contenders[1].series.count, 59);
    /* not fewer than an interval needs */
    limits.max_time_s = 0;
    start();
    world.step_ns = never_narrow;
    run_well(2, &limits);
    assert_int_equal(contenders[1].series.count, MEASURE_LEAST_SAMPLES);
    assert_int_equal(contenders[1].seen.stop, MEASURE_STOP_TIME);
    /* narrow when time is up: that is why */
    start();
    run_well(1, &limits);
    assert_int_equal(contenders[0].seen.stop, MEASURE_STOP_INTERVAL);
    /* narrow with the ninth sample, between two looks, when time is up */
    limits.max_time_s = 10e-9;
    start();
    world.step_ns = one_slow;
    run_well(1, &limits);
    assert_int_equal(contenders[0].series.count, 9);
    assert_int_equal(contenders[0].seen.stop, MEASURE_STOP_INTERVAL);
    /* narrow, but never for long enough */
    limits.min_time_s = 1;
    start();
    run_well(1, &limits);
    assert_int_equal(contenders[0].seen.stop, MEASURE_STOP_TIME);
}

static void test_stops_at_the_most(void **state) {
    (void)state;
    const struct measure_limits limits = {.max_noise_percent = 1, .max_time_s = 1e9};
    start();
    world.step_ns = never_narrow;
    run_well(1, &limits);
    assert_int_equal(contenders[0].series.count, MEASURE_MOST_SAMPLES);
    assert_int_equal(contenders[0].seen.stop, MEASURE_STOP_MOST);
    assert_string_equal(measure_stop_name(contenders[0].seen.stop), "most samples");
}

static uint64_t b_never_narrow(char who, uint64_t nth) {
    return who == 'B' ? never_narrow(who, nth) : constant(who, nth);
}

/* Who has enough stays out of the later rounds; the others keep their order. */
static void test_each_stops_by_itself(void **state) {
    (void)state;
    const struct measure_limits limits = {.max_noise_percent = 1, .max_time_s = 12e-9};
    start();
    world.step_ns = b_never_narrow;
    run_well(3, &limits);
    assert_int_equal(contenders[0].seen.stop, MEASURE_STOP_INTERVAL);
    assert_int_equal(contenders[1].seen.stop, MEASURE_STOP_TIME);
    assert_int_equal(contenders[2].seen.stop, MEASURE_STOP_INTERVAL);
    assert_int_equal(contenders[0].series.count, 6);
    assert_int_equal(contenders[2].series.count, 6);
    assert_true(contenders[1].series.count > 6);
    /* B's steps of 1,000 and 2,000 do not change where the canary reads: it is as short as any */
    const char *all = rounds(3), *six = "sAsBsCsCsBsAsAsBsCsCsBsAsAsBsCsCsBsA";
    assert_memory_equal(all, six, strlen(six));
    for (const char *at = all + strlen(six); at[1] != '\0'; at += 2)
        assert_memory_equal(at, "sB", 2);
}

/* Each row has the ceiling of its own time: A is done before the machine becomes faster. */
static void test_what_each_saw(void **state) {
    (void)state;
    const struct measure_limits limits = {.max_noise_percent = 1, .max_time_s = 13e-9};
    start();
    world.step_ns = b_never_narrow;
    world.canary_faster_from = 14;
    world.canary_faster_ns = STEP_NS / 2;
    run_well(2, &limits);
    const double slow = (double)pool_bytes / STEP_NS;
    assert_int_equal(contenders[0].series.count, 6);
    assert_true(fabs(contenders[0].canary.gb_per_s - slow) < 1e-5);
    assert_true(fabs(contenders[0].canary.drift_percent) < 1e-5);
    const struct measure_series *b = &contenders[1].series;
    assert_true(b->count > 12);
    assert_true(contenders[1].canary.drift_percent > 99);
    assert_int_equal(b->canary_mb_per_s[0], (uint64_t)(slow * 1000));
    assert_int_equal(b->canary_mb_per_s[b->count - 1], (uint64_t)(2 * slow * 1000));
    bool between = false; /* one sample has the last slow reading before and a fast one behind */
    for (uint64_t i = 0; i < b->count; i++)
        between = between || b->canary_mb_per_s[i] == (uint64_t)(1.5 * slow * 1000);
    assert_true(between);
}

/* The first sample lies between readings 0 and 1, and so on; those from the third on are fast. */
static void test_readings_around_each_sample(void **state) {
    (void)state;
    const struct measure_limits limits = {.samples = 5};
    start();
    world.canary_faster_from = 3;
    world.canary_faster_ns = STEP_NS / 2;
    run_well(1, &limits);
    assert_string_equal(rounds(1), "sAsAsAsAsAs");
    static const double expected[5] = {1, 1, 1.5, 2, 2};
    for (int i = 0; i < 5; i++)
        assert_int_equal(contenders[0].series.canary_mb_per_s[i],
                         (uint64_t)(expected[i] * (double)pool_bytes));
}

/* What the ceiling was before a contender's first step is not its own: steps and readings take as
 * long, so that B begins behind the second one. */
static void test_ceiling_of_ones_own_time(void **state) {
    (void)state;
    const struct measure_limits limits = {.samples = 1};
    start();
    world.canary_faster_from = 1;
    world.canary_faster_ns = STEP_NS / 2;
    run_well(2, &limits);
    assert_string_equal(rounds(2), "sAsBs");
    const double slow = (double)pool_bytes / STEP_NS;
    assert_true(fabs(contenders[0].canary.gb_per_s - 1.5 * slow) < 1e-5);
    assert_true(fabs(contenders[1].canary.gb_per_s - 2 * slow) < 1e-5);
    assert_true(fabs(contenders[1].canary.drift_percent) < 1e-5);
}

static uint64_t growing(char who, uint64_t nth) {
    (void)who;
    return STEP_NS + 20 * nth;
}

static uint64_t one_far_out(char who, uint64_t nth) {
    return nth == 10 ? 50 * STEP_NS : scattered(who, nth);
}

static void test_what_is_seen_of_samples(void **state) {
    (void)state;
    const struct measure_limits limits = {.samples = 40};
    start();
    world.step_ns = growing;
    run_well(1, &limits);
    assert_int_equal(contenders[0].seen.verdict.stability, MEASURE_DRIFTS);
    start();
    world.step_ns = one_far_out;
    run_well(1, &limits);
    assert_int_equal(contenders[0].seen.verdict.stability, MEASURE_STEADY);
    assert_int_equal(contenders[0].seen.outliers, 1);
    assert_int_equal(contenders[0].series.count, 40);
    assert_int_equal(contenders[0].series.step_ns[9], 50 * STEP_NS); /* warm-up was the first */
}

static void test_interrupt_keeps_samples(void **state) {
    (void)state;
    const struct measure_limits limits = {.samples = 100};
    struct status_text text = {{0}};
    start();
    world.interrupt_at = 2 + 15; /* warm-up and 15 more */
    assert_int_equal(run(2, &limits, &text), STATUS_INTERRUPTED);
    assert_int_equal(contenders[0].series.count + contenders[1].series.count, 15);
    assert_int_equal(contenders[0].seen.stop, MEASURE_STOP_NOT);
    assert_null(measure_stop_name(contenders[0].seen.stop));
    assert_true(contenders[0].canary.gb_per_s > 0);
    assert_int_equal(contenders[0].seen.interval.low, STEP_NS);
    assert_true(contenders[0].series.canary_mb_per_s[0] > 0);
    start();
    world.interrupt_at = 1; /* before any sample */
    assert_int_equal(run(2, &limits, &text), STATUS_INTERRUPTED);
    assert_int_equal(contenders[0].series.count, 0);
}

static void test_failures_are_told(void **state) {
    (void)state;
    static const char *const what[] = {"mark", "sync", "step", "canary", "canary sync"};
    static const char *const words[] = {"mark fails", "sync fails", "step fails", "canary fails",
                                        "canary sync fails"};
    const struct measure_limits limits = {.samples = 50};
    for (size_t w = 0; w < 5; w++)
        for (uint64_t at = 0; at < 30; at += 7) {
            struct status_text text = {{0}};
            start();
            world.fail_what = what[w];
            world.fail_at = at;
            assert_int_equal(run(2, &limits, &text), STATUS_IO);
            assert_string_equal(text.line, words[w]);
            assert_true(contenders[0].series.count + contenders[1].series.count < 30);
        }
}

/* Steps that the clock did not see are no samples, and are counted. */
static void test_clock_that_stands_or_goes_back(void **state) {
    (void)state;
    const struct measure_limits limits = {.samples = 20};
    start();
    world.stuck_from = 5;
    world.stuck_to = 8;
    world.back_at = 11;
    run_well(1, &limits);
    assert_int_equal(contenders[0].series.count, 20);
    assert_int_equal(contenders[0].series.clockless, 4);
    for (uint64_t i = 0; i < 20; i++)
        assert_int_equal(contenders[0].series.step_ns[i], STEP_NS);
    struct status_text text = {{0}};
    start();
    world.stuck_from = 5;
    world.stuck_to = UINT64_MAX;
    assert_int_equal(run(1, &limits, &text), STATUS_REFUSED);
    assert_non_null(strstr(text.line, "clock stood still or went backwards"));
    assert_int_equal(contenders[0].series.count, 3);
    /* no reading of the canary either: no speed, and not an infinite one */
    start();
    world.canary_ns = 0;
    assert_int_equal(run(1, &limits, &text), STATUS_REFUSED);
    double gb_per_s = -1;
    assert_int_equal(measure_stream(&fake, device, NULL, pool_bytes, &gb_per_s, &text),
                     STATUS_REFUSED);
    assert_true(gb_per_s < 0);
}

static void test_wall_that_goes_back(void **state) {
    (void)state;
    const struct measure_limits limits = {
        .max_noise_percent = 1, .min_time_s = 50 * STEP_NS * 1e-9, .max_time_s = 1};
    start();
    world.wall_ns = 1000000;
    world.wall_back = true;
    run_well(1, &limits);
    assert_int_equal(contenders[0].series.count, 50);
    assert_int_equal(contenders[0].seen.stop, MEASURE_STOP_INTERVAL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_canary_of_short_steps),
        cmocka_unit_test(test_looks_between_samples),
        cmocka_unit_test(test_parts_add_up),
        cmocka_unit_test(test_samples_are_exact),
        cmocka_unit_test(test_stops_where_the_interval_is_narrow),
        cmocka_unit_test(test_goes_on_until_it_is_narrow),
        cmocka_unit_test(test_stops_at_the_time),
        cmocka_unit_test(test_stops_at_the_most),
        cmocka_unit_test(test_each_stops_by_itself),
        cmocka_unit_test(test_what_each_saw),
        cmocka_unit_test(test_readings_around_each_sample),
        cmocka_unit_test(test_ceiling_of_ones_own_time),
        cmocka_unit_test(test_what_is_seen_of_samples),
        cmocka_unit_test(test_interrupt_keeps_samples),
        cmocka_unit_test(test_failures_are_told),
        cmocka_unit_test(test_clock_that_stands_or_goes_back),
        cmocka_unit_test(test_wall_that_goes_back),
    };
    return cmocka_run_group_tests(tests, make_everything, free_everything);
}
