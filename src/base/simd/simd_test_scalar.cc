#include "base/simd/scalar.h"
#include "base/simd/simd_probe-inl.h"

namespace mhc::MHC_ISA {
SimdProbe simd_probe() { return probe_all("scalar", Isa::kScalar); }
}  // namespace mhc::MHC_ISA
