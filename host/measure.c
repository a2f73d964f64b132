/* The sampling loop: whose turn it is, when the canary reads, when all have enough. */
#include "measure.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "canary.h"
#include "interrupt.h"
#include "progress.h"

enum { MEASURE_MARK_START = 0 }; /* part p ends at mark p + 1 */

/* Of one measure_run. */
struct loop {
    const struct backend_ops *ops;
    struct backend_device *device;
    const struct measure_limits *limits;
    struct measure_contender *contenders;
    uint32_t count;
    struct watch *watches; /* [count] */
    uint64_t start_ns;     /* by the wall */

    struct canary canary;
    double since_ns;    /* of steps behind its last reading */
    uint64_t next_look; /* number of samples at which intervals are looked at again */
    bool enough;        /* as this rank saw it when the round began */
};

/* What the loop keeps of one contender. */
struct watch {
    uint64_t *canary_before; /* [series.capacity] which reading came before each sample */
    uint64_t *sorted;        /* [series.capacity] */
    uint32_t bad_readings;   /* in a row */
};

const char *measure_stop_name(enum measure_stop stop) {
    static const char *const names[] = {NULL, "interval", "max-time", "samples", "most samples"};
    return names[stop];
}

enum status measure_summarise(const uint64_t *values, uint64_t count, struct writer_summary *out,
                              struct status_text *text) {
    uint64_t *sorted = malloc(count * sizeof *sorted);
    if (sorted == NULL)
        return status_set(text, STATUS_OUT_OF_MEMORY, "no host memory for %llu samples",
                          (unsigned long long)count);
    memcpy(sorted, values, count * sizeof *sorted);
    measure_order_sort(sorted, count);
    *out = (struct writer_summary){
        .median = measure_order_quantile(sorted, count, 0.5),
        .q1 = measure_order_quantile(sorted, count, 0.25),
        .q3 = measure_order_quantile(sorted, count, 0.75),
        .min = (double)sorted[0],
        .max = (double)sorted[count - 1],
        .n = count,
    };
    free(sorted);
    return STATUS_OK;
}

static bool grow(uint64_t **array, uint64_t capacity) {
    uint64_t *moved = realloc(*array, capacity * sizeof **array);
    if (moved == NULL)
        return false;
    *array = moved;
    return true;
}

static uint64_t wider(uint64_t capacity) {
    return capacity == 0 ? 64 : capacity * 2;
}

static enum status sing(struct loop *loop, struct status_text *text) {
    const enum status status = canary_sing(&loop->canary, loop->since_ns, text);
    if (status == STATUS_OK)
        loop->since_ns = 0;
    return status;
}

static bool has_part(const struct measure_contender *contender, int part) {
    return part == MEASURE_APPEND || part == MEASURE_ATTEND || contender->work[part].run != NULL;
}

static enum status run_part(const struct measure_contender *contender, int part,
                            struct status_text *text) {
    if (part == MEASURE_APPEND)
        return step_append(contender->step, text);
    if (part == MEASURE_ATTEND)
        return step_attend(contender->step, text);
    return contender->work[part].run(contender->work[part].context, text);
}

static enum status make_room(struct measure_series *series, struct watch *watch,
                             struct status_text *text) {
    if (series->count < series->capacity)
        return STATUS_OK;
    const uint64_t capacity = wider(series->capacity);
    bool grown = grow(&series->step_ns, capacity) && grow(&series->canary_mb_per_s, capacity) &&
                 grow(&series->pace_mops, capacity) && grow(&watch->canary_before, capacity) &&
                 grow(&watch->sorted, capacity);
    for (int part = 0; part < MEASURE_PARTS && grown; part++)
        grown = grow(&series->part_ns[part], capacity);
    if (!grown)
        return status_set(text, STATUS_OUT_OF_MEMORY, "no host memory for samples");
    series->capacity = capacity;
    return STATUS_OK;
}

static enum status agree(const struct loop *loop, enum status mine, bool *any,
                         struct status_text *text) {
    const struct measure_team *team = loop->limits->team;
    return team != NULL ? team->agree(team->context, mine, any, text) : mine;
}

