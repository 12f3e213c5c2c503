#pragma once
// The definition of spread, generic over the number type.

#include "kernels/common/reference.h"
#include "kernels/spread/spread.h"

namespace mhc {

// As spread_reference(args), with its tokens spread over the executor. Every thread count gives the
// same bits.
void spread_reference(const SpreadArgs& args, const Executor& executor);

namespace reference {

// An output that is null is not computed.
template <class Real>
struct SpreadArrays {
  const Real* source;   // [T, D]
  const Real* weights;  // [T, n], or null for 1
  const Real* x;        // [T, n, D], read for d_weights
  Real* out;            // [T, n, D]
  Real* d_weights;      // [T, n]
};

// out[t,i,d]     = scale * weights[t,i] source[t,d]
// d_weights[t,i] = sum_d x[t,i,d] source[t,d]
template <class Real>
void spread(GatePrecision precision, double scale, DType activation, const Dims& dims,
            const SpreadArrays<Real>& a) {
  const int64_t n = dims.streams;
  const int64_t embedding = dims.embedding;
  for (int64_t t = 0; t < dims.tokens; ++t) {
    const Real* source = a.source + t * embedding;
    for (int64_t i = 0; i < n; ++i) {
      if (a.d_weights != nullptr) {
        a.d_weights[t * n + i] = dot(embedding, a.x + (t * n + i) * embedding, source);
      }
      if (a.out == nullptr) continue;
      Real weight = constant(Real{}, scale);
      if (a.weights != nullptr) {
        weight = weight * gate_in_mix(a.weights[t * n + i], precision, activation);
      }
      Real* out = a.out + (t * n + i) * embedding;
      for (int64_t d = 0; d < embedding; ++d) out[d] = weight * source[d];
    }
  }
}

}  // namespace reference
}  // namespace mhc
