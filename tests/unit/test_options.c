/* The command line: what is parsed, what every row of options.def promises, what is refused. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model_source.h"
#include "nearest.h"
#include "number.h"
#include "options_list.h"

enum { MOST_WORDS = 24 };

/* Parses "predict -m x ..." split at blanks. */
static enum status parse(const char *line, struct options *out, struct status_text *text) {
    static char copy[1024], program[] = "kvgauge";
    char *words[MOST_WORDS] = {program};
    int count = 1;
    assert_true(strlen(line) < sizeof copy);
    (void)strcpy(copy, line);
    for (char *word = strtok(copy, " "); word != NULL; word = strtok(NULL, " ")) {
        assert_true(count < MOST_WORDS);
        words[count++] = word;
    }
    return options_parse(count, words, out, text);
}

static struct options parse_well(const char *line) {
    struct options options;
    struct status_text text = {""};
    if (parse(line, &options, &text) != STATUS_OK)
        fail_msg("%s: %s", line, text.line);
    return options;
}

static void defaults_are_the_contract(void **state) {
    (void)state;
    struct options options = parse_well("predict -m llama-3.3-70b");
    static const char *const formats[] = {"bf16", "fp8_e4m3", "fp8_e5m2", "nvfp4", "q8_0", "q4_0"};
    assert_int_equal(options.command, OPTIONS_PREDICT);
    assert_int_equal(options.format_count, 6);
    for (size_t i = 0; i < 6; i++)
        assert_string_equal(options.formats[i].name, formats[i]);
    assert_string_equal(options.baseline.name, "bf16");
    assert_false(options.formats_given || options.baseline_given || options.index_given);
    assert_false(options.budget_given || options.window_as_full || options.kv_scale_amax);
    assert_int_equal(options.tokens_count, 0);
    assert_int_equal(options.seqs_count, 1);
    assert_int_equal(options.seqs[0], 1);
    assert_int_equal(options.page_tokens_count, 1);
    assert_int_equal(options.page_tokens[0], 16);
    assert_int_equal(options.tp, 1);
    assert_int_equal(options.state_value_bytes, 4);
    assert_int_equal(options.lengths, OPTIONS_LENGTHS_EQUAL);
    assert_int_equal(options.data, OPTIONS_DATA_NORMAL);
    assert_int_equal(options.output, WRITER_TABLE);
    assert_true(options.min_time_s <= options.max_time_s);
    assert_null(options.save_path);
    options_free(&options);
}

static void values_arrive(void **state) {
    (void)state;
    struct options options = parse_well("run --model=a,b -m all --kv-format "
                                        "q8_0/q4_0,NVFP4,q8_0/q4_0 --tokens 1k-4k,max --tokens 7");
    assert_int_equal(options.model_count, 2);
    assert_string_equal(options.models[0], "a");
    assert_string_equal(options.models[1], "b");
    assert_true(options.all_models);
    assert_int_equal(options.format_count, 2);
    assert_string_equal(options.formats[0].name, "q8_0/q4_0");
    assert_int_equal(options.formats[0].k_format, FORMAT_Q8_0);
    assert_int_equal(options.formats[0].v_format, FORMAT_Q4_0);
    assert_string_equal(options.formats[1].name, "nvfp4");
    assert_string_equal(options.baseline.name, "q8_0/q4_0");
    assert_int_equal(options.tokens_count, 5);
    assert_int_equal(options.tokens[2], 4096);
    assert_true(options.tokens[3] == NUMBER_MAX_TOKENS);
    assert_int_equal(options.tokens[4], 7);
    options_free(&options);

    options = parse_well("run -m a --window-as full --kv-scale amax --state-format bf16 --tp 4 "
                         "--budget 30GiB --weights 1GB --data sink --page-order sequential");
    assert_true(options.window_as_full && options.kv_scale_amax && options.page_order_sequential);
    assert_int_equal(options.state_value_bytes, 2);
    assert_int_equal(options.tp, 4);
    assert_true(options.budget_given);
    assert_true(options.budget_bytes == (uint64_t)30 << 30);
    assert_int_equal(options.weights_bytes, 1000000000);
    assert_int_equal(options.data, OPTIONS_DATA_SINK);
    options_free(&options);

    options = parse_well("run --min-time 20 --baseline q4_0 --lengths file.txt --device cuda:1 "
                         "--seed 0 --samples 5 --output jsonl --label x");
    assert_true(options.min_time_s == 20 && options.max_time_s >= 20);
    assert_string_equal(options.baseline.name, "q4_0");
    assert_int_equal(options.lengths, OPTIONS_LENGTHS_FILE);
    assert_string_equal(options.lengths_file, "file.txt");
    assert_string_equal(options.device, "cuda:1");
    assert_int_equal(options.seed, 0);
    assert_int_equal(options.samples, 5);
    assert_int_equal(options.output, WRITER_JSONL);
    assert_string_equal(options.label, "x");
    options_free(&options);
}

