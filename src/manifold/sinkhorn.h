#pragma once
// Sinkhorn (mHC, arXiv 2512.24880), in the form of DeepSeek-V4, MaxText and TileKernels:
//
//   c = softmax over j of each row i, then c += eps;  c /= (column sum over i) + eps
//   repeat iterations - 1 times:  c /= (row sum over j) + eps;  c /= (column sum over i) + eps
//
// Each column sums to 1 - eps/d, d its last divisor; the rows are approximate. The backward is the
// exact derivative of this truncated loop: the formulas of the limit are off by orders of magnitude
// on peaked logits.

#include "manifold/manifold.h"

namespace mhc {

struct Sinkhorn {
  static constexpr int32_t id = 0;
  static constexpr const char* name = "sinkhorn";
  static constexpr const char* summary =
      "alternating row and column normalisation of a softmax (mHC)";
  static constexpr int64_t max_streams = 16;
  static constexpr Marginals marginals{false, true, true};

  static constexpr int64_t logits(int64_t n) { return n * n; }
  // n divisors for each of the 2 * iterations - 1 steps, the softmax and the cotangent.
  static constexpr int64_t scratch_size(int64_t n, const ManifoldOptions& o) {
    return n * (2 * o.iterations - 1) + 2 * n * n;
  }
  static constexpr double marginal_tolerance(int64_t n, const ManifoldOptions& o) {
    // eps over a last divisor of at least 1/n (logits within 1 of each other), plus roundings.
    return static_cast<double>(n) * (o.eps + 0x1p-22);
  }

  template <class V>
  MHC_INLINE static void forward(int64_t n, const ManifoldOptions& o, const V* logits, V* h_res,
                                 V* scratch) {
    softmax_rows(n, logits, h_res);
    iterate(n, o, h_res, scratch);
  }

  // Walks the steps backwards. The states are not stored (20 iterations of 16 lanes would leave
  // L1): each is got back from the next one by multiplying with the divisors, which are.
  template <class V>
  MHC_INLINE static void backward(int64_t n, const ManifoldOptions& o, const V* logits,
                                  const V* d_h_res, V* d_logits, V* scratch) {
    V* divisors = scratch;
    V* softmax = divisors + n * (2 * o.iterations - 1);
    V* c = softmax + n * n;
    V* g = d_logits;
    softmax_rows(n, logits, softmax);
    for (int64_t k = 0; k < n * n; ++k) c[k] = softmax[k];
    iterate(n, o, c, divisors);
    for (int64_t k = 0; k < n * n; ++k) g[k] = d_h_res[k];
    for (int32_t step = 2 * o.iterations - 2; step >= 0; --step) {
      const V* d = divisors + step * n;
      if (step % 2 == 0) {
        for (int64_t j = 0; j < n; ++j) undo_step(n, n, o.eps, d[j], c + j, g + j);
      } else {
        for (int64_t i = 0; i < n; ++i) undo_step(n, 1, o.eps, d[i], c + i * n, g + i * n);
      }
    }
    for (int64_t i = 0; i < n; ++i) {
      softmax_backward(n, softmax + i * n, g + i * n);
    }
  }

 private:
  template <class V>
  MHC_INLINE static void softmax_rows(int64_t n, const V* logits, V* c) {
    for (int64_t i = 0; i < n; ++i) {
      V largest = logits[i * n];
      for (int64_t j = 1; j < n; ++j) largest = max_of(largest, logits[i * n + j]);
      V sum = constant(largest, 0.0);
      for (int64_t j = 0; j < n; ++j) {
        c[i * n + j] = exp_of(logits[i * n + j] - largest);
        sum = sum + c[i * n + j];
      }
      const V scale = constant(sum, 1.0) / sum;
      for (int64_t j = 0; j < n; ++j) c[i * n + j] = c[i * n + j] * scale;
    }
  }

  // c /= sum + eps over the n entries c[0], c[stride], ...; leaves the divisor.
  template <class V>
  MHC_INLINE static void normalise(int64_t n, int64_t stride, double eps, V* c, V* divisor) {
    V sum = c[0];
    for (int64_t k = 1; k < n; ++k) sum = sum + c[k * stride];
    const V d = sum + constant(sum, eps);
    const V scale = constant(sum, 1.0) / d;
    for (int64_t k = 0; k < n; ++k) c[k * stride] = c[k * stride] * scale;
    *divisor = d;
  }

  template <class V>
  MHC_INLINE static void iterate(int64_t n, const ManifoldOptions& o, V* c, V* divisors) {
    const V eps = constant(c[0], o.eps);
    for (int64_t k = 0; k < n * n; ++k) c[k] = c[k] + eps;
    for (int32_t step = 0; step < 2 * o.iterations - 1; ++step) {
      V* d = divisors + step * n;
      if (step % 2 == 0) {
        for (int64_t j = 0; j < n; ++j) normalise(n, n, o.eps, c + j, d + j);
      } else {
        for (int64_t i = 0; i < n; ++i) normalise(n, 1, o.eps, c + i * n, d + i);
      }
    }
  }

  // Given y = c / d in c and the cotangent of y in g: leaves the numerator in c and its cotangent
  // in g.
  //   d_c = (q - sum q y + r eps/d) / d,  q = g - r,  r = g at the largest y
  template <class V>
  MHC_INLINE static void undo_step(int64_t n, int64_t stride, double eps, const V& d, V* c, V* g) {
    StableStep<V> step(c[0], g[0]);
    for (int64_t k = 1; k < n; ++k) step.visit(c[k * stride], g[k * stride]);
    const V scale = constant(d, 1.0) / d;
    V rest = step.r * constant(d, eps) * scale;
    for (int64_t k = 0; k < n; ++k) {
      g[k * stride] = g[k * stride] - step.r;
      rest = rest - g[k * stride] * c[k * stride];
    }
    for (int64_t k = 0; k < n; ++k) {
      g[k * stride] = (g[k * stride] + rest) * scale;
      c[k * stride] = c[k * stride] * d;
    }
  }

  template <class V>
  MHC_INLINE static void softmax_backward(int64_t n, const V* w, V* g) {
    StableStep<V> step(w[0], g[0]);
    for (int64_t k = 1; k < n; ++k) step.visit(w[k], g[k]);
    V mean = constant(w[0], 0.0);
    for (int64_t k = 0; k < n; ++k) {
      g[k] = g[k] - step.r;
      mean = mean + g[k] * w[k];
    }
    for (int64_t k = 0; k < n; ++k) g[k] = w[k] * (g[k] - mean);
  }
};

}  // namespace mhc
