/* Plain streaming: the ceiling of a range, of sizes up to the plateau, and what one launch costs.
 */
#include "measure.h"

#include "measure_order.h"

enum { STREAM_MARK_START = 0, STREAM_MARK_END = 1, LAUNCH_BYTES = 64, LAUNCH_SAMPLES = 65 };

/* What one timed window holds. */
struct window {
    const void *dev_from;
    uint64_t bytes;
    uint64_t reads;  /* streaming reads of these bytes */
    uint64_t rounds; /* behind them, of pace */
};

static enum status fill_window(const struct backend_ops *ops, struct backend_device *device,
                               const struct window *window, struct status_text *text) {
    enum status status = STATUS_OK;
    for (uint64_t read = 0; read < window->reads && status == STATUS_OK; read++)
        status = ops->stream_read(device, window->dev_from, window->bytes, text);
    if (status == STATUS_OK && window->rounds > 0)
        status = ops->pace(device, window->rounds, text);
    return status;
}

/* Again where the clock gave no time. */
static enum status time_window(const struct backend_ops *ops, struct backend_device *device,
                               const struct window *window, uint64_t *ns,
                               struct status_text *text) {
    for (int attempt = 0; attempt < MEASURE_BAD_READINGS; attempt++) {
        enum status status = ops->mark(device, STREAM_MARK_START, text);
        if (status == STATUS_OK)
            status = fill_window(ops, device, window, text);
        if (status == STATUS_OK)
            status = ops->mark(device, STREAM_MARK_END, text);
        if (status == STATUS_OK)
            status = ops->synchronize(device, text);
        if (status != STATUS_OK)
            return status;
        *ns = ops->elapsed_ns(device, STREAM_MARK_START, STREAM_MARK_END);
        if (measure_is_time(*ns))
            return STATUS_OK;
    }
    return measure_clock_refuses(text);
}

bool measure_is_time(uint64_t ns) {
    return ns > 0 && ns <= INT64_MAX;
}

enum status measure_clock_refuses(struct status_text *text) {
    return status_set(text, STATUS_REFUSED,
                      "the device's clock stood still or went backwards %d times in a row: no "
                      "speed can be told",
                      MEASURE_BAD_READINGS);
}

enum status measure_stream(const struct backend_ops *ops, struct backend_device *device,
                           const void *dev_from, uint64_t bytes, double *gb_per_s,
                           struct status_text *text) {
    const struct window window = {.dev_from = dev_from, .bytes = bytes, .reads = 1};
    uint64_t ns;
    const enum status status = time_window(ops, device, &window, &ns, text);
    if (status == STATUS_OK)
        *gb_per_s = (double)bytes / (double)ns;
    return status;
}

enum status measure_pace(const struct backend_ops *ops, struct backend_device *device,
                         uint64_t rounds, double *per_ns, struct status_text *text) {
    const struct window window = {.rounds = rounds};
    uint64_t ns;
    const enum status status = time_window(ops, device, &window, &ns, text);
    if (status == STATUS_OK)
        *per_ns = (double)rounds * BACKEND_PACE_OPERATIONS / (double)ns;
    return status;
}

enum status measure_launch(const struct backend_ops *ops, struct backend_device *device,
                           const void *dev_from, double *ns, struct status_text *text) {
    const struct window window = {.dev_from = dev_from, .bytes = LAUNCH_BYTES, .reads = 1};
    uint64_t samples[LAUNCH_SAMPLES];
    enum status status = STATUS_OK;
    for (int i = -1; i < LAUNCH_SAMPLES && status == STATUS_OK; i++) /* the first is not counted */
        status = time_window(ops, device, &window, &samples[i < 0 ? 0 : i], text);
    if (status != STATUS_OK)
        return status;
    measure_order_sort(samples, LAUNCH_SAMPLES);
    *ns = measure_order_quantile(samples, LAUNCH_SAMPLES, 0.5);
    return STATUS_OK;
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
            bytes < MEASURE_STREAM_BYTES / 2 ? MEASURE_STREAM_BYTES / 2 / bytes : 1;
        const struct window window = {
            .dev_from = memory.dev_address, .bytes = bytes, .reads = reads};
        double best = 0;
        /* The fastest of several windows: a cache that helps at all helps at least once. */
        for (int go = 0; go < 5 && status == STATUS_OK; go++) {
            uint64_t ns = 1;
            status = time_window(ops, device, &window, &ns, text);
            const double gb_per_s = (double)bytes * (double)reads / (double)ns;
            best = status == STATUS_OK && gb_per_s > best ? gb_per_s : best;
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
