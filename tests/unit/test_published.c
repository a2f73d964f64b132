/* The size formula against every figure of published.json, each within its printed rounding, and
 * every built-in model against the figures in its own file (which needs no shared folder). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <cjson/cJSON.h>

#include "formula.h"
#include "model_source.h"
#include "printed_figure.h"

static const double mib = 1048576.0;
static const double gib = 1073741824.0;

static struct model load(const char *name) {
    struct model model;
    struct status_text text = {""};
    if (model_source_load(name, &model, NULL, NULL, NULL, &text) != STATUS_OK)
        fail_msg("%s", text.line);
    return model;
}

static struct formula_result compute(const struct model *model, enum format_id format,
                                     uint64_t tokens) {
    const struct formula_storage storage = {
        .k_format = format,
        .v_format = format,
        .index = formula_index_default(format),
        .state_value_bytes = 4,
    };
    struct formula_result result;
    struct status_text text = {""};
    if (formula_compute(model, &storage, tokens, 1, &result, &text) != STATUS_OK)
        fail_msg("%s", text.line);
    return result;
}

static void check(struct printed_section section, const char *model, const char *key,
                  double exact) {
    struct printed_figure figure = {0};
    if (!printed_read(section, key, false, &figure))
        fail_msg("%s: no figure %s", model, key);
    if (!printed_agrees(figure, exact))
        fail_msg("%s: %s is published as %g, computed %.6f", model, key, figure.value, exact);
}

/* Kimi K3's published fixed part and totals leave out the convolution columns, which its config
 * gives: 414.0 MiB without, 428.6 with. The others count all they have. */
static uint64_t uncounted_bytes(const char *name, const struct formula_result *result) {
    uint64_t conv = 0;
    for (uint32_t g = 0; g < result->group_count; g++)
        conv += result->groups[g].conv_bytes;
    return strcmp(name, "kimi-k3") == 0 ? conv : 0;
}

/* Growing K, V and latents and the fixed part; index keys are in no figure of this kind. */
static double counted_gib(const char *name, const struct model *model, enum format_id format,
                          uint64_t tokens) {
    const struct formula_result result = compute(model, format, tokens);
    uint64_t bytes = result.fixed_bytes_per_seq - uncounted_bytes(name, &result);
    for (uint32_t g = 0; g < result.group_count; g++)
        bytes += result.groups[g].kv_bytes;
    return (double)bytes / gib;
}

/* Figures of the table "models". Returns how many were checked. */
static int check_sizes(const char *name, const struct model *model, struct printed_section section,
                       enum format_id half) {
    const struct formula_result result = compute(model, half, 131072);
    check(section, name, "bytes_per_token_fp16", formula_rate_value(result.kv_rate));
    check(section, name, "fixed_per_sequence_mib",
          (double)(result.fixed_bytes_per_seq - uncounted_bytes(name, &result)) / mib);
    static const char *const lengths[] = {"8192", "32768", "131072"};
    for (size_t i = 0; i < 3; i++)
        check(section, name, lengths[i],
              counted_gib(name, model, half, strtoull(lengths[i], NULL, 10)));
    check(section, name, "gib_at_131072_fp8", counted_gib(name, model, FORMAT_FP8_E4M3, 131072));
    return 6;
}

/* Figures of the table "long_context_models": what grows, index keys counted where the source
 * counts them (not for MiniMax M3.1-Flash). Returns how many were checked. */
static int check_growth(const char *name, const struct model *model,
                        struct printed_section section) {
    static const struct {
        const char *key;
        enum format_id format;
    } columns[] = {{"bf16", FORMAT_BF16}, {"fp8", FORMAT_FP8_E4M3}, {"fp4", FORMAT_NVFP4}};
    const bool with_index = strcmp(name, "minimax-m3.1-flash") != 0;
    int checked = 1;
    struct formula_result result = compute(model, FORMAT_BF16, 1048576);
    struct formula_rate rate = with_index ? result.rate : result.kv_rate;
    check(section, name, "values_per_token", formula_rate_value(rate) / 2);
    for (size_t i = 0; i < 3; i++) {
        struct printed_figure figure = {0};
        if (i == 2 && !printed_read(section, columns[i].key, false, &figure))
            continue; /* only one model has an fp4 figure */
        result = compute(model, columns[i].format, 1048576);
        rate = with_index ? result.rate : result.kv_rate;
        check(section, name, columns[i].key, formula_rate_value(rate) * 1048576.0 / 1e9);
        checked++;
        if (i == 2) {
            check(section, name, "bytes_per_token_fp4", formula_rate_value(rate));
            checked++;
        }
    }
    return checked;
}

