#include "base/simd/avx512.h"
#include "kernels/coefficients/coefficients-inl.h"

namespace mhc::avx512 {

extern const CoefficientsKernel kCoefficientsF32 =
    coefficients_kernel(Isa::kAvx512, "coefficients_avx512_f32");

}  // namespace mhc::avx512
