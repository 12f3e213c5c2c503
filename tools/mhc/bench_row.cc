#include "mhc/bench_row.h"

#include <algorithm>
#include <stdexcept>

#include "base/counters.h"
#include "layer/kernel_list.h"

namespace mhc::tool {
namespace {

constexpr BenchOp kAll[] = {BenchOp::kPre, BenchOp::kPost, BenchOp::kPostBackward,
                            BenchOp::kPreBackward};

// The kernel of one call, as the library counted it.
KernelRow kernel_of(BenchOp op, RotatingSite* memory, const Runtime& runtime) {
  reset_calls();
  memory->run(op, 0, runtime);
  for (int32_t i = 0; i < kernel_count(); ++i) {
    const KernelRow row = kernel_at(i);
    if (std::string(row.operation) == name_of(op) && calls_of(row.name) > 0) return row;
  }
  throw std::runtime_error(std::string(name_of(op)) + ": no kernel of the tables was called");
}

void call(const std::string& op, int64_t turn, RotatingSite* memory, const Runtime& runtime) {
  if (op == "site") return memory->run_site(turn, runtime);
  memory->run(bench_ops_of(op).front(), turn, runtime);
}

}  // namespace

std::vector<std::string> bench_op_names() {
  std::vector<std::string> names;
  for (const BenchOp op : kAll) names.emplace_back(name_of(op));
  names.emplace_back("site");
  return names;
}

std::vector<BenchOp> bench_ops_of(const std::string& name) {
  for (const BenchOp op : kAll) {
    if (name == name_of(op)) return {op};
  }
  return {kAll, kAll + kBenchOps};
}

BenchRow measure_row(const std::string& op, RotatingSite* memory, const Runtime& runtime,
                     const Roofline& roofline, double seconds) {
  BenchRow row;
  row.op = op;
  row.threads = runtime.executor.workers();
  memory->prepare(runtime);
  for (const BenchOp part : bench_ops_of(op)) {
    const KernelRow kernel = kernel_of(part, memory, runtime);
    const Floor floor = floor_of(part, memory->problem(), kernel.isa, roofline);
    row.kernels.emplace_back(kernel.name);
    row.isa = std::max(row.isa, kernel.isa);
    row.cost = row.cost + cost_of(part, memory->problem(), kernel.isa);
    (floor.memory > floor.compute ? row.floor.memory : row.floor.compute) += floor.seconds();
    row.floor_seconds += floor.seconds();
  }
  row.timing =
      measure({.seconds = seconds}, [&](int64_t turn) { call(op, turn, memory, runtime); });
  return row;
}

void trace_row(const std::string& op, RotatingSite* memory, const Runtime& runtime, Trace* trace) {
  memory->prepare(runtime);
  call(op, 0, memory, runtime);
  for (const BenchOp part : bench_ops_of(op)) {
    trace->record(name_of(part), runtime.executor, [&](const Executor& executor) {
      Runtime traced = runtime;
      traced.executor = executor;
      memory->run(part, 1, traced);
    });
  }
}

Json to_json(const BenchRow& row, const SiteProblem& p) {
  const double tokens = static_cast<double>(p.dims.tokens);
  const auto name = [](Precision precision) {
    return precision == Precision::kFloat32 ? "float32" : "bfloat16";
  };
  return {{"op", row.op},
          {"isa", name_of(row.isa)},
          {"dtype", name_of(p.dtype)},
          {"manifold", find_manifold(p.spec.manifold)->name},
          {"phi_precision", name(p.spec.phi_precision)},
          {"gradient_precision", name(p.spec.gradient_precision)},
          {"packed_phi", p.packed_phi},
          {"one_token", p.one_token},
          {"threads", row.threads},
          {"tokens", p.dims.tokens},
          {"streams", p.dims.streams},
          {"embedding", p.dims.embedding},
          {"us_per_token", row.timing.median / tokens * 1e6},
          {"us_per_token_low", row.timing.low / tokens * 1e6},
          {"us_per_token_high", row.timing.high / tokens * 1e6},
          {"repetitions", row.timing.repetitions},
          {"floor_us_per_token", row.floor_seconds / tokens * 1e6},
          {"floor_share", row.share()},
          {"bytes_per_token", row.cost.bytes() / tokens},
          {"flops_per_token", row.cost.flops() / tokens},
          {"limit", row.floor.limit()},
          {"kernels", row.kernels}};
}

}  // namespace mhc::tool
