#include "mhc/floor.h"

#include <algorithm>

namespace mhc::tool {
namespace {

double compute_seconds(const Cost& cost, Isa isa, const Roofline& roofline) {
  const double dot = cost.flops_bf16_dot;
  return cost.flops_f32 / roofline.f32(isa) + (dot > 0 ? dot / roofline.bf16_dot(isa) : 0);
}

}  // namespace

Mix mix_of(BenchOp op, int64_t streams) {
  const auto n = static_cast<int32_t>(streams);
  switch (op) {
    case BenchOp::kPre:
      return {n, 1};  // x, layer_input
    case BenchOp::kPost:
      return {n + 1, n};  // x and layer_output, x_next
    case BenchOp::kPostBackward:
      return {2 * n + 1, 1};  // g, x and layer_output, d_layer_output
    case BenchOp::kPreBackward:
      break;
  }
  return {2 * n + 1, n};  // g, x and d_layer_input, d_x
}

Floor floor_of(BenchOp op, const SiteProblem& problem, Isa isa, const Roofline& roofline) {
  const Cost cost = cost_of(op, problem, isa);
  Floor floor;
  floor.memory = cost.bytes() / roofline.bandwidth(mix_of(op, problem.dims.streams));
  floor.compute = compute_seconds(cost, isa, roofline);
  if (isa == Isa::kAvx512Bf16) {
    const Cost without_dot = cost_of(op, problem, Isa::kAvx512);
    floor.compute = std::min(floor.compute, compute_seconds(without_dot, isa, roofline));
  }
  return floor;
}

}  // namespace mhc::tool
