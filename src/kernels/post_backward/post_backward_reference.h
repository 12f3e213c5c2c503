#pragma once
// The definition of post's backward, generic over the number type.

#include "kernels/common/reference.h"
#include "kernels/post_backward/post_backward.h"

namespace mhc {

// As post_backward_reference(args), with its tokens spread over the executor. Every thread count
// gives the same bits.
void post_backward_reference(const PostBackwardArgs& args, const Executor& executor);

namespace reference {

// An output that is null is not computed, and what only it reads may be null as well.
template <class Real>
struct PostBackwardArrays {
  const Real* d_x_next;      // [T, n, D]
  const Real* x;             // [T, n, D]
  const Real* layer_output;  // [T, D]
  const Real* h_post;        // [T, n]
  const Real* h_res;         // [T, n, n]
  Real* d_layer_output;      // [T, D]
  Real* d_h_post;            // [T, n]
  Real* d_h_res;             // [T, n, n]
  Real* d_x;                 // [T, n, D]
};

// Forward is x_next[t,j,d] = sum_i h_res[t,i,j] x[t,i,d] + h_post[t,j] layer_output[t,d], linear in
// each of its four inputs. With the loss L and g[t,j,d] = dL/dx_next[t,j,d], dL/dv = sum_{j,d}
// g[t,j,d] dx_next[t,j,d]/dv:
//   v = layer_output[t,d]  reaches every j of its own d:   d_layer_output[t,d] = sum_j h_post[t,j]
//   g[t,j,d] v = h_post[t,j]        reaches every d of its own j:   d_h_post[t,j]       = sum_d
//   g[t,j,d] layer_output[t,d] v = h_res[t,i,j]       likewise, through x[t,i,d]: d_h_res[t,i,j] =
//   sum_d x[t,i,d] g[t,j,d] v = x[t,i,d]           reaches every j of its own d:   d_x[t,i,d] =
//   sum_j h_res[t,i,j] g[t,j,d]
// A gate that forward rounded appears here with the same rounded value.
template <class Real>
void post_backward(const Spec& spec, DType activation, const Dims& dims,
                   const PostBackwardArrays<Real>& a) {
  const int64_t n = dims.streams;
  const int64_t embedding = dims.embedding;
  for (int64_t t = 0; t < dims.tokens; ++t) {
    const Real* g = a.d_x_next + t * n * embedding;
    if (a.d_layer_output != nullptr) {
      Real* d_layer_output = a.d_layer_output + t * embedding;
      for (int64_t d = 0; d < embedding; ++d) d_layer_output[d] = Real{};
      for (int64_t j = 0; j < n; ++j) {
        const Real h_post = gate_in_mix(a.h_post[t * n + j], spec.h_post_precision, activation);
        add_scaled(embedding, h_post, g + j * embedding, d_layer_output);
      }
    }
    for (int64_t j = 0; j < n && a.d_h_post != nullptr; ++j) {
      a.d_h_post[t * n + j] = dot(embedding, g + j * embedding, a.layer_output + t * embedding);
    }
    for (int64_t i = 0; i < n; ++i) {
      if (a.d_x != nullptr) {
        Real* d_x = a.d_x + (t * n + i) * embedding;
        for (int64_t d = 0; d < embedding; ++d) d_x[d] = Real{};
      }
      for (int64_t j = 0; j < n; ++j) {
        const int64_t ij = (t * n + i) * n + j;
        if (a.d_h_res != nullptr) {
          a.d_h_res[ij] = dot(embedding, a.x + (t * n + i) * embedding, g + j * embedding);
        }
        if (a.d_x != nullptr) {
          const Real h_res = gate_in_mix(a.h_res[ij], spec.h_res_precision, activation);
          add_scaled(embedding, h_res, g + j * embedding, a.d_x + (t * n + i) * embedding);
        }
      }
    }
  }
}

}  // namespace reference
}  // namespace mhc
