#pragma once
// One visit of x: project, sum of squares, gates, manifold, collapse.
//
//   q[t,c]           = sum_{i,d} phi_eff[c,i,d] x[t,i,d]     phi_eff = phi * norm_weight, in f32
//   ss[t]            = sum_{i,d} x[t,i,d]^2
//   z, inv_rms, h_pre, h_post, h_res                         see kernels/coefficients
//   layer_input[t,d] = sum_i h_pre[t,i] x[t,i,d]
//
// The same kernel serves `coefficients` (no layer_input), `project_partial` (q and sum_squares
// asked for, nothing else) and `head` (kind kHead: n coefficients, one alpha).

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/cost.h"
#include "base/isa.h"
#include "base/runtime.h"
#include "base/status.h"
#include "kernels/common/args.h"

namespace mhc {

struct PreArgs {
  const char* operation = "pre";  // for messages: pre, coefficients, project_partial, head
  Spec spec;
  GateKind kind = GateKind::kSite;
  Tensor x;       // [T, n, D] A: bf16, f16, f32 or f64; D contiguous, strides of T and n free
  Params params;  // alpha and bias absent when only q and sum_squares are asked for
  // phi packed by pack_phi for the same spec, kind, n, D, A and runtime; phi and norm_weight are
  // then not read.
  const void* packed_phi = nullptr;
  size_t packed_phi_bytes = 0;

  // Outputs, each of them optional, f32 (f64 when A is) and contiguous but for layer_input.
  Tensor layer_input;  // [T, D] A; D contiguous
  Tensor z;            // [T, m]     kept for backward
  Tensor inv_rms;      // [T]        kept for backward
  Tensor h_pre;        // [T, n]
  Tensor h_post;       // [T, n]     site only
  Tensor h_res;        // [T, n, n]  site only
  Tensor q;            // [T, m]     the projection of this shard of the features
  Tensor sum_squares;  // [T]

  Workspace workspace;  // pre_workspace_bytes
};

Status check(const PreArgs& args);
Status pre(const PreArgs& args, const Runtime& runtime);
void pre_reference(const PreArgs& args);

// Bounded in T. 0 for f64.
size_t pre_workspace_bytes(const Spec& spec, GateKind kind, const Dims& dims, DType activation,
                           const Runtime& runtime);

// Packing phi [m, n, D] for the projection: once per call, or once per change of the parameters.
size_t packed_phi_bytes(const Spec& spec, GateKind kind, int64_t embedding, DType activation,
                        const Runtime& runtime);
Status pack_phi(const Spec& spec, GateKind kind, const Params& params, int64_t embedding,
                DType activation, void* packed, size_t packed_bytes, const Runtime& runtime);

Status check_pack_phi(const Spec& spec, GateKind kind, const Params& params, int64_t embedding,
                      DType activation, const void* packed, size_t packed_bytes,
                      const Runtime& runtime);

// x read once (the collapse finds it in cache), layer_input and what is saved written once.
Cost pre_cost(const Spec& spec, GateKind kind, const Dims& dims, DType activation, Isa isa);

}  // namespace mhc