static void every_format_by_name_and_in_all(void **state) {
    (void)state;
    struct options options = parse_well("predict -m x --kv-format all");
    assert_int_equal(options.format_count, FORMAT_COUNT);
    for (int id = 0; id < FORMAT_COUNT; id++) {
        const char *name = format_get((enum format_id)id)->name;
        struct options_format format;
        assert_int_equal(options.formats[id].k_format, id);
        assert_int_equal(options_parse_format("--kv-format", name, &format, NULL), STATUS_OK);
        assert_int_equal(format.k_format, id);
        assert_int_equal(format.v_format, id);
        assert_string_equal(format.name, name);
    }
    options_free(&options);
    for (int id = FORMAT_COUNT + 1; id < FORMAT_END; id++) {
        const struct format_info *record = format_get((enum format_id)id);
        struct options_format format;
        struct status_text text = {""};
        const enum status status =
            options_parse_format("--kv-format", record->name, &format, &text);
        if (record->key_dim > 0) {
            assert_int_equal(status, STATUS_BAD_INPUT);
            assert_non_null(strstr(text.line, "--index-format"));
        } else {
            assert_int_equal(status, STATUS_OK);
            assert_int_equal(format.k_format, id);
            assert_int_equal(format.v_format, id);
        }
    }
}

/* What a format's name means for a model. */
static void names_follow_the_model(void **state) {
    (void)state;
    static const struct {
        const char *format, *model, *resolved;
    } cases[] = {
        {"fp8", "llama-3.3-70b", "fp8_e4m3"},
        {"fp8", "deepseek-v3.2", "fp8_e4m3"},
        {"fp8", "deepseek-v4-flash", "fp8_ds_mla_584"},
        {"fp8", "deepseek-v4.1-flash", "fp8_ds_mla_528"},
        {"fp8_e4m3", "deepseek-v4-flash", "fp8_e4m3"},
        {"fp8_ds_mla", "deepseek-v3.2", "fp8_ds_mla_656"},
        {"fp8_ds_mla", "deepseek-v4-flash", "fp8_ds_mla_584"},
        {"fp8_ds_mla", "deepseek-v4.1-flash", "fp8_ds_mla_528"},
        {"fp8_ds_mla", "llama-3.3-70b", "fp8_ds_mla_656"}, /* which the formula refuses */
        {"nvfp4_ds_mla", "deepseek-v3.2", "nvfp4_ds_mla_352"},
        {"nvfp4_ds_mla", "deepseek-v4.1-flash", "nvfp4_ds_mla_288"},
        {"auto", "llama-3.3-70b", "f16"}, /* as told below */
        {"q8_0/q4_0", "llama-3.3-70b", "q8_0/q4_0"},
        {"fp8_ds_mla_584", "deepseek-v3.2", "fp8_ds_mla_584"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct model model;
        struct options_format asked, resolved;
        assert_int_equal(model_source_load(cases[i].model, &model, NULL, NULL, NULL, NULL),
                         STATUS_OK);
        assert_int_equal(options_parse_format("--kv-format", cases[i].format, &asked, NULL),
                         STATUS_OK);
        options_format_resolve(&asked, &model, FORMAT_F16, &resolved);
        if (strcmp(resolved.name, cases[i].resolved) != 0)
            fail_msg("%s of %s is %s, not %s", cases[i].format, cases[i].model, resolved.name,
                     cases[i].resolved);
        assert_false(resolved.is_auto || resolved.is_bare);
        const bool is_record = strstr(cases[i].resolved, "_ds_mla_") != NULL;
        assert_int_equal(format_is_record(resolved.k_format), is_record);
        assert_int_equal(format_is_record(resolved.v_format), is_record);
        if (is_record)
            assert_string_equal(format_get(resolved.k_format)->name, cases[i].resolved);
    }
}

static void bad_lines_say_what_is_allowed(void **state) {
    (void)state;
    static const struct {
        const char *line, *says;
    } cases[] = {
        {"", "a command is expected"},
        {"rum", "nearest: run"},
        {"predict --tokns 8k", "--tokns: unknown option, nearest: --tokens"},
        {"predict -x", "-x: unknown option"},
        {"predict --", "--: unknown option"},
        {"predict model", "an option is expected"},
        {"predict -m", "--model: a value is expected"},
        {"predict -m --tokens 8k", "--model: a value is expected"},
        {"predict -m a,,b", "--model: an empty name"},
        {"predict --itemise=yes", "--itemise takes no value (yes)"},
        {"predict --tokens=", "--tokens: the value is empty"},
        {"predict --threads 2", "kvgauge predict does not take it"},
        {"models --tokens 8k", "kvgauge models does not take it"},
        {"device -m x", "kvgauge device does not take it"},
        {"run --until-now seqs", "--until-now: unknown option"},
        {"run --kv-format nvfp5", "--kv-format nvfp5: unknown, nearest: nvfp4"},
        {"run --baseline nvfp5", "--baseline nvfp5: unknown, nearest: nvfp4"},
        {"run --kv-format q8_0/", "unknown"},
        {"run --kv-format q8_0/q4_0/q4_0", "unknown"},
        {"run --kv-format bf16,", "unknown"},
        {"run --kv-format index_fp8_132", "use --index-format"},
        {"run --index-format q8_0", "allowed are bf16, fp8_e4m3"},
        {"run --state-format f16", "--state-format f16: allowed are f32, bf16"},
        {"run --kv-scale two", "allowed are one, amax"},
        {"run --window-as none", "allowed are window, full"},
        {"run --data bad", "allowed are normal, bias, outlier, sink"},
        {"run --rotate other", "allowed are none, hadamard"},
        {"run -o xml", "allowed are table, md, csv, json, jsonl"},
        {"run --tp 0", "--tp 0: a whole number from 1"},
        {"run --seed -1", "--seed -1: a whole number from 0"},
        {"run --seed 4611686018427387905", "from 0 to 4611686018427387904"},
        {"run --samples 0", "--samples 0: a whole number from 1"},
        {"run --page-tokens 16777217", "at most 16777216 tokens per page"},
        {"run --share-prefix max", "a number of tokens"},
        {"run --draft-layers 1025", "--draft-layers 1025: a whole number from 0 to 1024"},
        {"run --min-time 5 --max-time 2", "--max-time 2 is below --min-time 5"},
        {"run --seqs 1-100+1", "too many values"},
        {"run --seqs 1-60+1 --seqs 1-60+1", "too many values"},
        {"run --until-full seqs", "--until-full: kvgauge run does not take it"},
        {"fill -m 2x64 --until-full pages", "--until-full pages: allowed are seqs, tokens"},
        {"fill -m 2x64 --until-full seqs --seqs 2", "finds the number that --seqs gives"},
        {"fill -m 2x64 --until-full tokens --tokens 2", "finds the number that --tokens gives"},
        {"fill -m 2x64 --until-full tokens --lengths mixed", "only with --lengths equal"},
        {"fill --until-full tokens", "--until-full tokens needs a --model"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct options options;
        struct status_text text = {""};
        assert_int_equal(parse(cases[i].line, &options, &text), STATUS_BAD_INPUT);
        if (strstr(text.line, cases[i].says) == NULL)
            fail_msg("%s: \"%s\" does not say \"%s\"", cases[i].line, text.line, cases[i].says);
        options_free(&options);
    }
}

static void messages_stay_on_one_line(void **state) {
    (void)state;
    char program[] = "kvgauge", command[] = "run", wild[] = "--a\nb\x1b[1m", value[600];
    memset(value, 'y', sizeof value - 1);
    value[sizeof value - 1] = '\0';
    struct status_text text = {""};
    struct options options;
    char *unknown[] = {program, command, wild};
    assert_int_equal(options_parse(3, unknown, &options, &text), STATUS_BAD_INPUT);
    assert_null(strpbrk(text.line, "\n\x1b"));
    options_free(&options);
    for (size_t i = 0; i < OPTIONS_LIST_COUNT; i++) {
        const struct options_row *row = &options_list[i];
        char name[40];
        (void)snprintf(name, sizeof name, "--%s", row->name);
        char *long_value[] = {program, command, name, value};
        if ((row->commands & OPTIONS_RUN) == 0 || row->argument == NULL)
            continue;
        const enum status status = options_parse(4, long_value, &options, &text);
        if (status != STATUS_OK) {
            assert_int_equal(status, STATUS_BAD_INPUT);
            assert_non_null(strstr(text.line, name));
            assert_true(strlen(text.line) < sizeof text.line - 1); /* not cut */
        }
        options_free(&options);
    }
}

/* The list itself: no name twice, every option in the help of who takes it and of no other. */
static void the_list_is_sound(void **state) {
    (void)state;
    static const enum options_command commands[] = {OPTIONS_MODELS, OPTIONS_PREDICT, OPTIONS_FILL,
                                                    OPTIONS_RUN, OPTIONS_DEVICE};
    for (size_t i = 0; i < OPTIONS_LIST_COUNT; i++) {
        assert_true(strlen(options_list[i].name) < 20);
        assert_true(options_list[i].help[0] != '\0');
        for (size_t j = 0; j < i; j++) {
            assert_string_not_equal(options_list[i].name, options_list[j].name);
            if (options_list[i].letter != 0)
                assert_int_not_equal(options_list[i].letter, options_list[j].letter);
        }
    }
    for (size_t c = 0; c < OPTIONS_COMMAND_COUNT; c++) {
        char *help = NULL;
        size_t bytes = 0;
        FILE *stream = open_memstream(&help, &bytes);
        assert_non_null(stream);
        options_print_help(commands[c], stream);
        assert_int_equal(fclose(stream), 0);
        assert_non_null(strstr(help, options_command_name(commands[c])));
        for (size_t i = 0; i < OPTIONS_LIST_COUNT; i++) {
            char shown[40];
            (void)snprintf(shown, sizeof shown, " --%s ", options_list[i].name);
            const bool taken = (options_list[i].commands & (unsigned)commands[c]) != 0;
            assert_int_equal(strstr(help, shown) != NULL, taken);
        }
        free(help);
    }
}

static void nearest_are_near(void **state) {
    (void)state;
    static const char *const names[] = {"bf16", "f16", "nvfp4", "mxfp4", "q8_0", "fp4_mx_block16"};
    static const struct {
        const char *unknown, *near;
    } cases[] = {
        {"nvfp5", "nvfp4, mxfp4"},
        {"NVFP", "nvfp4, mxfp4"},
        {"q8", "q8_0"},
        {"fp4_", "fp4_mx_block16, f16, nvfp4"},
        {"completely-different", ""},
        {"", ""},
    };
    char out[64];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        nearest_names(cases[i].unknown, names, 6, out, sizeof out);
        if (strcmp(out, cases[i].near) != 0)
            fail_msg("nearest to %s: %s", cases[i].unknown, out);
    }
    /* A short buffer is filled and ended, not passed. */
    char small[4] = "???";
    nearest_names("nvfp5", names, 6, small, sizeof small);
    assert_string_equal(small, "nvf");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_the_contract),
        cmocka_unit_test(values_arrive),
        cmocka_unit_test(every_format_by_name_and_in_all),
        cmocka_unit_test(names_follow_the_model),
        cmocka_unit_test(bad_lines_say_what_is_allowed),
        cmocka_unit_test(messages_stay_on_one_line),
        cmocka_unit_test(the_list_is_sound),
        cmocka_unit_test(nearest_are_near),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
