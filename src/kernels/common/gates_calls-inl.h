#pragma once
// What gates-inl.h defines, for the ISA files of operations. AVX-512 with BF16 has nothing to add
// to AVX-512 there.

#include "kernels/common/gates.h"

#if MHC_ISA_HAS_DOT
#define MHC_GATES_ISA avx512
#else
#define MHC_GATES_ISA MHC_ISA
#endif

namespace mhc::MHC_GATES_ISA {

// Gates of `count` <= kLanes tokens from q [count][q_stride] and sum_squares [count]; scratch
// aligned to 64 bytes, gate_scratch_vectors() vectors.
void gates_forward(const GateParams& p, int64_t count, const float* q, int64_t q_stride,
                   const float* sum_squares, const GateRows& out, float* scratch);

void gates_backward(const GateParams& p, int64_t count, const GateCotangents& in,
                    const GateGradients& out, float* scratch);

}  // namespace mhc::MHC_GATES_ISA

#if MHC_ISA_HAS_DOT
namespace mhc::MHC_ISA {
using avx512::gates_backward;
using avx512::gates_forward;
}  // namespace mhc::MHC_ISA
#endif
