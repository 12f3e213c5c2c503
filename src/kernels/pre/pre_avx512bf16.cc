#include "base/simd/avx512bf16.h"
#include "kernels/pre/pre-inl.h"

namespace mhc::avx512bf16 {

extern const PreKernel kPreBF16 = pre_kernel<BF16>(Isa::kAvx512Bf16, true, "pre_avx512bf16_bf16");

}  // namespace mhc::avx512bf16
