#pragma once
// out[t,d] = scale * sum_i weights[t,i] x[t,i,d], weights absent meaning 1
//
// apply_pre (weights = h_pre), reduce (scale 1 or 1/n) and the backward of expand.

#include <cstdint>
#include <span>

#include "base/cost.h"
#include "base/isa.h"
#include "base/runtime.h"
#include "base/status.h"
#include "kernels/common/args.h"

namespace mhc {

struct CollapseArgs {
  const char* operation = "apply_pre";  // for messages
  GatePrecision weights_precision = GatePrecision::kFloat32;
  double scale = 1.0;
  Tensor x;        // [T, n, D] A; D contiguous
  Tensor weights;  // [T, n] f32 (f64 when A is), contiguous, or absent
  Tensor out;      // [T, D] A
};

Status check(const CollapseArgs& args);
Status collapse(const CollapseArgs& args, const Runtime& runtime);
void collapse_reference(const CollapseArgs& args);

constexpr Cost collapse_cost(const Dims& dims, DType activation) {
  const double n = static_cast<double>(dims.streams);
  const double size = static_cast<double>(size_of(activation));
  const double features = static_cast<double>(dims.tokens) * static_cast<double>(dims.embedding);
  Cost cost;
  cost.bytes_read = features * size * n + 4 * static_cast<double>(dims.tokens) * n;
  cost.bytes_written = features * size;
  cost.flops_f32 = features * 2 * n;
  return cost;
}

struct CollapseKernel {
  Isa isa;
  DType dtype;
  const char* name;
  void (*run)(const CollapseArgs& args, int64_t begin, int64_t end, bool stream);
};
std::span<const CollapseKernel> collapse_kernels();

}  // namespace mhc