static void test_built_in_models_have_their_own_figures(void **state) {
    (void)state;
    int figures = 0;
    assert_int_equal(model_source_count(), 26);
    for (size_t i = 0; i < model_source_count(); i++) {
        const char *name = model_source_name(i), *json = model_source_json(i);
        const struct model model = load(name);
        assert_string_equal(model.name, name);
        const struct printed_section all = {json, json + strlen(json)};
        const char *begin = printed_find(all, "\"published\":");
        if (begin == NULL)
            fail_msg("%s: no published figures", name);
        const struct printed_section section = {begin, all.end};
        if (printed_find(section, "values_per_token") != NULL)
            figures += check_growth(name, &model, section);
        else
            figures += check_sizes(name, &model, section, FORMAT_BF16);
    }
    /* 22 models of 6 figures; 4 of 3, one of which has two more. */
    assert_int_equal(figures, 22 * 6 + 4 * 3 + 2);
}

struct published {
    char *text;
    cJSON *root;
    struct printed_section whole;
};

static int open_published(void **state) {
    struct published *published = calloc(1, sizeof *published);
    if (published == NULL)
        return -1;
    published->text = printed_load(KVGAUGE_SHARED_DIR "/facts/published.json");
    if (published->text != NULL) {
        published->root = cJSON_Parse(published->text);
        published->whole =
            (struct printed_section){published->text, published->text + strlen(published->text)};
    }
    *state = published;
    return 0;
}

static int close_published(void **state) {
    struct published *published = *state;
    cJSON_Delete(published->root);
    free(published->text);
    free(published);
    return 0;
}

static void need_published(const struct published *published) {
    if (published->text == NULL) {
        print_message("skipped: " KVGAUGE_SHARED_DIR "/facts/published.json is not there\n");
        skip();
    }
    assert_non_null(published->root);
}

/* "Qwen3-Coder-30B-A3B" -> "qwen3-coder-30b-a3b". */
static void built_in_name(const char *printed, char *out, size_t bytes) {
    size_t i = 0;
    for (; printed[i] != '\0' && i + 1 < bytes; i++)
        out[i] = printed[i] == ' ' ? '-' : (char)tolower((unsigned char)printed[i]);
    out[i] = '\0';
}

static const cJSON *list_of(const struct published *published, const char *key) {
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(published->root, key);
    assert_true(cJSON_IsArray(list));
    assert_true(cJSON_GetArraySize(list) > 0);
    return list;
}

static const char *string_of(const cJSON *object, const char *key) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    assert_true(cJSON_IsString(item));
    return item->valuestring;
}

static void check_table(const struct published *published, const char *table) {
    const cJSON *entry;
    cJSON_ArrayForEach(entry, list_of(published, table)) {
        char name[96];
        const char *printed = string_of(entry, "model");
        built_in_name(printed, name, sizeof name);
        const struct model model = load(name);
        const struct printed_section section =
            printed_section_of(published->whole, "model", printed);
        assert_non_null(section.begin);
        if (strcmp(table, "models") == 0) {
            (void)check_sizes(name, &model, section, FORMAT_BF16);
            (void)check_sizes(name, &model, section, FORMAT_F16);
        } else {
            (void)check_growth(name, &model, section);
        }
    }
}

static void test_every_published_size(void **state) {
    need_published(*state);
    check_table(*state, "models");
    check_table(*state, "long_context_models");
}

/* The figures inside the program are the published ones. */
static void test_built_in_figures_are_the_published_ones(void **state) {
    const struct published *published = *state;
    need_published(published);
    size_t compared = 0;
    static const char *const tables[] = {"models", "long_context_models"};
    for (size_t t = 0; t < 2; t++) {
        const cJSON *entry;
        cJSON_ArrayForEach(entry, list_of(published, tables[t])) {
            char name[96];
            built_in_name(string_of(entry, "model"), name, sizeof name);
            for (size_t i = 0; i < model_source_count(); i++) {
                if (strcmp(model_source_name(i), name) != 0)
                    continue;
                cJSON *own = cJSON_Parse(model_source_json(i));
                if (!cJSON_Compare(cJSON_GetObjectItemCaseSensitive(own, "published"),
                                   cJSON_GetObjectItemCaseSensitive(entry, "published"), 1))
                    fail_msg("%s: its figures are not the published ones", name);
                cJSON_Delete(own);
                compared++;
            }
        }
    }
    assert_int_equal(compared, model_source_count());
}

