/* From the modules' structs to the columns of result_fields.def. */
#include "result.h"

#include <stdio.h>
#include <string.h>

#include "backend_build.h"
#include "rotate.h"
#include "version_info.h"
#include "words.h"

const struct writer_field result_fields[RESULT_FIELD_COUNT] = {
#define RESULT(ID, name, heading, decimals) {#name, heading, decimals},
#include "result_fields.def"
#undef RESULT
};

const char *result_status_name(enum result_status status) {
    static const char *const names[] = {"ok", "wrong", "refused", "out_of_memory", "interrupted"};
    return names[status];
}

enum result_status result_status_of(enum status status) {
    switch (status) {
    case STATUS_OK:
        return RESULT_OK;
    case STATUS_OUT_OF_MEMORY:
        return RESULT_OUT_OF_MEMORY;
    case STATUS_INTERRUPTED:
        return RESULT_INTERRUPTED;
    case STATUS_WRONG:
    case STATUS_IO:
        return RESULT_WRONG;
    case STATUS_BAD_INPUT:
    case STATUS_REFUSED:
    case STATUS_OVERFLOW:
    case STATUS_MISSING:
        break;
    }
    return RESULT_REFUSED;
}

bool result_is_cold(const struct result_run *run, const struct result *result) {
    return result->read_bytes >= run->cold_bytes;
}

double result_read_gb_per_s(const struct result *result) {
    return (double)result->read_bytes / result->parts[MEASURE_ATTEND].median;
}

double result_ceiling_share(const struct result *result) {
    return result_read_gb_per_s(result) / result->canary.gb_per_s;
}

void result_add_reason(struct result *result, const char *words) {
    if (words[0] != '\0')
        words_add(result->reason, sizeof result->reason, "; ", "%s", words);
}

static struct writer_value text_value(const char *text) {
    if (text == NULL || text[0] == '\0')
        return (struct writer_value){.kind = WRITER_NULL};
    return (struct writer_value){.kind = WRITER_TEXT, .as.text = text};
}

static struct writer_value number_value(uint64_t number) {
    return (struct writer_value){.kind = WRITER_UNSIGNED, .as.number = number};
}

static struct writer_value real_value(double real) {
    return (struct writer_value){.kind = WRITER_REAL, .as.real = real};
}

static uint64_t all_tokens(const struct run_case *one) {
    uint64_t tokens = 0;
    for (uint64_t i = 0; i < one->seqs; i++)
        tokens += one->lengths[i];
    return tokens;
}

static void set_run(const struct result_run *run, struct writer_value *values) {
    const struct backend_facts *facts = &run->facts;
    values[RESULT_SCHEMA_VERSION] = number_value(RESULT_SCHEMA);
    values[RESULT_KVGAUGE_VERSION] = text_value(KVGAUGE_VERSION);
    values[RESULT_GIT] = text_value(KVGAUGE_GIT);
    values[RESULT_TIME_UTC] = text_value(run->time_utc);
    values[RESULT_HOST] = text_value(run->label);
    values[RESULT_ARGV] = (struct writer_value){
        .kind = WRITER_TEXTS, .as.texts = {.values = run->argv, .count = run->argc}};
    values[RESULT_SUITE] = text_value(run->suite);
    values[RESULT_BACKEND] = text_value(facts->backend);
    values[RESULT_DEVICE] = text_value(facts->device);
    values[RESULT_DRIVER] = text_value(facts->driver);
    if (strcmp(facts->backend, "cuda") == 0)
        values[RESULT_CUDA] = text_value(backend_cuda_version());
    if (facts->threads > 0)
        values[RESULT_THREADS] = number_value(facts->threads);
}

/* A row that counts draft layers says so, whatever else it says: its model's name does not. */
static const char *reason_words(const struct result *result, struct result_row *out) {
    if (result->which->options->draft_layers == 0 ||
        (result->status != RESULT_OK && result->reason[0] != '\0'))
        return result->reason;
    (void)snprintf(out->reason, sizeof out->reason, "%s%s%s", result->which->model.remark,
                   result->reason[0] != '\0' ? "; " : "", result->reason);
    return out->reason;
}

