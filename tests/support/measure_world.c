/* The made-up backend and its clocks. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "interrupt.h"
#include "measure_world.h"
#include "progress.h"

enum { APPEND_AND_ATTEND_NS = WORLD_APPEND_NS + WORLD_ATTEND_NS };

struct world world;
struct measure_contender world_contenders[WORLD_CONTENDERS];
struct backend_ops world_ops;
struct backend_device *world_device;
uint64_t world_pool_bytes;

static struct pool *pools[WORLD_CONTENDERS];
static struct step *steps[WORLD_CONTENDERS];

/* In place of host/interrupt.c's and host/progress.c's. */
bool interrupt_asked(void) {
    return world.interrupt_at > 0 && world.steps >= world.interrupt_at;
}
uint64_t progress_now_ns(void) {
    world.wall_ns = world.wall_back ? world.wall_ns - 1 : world.wall_ns + world.wall_step_ns;
    return world.wall_ns;
}

static void note(char what) {
    assert_true(world.traced + 1 < WORLD_TRACE_BYTES);
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
    if (last == 's' || last == 'p' || last == 'l')
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
        world.device_ns += WORLD_LAUNCH_NS;
        return STATUS_OK;
    }
    assert_int_equal(bytes, world_pool_bytes);
    if (fails("canary"))
        return status_set(text, STATUS_IO, "canary fails");
    note('s');
    world.device_ns += world.canary_faster_from > 0 && world.canaries >= world.canary_faster_from
                           ? world.canary_faster_ns
                           : world.canary_ns;
    world.canaries++;
    return STATUS_OK;
}

enum status world_pace(struct backend_device *on, uint64_t rounds, struct status_text *text) {
    (void)on, (void)text;
    note('p');
    world.device_ns += rounds * (world.canaries >= 3 ? 2 : 1);
    return STATUS_OK;
}

static enum status fake_append(struct backend_device *on, const struct backend_append *work,
                               struct format_replaced *replaced, struct status_text *text) {
    (void)on, (void)work, (void)replaced, (void)text;
    if (world.steps + 1 == world.append_back_at)
        world.device_ns -= WORLD_APPEND_NS;
    else
        world.device_ns += WORLD_APPEND_NS;
    return STATUS_OK;
}

static enum status fake_attend(struct backend_device *on, const struct backend_attend *work,
                               struct status_text *text) {
    (void)on, (void)work, (void)text;
    world.device_ns += world.steps + 1 == world.attend_still_at ? 0 : WORLD_ATTEND_NS;
    return STATUS_OK;
}

void world_look(void *context) {
    assert_ptr_equal(context, &world);
    assert_false(world.timing);
    note('.');
}

uint64_t world_constant(char who, uint64_t nth) {
    (void)who, (void)nth;
    return WORLD_STEP_NS;
}

/* The last part of a step: says whose it is, and makes it as long as the script has it. */
static enum status fake_part(void *context, struct status_text *text) {
    const uint32_t i = *(const uint32_t *)context;
    const char who = (char)('A' + (int)i);
    if (fails("step"))
        return status_set(text, STATUS_IO, "step fails");
    note(who);
    world.device_ns += world.step_ns(who, world.nth[i]++) - APPEND_AND_ATTEND_NS;
    world.steps++;
    if (world.steps >= world.stuck_from && world.steps < world.stuck_to)
        world.device_ns = world.marks[0];
    if (world.steps == world.back_at)
        world.device_ns = world.marks[0] - 5;
    return STATUS_OK;
}

int world_make(void **state) {
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
    world_ops = *backend_find("cpu");
    world_ops.mark = fake_mark;
    world_ops.synchronize = fake_synchronize;
    world_ops.elapsed_ns = fake_elapsed;
    world_ops.stream_read = fake_stream;
    world_ops.pace = NULL;
    world_ops.append = fake_append;
    world_ops.attend = fake_attend;
    struct status_text text = {{0}};
    if (world_ops.open(&(struct backend_options){.threads = 1}, &world_device, &text) != STATUS_OK)
        fail_msg("%s", text.line);
    for (int i = 0; i < WORLD_CONTENDERS; i++)
        if (pool_create(&world_ops, world_device, &request, NULL, &pools[i], &text) != STATUS_OK ||
            pool_fill(pools[i], NULL, &text) != STATUS_OK ||
            step_create(&world_ops, world_device, pools[i], NULL, 1, OPTIONS_DATA_NORMAL, &steps[i],
                        &text) != STATUS_OK)
            fail_msg("%s", text.line);
    (void)pool_dev_memory(pools[0], &world_pool_bytes);
    return 0;
}

int world_free(void **state) {
    (void)state;
    for (int i = 0; i < WORLD_CONTENDERS; i++) {
        measure_series_free(&world_contenders[i].series);
        step_destroy(steps[i]);
        pool_destroy(pools[i]);
    }
    world_ops.close(world_device);
    return 0;
}

void world_start(void) {
    static uint32_t names[WORLD_CONTENDERS] = {0, 1, 2};
    world = (struct world){.device_ns = 1000000,
                           .canary_ns = WORLD_STEP_NS,
                           .step_ns = world_constant,
                           .wall_step_ns = 1};
    for (uint32_t i = 0; i < WORLD_CONTENDERS; i++) {
        measure_series_free(&world_contenders[i].series);
        world_contenders[i] = (struct measure_contender){.pool = pools[i], .step = steps[i]};
        world_contenders[i].work[MEASURE_REDUCE] =
            (struct measure_work){.run = fake_part, .context = &names[i]};
    }
}

enum status world_run(uint32_t count, const struct measure_limits *limits,
                      struct status_text *text) {
    return measure_run(&world_ops, world_device, world_contenders, count, limits, text);
}

void world_run_well(uint32_t count, const struct measure_limits *limits) {
    struct status_text text = {{0}};
    if (world_run(count, limits, &text) != STATUS_OK)
        fail_msg("%s", text.line);
}

const char *world_rounds(uint32_t count) {
    const char *at = world.trace;
    while (*at == 'l')
        at++;
    assert_true(at - world.trace > 10);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(*at++, 'A' + (int)i);
    return at;
}

uint64_t world_scattered(char who, uint64_t nth) {
    (void)who;
    return WORLD_STEP_NS - 200 + nth * 7919 % 401;
}

uint64_t world_never_narrow(char who, uint64_t nth) {
    (void)who;
    return nth % 2 == 0 ? WORLD_STEP_NS : 2 * WORLD_STEP_NS;
}

uint64_t world_b_never_narrow(char who, uint64_t nth) {
    return who == 'B' ? world_never_narrow(who, nth) : world_constant(who, nth);
}
