/* Ranks as far as one process can show: who was started, what a sum over ranks takes and does on
 * the way, how measuring keeps in step. Several processes: tests/scripts/ranks_test.sh; what a row
 * makes of their figures: test_result_ranks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "measure.h"
#include "ranks.h"
#include "reduce.h"
#include "runner_ranks.h"

static const struct ranks alone = {.count = 1, .local_count = 1};
static const struct backend_ops *cpu;
static struct backend_device *device;

static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE",       "MV2_COMM_WORLD_SIZE",
                                    "SLURM_STEP_NUM_TASKS", "SLURM_PTY_PORT", "SLURM_NTASKS"};

static uint32_t launched(const char *name, const char *value, const char *other) {
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        (void)unsetenv(names[i]);
    if (name != NULL)
        (void)setenv(name, value, 1);
    if (other != NULL)
        (void)setenv(other, "1", 1);
    const uint32_t count = ranks_launched();
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        (void)unsetenv(names[i]);
    return count;
}

static void test_launched(void **state) {
    (void)state;
    assert_int_equal(launched(NULL, NULL, NULL), 1);
    assert_int_equal(launched("OMPI_COMM_WORLD_SIZE", "3", NULL), 3);
    assert_int_equal(launched("OMPI_COMM_WORLD_SIZE", "1", NULL), 1);
    assert_int_equal(launched("OMPI_COMM_WORLD_SIZE", "some", NULL), 1);
    assert_int_equal(launched("PMI_SIZE", "2", NULL), 2);
    assert_int_equal(launched("MV2_COMM_WORLD_SIZE", "2", NULL), 2);
    assert_int_equal(launched("SLURM_STEP_NUM_TASKS", "4", NULL), 4);
    assert_int_equal(launched("SLURM_STEP_NUM_TASKS", "4", "SLURM_PTY_PORT"), 1);
    assert_int_equal(launched("SLURM_NTASKS", "4", NULL), 1);
}

static void test_alone(void **state) {
    (void)state;
    struct ranks ranks;
    struct status_text text = {"as it was"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        (void)unsetenv(names[i]);
    assert_int_equal(ranks_open(&ranks, &text), STATUS_OK);
    assert_int_equal(ranks.count, 1);
    assert_int_equal(ranks.rank, 0);
    assert_int_equal(ranks.local_count, 1);
    assert_int_equal(ranks_agree(&ranks, STATUS_REFUSED, &text), STATUS_REFUSED);
    assert_string_equal(text.line, "as it was");
    assert_true(ranks_any(&ranks, true) && !ranks_any(&ranks, false));
    assert_int_equal(ranks_least(&ranks, 7), 7);
    assert_true(ranks_same(&ranks, 7));
    assert_true(ranks_threads(&ranks) >= 1);
    const float values[] = {1, 2};
    float sums[] = {0, 0};
    ranks_sum(&ranks, values, sums, 2);
    assert_memory_equal(values, sums, sizeof sums);
    ranks_close(&ranks);
}

/* Layers and widths of what is summed, per kind. */
static void test_reduce_bytes(void **state) {
    (void)state;
    struct model model = {
        .group_count = 2,
        .groups = {{.kind = MODEL_FULL,
                    .layers = 2,
                    .read_by_layers = 3,
                    .query_heads = 6,
                    .kv_heads = 2,
                    .k_dim = 64,
                    .v_dim = 32},
                   {.kind = MODEL_STATE,
                    .layers = 5,
                    .read_by_layers = 5,
                    .heads = 4,
                    .state_rows = 16,
                    .state_cols = 8}},
    };
    assert_int_equal(reduce_bytes(&model, 10), 4 * 10 * (3 * 6 * 32 + 5 * 4 * 16));
    /* an index is no attention; a row for K and V alike says nothing of the values' width */
    model.groups[0] = (struct model_group){.kind = MODEL_LATENT,
                                           .layers = 2,
                                           .read_by_layers = 2,
                                           .query_heads = 20,
                                           .latent_dim = 512,
                                           .rope_dim = 64};
    model.groups[1] = (struct model_group){
        .kind = MODEL_INDEX, .layers = 2, .read_by_layers = 2, .query_heads = 64, .key_dim = 128};
    assert_int_equal(reduce_bytes(&model, 1), 4 * 2 * 20 * 128);
    /* entries have layers of their own only where there is no window */
    model.groups[0] = (struct model_group){.kind = MODEL_COMPRESSED,
                                           .layers = 3,
                                           .read_by_layers = 3,
                                           .query_heads = 8,
                                           .entry_dim = 512,
                                           .tokens_per_entry = 4};
    assert_int_equal(reduce_bytes(&model, 1), 4 * 3 * 8 * 128);
    model.groups[1] = (struct model_group){.kind = MODEL_WINDOW,
                                           .layers = 4,
                                           .read_by_layers = 4,
                                           .query_heads = 8,
                                           .kv_heads = 1,
                                           .k_dim = 512,
                                           .window_tokens = 128};
    assert_int_equal(reduce_bytes(&model, 1), 4 * 4 * 8 * 128);
}

