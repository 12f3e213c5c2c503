#include "base/simd/avx512.h"
#include "base/simd/simd_probe_wide-inl.h"

namespace mhc::MHC_ISA {
SimdProbe simd_probe() { return probe_wide("avx512", Isa::kAvx512); }
}  // namespace mhc::MHC_ISA
