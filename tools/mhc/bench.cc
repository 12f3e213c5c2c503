// `mhc bench`: the operations of a site, each as a share of what this machine was just measured to
// allow.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "mhc/bench_plan.h"
#include "mhc/bench_report.h"
#include "mhc/pinned_caller.h"
#include "mhc/progress.h"
#include "mhc/trace.h"
#include "mhc/version.h"

namespace mhc::tool {
namespace {

constexpr int64_t kMib = int64_t{1} << 20;
constexpr int64_t kMemoryLimit = 2048 * kMib;

class Bench {
 public:
  Bench(const Options& options, const BenchPlan& plan)
      : options_(options),
        plan_(plan),
        machine_(this_machine()),
        json_(options.json),
        trace_file_(options.trace),
        progress_(
            static_cast<int64_t>(plan.rows() + 2 * plan.threads.size() + plan.problems.size())) {}

  void run() {
    for (const SiteProblem& p : plan_.problems) {
      require_memory(p, site_bytes(p, copies_for(p)), machine_);
    }
    print_machine(machine_);
    rooflines_ = measure_rooflines(plan_.mixes());
    progress_.clear();
    print_rooflines(rooflines_);
    for (const SiteProblem& problem : plan_.problems) run_problem(problem);
    measure_drift();
    progress_.clear();
    print_drift(drift_);
    write();
  }

 private:
  std::vector<Roofline> measure_rooflines(const std::vector<Mix>& mixes) {
    const int64_t repetitions = options_.seconds < 0.1 ? 3 : 9;
    const int64_t wanted = std::max(2 * machine_.last_cache(), 256 * kMib);
    const Memory memory(std::min({wanted, kMemoryLimit, machine_.available / 4 + 64 * kMib}));
    std::memset(memory.data(), 0, static_cast<size_t>(memory.bytes()));
    std::vector<Roofline> rooflines;
    for (const int32_t threads : plan_.threads) {
      progress_.next(fmt::format("roofline, {}", counted(threads, "thread")));
      const PoolRuntime pool(threads, true, plan_.isas.back(), plan_.exact);
      const PinnedCaller pinned(threads);
      rooflines.push_back(measure_roofline(pool.runtime.executor, mixes, memory, repetitions));
    }
    return rooflines;
  }

  // Reading and multiplying once more: the rows lie between two measurements of the machine.
  void measure_drift() {
    const std::vector<Roofline> after = measure_rooflines({{1, 0}});
    for (size_t i = 0; i < after.size(); ++i) {
      drift_ = std::max(drift_, drift(rooflines_[i], after[i]));
    }
  }

  Copies copies_for(const SiteProblem& problem) const {
    return copies_of(problem, plan_.parts(), machine_.last_cache(),
                     std::min(kMemoryLimit, machine_.available / 2));
  }

  void run_problem(const SiteProblem& problem) {
    progress_.next("filling memory");
    const Copies copies = copies_for(problem);
    RotatingSite memory(problem, copies, filler());
    progress_.clear();
    print_problem(problem, site_bytes(problem, copies), copies.limited);
    for (size_t i = 0; i < plan_.threads.size(); ++i) {
      for (const Isa isa : plan_.isas) run_rows(isa, plan_.threads[i], rooflines_[i], &memory);
    }
  }

  void run_rows(Isa isa, int32_t threads, const Roofline& roofline, RotatingSite* memory) {
    const PoolRuntime pool(threads, true, isa, plan_.exact, plan_.environment.tuning);
    const PinnedCaller pinned(threads);
    if (trace_file_) {
      trace_.begin_process(fmt::format("{}, {}, {}", describe(memory->problem()), name_of(isa),
                                       counted(threads, "thread")),
                           threads);
    }
    for (const std::string& op : plan_.ops) {
      progress_.next(fmt::format("{}, {}, {}", op, name_of(isa), counted(threads, "thread")));
      const BenchRow row = measure_row(op, memory, pool.runtime, roofline, options_.seconds);
      if (trace_file_) trace_row(op, memory, pool.runtime, &trace_);
      progress_.clear();
      print_row(row, memory->problem());
      rows_.push_back(to_json(row, memory->problem()));
    }
  }

  // Everything that the machine has, to be done quickly.
  const Runtime& filler() {
    if (!filler_) {
      filler_ = std::make_unique<PoolRuntime>(machine_.recommended_threads, false,
                                              best_available_isa(), false);
    }
    return filler_->runtime;
  }

  void write() {
    Json json{{"version", MHC_VERSION_STRING}, {"machine", to_json(machine_)}};
    for (const Roofline& r : rooflines_) json["roofline"].push_back(to_json(r));
    json["roofline_drift"] = drift_;
    json["rows"] = rows_;
    json_.write(json.dump(2));
    if (trace_file_) trace_file_.write(trace_.text());
  }

  const Options& options_;
  const BenchPlan& plan_;
  Machine machine_;
  JsonFile json_, trace_file_;
  Progress progress_;
  Trace trace_;
  std::unique_ptr<PoolRuntime> filler_;
  std::vector<Roofline> rooflines_;
  double drift_ = 0;
  Json rows_ = Json::array();
};

}  // namespace

int run_bench(const Options& options) {
  const BenchPlan plan = bench_plan_of(options);
  Bench(options, plan).run();
  return 0;
}

}  // namespace mhc::tool
