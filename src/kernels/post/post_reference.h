#pragma once
// The definition of post, generic over the number type.

#include "kernels/common/reference.h"
#include "kernels/post/post.h"

namespace mhc {

// As post_reference(args), with its tokens spread over the executor. Every thread count gives the
// same bits.
void post_reference(const PostArgs& args, const Executor& executor);

namespace reference {

template <class Real>
struct PostArrays {
  const Real* x;             // [T, n, D]
  const Real* layer_output;  // [T, D]
  const Real* h_post;        // [T, n]
  const Real* h_res;         // [T, n, n]
  Real* x_next;              // [T, n, D]
};

// x_next[t,j,d] = sum_i h_res[t,i,j] x[t,i,d] + h_post[t,j] layer_output[t,d]
template <class Real>
void post(const Spec& spec, DType activation, const Dims& dims, const PostArrays<Real>& a) {
  const int64_t n = dims.streams;
  const int64_t embedding = dims.embedding;
  for (int64_t t = 0; t < dims.tokens; ++t) {
    for (int64_t j = 0; j < n; ++j) {
      Real* x_next = a.x_next + (t * n + j) * embedding;
      const Real h_post = gate_in_mix(a.h_post[t * n + j], spec.h_post_precision, activation);
      for (int64_t d = 0; d < embedding; ++d) {
        x_next[d] = h_post * a.layer_output[t * embedding + d];
      }
      for (int64_t i = 0; i < n; ++i) {
        const Real h_res =
            gate_in_mix(a.h_res[(t * n + i) * n + j], spec.h_res_precision, activation);
        add_scaled(embedding, h_res, a.x + (t * n + i) * embedding, x_next);
      }
    }
  }
}

}  // namespace reference
}  // namespace mhc
