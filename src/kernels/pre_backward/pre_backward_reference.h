#pragma once
// The definition of pre's backward, generic over the number type.

#include "kernels/common/reference_gates.h"
#include "kernels/pre_backward/pre_backward.h"

namespace mhc {

// As pre_backward_reference(args), with its work spread over the executor. Every thread count gives
// the same bits.
void pre_backward_reference(const PreBackwardArgs& args, const Executor& executor);

namespace reference {

// Null means zero for a cotangent and "not wanted" for an output.
template <class Real>
struct PreBackwardArrays {
  const Real* x;              // [T, n, D]
  const Real* phi_eff;        // [m, n, D], norm_weight folded in
  const Real* alpha;          // [3] or [1]
  const Real* bias;           // [m]
  const Real* z;              // [T, m], or null: d_q and d_sum_squares are given
  const Real* inv_rms;        // [T]
  const Real* d_layer_input;  // [T, D]
  const Real* d_h_pre;        // [T, n]
  const Real* d_h_post;       // [T, n]
  const Real* d_h_res;        // [T, n, n]
  const Real* d_x_next;       // [T, n, D]
  const Real* d_x_post;       // [T, n, D]
  Real* d_logit;              // [T, m]
  Real* d_q;                  // [T, m], given and rounded in place where z is null
  Real* d_sum_squares;        // [T], likewise given
  Real* d_x;                  // [T, n, D]
};

// Step 1, per token: d_logit, d_q and d_sum_squares. layer_input[d] = sum_i h_pre[i] x[i,d], hence
//   d_h_pre[i] = what came by other ways + sum_d x[i,d] d_layer_input[d]
template <class Real>
void pre_backward_gates(const Spec& spec, const Dims& dims, Gates<Real>* gates,
                        const PreBackwardArrays<Real>& a) {
  const int64_t n = dims.streams;
  const int64_t m = gates->layout().coefficients();
  const auto row = [](const Real* rows, int64_t offset) {
    return rows == nullptr ? nullptr : rows + offset;
  };
  if (a.z == nullptr) {
    if (spec.gradient_precision == Precision::kFloat32) return;
    for (int64_t k = 0; k < dims.tokens * m; ++k) a.d_q[k] = rounded(a.d_q[k], DType::kBF16);
    return;
  }
  Real d_h_pre[kMaxStreams] = {};
  for (int64_t t = 0; t < dims.tokens; ++t) {
    const Real* x = a.x + t * dims.flat();
    for (int64_t i = 0; i < n; ++i) {
      d_h_pre[i] = a.d_h_pre == nullptr ? Real{} : a.d_h_pre[t * n + i];
      if (a.d_layer_input == nullptr) continue;
      d_h_pre[i] = d_h_pre[i] + dot(dims.embedding, x + i * dims.embedding,
                                    a.d_layer_input + t * dims.embedding);
    }
    // norm_form "outside" needs the root mean square itself: 1/inv_rms - norm_eps would cancel.
    Real sum_squares = Real{};
    if (spec.norm_form == NormForm::kOutside) sum_squares = dot(dims.flat(), x, x);
    gates->backward(a.z + t * m, a.inv_rms[t], sum_squares, a.alpha, a.bias,
                    {d_h_pre, row(a.d_h_post, t * n), row(a.d_h_res, t * n * n)}, a.d_logit + t * m,
                    a.d_q + t * m, a.d_sum_squares + t);
  }
}

// Step 2. x[t,i,d] reaches the loss in four ways:
//   through the mix of post, x_next[j,d] = sum_i h_res[i,j] x[i,d]:
//       sum_j h_res[t,i,j] d_x_next[t,j,d]
//   through the collapse, layer_input[d] = sum_i h_pre[i] x[i,d]:
//       h_pre[t,i] d_layer_input[t,d]
//   through the projection, q[c] = sum_{i,d} phi_eff[c,i,d] x[i,d]:
//       sum_c d_q[t,c] phi_eff[c,i,d]
//   through the norm, ss = sum_{i,d} x[i,d]^2:
//       2 d_ss[t] x[t,i,d]
template <class Real>
void pre_backward_d_x(const Spec& spec, DType activation, const Dims& dims, Gates<Real>* gates,
                      const PreBackwardArrays<Real>& a) {
  const int64_t n = dims.streams;
  const int64_t m = gates->layout().coefficients();
  const int64_t embedding = dims.embedding;
  Real h_pre[kMaxStreams] = {}, h_post[kMaxStreams] = {};
  Real h_res[kMaxStreams * kMaxStreams] = {};
  for (int64_t t = 0; t < dims.tokens; ++t) {
    if (a.z != nullptr) gates->forward(a.z + t * m, a.alpha, a.bias, {h_pre, h_post, h_res});
    for (int64_t i = 0; i < n; ++i) {
      const int64_t row = (t * n + i) * embedding;
      Real* d_x = a.d_x + row;
      const Real two_d_ss = constant(Real{}, 2.0) * a.d_sum_squares[t];
      for (int64_t d = 0; d < embedding; ++d) {
        d_x[d] = two_d_ss * a.x[row + d];
        if (a.d_x_post != nullptr) d_x[d] = d_x[d] + a.d_x_post[row + d];
      }
      if (a.d_layer_input != nullptr) {
        add_scaled(embedding, gate_in_mix(h_pre[i], spec.h_pre_precision, activation),
                   a.d_layer_input + t * embedding, d_x);
      }
      for (int64_t j = 0; j < n && a.d_x_next != nullptr; ++j) {
        add_scaled(embedding, gate_in_mix(h_res[i * n + j], spec.h_res_precision, activation),
                   a.d_x_next + (t * n + j) * embedding, d_x);
      }
    }
  }
  for_each_tile(dims.flat(), [&](int64_t begin, int64_t count) {
    for (int64_t t = 0; t < dims.tokens; ++t) {
      for (int64_t c = 0; c < m; ++c) {
        add_scaled(count, a.d_q[t * m + c], a.phi_eff + c * dims.flat() + begin,
                   a.d_x + t * dims.flat() + begin);
      }
    }
  });
}

// Step 3, for features [begin, begin + count): d_phi_eff[c,k] += sum_t d_q[t,c] x[t,k]
template <class Real>
void pre_backward_d_phi(int64_t tokens, int64_t m, int64_t features, int64_t begin, int64_t count,
                        const Real* d_q, const Real* x, Real* d_phi_eff) {
  for (int64_t c = 0; c < m; ++c) {
    for (int64_t t = 0; t < tokens; ++t) {
      add_scaled(count, d_q[t * m + c], x + t * features + begin, d_phi_eff + c * features + begin);
    }
  }
}

// Step 4, per token as well: logit = alpha z + bias, hence
//   d_bias[c] += sum_t d_logit[t,c],   d_alpha[group] += sum_{t, c in group} d_logit[t,c] z[t,c]
template <class Real>
void pre_backward_d_gate_parameters(int64_t tokens, const GateLayout& layout, const Real* d_logit,
                                    const Real* z, Real* d_alpha, Real* d_bias) {
  const int64_t m = layout.coefficients();
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t c = 0; c < m; ++c) {
      const int64_t group = layout.group(c);
      d_bias[c] = d_bias[c] + d_logit[t * m + c];
      d_alpha[group] = d_alpha[group] + d_logit[t * m + c] * z[t * m + c];
    }
  }
}

// Step 5, once all tokens are in. phi_eff[c,k] = phi[c,k] norm_weight[k], a rounding of it counting
// as the identity:
//   d_phi[c,k]       = d_phi_eff[c,k] norm_weight[k]
//   d_norm_weight[k] = sum_c d_phi_eff[c,k] phi[c,k]
// d_phi replaces d_phi_eff. d_norm_weight may be null, norm_weight too, meaning 1.
template <class Real>
void unfold_norm_weight(int64_t m, int64_t features, const Real* phi, const Real* norm_weight,
                        Real* d_phi_eff, Real* d_norm_weight) {
  for (int64_t k = 0; k < features && d_norm_weight != nullptr; ++k) d_norm_weight[k] = Real{};
  for (int64_t c = 0; c < m; ++c) {
    for (int64_t k = 0; k < features; ++k) {
      Real& d = d_phi_eff[c * features + k];
      if (d_norm_weight != nullptr) d_norm_weight[k] = d_norm_weight[k] + d * phi[c * features + k];
      if (norm_weight != nullptr) d = d * norm_weight[k];
    }
  }
}

}  // namespace reference
}  // namespace mhc
