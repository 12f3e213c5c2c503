#include "kernels/spread/spread.h"

#include "kernels/common/token_tasks.h"
#include "kernels/spread/spread_reference.h"

namespace mhc {

using SpreadTokens = void(const SpreadArgs&, int64_t, int64_t, bool);
#if defined(MHC_HAVE_X86)
namespace avx512bf16 {
SpreadTokens spread_bf16;
}
namespace avx512 {
SpreadTokens spread_bf16, spread_f16, spread_f32;
}
namespace avx2 {
SpreadTokens spread_bf16, spread_f16, spread_f32;
}
#endif
namespace scalar {
SpreadTokens spread_bf16, spread_f16, spread_f32;
}

namespace {

constexpr SpreadKernel kKernels[] = {
#if defined(MHC_HAVE_X86)
    {Isa::kAvx512Bf16, DType::kBF16, "spread_avx512bf16_bf16", avx512bf16::spread_bf16},
    {Isa::kAvx512, DType::kBF16, "spread_avx512_bf16", avx512::spread_bf16},
    {Isa::kAvx512, DType::kF16, "spread_avx512_f16", avx512::spread_f16},
    {Isa::kAvx512, DType::kF32, "spread_avx512_f32", avx512::spread_f32},
    {Isa::kAvx2, DType::kBF16, "spread_avx2_bf16", avx2::spread_bf16},
    {Isa::kAvx2, DType::kF16, "spread_avx2_f16", avx2::spread_f16},
    {Isa::kAvx2, DType::kF32, "spread_avx2_f32", avx2::spread_f32},
#endif
    {Isa::kScalar, DType::kBF16, "spread_scalar_bf16", scalar::spread_bf16},
    {Isa::kScalar, DType::kF16, "spread_scalar_f16", scalar::spread_f16},
    {Isa::kScalar, DType::kF32, "spread_scalar_f32", scalar::spread_f32},
};

}  // namespace

std::span<const SpreadKernel> spread_kernels() { return kKernels; }

Status spread(const SpreadArgs& args, const Runtime& runtime) {
  MHC_RETURN_IF_ERROR(check(args));
  const Dims dims{args.source.shape[0], args.streams, args.source.shape[1]};
  const DType dtype = args.source.dtype;
  if (dims.tokens == 0) return {};
  if (dtype == DType::kF64) {
    count_call("spread_reference_f64");
    spread_reference(args, runtime.executor);
    return {};
  }
  const Cost cost = spread_cost(dims, dtype, args.d_weights.present());
  const Tuning tuning = runtime.tuning("spread", dims.tokens, dims.streams, dims.embedding,
                                       static_cast<int32_t>(dtype));
  const bool streaming = args.out.data != args.x.data && is_streamed(cost.bytes_written, tuning);
  run_tokens(choose_kernel(kKernels, dtype, runtime), args, dims.tokens, cost, streaming, tuning,
             runtime);
  return {};
}

}  // namespace mhc
