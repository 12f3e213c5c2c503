#pragma once
// What a residual manifold is: a map from L logits per token to the n x n matrix that mixes the
// streams.
//
// One header per manifold in this folder; the build gathers them into manifold/list.h, and
// dispatch, the command, Python, tests, benches and the table in docs/ follow from that list. A
// manifold is a struct:
//
//   static constexpr int32_t id;              stable number, also in the C interface
//   static constexpr const char* name;        command line, Python, docs
//   static constexpr const char* summary;     one line for `mhc info` and the docs
//   static constexpr int64_t max_streams;
//   static constexpr Marginals marginals;
//   static int64_t logits(int64_t n);                                    L
//   static int64_t scratch_size(int64_t n, const ManifoldOptions&);      in V's
//   static double marginal_tolerance(int64_t n, const ManifoldOptions&); how exactly sums are one
//   template <class V> static void forward (n, options, const V* logits, V* h_res, V* scratch);
//   template <class V> static void backward(n, options, const V* logits, const V* d_h_res,
//                                           V* scratch);
//
// Matrices are row-major; rows are whatever the spec's matrix_order says. V is double for the
// reference, a SIMD vector whose lanes are tokens for the kernels, a dual number or an
// error-tracking number in tests; it has + - * / and the functions of base/number.h. h_res,
// d_logits and scratch overlap nothing.

#include <cstdint>

#include "base/macros.h"
#include "base/number.h"

namespace mhc {

// Which sums over the matrix M are one.
struct Marginals {
  bool rows;     // sum over the second index
  bool columns;  // sum over the first index
  bool non_negative;
};

// What Spec carries for the manifold; each reads the fields that it has.
struct ManifoldOptions {
  int32_t iterations = 20;  // sinkhorn: >= 1, the first is the softmax with one column step
  int32_t form = 0;         // sinkhorn: 0 is "softmax"; other public forms are refused by name
  double eps = 1e-6;        // sinkhorn: added to the softmax and to every sum that is divided by
};

template <class... Ms>
struct TypeList {};

// Gradient of the numerator and the denominator of y = c / (sum c + eps), without cancellation:
// with r the cotangent at the largest y, sum y = 1 - eps/d turns (g - sum g y) into (q - sum q y +
// r eps/d), q = g - r. The usual form loses every digit when one entry dominates.
// (docs/derivation.md)
template <class V>
struct StableStep {
  V largest, r;
  MHC_INLINE StableStep(const V& y, const V& g) : largest(y), r(g) {}
  MHC_INLINE void visit(const V& y, const V& g) {
    r = select_greater(y, largest, g, r);
    largest = select_greater(y, largest, y, largest);
  }
};

}  // namespace mhc
