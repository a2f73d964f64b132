/* One layer over the library's reporters. It only reads members of a run that 1.7 to 1.9 share. */
#include "bench_report.h"

#include <cmath>
#include <ostream>
#include <utility>

#if defined(__GNUC__)
/* The CSV reporter: still there in 1.9. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#endif

static bool arrived = true;

static double number_or_zero(double value) {
    return std::isfinite(value) ? value : 0;
}

template <class Reporter> class mended : public Reporter {
    const std::vector<std::string> always_;

  public:
    /* A row with an error has no counters: there it gets those in `always`. */
    explicit mended(std::vector<std::string> always = {}) : always_(std::move(always)) {}
    void ReportRuns(const std::vector<benchmark::BenchmarkReporter::Run> &runs) override {
        std::vector<benchmark::BenchmarkReporter::Run> clean = runs;
        for (benchmark::BenchmarkReporter::Run &run : clean) {
            run.real_accumulated_time = number_or_zero(run.real_accumulated_time);
            run.cpu_accumulated_time = number_or_zero(run.cpu_accumulated_time);
            for (auto &counter : run.counters)
                counter.second.value = number_or_zero(counter.second.value);
            if (run.counters.empty())
                for (const std::string &name : always_)
                    run.counters[name] = benchmark::Counter(0);
        }
        /* Bytes whole, where the stream decides on the digits. */
        this->GetOutputStream().precision(15);
        Reporter::ReportRuns(clean);
    }
    void Finalize() override {
        Reporter::Finalize();
        this->GetOutputStream().flush();
        arrived = arrived && this->GetOutputStream().good();
    }
};

std::unique_ptr<benchmark::BenchmarkReporter>
bench_reporter_create(const std::string &form, const std::vector<std::string> &counters) {
    if (form == "json")
        return std::make_unique<mended<benchmark::JSONReporter>>();
    /* CSV's head is made from the first row. */
    if (form == "csv")
        return std::make_unique<mended<benchmark::CSVReporter>>(counters);
    return nullptr;
}

bool bench_reports_arrived() {
    return arrived;
}