static void test_bytes_and_tokens_of_each_kv_type(void **state) {
    const struct published *published = *state;
    need_published(published);
    const struct model model = load("llama-3.3-70b");
    const double bf16 = formula_rate_value(compute(&model, FORMAT_BF16, 1).rate);
    const char *const begin = printed_find(published->whole, "\"kv_types\":");
    assert_non_null(begin);
    const struct printed_section types = {begin, published->whole.end};
    int ratios = 0, records = 0;
    const cJSON *entry;
    cJSON_ArrayForEach(entry, list_of(published, "kv_types")) {
        const char *name = string_of(entry, "name");
        const struct printed_section section = printed_section_of(types, "name", name);
        enum format_id format, alias;
        if (format_find(name, &format)) {
            const double rate = formula_rate_value(compute(&model, format, 1).rate);
            check(section, name, "bytes_per_value", rate / (80 * 8 * 256));
            check(section, name, "tokens_vs_bf16", bf16 / rate);
            const cJSON *other;
            cJSON_ArrayForEach(other, cJSON_GetObjectItemCaseSensitive(entry, "aliases")) {
                assert_true(format_find(other->valuestring, &alias));
                assert_int_equal(alias, format);
            }
            ratios++;
        } else {
            struct printed_figure bytes = {0};
            char record_name[64];
            enum format_id record;
            assert_true(printed_read(section, "bytes_per_token_per_layer", false, &bytes));
            (void)snprintf(record_name, sizeof record_name, "%s_%.0f", name, bytes.value);
            assert_true(format_find_record(record_name, &record));
            assert_int_equal(format_row_bytes(record, format_get(record)->group_values),
                             (int)bytes.value);
            records++;
        }
    }
    assert_int_equal(ratios, 8);
    assert_int_equal(records, 2);
}

/* A printed value stands for everything that rounds to it: tokens that fit the least and the most
 * left_gib may mean must embrace the printed tokens. */
static void check_fit_tokens(const char *name, const struct model *model,
                             struct printed_figure left, struct printed_figure tokens) {
    const struct formula_storage storage = {.k_format = FORMAT_F16,
                                            .v_format = FORMAT_F16,
                                            .index = FORMULA_INDEX_NONE,
                                            .state_value_bytes = 4};
    uint64_t least, most;
    assert_int_equal(formula_max_tokens(model, &storage, 1,
                                        (uint64_t)((left.value - left.half_unit) * gib), &least,
                                        NULL),
                     STATUS_OK);
    assert_int_equal(formula_max_tokens(model, &storage, 1,
                                        (uint64_t)((left.value + left.half_unit) * gib), &most,
                                        NULL),
                     STATUS_OK);
    if ((double)most < tokens.value - tokens.half_unit ||
        (double)least > tokens.value + tokens.half_unit)
        fail_msg("%s: %.0f tokens are published in %g GiB, computed %llu to %llu", name,
                 tokens.value, left.value, (unsigned long long)least, (unsigned long long)most);
}

static void check_fit_row(const cJSON *row, struct printed_section section, double usable_gib,
                          double overhead_gib) {
    char name[96];
    built_in_name(string_of(row, "model"), name, sizeof name);
    const struct model model = load(name);
    const struct formula_storage storage = {.k_format = FORMAT_F16,
                                            .v_format = FORMAT_F16,
                                            .index = FORMULA_INDEX_NONE,
                                            .state_value_bytes = 4};
    struct printed_figure weights = {0}, left = {0}, tokens = {0}, sequences = {0}, users = {0};
    assert_true(printed_read(section, "weights_gib", false, &weights));
    const double free_gib = usable_gib - overhead_gib - weights.value;
    if (!printed_read(section, "left_gib", false, &left)) {
        assert_true(free_gib < 0); /* the weights alone do not fit: nothing is left */
        return;
    }
    assert_true(printed_agrees(left, free_gib));
    if (printed_read(section, "tokens_fp16", true, &tokens))
        check_fit_tokens(name, &model, left, tokens);
    if (printed_read(section, "full_131072_sequences", false, &sequences)) {
        uint64_t fit;
        assert_int_equal(
            formula_max_seqs(&model, &storage, 131072, (uint64_t)(free_gib * gib), &fit, NULL),
            STATUS_OK);
        assert_int_equal(fit, (uint64_t)sequences.value);
    }
    if (printed_read(section, "twenty_users_131072_gib", false, &users)) {
        struct formula_result result;
        assert_int_equal(formula_compute(&model, &storage, 131072, 20, &result, NULL), STATUS_OK);
        assert_true(printed_agrees(users, (double)result.total_bytes / gib));
    }
}

