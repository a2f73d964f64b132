/* From the modules' structs to the columns of result_fields.def. */
#include "result.h"

#include <stdio.h>
#include <string.h>

#include "backend_build.h"
#include "result_value.h"
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

static uint64_t all_tokens(const struct run_case *one) {
    uint64_t tokens = 0;
    for (uint64_t i = 0; i < one->seqs; i++)
        tokens += one->lengths[i];
    return tokens;
}

static void set_run(const struct result_run *run, struct writer_value *values) {
    const struct backend_facts *facts = &run->facts;
    values[RESULT_SCHEMA_VERSION] = result_value_number(RESULT_SCHEMA);
    values[RESULT_KVGAUGE_VERSION] = result_value_text(KVGAUGE_VERSION);
    values[RESULT_GIT] = result_value_text(KVGAUGE_GIT);
    values[RESULT_TIME_UTC] = result_value_text(run->time_utc);
    values[RESULT_HOST] = result_value_text(run->label);
    values[RESULT_ARGV] = (struct writer_value){
        .kind = WRITER_TEXTS, .as.texts = {.values = run->argv, .count = run->argc}};
    values[RESULT_SUITE] = result_value_text(run->suite);
    values[RESULT_BACKEND] = result_value_text(facts->backend);
    values[RESULT_DEVICE] = result_value_text(facts->device);
    values[RESULT_DRIVER] = result_value_text(facts->driver);
    if (strcmp(facts->backend, "cuda") == 0)
        values[RESULT_CUDA] = result_value_text(backend_cuda_version());
    if (facts->threads > 0)
        values[RESULT_THREADS] = result_value_number(facts->threads);
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
    values[RESULT_SEED] = result_value_number(options->seed);
    values[RESULT_MODEL] = result_value_text(one->model.name);
    values[RESULT_TOKENS] = result_value_number(one->tokens);
    values[RESULT_SEQS] = result_value_number(one->seqs);
    values[RESULT_TP] = result_value_number(options->tp);
    values[RESULT_PAGE_TOKENS] = result_value_number(one->page_tokens);
    values[RESULT_PAGE_ORDER] =
        result_value_text(options->page_order_sequential ? "sequential" : "shuffled");
    values[RESULT_DATA] = result_value_text(options_data_name(options->data));
    struct options_format resolved;
    const struct formula_storage storage = run_case_storage(one, result->format, &resolved);
    /* What was done, not what was asked: 16-bit rows are the same with and without. */
    const bool rotated = options->rotate && rotate_any(&one->model, &storage);
    values[RESULT_ROTATE] = result_value_text(rotated ? "hadamard" : "none");
    /* Names from the tables, not from `resolved`: values outlive this function. */
    values[RESULT_K_FORMAT] = result_value_text(format_get(storage.k_format)->name);
    values[RESULT_V_FORMAT] = result_value_text(format_get(storage.v_format)->name);
    for (uint32_t g = 0; g < one->model.group_count; g++)
        if (one->model.groups[g].kind == MODEL_INDEX)
            values[RESULT_INDEX_FORMAT] = result_value_text(formula_index_name(storage.index));
    values[RESULT_KERNEL] = result_value_text(result->kernel);
    values[RESULT_STATUS] = result_value_text(result_status_name(result->status));
    values[RESULT_REASON] = result_value_text(reason_words(result, out));
}

static void set_bytes(const struct result *result, struct writer_value *values) {
    const struct pool_sizes *sizes = &result->sizes;
    const double tokens = (double)all_tokens(result->which);
    values[RESULT_FORMULA_BYTES] = result_value_number(sizes->formula_bytes);
    values[RESULT_PAGED_BYTES] = result_value_number(sizes->paged_bytes);
    values[RESULT_POOL_BYTES] = result_value_number(sizes->pool_bytes);
    values[RESULT_PADDING_BYTES] = result_value_number(sizes->tail_bytes + sizes->alignment_bytes);
    values[RESULT_SHARED_BYTES] = result_value_number(sizes->shared_bytes);
    values[RESULT_PARTIAL_BYTES] = result_value_number(sizes->partial_bytes);
    values[RESULT_SPARE_BYTES] = result_value_number(sizes->spare_bytes);
    values[RESULT_PAGE_TABLE_BYTES] = result_value_number(sizes->page_table_bytes);
    values[RESULT_TENSOR_SCALE_BYTES] = result_value_number(sizes->tensor_scale_bytes);
    if (tokens > 0) {
        values[RESULT_FORMULA_BYTES_TOKEN] =
            result_value_real((double)sizes->formula_bytes / tokens);
        values[RESULT_POOL_BYTES_TOKEN] = result_value_real((double)sizes->pool_bytes / tokens);
        values[RESULT_FORMULA_TOKENS_GB] =
            result_value_real(tokens * 1e9 / (double)sizes->formula_bytes);
        values[RESULT_POOL_TOKENS_GB] = result_value_real(tokens * 1e9 / (double)sizes->pool_bytes);
    }
    if (result->has_driver) {
        values[RESULT_DRIVER_BYTES] = result_value_number(result->driver_bytes);
        values[RESULT_DRIVER_TOKENS_GB] =
            result_value_real(tokens * 1e9 / (double)result->driver_bytes);
    }
    if (result->has_resident)
        values[RESULT_RESIDENT_BYTES] = result_value_number(result->resident_bytes);
}

