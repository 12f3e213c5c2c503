#include "base/simd/scalar.h"
#include "kernels/pre/pre-inl.h"

namespace mhc::scalar {

extern const PreKernel kPreBF16 = pre_kernel<BF16>(Isa::kScalar, false, "pre_scalar_bf16");
extern const PreKernel kPreF16 = pre_kernel<F16>(Isa::kScalar, false, "pre_scalar_f16");
extern const PreKernel kPreF32 = pre_kernel<float>(Isa::kScalar, false, "pre_scalar_f32");

}  // namespace mhc::scalar