static void set_case(const struct result *result, struct result_row *out) {
    struct writer_value *values = out->values;
    const struct run_case *one = result->which;
    const struct options *options = one->options;
    values[RESULT_SEED] = number_value(options->seed);
    values[RESULT_MODEL] = text_value(one->model.name);
    values[RESULT_TOKENS] = number_value(one->tokens);
    values[RESULT_SEQS] = number_value(one->seqs);
    values[RESULT_TP] = number_value(options->tp);
    values[RESULT_PAGE_TOKENS] = number_value(one->page_tokens);
    values[RESULT_PAGE_ORDER] =
        text_value(options->page_order_sequential ? "sequential" : "shuffled");
    values[RESULT_DATA] = text_value(options_data_name(options->data));
    struct options_format resolved;
    const struct formula_storage storage = run_case_storage(one, result->format, &resolved);
    /* What was done, not what was asked: 16-bit rows are the same with and without. */
    const bool rotated = options->rotate && rotate_any(&one->model, &storage);
    values[RESULT_ROTATE] = text_value(rotated ? "hadamard" : "none");
    /* Names from the tables, not from `resolved`: values outlive this function. */
    values[RESULT_K_FORMAT] = text_value(format_get(storage.k_format)->name);
    values[RESULT_V_FORMAT] = text_value(format_get(storage.v_format)->name);
    for (uint32_t g = 0; g < one->model.group_count; g++)
        if (one->model.groups[g].kind == MODEL_INDEX)
            values[RESULT_INDEX_FORMAT] = text_value(formula_index_name(storage.index));
    values[RESULT_KERNEL] = text_value(result->kernel);
    values[RESULT_STATUS] = text_value(result_status_name(result->status));
    values[RESULT_REASON] = text_value(reason_words(result, out));
}

static void set_bytes(const struct result *result, struct writer_value *values) {
    const struct pool_sizes *sizes = &result->sizes;
    const double tokens = (double)all_tokens(result->which);
    values[RESULT_FORMULA_BYTES] = number_value(sizes->formula_bytes);
    values[RESULT_PAGED_BYTES] = number_value(sizes->paged_bytes);
    values[RESULT_POOL_BYTES] = number_value(sizes->pool_bytes);
    values[RESULT_PADDING_BYTES] = number_value(sizes->tail_bytes + sizes->alignment_bytes);
    values[RESULT_SHARED_BYTES] = number_value(sizes->shared_bytes);
    values[RESULT_PARTIAL_BYTES] = number_value(sizes->partial_bytes);
    values[RESULT_SPARE_BYTES] = number_value(sizes->spare_bytes);
    values[RESULT_PAGE_TABLE_BYTES] = number_value(sizes->page_table_bytes);
    values[RESULT_TENSOR_SCALE_BYTES] = number_value(sizes->tensor_scale_bytes);
    if (tokens > 0) {
        values[RESULT_FORMULA_BYTES_TOKEN] = real_value((double)sizes->formula_bytes / tokens);
        values[RESULT_POOL_BYTES_TOKEN] = real_value((double)sizes->pool_bytes / tokens);
        values[RESULT_FORMULA_TOKENS_GB] = real_value(tokens * 1e9 / (double)sizes->formula_bytes);
        values[RESULT_POOL_TOKENS_GB] = real_value(tokens * 1e9 / (double)sizes->pool_bytes);
    }
    if (result->has_driver) {
        values[RESULT_DRIVER_BYTES] = number_value(result->driver_bytes);
        values[RESULT_DRIVER_TOKENS_GB] = real_value(tokens * 1e9 / (double)result->driver_bytes);
    }
    if (result->has_resident)
        values[RESULT_RESIDENT_BYTES] = number_value(result->resident_bytes);
}

static struct writer_value samples_value(const uint64_t *samples, uint64_t count) {
    return (struct writer_value){.kind = WRITER_SAMPLES,
                                 .as.samples = {.values = samples, .count = count}};
}

static void set_seen(const struct result *result, struct result_row *out) {
    struct writer_value *values = out->values;
    const struct measure_seen *seen = &result->seen;
    values[RESULT_SAMPLES_NS] = samples_value(result->series.step_ns, result->series.count);
    values[RESULT_CANARY_MB_S] =
        samples_value(result->series.canary_mb_per_s, result->series.count);
    if (seen->interval.high > 0) {
        out->interval[0] = seen->interval.low;
        out->interval[1] = seen->interval.high;
        values[RESULT_STEP_INTERVAL_NS] = samples_value(out->interval, 2);
    }
    values[RESULT_STOPPED_BY] = text_value(measure_stop_name(seen->stop));
    values[RESULT_OUTLIERS] = number_value(seen->outliers);
    values[RESULT_LAUNCH_NS] = real_value(seen->launch_ns);
    values[RESULT_STABILITY] = text_value(measure_stability_name(seen->verdict.stability));
}

