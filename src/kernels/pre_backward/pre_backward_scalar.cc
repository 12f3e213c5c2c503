#include "base/simd/scalar.h"
#include "kernels/pre_backward/pre_backward-inl.h"

namespace mhc::scalar {

extern const PreBackwardKernel kPreBackwardBF16 =
    pre_backward_kernel<BF16>(Isa::kScalar, "pre_backward_scalar_bf16");
extern const PreBackwardKernel kPreBackwardF16 =
    pre_backward_kernel<F16>(Isa::kScalar, "pre_backward_scalar_f16");
extern const PreBackwardKernel kPreBackwardF32 =
    pre_backward_kernel<float>(Isa::kScalar, "pre_backward_scalar_f32");

}  // namespace mhc::scalar
