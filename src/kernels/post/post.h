#pragma once
// x_next[t,j,d] = sum_i h_res[t,i,j] x[t,i,d] + h_post[t,j] layer_output[t,d]
//
// Writes the branch's output back into the streams and mixes them. h_res is input-major.

#include <cstdint>
#include <span>

#include "base/cost.h"
#include "base/isa.h"
#include "base/runtime.h"
#include "base/status.h"
#include "kernels/common/args.h"

namespace mhc {

struct PostArgs {
  Spec spec;            // streams, h_post_precision, h_res_precision
  Tensor x;             // [T, n, D] activation type A: bf16, f16, f32 or f64; D contiguous
  Tensor layer_output;  // [T, D] A; D contiguous
  Tensor h_post;        // [T, n] f32 (f64 when A is), contiguous
  Tensor h_res;         // [T, n, n] likewise, [t, input, output]
  Tensor x_next;        // [T, n, D] A; may be x itself (same address and strides), else no overlap
  const char* operation = "post";  // for messages: post, apply_post
};

// With a precision of "activation" h_post or h_res is rounded to A before the mix. T = 0 returns at
// once.
Status check(const PostArgs& args);
Status post(const PostArgs& args, const Runtime& runtime);

// The definition, in double; rounds each output once. Args must have passed check.
void post_reference(const PostArgs& args);

// One read of every stream and of the branch's output, one write of every stream.
constexpr Cost post_cost(const Dims& dims, DType activation) {
  const double n = static_cast<double>(dims.streams);
  const double size = static_cast<double>(size_of(activation));
  const double features = static_cast<double>(dims.tokens) * static_cast<double>(dims.embedding);
  const double gates = 4 * static_cast<double>(dims.tokens) * n * (n + 1);
  Cost cost;
  cost.bytes_read = features * size * (n + 1) + gates;
  cost.bytes_written = features * size * n;
  cost.flops_f32 = features * 2 * n * (n + 1);
  return cost;
}

struct PostKernel {
  Isa isa;
  DType dtype;
  const char* name;
  // Tokens [begin, end) of checked arguments. stream: write around the caches where alignment
  // permits.
  void (*run)(const PostArgs& args, int64_t begin, int64_t end, bool stream);
};
std::span<const PostKernel> post_kernels();  // best first

}  // namespace mhc
