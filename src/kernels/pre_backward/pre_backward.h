#pragma once
// Given du = d_layer_input, the cotangents of the gates, and g = d_x_next un-mixed (lazy) or
// d_x_post (eager):
//
//   d_h_pre[t,i] = d_h_pre given + sum_d x[t,i,d] du[t,d]
//   dz, dq       = the gates' backward (kernels/coefficients)
//   d_x[t,i,d]   = sum_j h_res[t,i,j] g[t,j,d]  (or d_x_post[t,i,d])  + h_pre[t,i] du[t,d]
//                + sum_c dq[t,c] phi_eff[c,i,d] - (inv_rms^2 / K) (sum_c dz[t,c] z[t,c]) x[t,i,d]
//   d_phi_eff[c,i,d] = sum_t dq[t,c] x[t,i,d];  d_phi = d_phi_eff * norm_weight
//   d_norm_weight[i,d] = sum_c d_phi_eff[c,i,d] phi[c,i,d]
//   d_bias = sum_t d_logit;  d_alpha = sum_t d_logit z
//
// The four terms of d_x are added in f32 and rounded once. Also the backward of `coefficients` (no
// du, no g), of `project_partial` (d_q and d_sum_squares given in place of the gates) and of
// `head`. gradient_precision bfloat16 rounds dq once and uses that value in both d_x terms and in
// d_phi.

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/cost.h"
#include "base/isa.h"
#include "base/runtime.h"
#include "base/status.h"
#include "kernels/common/args.h"

namespace mhc {

struct PreBackwardArgs {
  const char* operation = "pre_backward";  // for messages
  Spec spec;
  GateKind kind = GateKind::kSite;
  Tensor x;       // [T, n, D] A; D contiguous
  Params params;  // as in forward; norm_weight is folded here too

  // What forward saved; both absent in project_partial's backward.
  Tensor z;        // [T, m] f32 (f64 when A is)
  Tensor inv_rms;  // [T]

  // Cotangents, each of them optional (absent means zero).
  Tensor d_layer_input;  // [T, D] A
  Tensor d_h_pre;        // [T, n] f32 (f64): what reached h_pre by another way than layer_input
  Tensor d_h_post;       // [T, n]
  Tensor d_h_res;        // [T, n, n]
  Tensor d_x_next;       // [T, n, D] A: lazy, mixed with h_res here
  Tensor d_x_post;       // [T, n, D] A: eager, added as it is; not together with d_x_next
  Tensor d_q;            // [T, m]  project_partial only
  Tensor d_sum_squares;  // [T]     project_partial only

  // Outputs, each of them optional. What is absent is not computed.
  Tensor d_x;            // [T, n, D] A; may be d_x_next or d_x_post itself
  Tensor d_phi;          // [m, n, D] f32, or the type of its parameter when accumulate is false
  Tensor d_alpha;        // [3] or [1]
  Tensor d_bias;         // [m]
  Tensor d_norm_weight;  // [n, D]
  // Parameter gradients are added to what is there; they must then be f32 (f64).
  bool accumulate = false;

  Workspace workspace;  // pre_backward_workspace_bytes
};

Status check(const PreBackwardArgs& args);
Status pre_backward(const PreBackwardArgs& args, const Runtime& runtime);
void pre_backward_reference(const PreBackwardArgs& args);

// Bounded in T. 0 for f64.
size_t pre_backward_workspace_bytes(const Spec& spec, GateKind kind, const Dims& dims,
                                    DType activation, const Runtime& runtime);

// Lazy schedule, all gradients: x, g and du read once, d_x and the parameter gradients written
// once.
Cost pre_backward_cost(const Spec& spec, GateKind kind, const Dims& dims, DType activation,
                       Isa isa);

}  // namespace mhc
