/* kvgauge_bench: the cases of `kvgauge run` as benchmarks of Google's library, for those whose
 * tools read its output. Takes the options of `kvgauge run` beside all --benchmark_* flags; what is
 * measured, and how, is the harness' own. */
#include <strings.h>

#include <algorithm>
#include <cctype>
#include <csignal>
#include <cstring>
#include <fstream>
#include <iostream>

#include "bench_case.h"
#include "bench_report.h"
#include "bench_run.h"
#include "version_info.h"

/* What the library does not tell of its flags, read before it takes them off the command line. */
struct library_flags {
    bool list_tests;
    std::string format;
    std::string out;
    std::string out_format;
};

/* The last --NAME=VALUE, else the environment's, as the library has it; NULL for neither. */
static const char *flag_value(int argc, char *const *argv, const std::string &name) {
    std::string variable;
    for (const char letter : name)
        variable += letter >= 'a' && letter <= 'z' ? static_cast<char>(letter - 'a' + 'A') : letter;
    const char *value = getenv(variable.c_str());
    const std::string dashed = "--" + name;
    for (int i = 1; i < argc; i++) {
        if (dashed == argv[i])
            value = "";
        else if (strncmp(argv[i], (dashed + "=").c_str(), dashed.size() + 1) == 0)
            value = argv[i] + dashed.size() + 1;
    }
    return value;
}

/* As the library reads a flag that is on or off. */
static bool is_on(const std::string &value) {
    if (value.size() == 1)
        return isalnum(static_cast<unsigned char>(value[0])) != 0 &&
               strchr("0fFnN", value[0]) == nullptr;
    for (const char *off : {"false", "no", "off"})
        if (strcasecmp(value.c_str(), off) == 0)
            return false;
    return true;
}

static library_flags read_flags(int argc, char *const *argv) {
    const auto text = [&](const char *name, const char *fallback) {
        const char *value = flag_value(argc, argv, name);
        return std::string(value != nullptr ? value : fallback);
    };
    library_flags flags;
    flags.list_tests = is_on(text("benchmark_list_tests", "false"));
    flags.format = text("benchmark_format", "console");
    flags.out = text("benchmark_out", "");
    flags.out_format = text("benchmark_out_format", "json");
    return flags;
}

/* 1.7 takes a bare number alone, and what came after it asks for 0.5s: a script may say the latter
 * to all. */
static void drop_unit_of_min_time(int argc, char **argv) {
    for (int i = 1; i < argc && KVGAUGE_BENCH_BARE_MIN_TIME; i++) {
        const size_t length = strlen(argv[i]);
        if (strncmp(argv[i], "--benchmark_min_time=", 21) == 0 && argv[i][length - 1] == 's')
            argv[i][length - 1] = '\0';
    }
}

static int complain(enum status status, const char *line) {
    (void)fprintf(stderr, "kvgauge_bench: %s\n", line);
    return session_exit_code(status);
}

static void print_help() {
    (void)printf("usage: kvgauge_bench [options of kvgauge run] [--benchmark_* flags]\n"
                 "The cases of `kvgauge run` (the suite standard without --suite or --model), one "
                 "benchmark per format.\n"
                 "Not taken here: --output --save (--benchmark_format --benchmark_out), --list "
                 "(--benchmark_list_tests),\n--resume and --baseline.\n\n");
    options_print_help(OPTIONS_RUN, stdout);
    (void)printf("\n");
    benchmark::PrintDefaultHelp();
}

/* What the library decides here, or nothing does. */
static enum status check_options(const options &line, status_text *text) {
    static const struct {
        const char *name;
        const char *instead;
    } elsewhere[] = {
        {"output", "--benchmark_format says how rows are printed"},
        {"save", "--benchmark_out=FILE writes them to a file"},
        {"resume", "kvgauge run has it"},
        {"list", "--benchmark_list_tests lists the benchmarks"},
        {"baseline", "a benchmark is one format, and compared with nothing"},
    };
    for (const auto &option : elsewhere)
        if (options_given(&line, option.name))
            return status_set(text, STATUS_BAD_INPUT, "--%s: kvgauge_bench does not take it; %s",
                              option.name, option.instead);
    /* Each of them would measure what the others disturb. */
    if (ranks_launched() > 1)
        return status_set(text, STATUS_BAD_INPUT,
                          "%u processes were started together; kvgauge_bench measures in one, "
                          "kvgauge run --tp %u in all of them",
                          ranks_launched(), ranks_launched());
    return STATUS_OK;
}

static enum status check_flags(const library_flags &flags, status_text *text) {
    const struct {
        const char *name;
        const std::string &form;
    } forms[] = {{"benchmark_format", flags.format}, {"benchmark_out_format", flags.out_format}};
    for (const auto &one : forms)
        if (one.form != "console" && one.form != "json" && one.form != "csv")
            return status_set(text, STATUS_BAD_INPUT, "--%s=%s: allowed are console, json, csv",
                              one.name, bench_run_text(one.form.c_str()).c_str());
    return STATUS_OK;
}

