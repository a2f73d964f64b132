/* The command line as a struct: parsed from one list (options.def), the same options with the
 * same meaning in every command. Each row of that list is also its own help and its own check of
 * which commands take it. */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend.h"
#include "expect.h"
#include "format.h"
#include "formula.h"
#include "model.h"
#include "status.h"
#include "writer.h"

enum options_command {
    OPTIONS_MODELS = 1,
    OPTIONS_PREDICT = 2,
    OPTIONS_FILL = 4,
    OPTIONS_RUN = 8,
    OPTIONS_DEVICE = 16,
};

enum { OPTIONS_MAX_LIST = 64 };

struct engine;

/* One entry of --kv-format. */
struct options_format {
    bool is_auto; /* resolve from the model's config */
    bool is_bare; /* fp8, fp8_ds_mla, nvfp4_ds_mla: the record, if any, follows from the model */
    enum format_id k_format; /* a record: v_format is the same */
    enum format_id v_format;
    char name[40]; /* as shown: "bf16", "q8_0/q4_0", "fp8_ds_mla_656", "auto" */
};

enum options_lengths { OPTIONS_LENGTHS_EQUAL, OPTIONS_LENGTHS_MIXED, OPTIONS_LENGTHS_FILE };
/* What --until-full adds until the budget ends. */
enum options_until { OPTIONS_UNTIL_NOT, OPTIONS_UNTIL_SEQS, OPTIONS_UNTIL_TOKENS };
enum options_data {
    OPTIONS_DATA_NORMAL,
    OPTIONS_DATA_BIAS,
    OPTIONS_DATA_OUTLIER,
    OPTIONS_DATA_SINK
};

struct options {
    enum options_command command;
    uint64_t given; /* which were given: options_given */
    bool help;
    bool list; /* run: cases only; device: all devices */

    char *models[OPTIONS_MAX_LIST]; /* as given; owned */
    size_t model_count;             /* 0: not given */
    bool all_models;                /* --model all */

    struct options_format formats[OPTIONS_MAX_LIST]; /* the default list when not given */
    size_t format_count;
    bool formats_given;
    bool baseline_given;
    struct options_format baseline; /* the first format listed */

    bool index_given;
    enum formula_index_format index; /* meaningful when index_given */
    uint32_t state_value_bytes;      /* 4 or 2 */
    bool kv_scale_amax;

    uint64_t tokens[OPTIONS_MAX_LIST]; /* NUMBER_MAX_TOKENS: native context */
    size_t tokens_count;               /* 0: not given */
    uint64_t seqs[OPTIONS_MAX_LIST];
    size_t seqs_count; /* at least 1: {1} when not given */
    bool seqs_given;
    enum options_lengths lengths;
    char *lengths_file; /* owned */
    uint64_t share_prefix_tokens;
    bool window_as_full;
    uint32_t draft_layers;
    uint32_t tp;
    uint64_t page_tokens[OPTIONS_MAX_LIST];
    size_t page_tokens_count; /* {16} when not given */

    bool budget_given;
    uint64_t budget_bytes;
    uint64_t weights_bytes;
    uint64_t weights_read_bytes;         /* 0: not given */
    enum backend_weights weights_format; /* NONE: the backend's default */
    enum options_until until_full;
    bool itemise;

    const struct engine *engine;             /* host/engines; NULL: none asked for */
    char *engine_settings[OPTIONS_MAX_LIST]; /* KEY=VALUE as given; owned */
    size_t engine_setting_count;
    bool expect_given;
    struct expect_figure expect; /* meaningful when expect_given */
    char *expect_file;           /* owned, or NULL */
    double tolerance_percent;    /* 0: the last digit of the figure */

    enum writer_form output;
    char *save_path;   /* owned, or NULL */
    char *resume_path; /* owned, or NULL; not both */

    char *device; /* owned: "auto", "cpu", "cuda", "cuda:1" */
    uint32_t threads;
    char *kernel; /* owned, or NULL: the backend's default */
    bool page_order_sequential;
    uint64_t llc_bytes; /* 0: not given */
    enum options_data data;
    bool rotate; /* --rotate hadamard */
    uint64_t seed;
    uint64_t samples; /* 0: until --max-noise and --min-time */
    double max_noise_percent;
    double min_time_s;
    double max_time_s;
    char *suite; /* owned, or NULL */
    char *label; /* owned, or NULL */
};

/* Parses argv[1..]. On STATUS_BAD_INPUT the text is one line naming the option, the value and
 * what is allowed. `options` is always safe to free. */
enum status options_parse(int argc, char *const *argv, struct options *options,
                          struct status_text *text);
void options_free(struct options *options);
/* Whether "--name" stood on the command line; `name` is one of options.def. */
bool options_given(const struct options *options, const char *name);

/* --help of one command (0: the overview). */
void options_print_help(enum options_command command, FILE *stream);
/* The same text as a man page (roff) and as completion for bash. */
void options_print_man(const char *version, FILE *stream);
void options_print_completion(FILE *stream);

/* Parses one entry of a list of formats ("q8_0/q4_0"); `option` names the option in messages. */
enum status options_parse_format(const char *option, const char *text, struct options_format *out,
                                 struct status_text *message);

/* The format of one model. auto is `auto_format`. A bare record name is the record of that name
 * whose values are those of the model's latents or entries; fp8 is fp8_ds_mla's for a model of
 * compressed entries (DeepSeek-V4), fp8_e4m3 for any other. A record that fits nowhere stays, for
 * the formula to refuse by name. */
void options_format_resolve(const struct options_format *asked, const struct model *model,
                            enum format_id auto_format, struct options_format *out);

const char *options_data_name(enum options_data data);

#endif
