#include "kernels/collapse/collapse.h"

#include "kernels/collapse/collapse_reference.h"
#include "kernels/common/token_tasks.h"

namespace mhc {

using CollapseTokens = void(const CollapseArgs&, int64_t, int64_t, bool);
#if defined(MHC_HAVE_X86)
namespace avx512bf16 {
CollapseTokens collapse_bf16;
}
namespace avx512 {
CollapseTokens collapse_bf16, collapse_f16, collapse_f32;
}
namespace avx2 {
CollapseTokens collapse_bf16, collapse_f16, collapse_f32;
}
#endif
namespace scalar {
CollapseTokens collapse_bf16, collapse_f16, collapse_f32;
}

namespace {

constexpr CollapseKernel kKernels[] = {
#if defined(MHC_HAVE_X86)
    {Isa::kAvx512Bf16, DType::kBF16, "collapse_avx512bf16_bf16", avx512bf16::collapse_bf16},
    {Isa::kAvx512, DType::kBF16, "collapse_avx512_bf16", avx512::collapse_bf16},
    {Isa::kAvx512, DType::kF16, "collapse_avx512_f16", avx512::collapse_f16},
    {Isa::kAvx512, DType::kF32, "collapse_avx512_f32", avx512::collapse_f32},
    {Isa::kAvx2, DType::kBF16, "collapse_avx2_bf16", avx2::collapse_bf16},
    {Isa::kAvx2, DType::kF16, "collapse_avx2_f16", avx2::collapse_f16},
    {Isa::kAvx2, DType::kF32, "collapse_avx2_f32", avx2::collapse_f32},
#endif
    {Isa::kScalar, DType::kBF16, "collapse_scalar_bf16", scalar::collapse_bf16},
    {Isa::kScalar, DType::kF16, "collapse_scalar_f16", scalar::collapse_f16},
    {Isa::kScalar, DType::kF32, "collapse_scalar_f32", scalar::collapse_f32},
};

}  // namespace

std::span<const CollapseKernel> collapse_kernels() { return kKernels; }

Status collapse(const CollapseArgs& args, const Runtime& runtime) {
  MHC_RETURN_IF_ERROR(check(args));
  const Dims dims{args.x.shape[0], args.x.shape[1], args.x.shape[2]};
  const DType dtype = args.x.dtype;
  if (dims.tokens == 0) return {};
  if (dtype == DType::kF64) {
    count_call("collapse_reference_f64");
    collapse_reference(args, runtime.executor);
    return {};
  }
  const Cost cost = collapse_cost(dims, dtype);
  const Tuning tuning = runtime.tuning("collapse", dims.tokens, dims.streams, dims.embedding,
                                       static_cast<int32_t>(dtype));
  const bool streaming = is_streamed(cost.bytes_written, tuning);
  run_tokens(choose_kernel(kKernels, dtype, runtime), args, dims.tokens, cost, streaming, tuning,
             runtime);
  return {};
}

}  // namespace mhc