static void set_seen(const struct result *result, struct result_row *out) {
    struct writer_value *values = out->values;
    const struct measure_seen *seen = &result->seen;
    values[RESULT_SAMPLES_NS] = result_value_samples(result->series.step_ns, result->series.count);
    values[RESULT_CANARY_MB_S] =
        result_value_samples(result->series.canary_mb_per_s, result->series.count);
    const struct measure_series *series = &result->series;
    if (series->count > 0 && series->pace_mops[0] > 0)
        values[RESULT_PACE_MOPS] = result_value_samples(series->pace_mops, series->count);
    if (seen->interval.high > 0) {
        out->interval[0] = seen->interval.low;
        out->interval[1] = seen->interval.high;
        values[RESULT_STEP_INTERVAL_NS] = result_value_samples(out->interval, 2);
    }
    values[RESULT_STOPPED_BY] = result_value_text(measure_stop_name(seen->stop));
    values[RESULT_OUTLIERS] = result_value_number(seen->outliers);
    values[RESULT_LAUNCH_NS] = result_value_real(seen->launch_ns);
    values[RESULT_STABILITY] = result_value_text(measure_stability_name(seen->verdict.stability));
}

static void set_speed(const struct result_run *run, const struct result *result,
                      struct writer_value *values) {
    const double seqs = (double)result->which->seqs;
    const struct measure_canary *canary = &result->canary;
    values[RESULT_STEP_NS] = result_value_summary(&result->step);
    values[RESULT_ATTEND_NS] = result_value_summary(&result->parts[MEASURE_ATTEND]);
    values[RESULT_APPEND_NS] = result_value_summary(&result->parts[MEASURE_APPEND]);
    if (result->ranks.count > 0)
        values[RESULT_REDUCE_NS] = result_value_summary(&result->parts[MEASURE_REDUCE]);
    values[RESULT_KV_TOKENS_S] = result_value_real(seqs * 1e9 / result->kv.median);
    values[RESULT_READ_GB_S] = result_value_real(result_read_gb_per_s(result));
    values[RESULT_CEILING_GB_S] = result_value_real(canary->gb_per_s);
    values[RESULT_CEILING_TOKENS_S] =
        result_value_real(seqs * canary->gb_per_s * 1e9 / (double)result->read_bytes);
    if (result_is_cold(run, result))
        values[RESULT_PERCENT_OF_CEILING] = result_value_real(100 * result_ceiling_share(result));
    values[RESULT_CANARY_DRIFT] = result_value_real(canary->drift_percent);
    if (result->has_baseline) {
        values[RESULT_KV_SPEED_VS_BASELINE] = result_value_real(result->kv_speed_vs_baseline);
        values[RESULT_TOKENS_VS_BASELINE] = result_value_real(result->tokens_vs_baseline);
    }
}

static void set_circumstances(const struct result *result, struct writer_value *values) {
    const struct telemetry_summary *telemetry = &result->telemetry;
    const struct measure_energy *energy = &result->energy;
    values[RESULT_CLOCKS] = result_value_text(telemetry->clocks);
    values[RESULT_TEMPERATURE] =
        result_value_known_real(telemetry->has_temperature, telemetry->temperature_c);
    values[RESULT_POWER_W] = result_value_known_real(energy->has_power, energy->power_w);
    /* A step makes one token for every sequence. */
    values[RESULT_ENERGY_J] =
        result_value_known_real(energy->has_energy, energy->step_j / (double)result->which->seqs);
    if (telemetry->has_reasons)
        values[RESULT_THROTTLE_REASONS] = (struct writer_value){
            .kind = WRITER_TEXTS,
            .as.texts = {.values = telemetry->reasons, .count = telemetry->reason_count}};
    values[RESULT_OTHER_PROCESSES] =
        result_value_known_number(telemetry->has_other_processes, telemetry->other_processes);
    values[RESULT_OTHER_PROCESS_BYTES] =
        result_value_known_number(telemetry->has_other_bytes, telemetry->other_bytes);
    values[RESULT_OTHER_LOAD] =
        result_value_known_real(telemetry->has_other_load, telemetry->other_load_percent);
}

