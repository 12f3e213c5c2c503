#include "base/simd/avx512.h"
#include "kernels/pre_backward/pre_backward-inl.h"

namespace mhc::avx512 {

extern const PreBackwardKernel kPreBackwardBF16 =
    pre_backward_kernel<BF16>(Isa::kAvx512, "pre_backward_avx512_bf16");
extern const PreBackwardKernel kPreBackwardF16 =
    pre_backward_kernel<F16>(Isa::kAvx512, "pre_backward_avx512_f16");
extern const PreBackwardKernel kPreBackwardF32 =
    pre_backward_kernel<float>(Isa::kAvx512, "pre_backward_avx512_f32");

}  // namespace mhc::avx512
