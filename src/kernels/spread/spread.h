#pragma once
// out[t,i,d]     = scale * weights[t,i] source[t,d], weights absent meaning 1
// d_weights[t,i] = sum_d x[t,i,d] source[t,d]
//
// expand, the backward of reduce, and the backward of apply_pre (source = d_layer_input, out = d_x,
// d_weights = d_h_pre). Either output may be absent.

#include <cstdint>
#include <span>

#include "base/cost.h"
#include "base/isa.h"
#include "base/runtime.h"
#include "base/status.h"
#include "kernels/common/args.h"

namespace mhc {

struct SpreadArgs {
  const char* operation = "expand";  // for messages
  GatePrecision weights_precision = GatePrecision::kFloat32;
  double scale = 1.0;
  int64_t streams = 0;
  Tensor source;     // [T, D] A; D contiguous
  Tensor weights;    // [T, n] f32 (f64 when A is), contiguous, or absent
  Tensor x;          // [T, n, D] A, read for d_weights
  Tensor out;        // [T, n, D] A; may be x itself
  Tensor d_weights;  // [T, n] f32 (f64 when A is)
};

Status check(const SpreadArgs& args);
Status spread(const SpreadArgs& args, const Runtime& runtime);
void spread_reference(const SpreadArgs& args);

constexpr Cost spread_cost(const Dims& dims, DType activation, bool with_d_weights) {
  const double n = static_cast<double>(dims.streams);
  const double size = static_cast<double>(size_of(activation));
  const double features = static_cast<double>(dims.tokens) * static_cast<double>(dims.embedding);
  Cost cost;
  cost.bytes_read = features * size * (1 + (with_d_weights ? n : 0));
  cost.bytes_written = features * size * n;
  cost.flops_f32 = features * n * (with_d_weights ? 3 : 1);
  return cost;
}

struct SpreadKernel {
  Isa isa;
  DType dtype;
  const char* name;
  void (*run)(const SpreadArgs& args, int64_t begin, int64_t end, bool stream);
};
std::span<const SpreadKernel> spread_kernels();

}  // namespace mhc