static const struct model small = {
    .name = "small",
    .group_count = 1,
    .groups = {{.kind = MODEL_FULL,
                .layers = 2,
                .read_by_layers = 2,
                .query_heads = 4,
                .kv_heads = 2,
                .k_dim = 32,
                .v_dim = 32}},
};

/* A device whose memory the host does not reach; one call of it may fail or lie. */
static unsigned reads, writes, fail_read, lie_at_write;
static bool waited; /* for what the device was given before, since it was last false */

static enum status blind_read(struct backend_device *on, void *to, const void *dev_from,
                              uint64_t bytes, struct status_text *text) {
    if (++reads == fail_read)
        return status_set(text, STATUS_IO, "this read fails");
    assert_true(waited);
    return cpu->memory_read(on, to, dev_from, bytes, text);
}

static enum status blind_write(struct backend_device *on, void *dev_to, const void *from,
                               uint64_t bytes, struct status_text *text) {
    const enum status status = cpu->memory_write(on, dev_to, from, bytes, text);
    if (++writes == lie_at_write)
        ((float *)dev_to)[1] += 1;
    return status;
}

static enum status blind_synchronize(struct backend_device *on, struct status_text *text) {
    waited = true;
    return cpu->synchronize(on, text);
}

static struct backend_ops blind_ops(void) {
    struct backend_ops ops = *cpu;
    ops.synchronize = blind_synchronize;
    waited = false;
    ops.memory_host = NULL;
    ops.memory_read = blind_read;
    ops.memory_write = blind_write;
    reads = writes = fail_read = lie_at_write = 0;
    return ops;
}

static void test_reduce(void **state) {
    (void)state;
    struct status_text text = {""};
    struct reduce *reduce;
    assert_int_equal(reduce_create(cpu, device, &alone, &small, 3, &reduce, &text), STATUS_OK);
    assert_int_equal(reduce_run(reduce, &text), STATUS_OK);
    reduce_destroy(reduce);
    reduce_destroy(NULL);

    /* each layer there and back */
    struct backend_ops ops = blind_ops();
    assert_int_equal(reduce_create(&ops, device, &alone, &small, 3, &reduce, &text), STATUS_OK);
    assert_int_equal(reads, 2);
    assert_int_equal(writes, 1 + 2);
    waited = false;
    assert_int_equal(reduce_run(reduce, &text), STATUS_OK);
    assert_int_equal(reads, 4);
    assert_int_equal(writes, 1 + 4);
    /* after a failure the other layers' sums are still taken part in */
    fail_read = 5;
    assert_int_equal(reduce_run(reduce, &text), STATUS_IO);
    assert_string_equal(text.line, "this read fails");
    assert_int_equal(reads, 6);
    reduce_destroy(reduce);

    ops = blind_ops();
    lie_at_write = 1;
    assert_int_equal(reduce_create(&ops, device, &alone, &small, 3, &reduce, &text), STATUS_WRONG);
    assert_non_null(strstr(text.line, "value 1 is"));
    assert_null(reduce);
}

