#pragma once
// Everything that the command line of `mhc bench` selects.

#include <string>
#include <vector>

#include "mhc/bench_row.h"
#include "mhc/options.h"

namespace mhc::tool {

struct BenchPlan {
  std::vector<std::string> ops;
  std::vector<SiteProblem> problems;
  std::vector<Isa> isas;
  bool exact = false;  // these and no lower ones
  std::vector<int32_t> threads;
  Environment environment;

  std::vector<BenchOp> parts() const;
  std::vector<Mix> mixes() const;
  size_t rows() const { return problems.size() * threads.size() * isas.size() * ops.size(); }
};

// Throws UsageError.
BenchPlan bench_plan_of(const Options& options);

}  // namespace mhc::tool
