#include "base/simd/avx512bf16.h"
#include "base/simd/simd_probe_dot-inl.h"

namespace mhc::MHC_ISA {
SimdProbe simd_probe() { return probe_dot("avx512bf16", Isa::kAvx512Bf16); }
}  // namespace mhc::MHC_ISA