static void test_what_fits_which_machine(void **state) {
    const struct published *published = *state;
    need_published(published);
    int rows = 0;
    const cJSON *machine;
    cJSON_ArrayForEach(machine, list_of(published, "fit")) {
        const struct printed_section section =
            printed_section_of(published->whole, "machine", string_of(machine, "machine"));
        assert_non_null(section.begin);
        struct printed_figure usable = {0}, overhead = {0};
        assert_true(printed_read(section, "usable_gib", false, &usable));
        (void)printed_read(section, "overhead_gib", false, &overhead);
        const cJSON *row;
        cJSON_ArrayForEach(row, cJSON_GetObjectItemCaseSensitive(machine, "rows")) {
            check_fit_row(row, printed_section_of(section, "model", string_of(row, "model")),
                          usable.value, overhead.value);
            rows++;
        }
    }
    assert_int_equal(rows, 10);
}

static void test_observations(void **state) {
    const struct published *published = *state;
    need_published(published);
    const char *begin = printed_find(published->whole, "\"observations\":");
    assert_non_null(begin);
    const struct printed_section section = {begin, published->whole.end};
    const struct model llama = load("llama-3.3-70b");
    struct printed_figure tokens = {0};
    assert_true(printed_read(section, "reported_kv_tokens", false, &tokens));
    const struct formula_result held = compute(&llama, FORMAT_BF16, (uint64_t)tokens.value);
    check(section, "llama-3.3-70b", "bytes_per_token", formula_rate_value(held.rate));
    check(section, "llama-3.3-70b", "kv_gib_from_tokens", (double)held.seq_bytes / gib);
    check(section, "fp8 to nvfp4", "theory",
          formula_rate_value(compute(&llama, FORMAT_FP8_E4M3, 1).rate) /
              formula_rate_value(compute(&llama, FORMAT_NVFP4, 1).rate));
}

/* DeepSeek-V3.2 with its draft layer; and what GLM-5.3's takes at 1,048,576 tokens, published as
 * 1.5 GB of bf16. */
static void test_draft_layers(void **state) {
    (void)state;
    struct model more, model = load("deepseek-v3.2");
    struct formula_result result;
    assert_int_equal(model_add_drafts(&model, 1, &more, NULL), STATUS_OK);
    result = compute(&more, FORMAT_BF16, 8192);
    assert_int_equal(result.kv_rate.bytes, 62 * 1152);
    assert_int_equal(result.index_rate.bytes, 62 * 256);
    model = load("glm-5.3");
    assert_int_equal(model_add_drafts(&model, 1, &more, NULL), STATUS_OK);
    const uint64_t before = compute(&model, FORMAT_BF16, 1048576).total_bytes;
    const double added = (double)(compute(&more, FORMAT_BF16, 1048576).total_bytes - before);
    assert_true(added / 1e9 > 1.45 && added / 1e9 < 1.55);
    model = load("deepseek-v4-flash");
    assert_int_equal(model_add_drafts(&model, 1, &more, NULL), STATUS_OK);
    const struct formula_result with = compute(&more, FORMAT_BF16, 1048576);
    result = compute(&model, FORMAT_BF16, 1048576);
    assert_int_equal(with.rate.bytes, result.rate.bytes);
    assert_int_equal(with.fixed_bytes_per_seq - result.fixed_bytes_per_seq, 128 * 512 * 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_built_in_models_have_their_own_figures),
        cmocka_unit_test(test_every_published_size),
        cmocka_unit_test(test_built_in_figures_are_the_published_ones),
        cmocka_unit_test(test_bytes_and_tokens_of_each_kv_type),
        cmocka_unit_test(test_what_fits_which_machine),
        cmocka_unit_test(test_observations),
        cmocka_unit_test(test_draft_layers),
    };
    return cmocka_run_group_tests(tests, open_published, close_published);
}
