#include "base/simd/avx2.h"
#include "kernels/pre/pre-inl.h"

namespace mhc::avx2 {

extern const PreKernel kPreBF16 = pre_kernel<BF16>(Isa::kAvx2, false, "pre_avx2_bf16");
extern const PreKernel kPreF16 = pre_kernel<F16>(Isa::kAvx2, false, "pre_avx2_f16");
extern const PreKernel kPreF32 = pre_kernel<float>(Isa::kAvx2, false, "pre_avx2_f32");

}  // namespace mhc::avx2