static void add_context(const bench_run &run) {
    const auto add = [](const char *key, const char *value) {
        if (value != nullptr && value[0] != '\0')
            benchmark::AddCustomContext(key, bench_run_text(value));
    };
    const backend_facts &facts = run.shared.facts;
    add("kvgauge_version", KVGAUGE_VERSION);
    add("kvgauge_git", KVGAUGE_GIT);
    add("kvgauge_backend", facts.backend);
    add("kvgauge_device", facts.device);
    add("kvgauge_driver", facts.driver);
    add("kvgauge_suite", run.shared.suite);
    add("kvgauge_label", run.shared.label);
    if (facts.threads > 0)
        add("kvgauge_threads", std::to_string(facts.threads).c_str());
}

static void add_benchmarks(const std::vector<bench_case> &cases, bench_run &run) {
    for (const bench_case &which : cases) {
        auto *added = benchmark::RegisterBenchmark(
            which.name.c_str(),
            [&run, &which](benchmark::State &state) { bench_run_one(state, run, which); });
        /* The library would else repeat the case until the steps alone took its minimum of time. */
        added->UseManualTime()->Iterations(1);
    }
}

/* After the last row: what the exit code says. */
static enum status end_of(const bench_run &run, size_t matched, status_text *text) {
    std::cout.flush();
    if (!std::cout.good() || !bench_reports_arrived())
        return status_set(text, STATUS_IO, "writing the output failed");
    if (interrupt_asked())
        return status_set(text, STATUS_INTERRUPTED, "interrupted");
    if (matched == 0)
        return status_set(text, STATUS_BAD_INPUT,
                          "no benchmark of that name; --benchmark_list_tests lists them");
    if (run.wrong_rows > 0)
        return status_set(text, STATUS_WRONG, "%llu rows are wrong",
                          static_cast<unsigned long long>(run.wrong_rows));
    if (run.ok_rows == 0)
        return status_set(text, STATUS_REFUSED, "no row could run");
    return STATUS_OK;
}

static int run_benchmarks(const library_flags &flags, const options &line,
                          const run_case_list &list, session &session, bench_run &run) {
    status_text text = {""};
    interrupt_install();
    enum status status = session_open(&line, &session, &text);
    if (status == STATUS_OK)
        status = run_weights_open(session.ops, session.device, line.kernel, &list, &text);
    if (status == STATUS_OK)
        status = session_cold_bytes(&session, &run.shared.cold_bytes, &text);
    if (status == STATUS_OK && !flags.out.empty() && !std::ofstream(flags.out).is_open())
        status = status_set(&text, STATUS_BAD_INPUT, "--benchmark_out=%s: cannot be written",
                            flags.out.c_str());
    if (status != STATUS_OK)
        return complain(status, text.line);
    session_say_fallback(&session);
    run.shared.facts = session.facts;
    run.runner.ops = session.ops;
    run.runner.device = session.device;
    run.runner.options = &line;
    run.runner.run = &run.shared;
    run.runner.telemetry = telemetry_open(&session.facts);
    add_context(run);
    const auto counters = bench_run_counters(run.weights);
    const auto shown = bench_reporter_create(flags.format, counters);
    const auto filed =
        flags.out.empty() ? nullptr : bench_reporter_create(flags.out_format, counters);
    const size_t matched = benchmark::RunSpecifiedBenchmarks(shown.get(), filed.get());
    telemetry_close(run.runner.telemetry);
    session_say_fallback(&session);
    status = end_of(run, matched, &text);
    return status == STATUS_OK ? 0 : complain(status, text.line);
}

int main(int argc, char **argv) {
    /* As in kvgauge: a reader that goes away is an output error. */
    (void)signal(SIGPIPE, SIG_IGN);
    const library_flags flags = read_flags(argc, argv);
    status_text text = {""};
    enum status status = check_flags(flags, &text);
    if (status != STATUS_OK)
        return complain(status, text.line);
    drop_unit_of_min_time(argc, argv);
    benchmark::SetDefaultTimeUnit(benchmark::kMicrosecond); /* --benchmark_time_unit comes after */
    benchmark::Initialize(&argc, argv, print_help);
    static char command[] = "run";
    std::vector<char *> words(argv, argv + argc);
    words.insert(words.begin() + 1, command);
    options line;
    status = options_parse(static_cast<int>(words.size()), words.data(), &line, &text);
    if (status == STATUS_OK && line.help) {
        print_help();
        options_free(&line);
        return 0;
    }
    if (status == STATUS_OK)
        status = check_options(line, &text);
    run_case_list list = {};
    if (status == STATUS_OK)
        status = run_case_list_create(&line, &list, &text);
    int code = 0;
    if (status != STATUS_OK) {
        code = complain(status, text.line);
    } else {
        const std::vector<bench_case> cases = bench_cases(list, line);
        bench_run run = {};
        run.shared.options = &line;
        run.shared.label = line.label;
        run.shared.suite = list.suite;
        run.weights = std::any_of(cases.begin(), cases.end(), [](const bench_case &which) {
            return which.one->options->weights_read_bytes > 0;
        });
        add_benchmarks(cases, run);
        struct session session = {};
        if (!flags.list_tests)
            code = run_benchmarks(flags, line, list, session, run);
        else if (benchmark::RunSpecifiedBenchmarks() == 0)
            code = complain(STATUS_BAD_INPUT, "no benchmark of that name");
        session_close(&session);
    }
    run_case_list_destroy(&list);
    options_free(&line);
    benchmark::Shutdown();
    return code;
}
