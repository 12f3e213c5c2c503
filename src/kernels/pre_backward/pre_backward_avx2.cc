#include "base/simd/avx2.h"
#include "kernels/pre_backward/pre_backward-inl.h"

namespace mhc::avx2 {

extern const PreBackwardKernel kPreBackwardBF16 =
    pre_backward_kernel<BF16>(Isa::kAvx2, "pre_backward_avx2_bf16");
extern const PreBackwardKernel kPreBackwardF16 =
    pre_backward_kernel<F16>(Isa::kAvx2, "pre_backward_avx2_f16");
extern const PreBackwardKernel kPreBackwardF32 =
    pre_backward_kernel<float>(Isa::kAvx2, "pre_backward_avx2_f32");

}  // namespace mhc::avx2
