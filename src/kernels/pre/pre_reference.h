#pragma once
// The definition of pre, generic over the number type.

#include "kernels/common/reference_gates.h"
#include "kernels/pre/pre.h"

namespace mhc {

// As pre_reference(args), with its tokens spread over the executor. Every thread count gives the
// same bits.
void pre_reference(const PreArgs& args, const Executor& executor);

namespace reference {

// q[t,c] = sum_k phi_eff[c,k] x[t,k],  sum_squares[t] = sum_k x[t,k]^2,  k = (i, d) over all n*D
// features
template <class Real>
void project(int64_t tokens, int64_t m, int64_t features, const Real* x, const Real* phi_eff,
             Real* q, Real* sum_squares) {
  for (int64_t k = 0; k < tokens * m; ++k) q[k] = Real{};
  for (int64_t t = 0; t < tokens; ++t) sum_squares[t] = Real{};
  for_each_tile(features, [&](int64_t begin, int64_t count) {
    for (int64_t t = 0; t < tokens; ++t) {
      const Real* x_tile = x + t * features + begin;
      sum_squares[t] = sum_squares[t] + dot(count, x_tile, x_tile);
      for (int64_t c = 0; c < m; ++c) {
        q[t * m + c] = q[t * m + c] + dot(count, phi_eff + c * features + begin, x_tile);
      }
    }
  });
}

template <class Real>
struct PreArrays {
  const Real* x;        // [T, n, D]
  const Real* phi_eff;  // [m, n, D], norm_weight folded in
  const Real* alpha;    // [3] or [1]
  const Real* bias;     // [m]
  Real* q;              // [T, m]
  Real* sum_squares;    // [T]
  Real* z;              // [T, m], or null to stop at q and sum_squares
  Real* inv_rms;        // [T]
  Real* h_pre;          // [T, n]
  Real* h_post;         // [T, n]     read and written for a site only
  Real* h_res;          // [T, n, n]  likewise
  Real* layer_input;    // [T, D], or null
};

// layer_input[t,d] = sum_i h_pre[t,i] x[t,i,d]
// The gates that come out are not rounded; the one in the mix is, where h_pre_precision says so.
template <class Real>
void pre(const Spec& spec, DType activation, const Dims& dims, Gates<Real>* gates,
         const PreArrays<Real>& a) {
  const int64_t n = dims.streams;
  const int64_t m = gates->layout().coefficients();
  const int64_t embedding = dims.embedding;
  project(dims.tokens, m, dims.flat(), a.x, a.phi_eff, a.q, a.sum_squares);
  for (int64_t t = 0; t < dims.tokens && a.z != nullptr; ++t) {
    gates->normalise(a.q + t * m, a.sum_squares[t], a.z + t * m, a.inv_rms + t);
    gates->forward(a.z + t * m, a.alpha, a.bias,
                   {a.h_pre + t * n, a.h_post + t * n, a.h_res + t * n * n});
    if (a.layer_input == nullptr) continue;
    Real* layer_input = a.layer_input + t * embedding;
    for (int64_t d = 0; d < embedding; ++d) layer_input[d] = Real{};
    for (int64_t i = 0; i < n; ++i) {
      const Real h_pre = gate_in_mix(a.h_pre[t * n + i], spec.h_pre_precision, activation);
      add_scaled(embedding, h_pre, a.x + (t * n + i) * embedding, layer_input);
    }
  }
}

}  // namespace reference
}  // namespace mhc