/* `status` is what came before. */
static enum status run_step(const struct loop *loop, const struct measure_contender *contender,
                            enum status status, struct status_text *text) {
    if (status == STATUS_OK)
        status = loop->ops->mark(loop->device, MEASURE_MARK_START, text);
    for (int part = 0; part < MEASURE_PARTS; part++) {
        /* The other ranks wait in their sum, whatever happened here. */
        if (!has_part(contender, part) || (status != STATUS_OK && part != MEASURE_REDUCE))
            continue;
        struct status_text why = {""};
        enum status done = run_part(contender, part, &why);
        if (done == STATUS_OK)
            done = loop->ops->mark(loop->device, (uint32_t)part + 1, &why);
        if (done != STATUS_OK && status == STATUS_OK)
            status = status_set(text, done, "%s", why.line);
    }
    return status == STATUS_OK ? loop->ops->synchronize(loop->device, text) : status;
}

/* The times of the step that just ran become sample `count`; false, and no sample, where the clock
 * did not go forward over the step, over attention, or went backwards over a part. */
static bool keep_times(const struct loop *loop, const struct measure_contender *contender,
                       struct measure_series *series) {
    uint32_t last = MEASURE_MARK_START;
    for (int part = 0; part < MEASURE_PARTS; part++) {
        uint64_t ns = 0;
        if (has_part(contender, part)) {
            ns = loop->ops->elapsed_ns(loop->device, last, (uint32_t)part + 1);
            last = (uint32_t)part + 1;
            if (!measure_is_time(ns) && (ns > 0 || part == MEASURE_ATTEND))
                return false;
        }
        series->part_ns[part][series->count] = ns;
    }
    const uint64_t ns = loop->ops->elapsed_ns(loop->device, MEASURE_MARK_START, last);
    series->step_ns[series->count] = ns;
    return measure_is_time(ns);
}

/* The one place where a sample starts: begun by all ranks at once, failed for all where it failed
 * for one, and no sample of any where one's clock did not tell its time. */
static enum status sample_once(struct loop *loop, uint32_t at, struct status_text *text) {
    struct measure_contender *contender = &loop->contenders[at];
    struct measure_series *series = &contender->series;
    struct watch *watch = &loop->watches[at];
    if (loop->limits->team != NULL)
        loop->limits->team->start(loop->limits->team->context);
    const enum status mine = run_step(loop, contender, make_room(series, watch, text), text);
    bool lost = mine == STATUS_OK && !keep_times(loop, contender, series);
    const enum status status = agree(loop, mine, &lost, text);
    if (status != STATUS_OK)
        return status;
    if (lost) {
        series->clockless++;
        return ++watch->bad_readings < MEASURE_BAD_READINGS ? STATUS_OK
                                                            : measure_clock_refuses(text);
    }
    watch->bad_readings = 0;
    watch->canary_before[series->count] = loop->canary.count;
    series->timed_ns += (double)series->step_ns[series->count];
    loop->since_ns += (double)series->step_ns[series->count++];
    return STATUS_OK;
}

/* Sorts a copy of the samples; returns how many of them tell something of their own. */
static uint64_t put_in_order(const struct measure_series *series, struct watch *watch) {
    memcpy(watch->sorted, series->step_ns, series->count * sizeof *watch->sorted);
    measure_order_sort(watch->sorted, series->count);
    return measure_order_independent(series->step_ns, series->count,
                                     measure_order_quantile(watch->sorted, series->count, 0.5));
}

static bool is_narrow(const struct measure_series *series, struct watch *watch, double percent) {
    const uint64_t independent = put_in_order(series, watch);
    return measure_order_noise_percent(watch->sorted, series->count, independent) <= percent;
}

/* Whether all contenders have enough, and each by which rule. None stops before the others: a
 * machine that changes speed would change it for those alone that go on. Intervals are sorted for
 * after every eighth more samples only, so that looking costs less than sampling. */
