#pragma once
// What several operations take: the parameters of a site or head, and scratch memory.

#include <cstddef>
#include <cstdint>

#include "base/dims.h"
#include "base/tensor.h"
#include "manifold/spec.h"

namespace mhc {

// Contiguous; f32 or bf16, each tensor for itself (f64 all together when x is f64).
struct Params {
  Tensor phi;          // [m, n, D]
  Tensor alpha;        // [3] in the order pre, post, res; [1] for a head
  Tensor bias;         // [m]
  Tensor norm_weight;  // [n, D] or absent: a learned RMSNorm weight, folded into phi
};

// Caller-owned scratch, of at least the size that <op>_workspace_bytes names. Contents are not
// kept.
struct Workspace {
  void* data = nullptr;
  size_t bytes = 0;
};

}  // namespace mhc
