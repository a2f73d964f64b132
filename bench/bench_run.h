/* Runs one benchmark: the case in one format, by the harness' own runner (pool, verification,
 * sampling loop), and its row as the library's counters. */
#ifndef BENCH_RUN_H
#define BENCH_RUN_H

#include <benchmark/benchmark.h>

#include "bench_case.h"

/* What all benchmarks of the program share, and what became of them. */
struct bench_run {
    struct runner runner;
    struct result_run shared;
    bool weights; /* a case reads weights in its steps: then every row has their counters */
    uint64_t ok_rows;
    uint64_t wrong_rows;
};

/* The counters that every row has (the library's CSV wants the same set in all), under the names of
 * the columns of `kvgauge run` that they are from. */
std::vector<std::string> bench_run_counters(bool weights);

/* One iteration is all that the harness does; the time it reports is the median step. A row that is
 * not ok is an error with its status and reason. `state` gets every counter of bench_run_counters.
 */
void bench_run_one(benchmark::State &state, bench_run &run, const bench_case &which);

/* `text` with ? for what JSON strings cannot hold as it is. */
std::string bench_run_text(const char *text);

#endif
