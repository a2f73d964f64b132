/* The library's reporters, mended where they would write what a reader of their format refuses: the
 * JSON ones NaN (1.7 and 1.8: the coefficient of variation of a counter that is 0), the CSV one
 * only counters that its first row had, ending the program over others. */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

#include <benchmark/benchmark.h>

#include <memory>
#include <string>
#include <vector>

/* A reporter of that form ("json", "csv") for rows with those counters; NULL: the library's own
 * does ("console"). */
std::unique_ptr<benchmark::BenchmarkReporter>
bench_reporter_create(const std::string &form, const std::vector<std::string> &counters);

/* Whether everything that such a reporter wrote has arrived; to be asked behind the last row. */
bool bench_reports_arrived();

#endif