static bool have_enough(struct loop *loop) {
    const struct measure_limits *limits = loop->limits;
    const uint64_t now_ns = progress_now_ns();
    const uint64_t wall_ns = now_ns > loop->start_ns ? now_ns - loop->start_ns : 0;
    uint64_t least = UINT64_MAX;
    double least_ns = INFINITY;
    for (uint32_t i = 0; i < loop->count; i++) {
        const struct measure_series *series = &loop->contenders[i].series;
        least = series->count < least ? series->count : least;
        least_ns = series->timed_ns < least_ns ? series->timed_ns : least_ns;
    }
    const bool timed = least_ns * 1e-9 >= limits->min_time_s;
    const bool most = least >= MEASURE_MOST_SAMPLES;
    const bool late = (double)wall_ns * 1e-9 >= limits->max_time_s * loop->count;
    if (limits->samples == 0 &&
        (least < MEASURE_LEAST_SAMPLES || !(most || late || (timed && least >= loop->next_look))))
        return false;
    loop->next_look = least + 1 + least / 8;
    enum measure_stop stop = most ? MEASURE_STOP_MOST : late ? MEASURE_STOP_TIME : MEASURE_STOP_NOT;
    if (limits->samples > 0)
        stop = least >= limits->samples ? MEASURE_STOP_SAMPLES : MEASURE_STOP_NOT;
    bool enough = true;
    for (uint32_t i = 0; i < loop->count; i++) {
        const struct measure_series *series = &loop->contenders[i].series;
        const bool narrow = limits->samples == 0 && series->timed_ns * 1e-9 >= limits->min_time_s &&
                            is_narrow(series, &loop->watches[i], limits->max_noise_percent);
        loop->contenders[i].seen.stop = narrow ? MEASURE_STOP_INTERVAL : stop;
        enough = enough && loop->contenders[i].seen.stop != MEASURE_STOP_NOT;
    }
    return enough;
}

/* The canary, where enough time has passed since it last sang: on all ranks or on none. */
static enum status sing_if_due(struct loop *loop, struct status_text *text) {
    bool due = loop->canary.count == 0 || loop->since_ns >= loop->canary.took_ns, none = false;
    enum status status = agree(loop, STATUS_OK, &due, text);
    if (status == STATUS_OK && due)
        status = agree(loop, sing(loop, text), &none, text);
    if (status == STATUS_OK && due && loop->limits->look != NULL)
        loop->limits->look(loop->limits->look_context);
    return status;
}

/* One contender's turn; at the first of a round it is found out whether there is to be one: a rank
 * that has enough goes on as long as another has not. */
static enum status visit(struct loop *loop, uint32_t at, bool first, bool *more,
                         struct status_text *text) {
    const struct measure_limits *limits = loop->limits;
    enum status status = STATUS_OK;
    if (interrupt_asked())
        status = status_set(text, STATUS_INTERRUPTED, "interrupted while measuring");
    if (first)
        loop->enough = have_enough(loop);
    *more = !first || !loop->enough;
    status = agree(loop, status, more, text);
    if (status != STATUS_OK || !*more)
        return status;
    /* A step whose time is not known is asked for again, of that contender alone. */
    if (limits->samples > 0 && !loop->enough &&
        loop->contenders[at].series.count >= limits->samples)
        return STATUS_OK;
    status = sing_if_due(loop, text);
    return status == STATUS_OK ? sample_once(loop, at, text) : status;
}

static enum status go_round(struct loop *loop, struct status_text *text) {
    enum status status = STATUS_OK;
    bool more = true;
    for (uint64_t round = 0; more && status == STATUS_OK; round++)
        for (uint32_t i = 0; i < loop->count && more && status == STATUS_OK; i++)
            status = visit(loop, round % 2 == 0 ? i : loop->count - 1 - i, i == 0, &more, text);
    if (status != STATUS_OK)
        for (uint32_t i = 0; i < loop->count; i++)
            loop->contenders[i].seen.stop = MEASURE_STOP_NOT;
    return status;
}

/* The canary over the time in which one contender had its samples. */
static enum status finish_canary(const uint64_t *kb_per_s, uint64_t count,
                                 struct measure_canary *out, struct status_text *text) {
    struct writer_summary all, first, last;
    const uint64_t third = count < 3 ? 1 : count / 3;
    enum status status = measure_summarise(kb_per_s, count, &all, text);
    if (status == STATUS_OK)
        status = measure_summarise(kb_per_s, third, &first, text);
    if (status == STATUS_OK)
        status = measure_summarise(kb_per_s + count - third, third, &last, text);
    if (status != STATUS_OK)
        return status;
    out->gb_per_s = all.median * 1e-6;
    out->drift_percent = (last.median / first.median - 1) * 100;
    return STATUS_OK;
}

