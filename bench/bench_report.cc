/* One layer over the library's reporters. It only reads members of a run that 1.7 to 1.9 share. */
#include "bench_report.h"

#include <cmath>
#include <ostream>

#include "bench_run.h"

#if defined(__GNUC__)
/* The CSV reporter: still there in 1.9. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#endif

static bool arrived = true;

static double number_or_zero(double value) {
    return std::isfinite(value) ? value : 0;
}

template <class Reporter, bool all_counters> class mended : public Reporter {
  public:
    void ReportRuns(const std::vector<benchmark::BenchmarkReporter::Run> &runs) override {
        std::vector<benchmark::BenchmarkReporter::Run> clean = runs;
        for (benchmark::BenchmarkReporter::Run &run : clean) {
            run.real_accumulated_time = number_or_zero(run.real_accumulated_time);
            run.cpu_accumulated_time = number_or_zero(run.cpu_accumulated_time);
            for (auto &counter : run.counters)
                counter.second.value = number_or_zero(counter.second.value);
            /* A row with an error has none, and CSV's head is made from the first row. */
            if (all_counters && run.counters.empty())
                for (const std::string &name : bench_run_counters())
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

std::unique_ptr<benchmark::BenchmarkReporter> bench_reporter_create(const std::string &form) {
    if (form == "json")
        return std::make_unique<mended<benchmark::JSONReporter, false>>();
    if (form == "csv")
        return std::make_unique<mended<benchmark::CSVReporter, true>>();
    return nullptr;
}

bool bench_reports_arrived() {
    return arrived;
}