/* A team of one that keeps count, and ends the run when it is told to. */
struct team {
    unsigned starts, agreements, sums, fail_at; /* the agreement that another rank spoils */
    unsigned since_start; /* agreements: the first whether the sample is lost, the second whether
                             there is to be another */
    unsigned longer;      /* agreements up to which another rank wants more */
    unsigned lose_at;     /* the start whose sample another rank's clock does not tell */
    enum status heard;    /* the last status that was said */
    uint64_t lost;        /* samples that were no samples */
};

static void team_start(void *context) {
    struct team *team = context;
    team->starts++;
    team->since_start = 0;
}

static enum status team_agree(void *context, enum status mine, bool *any,
                              struct status_text *text) {
    struct team *team = context;
    team->heard = mine;
    if (++team->agreements == team->fail_at)
        return status_set(text, STATUS_WRONG, "rank 1: wrong");
    team->since_start++;
    *any = *any || (team->since_start == 2 && team->agreements <= team->longer) ||
           (team->since_start == 1 && team->starts > 0 && team->starts == team->lose_at);
    return mine;
}

static enum status team_sum(void *context, struct status_text *text) {
    (void)text;
    ((struct team *)context)->sums++;
    return STATUS_OK;
}

static unsigned attends, fail_attend;

static enum status failing_attend(struct backend_device *on, const struct backend_attend *work,
                                  struct status_text *text) {
    if (++attends == fail_attend)
        return status_set(text, STATUS_IO, "this attend fails");
    return cpu->attend(on, work, text);
}

/* A clock on which everything takes as long each time, so that the canary sings at the same turns:
 * how often a run agrees must not hang on how busy the machine is. */
static uint64_t even_elapsed(struct backend_device *on, uint32_t from_mark, uint32_t to_mark) {
    (void)on;
    return (uint64_t)1000 * (to_mark - from_mark);
}

/* Two contenders over the same pool; samples[c] is what each got. */
static enum status measure(struct team *team, uint64_t samples[2], struct status_text *text) {
    static const uint64_t lengths[2] = {20, 9};
    const struct pool_request request = {
        .model = &small,
        .storage = {.k_format = FORMAT_BF16,
                    .v_format = FORMAT_BF16,
                    .index = FORMULA_INDEX_NONE,
                    .state_value_bytes = 4},
        .lengths = lengths,
        .seqs = 2,
        .page_tokens = 4,
        .seed = 3,
    };
    struct backend_ops ops = *cpu;
    ops.attend = failing_attend;
    ops.elapsed_ns = even_elapsed;
    struct pool *pool = NULL;
    struct step *step = NULL;
    if (pool_create(&ops, device, &request, NULL, &pool, text) != STATUS_OK ||
        pool_fill(pool, NULL, text) != STATUS_OK ||
        step_create(&ops, device, pool, NULL, 5, OPTIONS_DATA_NORMAL, &step, text) != STATUS_OK)
        fail_msg("%s", text->line);
    attends = 0;
    struct measure_contender contenders[2] = {{.pool = pool, .step = step},
                                              {.pool = pool, .step = step}};
    for (int c = 0; c < 2; c++)
        contenders[c].work[MEASURE_REDUCE] = (struct measure_work){team_sum, team};
    const struct measure_team hooks = {.start = team_start, .agree = team_agree, .context = team};
    const struct measure_limits limits = {.samples = 3, .max_time_s = 10, .team = &hooks};
    const enum status status = measure_run(&ops, device, contenders, 2, &limits, text);
    team->lost = 0;
    for (int c = 0; c < 2; c++) {
        samples[c] = contenders[c].series.count;
        team->lost += contenders[c].series.clockless;
        measure_series_free(&contenders[c].series);
    }
    step_destroy(step);
    pool_destroy(pool);
    return status;
}

