#include "mhc/site_problem.h"

#include "kernels/post/post.h"
#include "kernels/post_backward/post_backward.h"
#include "kernels/pre/pre.h"
#include "kernels/pre_backward/pre_backward.h"

namespace mhc::tool {
namespace {

// What one call reads: f32, or the packed form, in which pairs for the bf16 dot take half of that
// unless they come in two parts.
double phi_bytes_read(const SiteProblem& p, Isa isa) {
  const bool halved = p.packed_phi && isa == Isa::kAvx512Bf16 && p.dtype == DType::kBF16 &&
                      p.spec.phi_precision == Precision::kBFloat16;
  return static_cast<double>(p.phi_bytes()) / (halved ? 2 : 1);
}

}  // namespace

const char* name_of(BenchOp op) {
  constexpr const char* kName[kBenchOps] = {"pre", "post", "post_backward", "pre_backward"};
  return kName[static_cast<int32_t>(op)];
}

Cost cost_of(BenchOp op, const SiteProblem& p, Isa isa) {
  Cost parameters;
  switch (op) {
    case BenchOp::kPre:
      parameters.bytes_read = phi_bytes_read(p, isa);
      return pre_cost(p.spec, GateKind::kSite, p.dims, p.dtype, isa) + parameters;
    case BenchOp::kPost:
      return post_cost(p.dims, p.dtype);
    case BenchOp::kPostBackward:
      return post_backward_cost(p.dims, p.dtype, false);
    case BenchOp::kPreBackward:
      break;
  }
  parameters.bytes_read = parameters.bytes_written = static_cast<double>(p.phi_bytes());
  return pre_backward_cost(p.spec, GateKind::kSite, p.dims, p.dtype, isa) + parameters;
}

}  // namespace mhc::tool
