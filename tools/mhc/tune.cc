// `mhc tune`: measures tiles and blocks on this machine and writes the table that a runtime loads.

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "mhc/bench_report.h"
#include "mhc/machine.h"
#include "mhc/options.h"
#include "mhc/pinned_caller.h"
#include "mhc/progress.h"
#include "mhc/tune_search.h"

namespace mhc::tool {
namespace {

constexpr BenchOp kOps[] = {BenchOp::kPre, BenchOp::kPost, BenchOp::kPostBackward,
                            BenchOp::kPreBackward};
constexpr int64_t kMemoryLimit = int64_t{2} << 30;

void require(const Status& status) {
  if (!status.ok()) throw UsageError(status.message);
}

bool same_problem(const TuningRow& a, const TuningRow& b) {
  return std::strcmp(a.operation, b.operation) == 0 && a.dtype == b.dtype &&
         a.workers == b.workers && a.streams == b.streams && a.embedding == b.embedding &&
         a.tokens == b.tokens;
}

// What is measured again replaces what stood there; other rows stay.
class TableFile {
 public:
  explicit TableFile(const std::string& path)
      : path_(path), table_(std::make_unique<TuningTable>()) {
    if (access(path.c_str(), F_OK) == 0) require(load_tuning_table(path.c_str(), table_.get()));
    save();  // a path that cannot be written is known before anything is measured
  }

  void put(const TuningRow& row) {
    for (int32_t i = 0; i < table_->count; ++i) {
      if (!same_problem(table_->rows[i], row)) continue;
      table_->rows[i] = row;
      return;
    }
    if (table_->count == TuningTable::kMaxRows) {
      throw UsageError(fmt::format("{}: is full; delete rows or the file", path_));
    }
    table_->rows[table_->count++] = row;
  }
  void save() { require(save_tuning_table(path_.c_str(), *table_)); }

 private:
  std::string path_;
  std::unique_ptr<TuningTable> table_;
};

struct Step {
  Progress* progress;
  int32_t threads;
};

void next_knob(void* context, const Knob& knob) {
  const Step& step = *static_cast<const Step*>(context);
  step.progress->next(
      fmt::format("{}, {}, {}", name_of(knob.op), knob.name, counted(step.threads, "thread")));
}

void print_result(const TuneResult& result, const SiteProblem& problem) {
  const double scale = 1e6 / static_cast<double>(problem.dims.tokens);
  fmt::print("  {:<14}{:>8}{:>10.3f}{:>10.3f}{:>6.0f}%  {}\n", result.row.operation,
             result.row.workers, result.builtin_seconds * scale, result.chosen_seconds * scale,
             (1 - result.chosen_seconds / result.builtin_seconds) * 100,
             result.changes.empty() ? "built in" : result.changes);
}

std::vector<SiteProblem> problems_of(const Options& o) {
  std::vector<SiteProblem> problems;
  for (const Dims& dims : o.dims_or({{512, 4, 3072}, {4096, 4, 3072}})) {
    for (const DType dtype : o.dtypes_or({DType::kBF16})) {
      if (dtype == DType::kF64) {
        throw UsageError("--dtype: expected bf16, f32 or f16, got \"f64\", which has no kernels");
      }
      SiteProblem problem{dims, dtype, Spec{}};
      problem.spec.streams = dims.streams;
      problems.push_back(problem);
    }
  }
  return problems;
}

int64_t step_count(size_t problems, size_t threads) {
  size_t knobs = 0;
  for (const BenchOp op : kOps) knobs += knobs_of(op).size();
  return static_cast<int64_t>(problems * (1 + threads * knobs));
}

}  // namespace

int run_tune(const Options& options, const std::string& output) {
  const Environment environment = read_environment();
  const std::vector<SiteProblem> problems = problems_of(options);
  const int32_t most = default_threads(environment);
  const std::vector<int32_t> threads =
      options.threads_or(most == 1 ? std::vector<int32_t>{1} : std::vector<int32_t>{1, most});
  const std::string path = !output.empty()               ? output
                           : !environment.tuning.empty() ? environment.tuning
                                                         : "mhc-tuning.txt";
  TableFile table(path);
  const Machine machine = this_machine();
  print_machine(machine);
  Progress progress(step_count(problems.size(), threads.size()));
  for (const SiteProblem& problem : problems) {
    progress.next("filling memory");
    const std::vector<BenchOp> ops(std::begin(kOps), std::end(kOps));
    const Copies copies = copies_of(problem, ops, machine.last_cache(),
                                    std::min(kMemoryLimit, machine.available / 2));
    require_memory(problem, site_bytes(problem, copies), machine);
    RotatingSite memory(
        problem, copies,
        PoolRuntime(most, false, environment.ceiling, environment.ceiling_named).runtime);
    progress.clear();
    fmt::print("\n{}\n  {:<14}{:>8}{:>10}{:>10}{:>7}  {}\n", describe(problem), "op", "threads",
               "built in", "chosen", "won", "us per token; choice");
    for (const int32_t t : threads) {
      const PoolRuntime pool(t, true, environment.ceiling, environment.ceiling_named);
      const PinnedCaller pinned(t);
      Step step{&progress, t};
      for (const BenchOp op : kOps) {
        const TuneResult result = tune_operation(op, &memory, pool.runtime, next_knob, &step);
        progress.clear();
        print_result(result, problem);
        table.put(result.row);
        table.save();
      }
    }
  }
  progress.clear();
  fmt::print("\nwrote {}; MHC_TUNING={} makes it count\n", path, path);
  return 0;
}

}  // namespace mhc::tool
