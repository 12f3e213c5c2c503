#pragma once
// From projections to gates, per token, and back. Forward, with K = n * embedding_total:
//
//   inv_rms = 1 / sqrt(ss/K + norm_eps)  or  1 / (sqrt(ss/K) + norm_eps);   z = inv_rms q
//   logit   = alpha[group] z + bias
//   h_pre   = sigmoid(logit) + pre_eps;  h_post = post_mult sigmoid(logit);  h_res = M(logit)
//
// Backward, s' = e/(1+e)^2 with e = exp(-|logit|):
//
//   d_logit = d_h_pre s' | d_h_post post_mult s' | M^T(d_h_res);   dz = alpha d_logit
//   d_q  = inv_rms dz
//   d_ss = -(inv_rms^2 / 2K) sum_c dz z,  outside: -(inv_rms / (2 K rms)) sum_c dz z
//   d_bias += d_logit;  d_alpha[group] += sum_c d_logit z
//
// gradient_precision bfloat16 rounds d_q once; d_ss is then of the rounded value.
//
// Features sharded over devices: each shard's q and sum_squares are added up before, d_q and d_ss
// go to every shard's project_partial backward; d_alpha and d_bias are then total and must not be
// summed again.

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/isa.h"
#include "base/runtime.h"
#include "base/status.h"
#include "kernels/common/args.h"

namespace mhc {

struct CoefficientsArgs {
  Spec spec;
  GateKind kind = GateKind::kSite;
  int64_t embedding_total = 0;  // D of all shards together
  Tensor q;                     // [T, m] f32 or f64; every tensor here contiguous and of this type
  Tensor sum_squares;           // [T]
  Tensor alpha, bias;           // f32 or bf16 (f64 when q is)
  // Outputs, each of them optional.
  Tensor z, inv_rms;            // [T, m], [T]
  Tensor h_pre, h_post, h_res;  // [T, n], [T, n], [T, n, n]
  Workspace workspace;          // coefficients_workspace_bytes
};

struct CoefficientsBackwardArgs {
  Spec spec;
  GateKind kind = GateKind::kSite;
  int64_t embedding_total = 0;
  Tensor z, inv_rms;   // what forward gave
  Tensor sum_squares;  // [T], read for d_sum_squares when norm_form is "outside"
  Tensor alpha, bias;
  Tensor d_h_pre, d_h_post, d_h_res;  // each of them optional (absent means zero)
  // Outputs, each of them optional.
  Tensor d_q, d_sum_squares;  // [T, m], [T]
  Tensor d_alpha, d_bias;     // f32, or the parameter's type when accumulate is false
  bool accumulate = false;
  Workspace workspace;
};

Status check(const CoefficientsArgs& args);
Status coefficients_from_partials(const CoefficientsArgs& args, const Runtime& runtime);
void coefficients_reference(const CoefficientsArgs& args);

Status check(const CoefficientsBackwardArgs& args);
Status coefficients_from_partials_backward(const CoefficientsBackwardArgs& args,
                                           const Runtime& runtime);
void coefficients_backward_reference(const CoefficientsBackwardArgs& args);

// Serves both directions. Bounded in T.
size_t coefficients_workspace_bytes(const Spec& spec, GateKind kind, int64_t tokens,
                                    const Runtime& runtime);

}  // namespace mhc