static void set_speed(const struct result_run *run, const struct result *result,
                      struct writer_value *values) {
    const double seqs = (double)result->which->seqs;
    const struct measure_canary *canary = &result->canary;
    const struct {
        enum result_field field;
        const struct writer_summary *summary;
    } summaries[] = {{RESULT_STEP_NS, &result->step},
                     {RESULT_ATTEND_NS, &result->parts[MEASURE_ATTEND]},
                     {RESULT_APPEND_NS, &result->parts[MEASURE_APPEND]}};
    for (size_t i = 0; i < sizeof summaries / sizeof summaries[0]; i++)
        values[summaries[i].field] =
            (struct writer_value){.kind = WRITER_SUMMARY, .as.summary = *summaries[i].summary};
    if (result->ranks.count > 0)
        values[RESULT_REDUCE_NS] = (struct writer_value){
            .kind = WRITER_SUMMARY, .as.summary = result->parts[MEASURE_REDUCE]};
    values[RESULT_KV_TOKENS_S] = real_value(seqs * 1e9 / result->kv.median);
    values[RESULT_READ_GB_S] = real_value(result_read_gb_per_s(result));
    values[RESULT_CEILING_GB_S] = real_value(canary->gb_per_s);
    values[RESULT_CEILING_TOKENS_S] =
        real_value(seqs * canary->gb_per_s * 1e9 / (double)result->read_bytes);
    if (result_is_cold(run, result))
        values[RESULT_PERCENT_OF_CEILING] = real_value(100 * result_ceiling_share(result));
    values[RESULT_CANARY_DRIFT] = real_value(canary->drift_percent);
    if (result->has_baseline) {
        values[RESULT_KV_SPEED_VS_BASELINE] = real_value(result->kv_speed_vs_baseline);
        values[RESULT_TOKENS_VS_BASELINE] = real_value(result->tokens_vs_baseline);
    }
}

static void set_circumstances(const struct result *result, struct writer_value *values) {
    const struct telemetry_summary *telemetry = &result->telemetry;
    const struct measure_energy *energy = &result->energy;
    values[RESULT_CLOCKS] = text_value(telemetry->clocks);
    if (telemetry->has_temperature)
        values[RESULT_TEMPERATURE] = real_value(telemetry->temperature_c);
    if (energy->has_power)
        values[RESULT_POWER_W] = real_value(energy->power_w);
    /* A step makes one token for every sequence. */
    if (energy->has_energy)
        values[RESULT_ENERGY_J] = real_value(energy->step_j / (double)result->which->seqs);
    if (telemetry->has_reasons)
        values[RESULT_THROTTLE_REASONS] = (struct writer_value){
            .kind = WRITER_TEXTS,
            .as.texts = {.values = telemetry->reasons, .count = telemetry->reason_count}};
    if (telemetry->has_other_processes)
        values[RESULT_OTHER_PROCESSES] = number_value(telemetry->other_processes);
    if (telemetry->has_other_bytes)
        values[RESULT_OTHER_PROCESS_BYTES] = number_value(telemetry->other_bytes);
    if (telemetry->has_other_load)
        values[RESULT_OTHER_LOAD] = real_value(telemetry->other_load_percent);
}

/* What is there without a speed, too. */
static void set_weights(const struct result *result, struct writer_value *values) {
    const struct result_weights *weights = &result->weights;
    values[RESULT_WEIGHTS_READ_BYTES] = number_value(weights->shape.read_bytes);
    if (weights->shape.format != BACKEND_WEIGHTS_NONE)
        values[RESULT_WEIGHTS_FORMAT] = text_value(weights_read_format_name(weights->shape.format));
    values[RESULT_WEIGHTS_LIBRARY] = text_value(weights->library);
    if (weights->library[0] != '\0')
        values[RESULT_WEIGHTS_ERROR] = real_value(weights->error);
    if (result->has_overtakes)
        values[RESULT_KV_OVERTAKES] = number_value(result->overtakes_tokens);
}

