#pragma once
// Between the driver (pre.cc) and the ISA files: one call, prepared, and the table of kernels.

#include <cstdint>
#include <span>

#include "base/isa.h"
#include "kernels/common/gates.h"
#include "kernels/common/packed_phi.h"
#include "kernels/pre/pre.h"

namespace mhc {

struct PrePlan {
  const PreArgs* args = nullptr;
  Dims dims;
  GateParams gates;
  PackedPhiLayout layout;
  const uint32_t* phi = nullptr;
  int64_t tile_tokens = 0;
  bool stream = false;  // write layer_input around the caches
  int64_t blocks = 0;   // of all streams together
  float* partials =
      nullptr;  // [blocks][T][padded + 1]: block sums of q and of the squares, small T only
};

struct PreKernel {
  Isa isa;
  DType dtype;
  bool dot;  // projects with the bf16 dot instruction
  const char* name;
  int64_t lanes;
  // scratch: pre_scratch_floats() floats of the worker, aligned to 64 bytes.
  void (*pack)(const PackedPhiLayout& layout, const Params& params, bool round, const Dims& dims,
               int64_t block, float* scratch, uint32_t* packed);
  void (*tokens)(const PrePlan& plan, int64_t begin, int64_t end, float* scratch);
  // The two halves of `tokens` for few of them: block sums of all tokens, then everything else.
  void (*partials)(const PrePlan& plan, int64_t block, float* scratch);
  void (*finish)(const PrePlan& plan, int64_t begin, int64_t end, float* scratch);
};
std::span<const PreKernel> pre_kernels();  // best first

// One tile: staged x, totals of q, sums of squares, h_pre, and the gates' vectors.
int64_t pre_scratch_floats(const PackedPhiLayout& layout, const GateLayout& gates, int32_t manifold,
                           const ManifoldOptions& options, int64_t tile_tokens);

}  // namespace mhc