static enum status finish(const struct loop *loop, uint32_t at, double launch_ns,
                          struct status_text *text) {
    struct measure_contender *contender = &loop->contenders[at];
    struct measure_series *series = &contender->series;
    struct watch *watch = &loop->watches[at];
    if (series->count == 0)
        return STATUS_OK;
    /* Reading i is the one before, where canary_before says how many there were: i + 1. */
    const uint64_t first = watch->canary_before[0] - 1;
    uint64_t last = watch->canary_before[series->count - 1];
    last = last < loop->canary.count ? last : loop->canary.count - 1;
    for (uint64_t i = 0; i < series->count; i++) {
        const uint64_t before = watch->canary_before[i] - 1;
        const uint64_t after = before < last ? before + 1 : last;
        series->canary_mb_per_s[i] = canary_mean(loop->canary.read_kb_per_s, before, after);
        series->pace_mops[i] = canary_mean(loop->canary.pace_kops, before, after);
    }
    contender->seen.launch_ns = launch_ns;
    const uint64_t independent = put_in_order(series, watch);
    contender->seen.interval = measure_order_interval(watch->sorted, series->count, independent);
    contender->seen.outliers = measure_order_outliers(watch->sorted, series->count);
    const uint64_t *readings = loop->canary.read_kb_per_s + first;
    const enum status status = finish_canary(readings, last - first + 1, &contender->canary, text);
    return status != STATUS_OK
               ? status
               : measure_stability_judge(series->step_ns, series->count, readings, last - first + 1,
                                         &contender->seen.verdict, text);
}

/* One untimed step each: first touches and code loading are not what is measured. */
static enum status warm_up(struct loop *loop, struct status_text *text) {
    enum status status = STATUS_OK;
    for (uint32_t i = 0; i < loop->count && status == STATUS_OK; i++) {
        struct measure_series *series = &loop->contenders[i].series;
        status = sample_once(loop, i, text);
        series->count = series->clockless = 0;
        series->timed_ns = 0;
        loop->watches[i].bad_readings = 0;
    }
    loop->since_ns = 0;
    return status;
}

enum status measure_run(const struct backend_ops *ops, struct backend_device *device,
                        struct measure_contender *contenders, uint32_t count,
                        const struct measure_limits *limits, struct status_text *text) {
    struct loop loop = {
        .ops = ops, .device = device, .limits = limits, .contenders = contenders, .count = count};
    struct canary *canary = &loop.canary;
    *canary = (struct canary){.ops = ops, .device = device};
    canary->dev_from = pool_dev_memory(contenders[0].pool, &canary->bytes);
    if (canary->bytes > MEASURE_STREAM_BYTES)
        canary->bytes = MEASURE_STREAM_BYTES;
    loop.watches = calloc(count, sizeof *loop.watches);
    enum status status = loop.watches != NULL
                             ? STATUS_OK
                             : status_set(text, STATUS_OUT_OF_MEMORY, "no host memory to measure");
    double launch_ns = 0;
    bool none = false;
    if (status == STATUS_OK)
        status = measure_launch(ops, device, canary->dev_from, &launch_ns, text);
    status = agree(&loop, status, &none, text);
    if (status == STATUS_OK)
        status = warm_up(&loop, text);
    loop.start_ns = progress_now_ns();
    if (status == STATUS_OK)
        status = go_round(&loop, text);
    if (status == STATUS_OK)
        status = sing(&loop, text);
    for (uint32_t i = 0; i < count && canary->count > 0; i++) {
        struct status_text why = {""};
        const enum status finished = finish(&loop, i, launch_ns, &why);
        if (status == STATUS_OK && finished != STATUS_OK)
            status = status_set(text, finished, "%s", why.line);
    }
    for (uint32_t i = 0; i < count && loop.watches != NULL; i++) {
        free(loop.watches[i].canary_before);
        free(loop.watches[i].sorted);
    }
    free(loop.watches);
    canary_free(canary);
    return status;
}

enum status measure_summarise_kv(const struct measure_series *series, struct writer_summary *out,
                                 struct status_text *text) {
    uint64_t *kv_ns = malloc(series->count * sizeof *kv_ns);
    if (kv_ns == NULL)
        return status_set(text, STATUS_OUT_OF_MEMORY, "no host memory for samples");
    for (uint64_t i = 0; i < series->count; i++)
        kv_ns[i] = series->part_ns[MEASURE_APPEND][i] + series->part_ns[MEASURE_ATTEND][i];
    const enum status status = measure_summarise(kv_ns, series->count, out, text);
    free(kv_ns);
    return status;
}

void measure_series_free(struct measure_series *series) {
    free(series->step_ns);
    free(series->canary_mb_per_s);
    free(series->pace_mops);
    for (int part = 0; part < MEASURE_PARTS; part++)
        free(series->part_ns[part]);
    *series = (struct measure_series){0};
}
