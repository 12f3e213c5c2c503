#pragma once
// One line of `mhc bench`: an operation, or the whole site, on one kind of kernel and number of
// threads.

#include <string>
#include <vector>

#include "base/runtime.h"
#include "mhc/floor.h"
#include "mhc/machine.h"
#include "mhc/measure.h"
#include "mhc/rotating_site.h"
#include "mhc/trace.h"

namespace mhc::tool {

// `site` is all four.
struct BenchRow {
  std::string op;
  std::vector<std::string> kernels;  // those that ran, by the library's own count
  Isa isa = Isa::kScalar;            // the highest of theirs
  int32_t threads = 1;
  Timing timing;
  Cost cost;
  Floor floor;  // of `site`: the sums over its operations of what each is limited by
  double floor_seconds = 0;

  double share() const { return floor_seconds / timing.median; }
};

std::vector<std::string> bench_op_names();  // the four, then site
std::vector<BenchOp> bench_ops_of(const std::string& name);

BenchRow measure_row(const std::string& op, RotatingSite* memory, const Runtime& runtime,
                     const Roofline& roofline, double seconds);
void trace_row(const std::string& op, RotatingSite* memory, const Runtime& runtime, Trace* trace);

Json to_json(const BenchRow& row, const SiteProblem& problem);

}  // namespace mhc::tool