void result_share(const struct result *result, struct step_share *out) {
    step_share_take(&result->groups, result->kv.median, result->weights.shape.read_bytes,
                    result->parts[MEASURE_WEIGHTS].median, out);
}

static void set_whole_step(const struct result *result, struct result_row *out) {
    struct writer_value *values = out->values;
    const struct writer_summary *weights = &result->parts[MEASURE_WEIGHTS];
    values[RESULT_WEIGHTS_NS] =
        (struct writer_value){.kind = WRITER_SUMMARY, .as.summary = *weights};
    values[RESULT_WEIGHTS_GB_S] =
        real_value((double)result->weights.shape.read_bytes / weights->median);
    values[RESULT_STEP_TOKENS_S] =
        real_value((double)result->which->seqs * 1e9 / result->step.median);
    if (result->has_baseline)
        values[RESULT_STEP_SPEED_VS_BASELINE] = real_value(result->step_speed_vs_baseline);
    struct step_share share;
    result_share(result, &share);
    values[RESULT_STEP_PARTS] =
        (struct writer_value){.kind = WRITER_OBJECTS,
                              .as.objects = {.fields = step_share_fields,
                                             .values = out->step_parts,
                                             .field_count = STEP_SHARE_FIELD_COUNT,
                                             .count = step_share_values(&share, out->step_parts)}};
}

static void set_ranks(const struct result_ranks *ranks, struct result_row *out) {
    struct writer_value *values = out->values;
    values[RESULT_RANKS] = number_value(ranks->count);
    values[RESULT_REDUCE_BYTES] = number_value(ranks->reduce_bytes);
    if (ranks->has_replicated)
        values[RESULT_REPLICATED_BYTES] = number_value(ranks->replicated_bytes);
    if (!ranks->has_times)
        return;
    values[RESULT_SLOWEST_RANK] = number_value(ranks->slowest);
    result_ranks_values(ranks, out->ranks);
    values[RESULT_PER_RANK] =
        (struct writer_value){.kind = WRITER_OBJECTS,
                              .as.objects = {.fields = result_rank_fields,
                                             .values = out->ranks,
                                             .field_count = RESULT_RANK_FIELD_COUNT,
                                             .count = ranks->count}};
}

void result_values(const struct result_run *run, const struct result *result,
                   struct result_row *out) {
    struct writer_value *values = out->values;
    for (size_t i = 0; i < RESULT_FIELD_COUNT; i++)
        values[i] = (struct writer_value){.kind = WRITER_NULL};
    set_run(run, values);
    set_case(result, out);
    if (result->has_sizes)
        set_bytes(result, values);
    if (result->has_work) {
        result_groups_values(&result->groups, out->groups);
        values[RESULT_GROUPS] =
            (struct writer_value){.kind = WRITER_OBJECTS,
                                  .as.objects = {.fields = result_group_fields,
                                                 .values = out->groups,
                                                 .field_count = RESULT_GROUP_FIELD_COUNT,
                                                 .count = result->groups.count}};
        values[RESULT_WORKSPACE_BYTES] = number_value(result->workspace_bytes);
        values[RESULT_KV_READ_BYTES] = number_value(result->read_bytes);
        values[RESULT_KV_WRITTEN_BYTES] = number_value(result->written_bytes);
        values[RESULT_COLD] =
            (struct writer_value){.kind = WRITER_BOOL, .as.truth = result_is_cold(run, result)};
    }
    if (result->has_verify) {
        values[RESULT_KERNEL_ERROR] = real_value(result->verify.kernel_error);
        values[RESULT_K_ERROR] = real_value(result->verify.k_error);
        values[RESULT_V_ERROR] = real_value(result->verify.v_error);
        values[RESULT_FORMAT_ERROR] = real_value(result->verify.format_error);
        values[RESULT_VERIFIED_FRACTION] = real_value(result->verify.verified_fraction);
    }
    if (result->ranks.count > 0)
        set_ranks(&result->ranks, out);
    if (result->has_speed) {
        set_speed(run, result, values);
        set_circumstances(result, values);
        set_seen(result, out);
    }
    if (result->weights.shape.read_bytes > 0)
        set_weights(result, values);
    if (result->weights.shape.read_bytes > 0 && result->has_speed)
        set_whole_step(result, out);
}
