#pragma once
// The definition of collapse, generic over the number type.

#include "kernels/collapse/collapse.h"
#include "kernels/common/reference.h"

namespace mhc {

// As collapse_reference(args), with its tokens spread over the executor. Every thread count gives
// the same bits.
void collapse_reference(const CollapseArgs& args, const Executor& executor);

namespace reference {

template <class Real>
struct CollapseArrays {
  const Real* x;        // [T, n, D]
  const Real* weights;  // [T, n], or null for 1
  Real* out;            // [T, D]
};

// out[t,d] = scale * sum_i weights[t,i] x[t,i,d]
template <class Real>
void collapse(GatePrecision precision, double scale, DType activation, const Dims& dims,
              const CollapseArrays<Real>& a) {
  const int64_t n = dims.streams;
  const int64_t embedding = dims.embedding;
  for (int64_t t = 0; t < dims.tokens; ++t) {
    Real* out = a.out + t * embedding;
    for (int64_t d = 0; d < embedding; ++d) out[d] = Real{};
    for (int64_t i = 0; i < n; ++i) {
      const Real weight = a.weights == nullptr
                              ? constant(Real{}, 1.0)
                              : gate_in_mix(a.weights[t * n + i], precision, activation);
      add_scaled(embedding, weight, a.x + (t * n + i) * embedding, out);
    }
    for (int64_t d = 0; d < embedding; ++d) out[d] = constant(Real{}, scale) * out[d];
  }
}

}  // namespace reference
}  // namespace mhc
