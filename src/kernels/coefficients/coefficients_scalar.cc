#include "base/simd/scalar.h"
#include "kernels/coefficients/coefficients-inl.h"

namespace mhc::scalar {

extern const CoefficientsKernel kCoefficientsF32 =
    coefficients_kernel(Isa::kScalar, "coefficients_scalar_f32");

}  // namespace mhc::scalar