static void test_team(void **state) {
    (void)state;
    struct status_text text = {""};
    uint64_t samples[2];
    struct team team = {0};
    fail_attend = 0;
    assert_int_equal(measure(&team, samples, &text), STATUS_OK);
    assert_int_equal(samples[0], 3);
    assert_int_equal(samples[1], 3);
    assert_int_equal(team.starts, 2 + 6); /* the untimed ones too */
    assert_int_equal(team.sums, 2 + 6);

    /* as long as another rank wants more there are more */
    const unsigned agreements = team.agreements;
    team = (struct team){.longer = agreements};
    assert_int_equal(measure(&team, samples, &text), STATUS_OK);
    assert_true(samples[0] + samples[1] > 6);

    /* what no other rank has as a sample is none here */
    team = (struct team){.lose_at = 4};
    assert_int_equal(measure(&team, samples, &text), STATUS_OK);
    assert_int_equal(team.lost, 1);
    assert_int_equal(samples[0], 3);
    assert_int_equal(samples[1], 3);
    assert_int_equal(team.starts, 2 + 6 + 1);
}

/* Whenever another rank fails, so does this one, at once. */
static void test_team_fails(void **state) {
    (void)state;
    fail_attend = 0;
    struct status_text text;
    uint64_t samples[2];
    struct team whole = {0};
    assert_int_equal(measure(&whole, samples, &text), STATUS_OK);
    for (unsigned at = 1; at <= whole.agreements; at++) {
        struct team team = {.fail_at = at};
        text.line[0] = '\0';
        assert_int_equal(measure(&team, samples, &text), STATUS_WRONG);
        assert_string_equal(text.line, "rank 1: wrong");
        assert_int_equal(team.agreements, at);
    }
}

/* Whenever this one fails, it takes part in the sum that the others are in, and says so. */
static void test_rank_fails(void **state) {
    (void)state;
    struct status_text text = {""};
    uint64_t samples[2];
    for (fail_attend = 1; fail_attend <= 16; fail_attend++) {
        struct team team = {0};
        assert_int_equal(measure(&team, samples, &text), STATUS_IO);
        assert_string_equal(text.line, "this attend fails");
        assert_int_equal(team.heard, STATUS_IO);
        assert_int_equal(team.sums, team.starts);
    }
}

static void some_memory(struct backend_device *on, struct backend_facts *out) {
    cpu->facts(on, out);
    out->memory_free_bytes = (uint64_t)16 << 30;
}

static void budget(const struct ranks *ranks, const struct options *options,
                   struct memory_budget *out) {
    struct backend_ops ops = *cpu;
    ops.facts = some_memory;
    struct backend_facts facts;
    runner_ranks_facts(ranks, &ops, device, &facts);
    memory_budget_make(&facts, options->budget_given, options->budget_bytes, 0, out);
    runner_ranks_least(ranks, out);
}

static void test_budget(void **state) {
    (void)state;
    struct options options = {.budget_given = true, .budget_bytes = 12345};
    struct memory_budget one, two;
    budget(&alone, &options, &one);
    assert_int_equal(one.budget_bytes, 12345);
    /* two ranks of a machine have half of its memory each, and keep a margin of their own */
    options.budget_given = false;
    const struct ranks half = {.count = 1, .local_count = 2};
    budget(&half, &options, &two);
    budget(&alone, &options, &one);
    assert_int_equal(two.free_bytes, (uint64_t)8 << 30);
    assert_int_equal(two.budget_bytes, two.free_bytes - two.margin_bytes);
    assert_non_null(strstr(two.source, "/ 2 ranks"));
}

int main(void) {
    struct status_text text = {{0}};
    cpu = backend_find("cpu");
    const struct backend_options options = {.threads = 1, .llc_bytes = 1 << 20};
    if (cpu->open(&options, &device, &text) != STATUS_OK)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_launched),     cmocka_unit_test(test_alone),
        cmocka_unit_test(test_reduce_bytes), cmocka_unit_test(test_reduce),
        cmocka_unit_test(test_team),         cmocka_unit_test(test_team_fails),
        cmocka_unit_test(test_rank_fails),   cmocka_unit_test(test_budget),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    cpu->close(device);
    return failed;
}
