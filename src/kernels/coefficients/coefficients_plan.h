#pragma once
// Between the driver (coefficients.cc) and the ISA files.

#include <cstdint>
#include <span>

#include "base/isa.h"
#include "kernels/coefficients/coefficients.h"
#include "kernels/common/gates.h"

namespace mhc {

struct CoefficientsKernel {
  Isa isa;
  DType dtype;  // f32: projections and gates have no other type but f64, which is the reference's
  const char* name;
  int64_t lanes;
  // Tokens [begin, end), begin a multiple of lanes; scratch aligned to 64 bytes.
  void (*forward)(const CoefficientsArgs& args, const GateParams& gates, int64_t begin, int64_t end,
                  float* scratch);
  // sums: [tokens of the task / lanes][m + kMaxGroups] partial sums of d_bias and d_alpha, or null.
  void (*backward)(const CoefficientsBackwardArgs& args, const GateParams& gates, int64_t begin,
                   int64_t end, float* sums, float* scratch);
};
std::span<const CoefficientsKernel> coefficients_kernels();  // best first

}  // namespace mhc
