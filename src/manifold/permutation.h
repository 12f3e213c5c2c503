#pragma once
// Permutation mixture (mHC-lite, arXiv 2601.05732): a softmax mixture of all n! permutation
// matrices, doubly stochastic by construction.
//
//   w = softmax(logits),  h[i][j] = sum_p w[p] [perm_p(i) = j]
//
// Permutations are in lexicographic order, the identity first.
//
// h gathers n adds per permutation, not a dense product with the n! x n^2 matrix of zeros and ones.

#include "manifold/manifold.h"

namespace mhc {

struct Permutation {
  static constexpr int32_t id = 1;
  static constexpr const char* name = "permutation";
  static constexpr const char* summary =
      "softmax mixture of the n! permutation matrices (mHC-lite)";
  static constexpr int64_t max_streams = 5;  // n! logits: 120 at n = 5, 720 at n = 6
  static constexpr Marginals marginals{true, true, true};

  static constexpr int64_t logits(int64_t n) { return n <= 1 ? 1 : n * logits(n - 1); }
  static constexpr int64_t scratch_size(int64_t n, const ManifoldOptions&) { return 2 * logits(n); }
  static constexpr double marginal_tolerance(int64_t n, const ManifoldOptions&) {
    return static_cast<double>(logits(n) + n) * 0x1p-23;  // one sum of n! weights, one of n entries
  }

  template <class V>
  MHC_INLINE static void forward(int64_t n, const ManifoldOptions&, const V* logits, V* h_res,
                                 V* scratch) {
    with_constant(n, [&](auto size) {
      constexpr int64_t kN = size.value;
      V* w = scratch;
      softmax<kN>(logits, w);
      for (int64_t k = 0; k < kN * kN; ++k) h_res[k] = constant(w[0], 0.0);
      for (int64_t p = 0; p < Table<kN>::kCount; ++p) {
        for (int64_t i = 0; i < kN; ++i) {
          V& entry = h_res[i * kN + Table<kN>::kValue.image[p][i]];
          entry = entry + w[p];
        }
      }
    });
  }

  // d_w[p] = sum_i d_h[i][perm_p(i)]; then the softmax's derivative around its largest weight, so
  // that a dominating permutation does not cancel the others' gradients (docs/derivation.md).
  template <class V>
  MHC_INLINE static void backward(int64_t n, const ManifoldOptions&, const V* logits,
                                  const V* d_h_res, V* d_logits, V* scratch) {
    with_constant(n, [&](auto size) {
      constexpr int64_t kN = size.value;
      constexpr int64_t kCount = Table<kN>::kCount;
      V* w = scratch;
      V* q = scratch + kCount;
      softmax<kN>(logits, w);
      for (int64_t p = 0; p < kCount; ++p) {
        V sum = d_h_res[Table<kN>::kValue.image[p][0]];
        for (int64_t i = 1; i < kN; ++i)
          sum = sum + d_h_res[i * kN + Table<kN>::kValue.image[p][i]];
        q[p] = sum;
      }
      StableStep<V> step(w[0], q[0]);
      for (int64_t p = 1; p < kCount; ++p) step.visit(w[p], q[p]);
      V mean = constant(w[0], 0.0);
      for (int64_t p = 0; p < kCount; ++p) {
        q[p] = q[p] - step.r;
        mean = mean + q[p] * w[p];
      }
      for (int64_t p = 0; p < kCount; ++p) d_logits[p] = w[p] * (q[p] - mean);
    });
  }

 private:
  template <int64_t kN>
  struct Table {
    static constexpr int64_t kCount = logits(kN);
    struct Images {
      uint8_t image[kCount][kN];
    };
    static constexpr Images make() {
      Images t{};
      for (int64_t p = 0; p < kCount; ++p) {  // digits of p in the factorial number system
        uint8_t left[kN] = {};
        for (int64_t i = 0; i < kN; ++i) left[i] = static_cast<uint8_t>(i);
        int64_t rest = p;
        for (int64_t i = 0; i < kN; ++i) {
          const int64_t below = kN - 1 - i > 0 ? logits(kN - 1 - i) : 1;
          const int64_t digit = rest / below;
          rest %= below;
          t.image[p][i] = left[digit];
          for (int64_t k = digit; k + 1 < kN - i; ++k) left[k] = left[k + 1];
        }
      }
      return t;
    }
    static constexpr Images kValue = make();
  };

  template <int64_t kN>
  struct Constant {
    static constexpr int64_t value = kN;
  };

  template <class F>
  MHC_INLINE static void with_constant(int64_t n, const F& f) {
    switch (n) {
      case 1:
        return f(Constant<1>{});
      case 2:
        return f(Constant<2>{});
      case 3:
        return f(Constant<3>{});
      case 4:
        return f(Constant<4>{});
      default:
        return f(Constant<5>{});
    }
  }

  template <int64_t kN, class V>
  MHC_INLINE static void softmax(const V* logits, V* w) {
    constexpr int64_t kCount = Table<kN>::kCount;
    V largest = logits[0];
    for (int64_t p = 1; p < kCount; ++p) largest = max_of(largest, logits[p]);
    V sum = constant(largest, 0.0);
    for (int64_t p = 0; p < kCount; ++p) {
      w[p] = exp_of(logits[p] - largest);
      sum = sum + w[p];
    }
    const V scale = constant(sum, 1.0) / sum;
    for (int64_t p = 0; p < kCount; ++p) w[p] = w[p] * scale;
  }
};

}  // namespace mhc
