#include "base/simd/avx512.h"
#include "kernels/pre/pre-inl.h"

namespace mhc::avx512 {

extern const PreKernel kPreBF16 = pre_kernel<BF16>(Isa::kAvx512, false, "pre_avx512_bf16");
extern const PreKernel kPreF16 = pre_kernel<F16>(Isa::kAvx512, false, "pre_avx512_f16");
extern const PreKernel kPreF32 = pre_kernel<float>(Isa::kAvx512, false, "pre_avx512_f32");

}  // namespace mhc::avx512
