/* One row of `run`: what was asked, what it took, how fast it was, how exact, under what
 * circumstances. Gathered from the other modules' structs; written by writer.h. */
#ifndef RESULT_H
#define RESULT_H

#include <stdbool.h>
#include <stdint.h>

#include "measure.h"
#include "pool.h"
#include "result_groups.h"
#include "result_ranks.h"
#include "run_case.h"
#include "step_share.h"
#include "telemetry_watch.h"
#include "verify.h"
#include "weights_read.h"
#include "writer.h"

enum { RESULT_SCHEMA = 1, RESULT_REASON_BYTES = 1024 };

enum result_field {
#define RESULT(ID, name, heading, decimals) RESULT_##ID,
#include "result_fields.def"
#undef RESULT
    RESULT_FIELD_COUNT
};

extern const struct writer_field result_fields[RESULT_FIELD_COUNT];

enum result_status {
    RESULT_OK,
    RESULT_WRONG,
    RESULT_REFUSED,
    RESULT_OUT_OF_MEMORY,
    RESULT_INTERRUPTED,
};
const char *result_status_name(enum result_status status);
enum result_status result_status_of(enum status status);

/* What is the same in every row of one run. */
struct result_run {
    const char *const *argv; /* home paths already cut */
    size_t argc;
    char time_utc[24];
    const char *label; /* host; NULL unless --label */
    const char *suite; /* NULL: none */
    const struct options *options;
    struct backend_facts facts;
    uint64_t cold_bytes; /* unique bytes a sample must touch to be called cold */
};

/* --weights-read, the same for all formats of a case; all zero without it. */
struct result_weights {
    struct weights_read_shape shape; /* read_bytes 0: none are read */
    char library[64];                /* "" until products were computed */
    double error;                    /* with `library` */
};

/* One format of one case. */
struct result {
    const struct run_case *which;
    const struct options_format *format;
    enum result_status status;
    char reason[RESULT_REASON_BYTES];
    char kernel[64]; /* "" until known */
    bool has_sizes;
    struct pool_sizes sizes;
    bool has_driver;
    uint64_t driver_bytes;
    bool has_resident;
    uint64_t resident_bytes;
    bool has_work;
    uint64_t workspace_bytes;
    uint64_t read_bytes;
    uint64_t written_bytes;
    struct format_replaced replaced;
    bool has_verify;
    struct verify_result verify;
    bool has_speed;                 /* only with status RESULT_OK */
    struct measure_series series;   /* owned */
    struct writer_summary step, kv; /* all parts; append and attention alone */
    struct writer_summary parts[MEASURE_PARTS];
    struct result_groups groups; /* with has_work; times with has_speed */
    struct measure_canary canary;
    struct telemetry_summary telemetry; /* with has_speed */
    struct measure_energy energy;
    struct measure_seen seen;
    struct result_weights weights;
    bool has_overtakes; /* the cache is read more than the weights from this length on */
    uint64_t overtakes_tokens;
    struct result_ranks ranks; /* with several: times are the slowest rank's */
    bool has_baseline;         /* a baseline row exists to compare with */
    double kv_speed_vs_baseline;
    double step_speed_vs_baseline; /* of all parts */
    double tokens_vs_baseline;
};

bool result_is_cold(const struct result_run *run, const struct result *result);
/* kv_read_bytes / attend time, and its share of the ceiling (0..1); only with has_speed. */
double result_read_gb_per_s(const struct result *result);
double result_ceiling_share(const struct result *result);

/* One more thing that the reason of a row says which stays what it is; "" adds nothing. */
void result_add_reason(struct result *result, const char *words);
/* Weights and cache in bytes and time; only with has_speed and --weights-read. */
void result_share(const struct result *result, struct step_share *out);

/* A row as the writer takes it. */
struct result_row {
    struct writer_value values[RESULT_FIELD_COUNT];
    struct writer_value groups[MODEL_MAX_GROUPS * RESULT_GROUP_FIELD_COUNT];
    uint64_t interval[2];
    char reason[RESULT_REASON_BYTES + sizeof((struct model *)0)->remark + 2];
    struct writer_value step_parts[(size_t)STEP_SHARE_PARTS * STEP_SHARE_FIELD_COUNT];
    struct writer_value ranks[RANKS_MOST * RESULT_RANK_FIELD_COUNT];
};

/* Texts point into `run` and `result`, and `out` into itself. */
void result_values(const struct result_run *run, const struct result *result,
                   struct result_row *out);

#endif
