#pragma once
// From projections to gates and back, one token at a time: the definition that pre, pre_backward
// and coefficients share. K = n * embedding_total, m coefficients c in the order pre (n), post (n),
// res (L).

#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/common/reference.h"
#include "manifold/list.h"
#include "manifold/spec.h"

namespace mhc::reference {

// Calls f with an object of the manifold that id names.
template <class F, class... Ms>
void visit_manifold(int32_t id, TypeList<Ms...>, const F& f) {
  ((Ms::id == id ? f(Ms{}) : void()), ...);
}

// phi_eff[c,k] = phi[c,k] norm_weight[k]. phi_precision bfloat16 folds in f32 and then rounds once.
template <class Real>
void fold_norm_weight(const Spec& spec, int64_t m, int64_t features, const Real* phi,
                      const Real* norm_weight, Real* phi_eff) {
  for (int64_t c = 0; c < m; ++c) {
    for (int64_t k = 0; k < features; ++k) {
      Real value = phi[c * features + k];
      if (norm_weight != nullptr) value = value * norm_weight[k];
      if (spec.phi_precision == Precision::kBFloat16) {
        value = rounded(rounded(value, DType::kF32), DType::kBF16);
      }
      phi_eff[c * features + k] = value;
    }
  }
}

// The gates of one token; h_post and h_res are null for a head.
template <class Real>
struct GateArrays {
  Real* h_pre;   // [n]
  Real* h_post;  // [n]
  Real* h_res;   // [n, n], input-major
};

// What reached them; null means zero.
template <class Real>
struct GateCotangents {
  const Real* h_pre;
  const Real* h_post;
  const Real* h_res;
};

template <class Real>
class Gates {
 public:
  Gates(const Spec& spec, GateKind kind, int64_t features)
      : spec_(spec), layout_(gate_layout(spec, kind)), features_(features) {
    const int64_t n = spec.streams;
    logit_.resize(static_cast<size_t>(layout_.coefficients()));
    if (kind == GateKind::kHead) return;
    matrix_.resize(static_cast<size_t>(n * n));
    visit_manifold(spec.manifold, Manifolds{}, [&](auto manifold) {
      scratch_.resize(static_cast<size_t>(manifold.scratch_size(n, spec.manifold_options)));
    });
  }

  const GateLayout& layout() const { return layout_; }

  // inv_rms = 1 / sqrt(ss/K + eps)  or  1 / (sqrt(ss/K) + eps);  z[c] = inv_rms q[c]
  void normalise(const Real* q, const Real& sum_squares, Real* z, Real* inv_rms) const {
    const Real one = constant(Real{}, 1.0);
    const Real eps = constant(Real{}, spec_.norm_eps);
    const Real mean_square = sum_squares / constant(Real{}, static_cast<double>(features_));
    *inv_rms = spec_.norm_form == NormForm::kInside ? one / sqrt_of(mean_square + eps)
                                                    : one / (sqrt_of(mean_square) + eps);
    // A sum of squares that overflowed would give inv_rms = 0 and finite, wrong gates: NaN is
    // visible.
    const Real limit = constant(Real{}, std::numeric_limits<double>::max());
    *inv_rms = select_greater(sum_squares, limit, sum_squares - sum_squares, *inv_rms);
    for (int64_t c = 0; c < layout_.coefficients(); ++c) z[c] = *inv_rms * q[c];
  }

