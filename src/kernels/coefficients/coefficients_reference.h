#pragma once
// The definition of the coefficients from projections, and of its backward, generic over the number
// type.

#include "kernels/coefficients/coefficients.h"
#include "kernels/common/reference_gates.h"

namespace mhc::reference {

template <class Real>
struct CoefficientsArrays {
  const Real* q;            // [T, m]
  const Real* sum_squares;  // [T]
  const Real* alpha;        // [3] or [1]
  const Real* bias;         // [m]
  Real* z;                  // [T, m]
  Real* inv_rms;            // [T]
  Real* h_pre;              // [T, n]
  Real* h_post;             // [T, n]     written for a site only
  Real* h_res;              // [T, n, n]  likewise
};

template <class Real>
void coefficients(int64_t tokens, Gates<Real>* gates, const CoefficientsArrays<Real>& a) {
  const int64_t n = gates->layout().streams;
  const int64_t m = gates->layout().coefficients();
  for (int64_t t = 0; t < tokens; ++t) {
    gates->normalise(a.q + t * m, a.sum_squares[t], a.z + t * m, a.inv_rms + t);
    gates->forward(a.z + t * m, a.alpha, a.bias,
                   {a.h_pre + t * n, a.h_post + t * n, a.h_res + t * n * n});
  }
}

template <class Real>
struct CoefficientsBackwardArrays {
  const Real* z;            // [T, m]
  const Real* inv_rms;      // [T]
  const Real* sum_squares;  // [T], norm_form "outside"
  const Real* alpha;        // [3] or [1]
  const Real* bias;         // [m]
  const Real* d_h_pre;      // [T, n]     null means zero, here and below
  const Real* d_h_post;     // [T, n]
  const Real* d_h_res;      // [T, n, n]
  Real* d_logit;            // [T, m]
  Real* d_q;                // [T, m]
  Real* d_sum_squares;      // [T]
  Real* d_alpha;            // [3] or [1], added to
  Real* d_bias;             // [m], added to
};

// Per token as Gates::backward. The parameters serve every token, logit = alpha z + bias, hence
//   d_bias[c] = sum_t d_logit[t,c],   d_alpha[group] = sum_{t, c in group} d_logit[t,c] z[t,c]
template <class Real>
void coefficients_backward(int64_t tokens, Gates<Real>* gates,
                           const CoefficientsBackwardArrays<Real>& a) {
  const int64_t n = gates->layout().streams;
  const int64_t m = gates->layout().coefficients();
  const auto row = [](const Real* rows, int64_t offset) {
    return rows == nullptr ? nullptr : rows + offset;
  };
  for (int64_t t = 0; t < tokens; ++t) {
    gates->backward(a.z + t * m, a.inv_rms[t], a.sum_squares == nullptr ? Real{} : a.sum_squares[t],
                    a.alpha, a.bias,
                    {row(a.d_h_pre, t * n), row(a.d_h_post, t * n), row(a.d_h_res, t * n * n)},
                    a.d_logit + t * m, a.d_q + t * m, a.d_sum_squares + t);
    for (int64_t c = 0; c < m; ++c) {
      const int64_t group = gates->layout().group(c);
      a.d_bias[c] = a.d_bias[c] + a.d_logit[t * m + c];
      a.d_alpha[group] = a.d_alpha[group] + a.d_logit[t * m + c] * a.z[t * m + c];
    }
  }
}

}  // namespace mhc::reference
