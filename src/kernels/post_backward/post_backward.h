#pragma once
// Given g = d_x_next:
//   d_layer_output[t,d] = sum_j h_post[t,j] g[t,j,d]
//   d_h_post[t,j]       = sum_d g[t,j,d] layer_output[t,d]
//   d_h_res[t,i,j]      = sum_d x[t,i,d] g[t,j,d]
//   d_x[t,i,d]          = sum_j h_res[t,i,j] g[t,j,d]        eager schedule only
//
// In the lazy schedule d_x is not asked for: g itself goes on to pre_backward, which mixes it while
// it has the tile. Any subset of the outputs may be asked for; an input that no asked output reads
// may be absent.

#include <cstdint>
#include <span>

#include "base/cost.h"
#include "base/isa.h"
#include "base/runtime.h"
#include "base/status.h"
#include "kernels/common/args.h"

namespace mhc {

struct PostBackwardArgs {
  Spec spec;            // streams, h_post_precision, h_res_precision: the values that forward used
  Tensor d_x_next;      // [T, n, D] A; D contiguous, strides of T and n free, 0 included
  Tensor x;             // [T, n, D] A         read for d_h_res
  Tensor layer_output;  // [T, D] A            read for d_h_post
  Tensor h_post;        // [T, n] f32 or f64   read for d_layer_output
  Tensor h_res;         // [T, n, n]           read for d_x
  Tensor d_layer_output;                    // [T, D] A, out; may be layer_output itself
  Tensor d_h_post;                          // [T, n] f32 (f64 when A is), out
  Tensor d_h_res;                           // [T, n, n] likewise, out
  Tensor d_x;                               // [T, n, D] A, out; may be d_x_next itself
  const char* operation = "post_backward";  // for messages: post_backward, apply_post_backward
};

Status check(const PostBackwardArgs& args);
Status post_backward(const PostBackwardArgs& args, const Runtime& runtime);
void post_backward_reference(const PostBackwardArgs& args);

// Lazy: reads g, x and layer_output once, writes d_layer_output. Eager adds one write of d_x and
// its mix.
constexpr Cost post_backward_cost(const Dims& dims, DType activation, bool eager) {
  const double n = static_cast<double>(dims.streams);
  const double size = static_cast<double>(size_of(activation));
  const double features = static_cast<double>(dims.tokens) * static_cast<double>(dims.embedding);
  const double gates = 4 * static_cast<double>(dims.tokens) * n * (n + 1);
  Cost cost;
  cost.bytes_read = features * size * (2 * n + 1) + gates;
  cost.bytes_written = features * size * (eager ? n + 1 : 1) + gates;
  cost.flops_f32 = features * 2 * (2 * n + n * n + (eager ? n * n : 0));
  return cost;
}

struct PostBackwardKernel {
  Isa isa;
  DType dtype;
  const char* name;
  void (*run)(const PostBackwardArgs& args, int64_t begin, int64_t end, bool stream);
};
std::span<const PostBackwardKernel> post_backward_kernels();

}  // namespace mhc
