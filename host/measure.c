/* The sampling loop and its statistics. */
#include "measure.h"

#include <stdlib.h>
#include <string.h>

#include "interrupt.h"
#include "progress.h"

enum {
    MEASURE_LEAST_SAMPLES = 5,
    MEASURE_MOST_SAMPLES = 10000,
    MEASURE_MARK_START = 0, /* part p ends at mark p + 1 */
    MEASURE_MARK_END = 1,   /* of a window of one part */
};

/* The canary reads this much: enough to be cold and steady, little enough to cost nothing. */
#define MEASURE_CANARY_BYTES ((uint64_t)512 << 20)

static int compare_u64(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static double quantile(const uint64_t *sorted, uint64_t count, double at) {
    const double position = at * (double)(count - 1);
    const uint64_t below = (uint64_t)position;
    const uint64_t above = below + 1 < count ? below + 1 : below;
    const double part = position - (double)below;
    return (double)sorted[below] * (1 - part) + (double)sorted[above] * part;
}

enum status measure_summarise(const uint64_t *values, uint64_t count, struct writer_summary *out,
                              struct status_text *text) {
    uint64_t *sorted = malloc(count * sizeof *sorted);
    if (sorted == NULL)
        return status_set(text, STATUS_OUT_OF_MEMORY, "no host memory for %llu samples",
                          (unsigned long long)count);
    memcpy(sorted, values, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, compare_u64);
    *out = (struct writer_summary){
        .median = quantile(sorted, count, 0.5),
        .q1 = quantile(sorted, count, 0.25),
        .q3 = quantile(sorted, count, 0.75),
        .min = (double)sorted[0],
        .max = (double)sorted[count - 1],
        .n = count,
    };
    free(sorted);
    return STATUS_OK;
}

/* `reads` streaming reads of the same bytes in one timed window. */
static enum status stream_times(const struct backend_ops *ops, struct backend_device *device,
                                const void *dev_from, uint64_t bytes, uint64_t reads,
                                double *gb_per_s, struct status_text *text) {
    enum status status = ops->mark(device, MEASURE_MARK_START, text);
    for (uint64_t read = 0; read < reads && status == STATUS_OK; read++)
        status = ops->stream_read(device, dev_from, bytes, text);
    if (status == STATUS_OK)
        status = ops->mark(device, MEASURE_MARK_END, text);
    if (status == STATUS_OK)
        status = ops->synchronize(device, text);
    if (status != STATUS_OK)
        return status;
    const uint64_t ns = ops->elapsed_ns(device, MEASURE_MARK_START, MEASURE_MARK_END);
    *gb_per_s = (double)bytes * (double)reads / (double)(ns == 0 ? 1 : ns);
    return STATUS_OK;
}

enum status measure_stream(const struct backend_ops *ops, struct backend_device *device,
                           const void *dev_from, uint64_t bytes, double *gb_per_s,
                           struct status_text *text) {
    return stream_times(ops, device, dev_from, bytes, 1, gb_per_s, text);
}

/* Canary speeds, kept as kB/s so that the same quantiles serve. */
struct canary_log {
    uint64_t *kb_per_s;
    uint64_t count;
    uint64_t capacity;
    const void *dev_from;
    uint64_t bytes;
};

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

static enum status sing(const struct backend_ops *ops, struct backend_device *device,
                        struct canary_log *log, struct status_text *text) {
    double gb_per_s;
    const enum status status =
        measure_stream(ops, device, log->dev_from, log->bytes, &gb_per_s, text);
    if (status != STATUS_OK)
        return status;
    if (log->count == log->capacity) {
        if (!grow(&log->kb_per_s, wider(log->capacity)))
            return status_set(text, STATUS_OUT_OF_MEMORY, "no host memory for canary samples");
        log->capacity = wider(log->capacity);
    }
    log->kb_per_s[log->count++] = (uint64_t)(gb_per_s * 1e6);
    return STATUS_OK;
}

static enum status finish_canary(const struct canary_log *log, struct measure_canary *out,
                                 struct status_text *text) {
    struct writer_summary all, first, last;
    const uint64_t third = log->count < 3 ? 1 : log->count / 3;
    enum status status = measure_summarise(log->kb_per_s, log->count, &all, text);
    if (status == STATUS_OK)
        status = measure_summarise(log->kb_per_s, third, &first, text);
    if (status == STATUS_OK)
        status = measure_summarise(log->kb_per_s + log->count - third, third, &last, text);
    if (status != STATUS_OK)
        return status;
    out->gb_per_s = all.median * 1e-6;
    out->drift_percent = (last.median / first.median - 1) * 100;
    return STATUS_OK;
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

static enum status series_grow(struct measure_series *series, struct status_text *text) {
    if (series->count < series->capacity)
        return STATUS_OK;
    bool grown = grow(&series->step_ns, wider(series->capacity));
    for (int part = 0; part < MEASURE_PARTS && grown; part++)
        grown = grow(&series->part_ns[part], wider(series->capacity));
    if (!grown)
        return status_set(text, STATUS_OUT_OF_MEMORY, "no host memory for samples");
    series->capacity = wider(series->capacity);
    return STATUS_OK;
}

static enum status sample_once(const struct backend_ops *ops, struct backend_device *device,
                               struct measure_contender *contender, struct status_text *text) {
    enum status status = series_grow(&contender->series, text);
    if (status == STATUS_OK)
        status = ops->mark(device, MEASURE_MARK_START, text);
    for (int part = 0; part < MEASURE_PARTS; part++) {
        /* The other ranks wait in their sum, whatever happened here. */
        if (!has_part(contender, part) || (status != STATUS_OK && part != MEASURE_REDUCE))
            continue;
        struct status_text why = {""};
        enum status done = run_part(contender, part, &why);
        if (done == STATUS_OK)
            done = ops->mark(device, (uint32_t)part + 1, &why);
        if (done != STATUS_OK && status == STATUS_OK)
            status = status_set(text, done, "%s", why.line);
    }
    if (status == STATUS_OK)
        status = ops->synchronize(device, text);
    if (status != STATUS_OK)
        return status;
    struct measure_series *series = &contender->series;
    const uint64_t i = series->count++;
    uint32_t last = MEASURE_MARK_START;
    for (int part = 0; part < MEASURE_PARTS; part++) {
        series->part_ns[part][i] = 0;
        if (!has_part(contender, part))
            continue;
        series->part_ns[part][i] = ops->elapsed_ns(device, last, (uint32_t)part + 1);
        last = (uint32_t)part + 1;
    }
    series->step_ns[i] = ops->elapsed_ns(device, MEASURE_MARK_START, last);
    return STATUS_OK;
}

static enum status agree(const struct measure_team *team, enum status mine, bool *more,
                         struct status_text *text) {
    return team != NULL ? team->agree(team->context, mine, more, text) : mine;
}

/* One sample, begun by all at once, and failed for all where it failed for one. */
static enum status sample_together(const struct backend_ops *ops, struct backend_device *device,
                                   const struct measure_team *team,
                                   struct measure_contender *contender, struct status_text *text) {
    if (team != NULL)
        team->start(team->context);
    bool more = false;
    return agree(team, sample_once(ops, device, contender, text), &more, text);
}

static bool enough(const struct measure_series *series, const struct measure_limits *limits,
                   double wall_s, uint32_t contenders) {
    if (limits->samples > 0)
        return series->count >= limits->samples;
    if (series->count >= MEASURE_MOST_SAMPLES)
        return true;
    if (series->count < MEASURE_LEAST_SAMPLES)
        return false;
    double timed_s = 0;
    for (uint64_t i = 0; i < series->count; i++)
        timed_s += (double)series->step_ns[i] * 1e-9;
    return timed_s >= limits->min_time_s || wall_s >= limits->max_time_s * contenders;
}

enum status measure_run(const struct backend_ops *ops, struct backend_device *device,
                        struct measure_contender *contenders, uint32_t count,
                        const struct measure_limits *limits, struct measure_canary *canary,
                        struct status_text *text) {
    struct canary_log log = {0};
    log.dev_from = pool_dev_memory(contenders[0].pool, &log.bytes);
    if (log.bytes > MEASURE_CANARY_BYTES)
        log.bytes = MEASURE_CANARY_BYTES;
    enum status status = STATUS_OK;
    /* One untimed step each: first touches and code loading are not what is measured. */
    for (uint32_t i = 0; i < count && status == STATUS_OK; i++) {
        status = sample_together(ops, device, limits->team, &contenders[i], text);
        contenders[i].series.count = 0;
    }
    const uint64_t start_ns = progress_now_ns();
    bool done = false;
    for (uint64_t round = 0; !done && status == STATUS_OK; round++) {
        done = true;
        enum status mine = sing(ops, device, &log, text);
        for (uint32_t i = 0; i < count && status == STATUS_OK; i++) {
            const uint32_t at = round % 2 == 0 ? i : count - 1 - i;
            const double wall_s = (double)(progress_now_ns() - start_ns) * 1e-9;
            if (mine == STATUS_OK && interrupt_asked())
                mine = status_set(text, STATUS_INTERRUPTED, "interrupted while measuring");
            bool more = !enough(&contenders[at].series, limits, wall_s, count);
            status = agree(limits->team, mine, &more, text);
            if (status == STATUS_OK && more) {
                status = sample_together(ops, device, limits->team, &contenders[at], text);
                done = false;
            }
        }
    }
    if (log.count > 0) {
        const enum status finished = finish_canary(&log, canary, text);
        status = status == STATUS_OK ? finished : status;
    }
    free(log.kb_per_s);
    return status;
}

void measure_series_free(struct measure_series *series) {
    free(series->step_ns);
    for (int part = 0; part < MEASURE_PARTS; part++)
        free(series->part_ns[part]);
    *series = (struct measure_series){0};
}

enum status measure_sweep_run(const struct backend_ops *ops, struct backend_device *device,
                              struct measure_sweep *out, struct status_text *text) {
    *out = (struct measure_sweep){0};
    struct backend_facts facts;
    ops->facts(device, &facts);
    uint64_t largest = (uint64_t)1 << 20 << (MEASURE_SWEEP_POINTS - 1);
    while (largest > facts.memory_free_bytes / 4 && largest > (uint64_t)1 << 20)
        largest /= 2;
    struct backend_memory memory = {0};
    enum status status =
        ops->memory_allocate(device, largest, "the read sweep's buffer", &memory, text);
    if (status == STATUS_OK)
        status = ops->memory_fill(device, memory.dev_address, 1, largest, text);
    for (uint64_t bytes = (uint64_t)1 << 20; bytes <= largest && status == STATUS_OK; bytes *= 2) {
        /* Small buffers are read so often that starting the threads does not count. */
        const uint64_t reads =
            bytes < MEASURE_CANARY_BYTES / 2 ? MEASURE_CANARY_BYTES / 2 / bytes : 1;
        double best = 0;
        /* The fastest of several windows: a cache that helps at all helps at least once. */
        for (int window = 0; window < 5 && status == STATUS_OK; window++) {
            double gb_per_s = 0;
            status = stream_times(ops, device, memory.dev_address, bytes, reads, &gb_per_s, text);
            best = gb_per_s > best ? gb_per_s : best;
        }
        out->bytes[out->count] = bytes;
        out->gb_per_s[out->count++] = best;
    }
    for (uint32_t i = out->count; i-- > 0;)
        if (out->gb_per_s[i] <= out->gb_per_s[out->count - 1] * 1.25)
            out->plateau_bytes = out->bytes[i];
        else
            break;
    ops->memory_free(device, &memory);
    return status;
}
