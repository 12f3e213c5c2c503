#include "base/simd/avx2.h"
#include "base/simd/simd_probe_wide-inl.h"

namespace mhc::MHC_ISA {
SimdProbe simd_probe() { return probe_wide("avx2", Isa::kAvx2); }
}  // namespace mhc::MHC_ISA
