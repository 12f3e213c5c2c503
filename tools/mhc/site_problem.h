#pragma once
// What is measured: the four operations of a site as training calls them.

#include <cstdint>

#include "base/cost.h"
#include "base/dims.h"
#include "base/dtype.h"
#include "base/isa.h"
#include "manifold/spec.h"

namespace mhc::tool {

// In the order of training. x is kept, g is handed on lazily, d_x is written over g, and every
// parameter's gradient is asked for.
enum class BenchOp : int32_t { kPre = 0, kPost, kPostBackward, kPreBackward };
inline constexpr int32_t kBenchOps = 4;
const char* name_of(BenchOp op);

struct SiteProblem {
  Dims dims;
  DType dtype = DType::kBF16;
  Spec spec;                // streams is that of dims
  bool packed_phi = false;  // kept by the caller instead of packed by each call
  bool one_token = false;   // read for all tokens: what is left is arithmetic and writing

  int64_t coefficients() const { return gate_layout(spec, GateKind::kSite).coefficients(); }
  int64_t phi_bytes() const { return 4 * coefficients() * dims.flat(); }
};

// Of one call on a kernel of this ISA: the operation's own cost, and phi read or d_phi written
// once.
Cost cost_of(BenchOp op, const SiteProblem& problem, Isa isa);

}  // namespace mhc::tool
