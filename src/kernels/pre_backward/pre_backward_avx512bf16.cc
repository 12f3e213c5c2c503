#include "base/simd/avx512bf16.h"
#include "kernels/pre_backward/pre_backward-inl.h"

namespace mhc::avx512bf16 {

extern const PreBackwardKernel kPreBackwardBF16 =
    pre_backward_kernel<BF16>(Isa::kAvx512Bf16, "pre_backward_avx512bf16_bf16");

}  // namespace mhc::avx512bf16
