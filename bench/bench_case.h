/* From the cases of `kvgauge run` to benchmarks: one per case and format, each with a name that is
 * a key: it says what is measured, and neither how long nor on what. */
#ifndef BENCH_CASE_H
#define BENCH_CASE_H

#include <string>
#include <vector>

#include "bench_host.h"

struct bench_case {
    const run_case *one;   /* of the list they were made from, which has to outlive this */
    options_format format; /* one of its formats */
    std::string name;
};

/* run/MODEL/FORMAT/tokens:N/seqs:N/page_tokens:N, then /option:value for what is not at its
 * default. Letters, digits and _ . : - alone stand between the slashes, so that a name is its own
 * regular expression: q8_0/q4_0 is q8_0-q4_0. A name that was there already gets /again:2. `line`
 * is the command line, for what is not a case's own (the kernel). */
std::vector<bench_case> bench_cases(const run_case_list &list, const options &line);

#endif
