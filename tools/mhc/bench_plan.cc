#include "mhc/bench_plan.h"

#include <fmt/format.h>

#include <algorithm>

namespace mhc::tool {
namespace {

// Without a choice: the two manifolds of the published models, each with the precision of phi of
// its release.
std::vector<Spec> specs_of(const Options& o) {
  const std::vector<Precision> phi = o.phi_precisions();
  std::vector<Spec> specs = o.specs_or("sinkhorn");
  if (o.manifolds.empty() && o.preset.empty()) {
    specs.push_back(specs.front());
    specs.back().manifold = find_manifold("permutation")->id;
    if (phi.empty()) specs.back().phi_precision = Precision::kBFloat16;
  }
  const auto cross = [&](const std::vector<Precision>& values, Precision Spec::*field) {
    if (values.empty()) return;
    std::vector<Spec> crossed;
    for (const Spec& spec : specs) {
      for (const Precision value : values) {
        crossed.push_back(spec);
        crossed.back().*field = value;
      }
    }
    specs = crossed;
  };
  cross(phi, &Spec::phi_precision);
  cross(o.gradient_precisions(), &Spec::gradient_precision);
  return specs;
}

std::vector<SiteProblem> problems_of(const Options& o) {
  std::vector<SiteProblem> problems;
  for (const Dims& dims : o.dims_or({{2048, 4, 3072}})) {
    for (const DType dtype : o.dtypes_or({DType::kBF16})) {
      if (dtype == DType::kF64) {
        throw UsageError("--dtype: expected bf16, f32 or f16, got \"f64\", which has no kernels");
      }
      for (Spec spec : specs_of(o)) {
        spec.streams = dims.streams;
        const ManifoldInfo& manifold = *find_manifold(spec.manifold);
        if (dims.streams > manifold.max_streams) {
          throw UsageError(fmt::format("--dims: expected at most {} streams for {}, got {}",
                                       manifold.max_streams, manifold.name, dims.streams));
        }
        problems.push_back({dims, dtype, spec, o.packed, o.one_token});
      }
    }
  }
  return problems;
}

}  // namespace

std::vector<BenchOp> BenchPlan::parts() const {
  std::vector<BenchOp> parts;
  for (const std::string& op : ops) {
    for (const BenchOp part : bench_ops_of(op)) parts.push_back(part);
  }
  return parts;
}

std::vector<Mix> BenchPlan::mixes() const {
  std::vector<Mix> mixes{{1, 0}, {1, 1}};
  for (const SiteProblem& p : problems) {
    for (const BenchOp op : parts()) {
      const Mix mix = mix_of(op, p.dims.streams);
      if (std::find(mixes.begin(), mixes.end(), mix) == mixes.end()) mixes.push_back(mix);
    }
  }
  return mixes;
}

BenchPlan bench_plan_of(const Options& o) {
  BenchPlan plan;
  plan.environment = read_environment();
  plan.ops = o.ops_of(bench_op_names());
  plan.problems = problems_of(o);
  plan.isas = o.isas_or({usable_isas(plan.environment).back()});
  if (!plan.environment.tuning.empty()) {
    PoolRuntime(1, false, plan.environment.ceiling, false, plan.environment.tuning);  // it loads
  }
  plan.exact = !o.isas.empty() || plan.environment.ceiling_named;
  const int32_t most = default_threads(plan.environment);
  plan.threads = o.threads_or(most == 1 ? std::vector<int32_t>{1} : std::vector<int32_t>{1, most});
  return plan;
}

}  // namespace mhc::tool