/* What is there without a speed, too. */
static void set_weights(const struct result *result, struct writer_value *values) {
    const struct result_weights *weights = &result->weights;
    values[RESULT_WEIGHTS_READ_BYTES] = result_value_number(weights->shape.read_bytes);
    if (weights->shape.format != BACKEND_WEIGHTS_NONE)
        values[RESULT_WEIGHTS_FORMAT] =
            result_value_text(weights_read_format_name(weights->shape.format));
    values[RESULT_WEIGHTS_LIBRARY] = result_value_text(weights->library);
    if (weights->library[0] != '\0')
        values[RESULT_WEIGHTS_ERROR] = result_value_real(weights->error);
    if (result->has_overtakes)
        values[RESULT_KV_OVERTAKES] = result_value_number(result->overtakes_tokens);
}

void result_share(const struct result *result, struct step_share *out) {
    step_share_take(&result->groups, result->kv.median, result->weights.shape.read_bytes,
                    result->parts[MEASURE_WEIGHTS].median, out);
}

static void set_whole_step(const struct result *result, struct result_row *out) {
    struct writer_value *values = out->values;
    const struct writer_summary *weights = &result->parts[MEASURE_WEIGHTS];
    values[RESULT_WEIGHTS_NS] = result_value_summary(weights);
    values[RESULT_WEIGHTS_GB_S] =
        result_value_real((double)result->weights.shape.read_bytes / weights->median);
    values[RESULT_STEP_TOKENS_S] =
        result_value_real((double)result->which->seqs * 1e9 / result->step.median);
    if (result->has_baseline)
        values[RESULT_STEP_SPEED_VS_BASELINE] = result_value_real(result->step_speed_vs_baseline);
    struct step_share share;
    result_share(result, &share);
    values[RESULT_STEP_PARTS] =
        result_value_objects(step_share_fields, STEP_SHARE_FIELD_COUNT, out->step_parts,
                             step_share_values(&share, out->step_parts));
}

static void set_ranks(const struct result_ranks *ranks, struct result_row *out) {
    struct writer_value *values = out->values;
    values[RESULT_RANKS] = result_value_number(ranks->count);
    values[RESULT_REDUCE_BYTES] = result_value_number(ranks->reduce_bytes);
    if (ranks->has_replicated)
        values[RESULT_REPLICATED_BYTES] = result_value_number(ranks->replicated_bytes);
    if (!ranks->has_times)
        return;
    values[RESULT_SLOWEST_RANK] = result_value_number(ranks->slowest);
    result_ranks_values(ranks, out->ranks);
    values[RESULT_PER_RANK] =
        result_value_objects(result_rank_fields, RESULT_RANK_FIELD_COUNT, out->ranks, ranks->count);
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
        values[RESULT_GROUPS] = result_value_objects(result_group_fields, RESULT_GROUP_FIELD_COUNT,
                                                     out->groups, result->groups.count);
        values[RESULT_WORKSPACE_BYTES] = result_value_number(result->workspace_bytes);
        values[RESULT_KV_READ_BYTES] = result_value_number(result->read_bytes);
        values[RESULT_KV_WRITTEN_BYTES] = result_value_number(result->written_bytes);
        values[RESULT_COLD] =
            (struct writer_value){.kind = WRITER_BOOL, .as.truth = result_is_cold(run, result)};
    }
    if (result->has_verify) {
        values[RESULT_KERNEL_ERROR] = result_value_real(result->verify.kernel_error);
        values[RESULT_K_ERROR] = result_value_real(result->verify.k_error);
        values[RESULT_V_ERROR] = result_value_real(result->verify.v_error);
        values[RESULT_FORMAT_ERROR] = result_value_real(result->verify.format_error);
        values[RESULT_VERIFIED_FRACTION] = result_value_real(result->verify.verified_fraction);
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