  // logit[c] = alpha[group(c)] z[c] + bias[c]
  // h_pre[i] = sigmoid(logit) + pre_eps;  h_post[j] = post_mult sigmoid(logit)
  // h_res[i,j] = M(logit[2n:])[i,j], or [j,i] with matrix_order output_input
  void forward(const Real* z, const Real* alpha, const Real* bias, const GateArrays<Real>& h) {
    const int64_t n = layout_.streams;
    make_logits(z, alpha, bias);
    for (int64_t i = 0; i < n; ++i) {
      h.h_pre[i] = sigmoid(logit(i)) + constant(Real{}, spec_.pre_eps);
    }
    if (layout_.post == 0) return;
    for (int64_t j = 0; j < n; ++j) {
      h.h_post[j] = constant(Real{}, spec_.post_mult) * sigmoid(logit(n + j));
    }
    visit_manifold(spec_.manifold, Manifolds{}, [&](auto manifold) {
      manifold.forward(n, spec_.manifold_options, logit_.data() + 2 * n, matrix_.data(),
                       scratch_.data());
    });
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < n; ++j) h.h_res[i * n + j] = matrix_at(i, j);
    }
  }

  // The sigmoid's derivative at l is s' = e/(1+e)^2, e = exp(-|l|), so
  //   d_logit[c] = d_h_pre s' | d_h_post post_mult s' | M^T(d_h_res)
  // and, q being what z and the logits are made of: dz = alpha d_logit,
  //   d_q[c] = inv_rms dz[c]              (rounded once for gradient_precision bfloat16)
  //   d_ss   = sum_c dz[c] q[c] d inv_rms/d ss
  //   inside:  d inv_rms/d ss = -inv_rms^3 / (2K), q = z / inv_rms, so
  //            d_ss = -(inv_rms^2 / 2K) sum_c dz z = -(inv_rms / 2K) sum_c d_q z
  //   outside: d inv_rms/d ss = -inv_rms^2 / (2 K rms), rms = sqrt(ss/K), so
  //            d_ss = -(1 / (2 K rms)) sum_c d_q z,  and 0 at rms = 0, where every z is 0
  // Written with d_q, the rounded value serves here as well. sum_squares is read for "outside"
  // only.
  void backward(const Real* z, const Real& inv_rms, const Real& sum_squares, const Real* alpha,
                const Real* bias, const GateCotangents<Real>& d, Real* d_logit, Real* d_q,
                Real* d_sum_squares) {
    const int64_t n = layout_.streams;
    make_logits(z, alpha, bias);
    for (int64_t c = 0; c < layout_.coefficients(); ++c) d_logit[c] = Real{};
    for (int64_t i = 0; i < n && d.h_pre != nullptr; ++i) {
      d_logit[i] = d.h_pre[i] * sigmoid_derivative(logit(i));
    }
    for (int64_t j = 0; j < layout_.post && d.h_post != nullptr; ++j) {
      d_logit[n + j] =
          d.h_post[j] * constant(Real{}, spec_.post_mult) * sigmoid_derivative(logit(n + j));
    }
    if (layout_.res != 0 && d.h_res != nullptr) {
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = 0; j < n; ++j) matrix_at(i, j) = d.h_res[i * n + j];
      }
      visit_manifold(spec_.manifold, Manifolds{}, [&](auto manifold) {
        manifold.backward(n, spec_.manifold_options, logit_.data() + 2 * n, matrix_.data(),
                          d_logit + 2 * n, scratch_.data());
      });
    }
    Real sum = Real{};
    for (int64_t c = 0; c < layout_.coefficients(); ++c) {
      d_q[c] = inv_rms * (alpha[layout_.group(c)] * d_logit[c]);
      if (spec_.gradient_precision == Precision::kBFloat16) d_q[c] = rounded(d_q[c], DType::kBF16);
      sum = sum + d_q[c] * z[c];
    }
    *d_sum_squares = d_sum_squares_of(sum, inv_rms, sum_squares);
  }

 private:
  static Real sigmoid(const Real& l) {
    const Real one = constant(Real{}, 1.0);
    const Real e = exp_of(Real{} - abs_of(l));
    return select_greater(l, Real{}, one, e) / (one + e);
  }
  static Real sigmoid_derivative(const Real& l) {
    const Real one = constant(Real{}, 1.0);
    const Real e = exp_of(Real{} - abs_of(l));
    return e / ((one + e) * (one + e));
  }

  Real d_sum_squares_of(const Real& sum, const Real& inv_rms, const Real& sum_squares) const {
    const Real two_k = constant(Real{}, 2.0 * static_cast<double>(features_));
    if (spec_.norm_form == NormForm::kInside) return Real{} - sum * inv_rms / two_k;
    const Real rms = sqrt_of(sum_squares / constant(Real{}, static_cast<double>(features_)));
    const Real zero = rms * sum * Real{};  // NaN where an input is
    const Real divisor = select_greater(rms, Real{}, rms, constant(Real{}, 1.0));
    return select_greater(rms, Real{}, Real{} - sum / (two_k * divisor), zero);
  }

  Real& logit(int64_t c) { return logit_[static_cast<size_t>(c)]; }
  Real& matrix_at(int64_t i, int64_t j) {
    const int64_t n = layout_.streams;
    const bool input_rows = spec_.matrix_order == MatrixOrder::kInputOutput;
    return matrix_[static_cast<size_t>(input_rows ? i * n + j : j * n + i)];
  }
  void make_logits(const Real* z, const Real* alpha, const Real* bias) {
    for (int64_t c = 0; c < layout_.coefficients(); ++c) {
      logit(c) = alpha[layout_.group(c)] * z[c] + bias[c];
    }
  }

  Spec spec_;
  GateLayout layout_;
  int64_t features_;  // K
  std::vector<Real> logit_, matrix_, scratch_;
};

}  // namespace mhc::reference
