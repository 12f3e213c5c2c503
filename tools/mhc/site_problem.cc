#include "mhc/site_problem.h"

#include "kernels/post/post.h"
#include "kernels/post_backward/post_backward.h"
#include "kernels/pre/pre.h"
#include "kernels/pre_backward/pre_backward.h"

namespace mhc::tool {

const char* name_of(BenchOp op) {
  constexpr const char* kName[kBenchOps] = {"pre", "post", "post_backward", "pre_backward"};
  return kName[static_cast<int32_t>(op)];
}

Cost cost_of(BenchOp op, const SiteProblem& p, Isa isa) {
  Cost parameters;
  parameters.bytes_read = static_cast<double>(p.phi_bytes());
  switch (op) {
    case BenchOp::kPre:
      return pre_cost(p.spec, GateKind::kSite, p.dims, p.dtype, isa) + parameters;
    case BenchOp::kPost:
      return post_cost(p.dims, p.dtype);
    case BenchOp::kPostBackward:
      return post_backward_cost(p.dims, p.dtype, false);
    case BenchOp::kPreBackward:
      break;
  }
  parameters.bytes_written = parameters.bytes_read;
  return pre_backward_cost(p.spec, GateKind::kSite, p.dims, p.dtype, isa) + parameters;
}

}  // namespace mhc::tool
