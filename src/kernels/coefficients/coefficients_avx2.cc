#include "base/simd/avx2.h"
#include "kernels/coefficients/coefficients-inl.h"

namespace mhc::avx2 {

extern const CoefficientsKernel kCoefficientsF32 =
    coefficients_kernel(Isa::kAvx2, "coefficients_avx2_f32");

}  // namespace mhc::avx2
