#include "kernels/post_backward/post_backward.h"

#include "kernels/common/token_tasks.h"
#include "kernels/post_backward/post_backward_reference.h"

namespace mhc {

using PostBackwardTokens = void(const PostBackwardArgs&, int64_t, int64_t, bool);
#if defined(MHC_HAVE_X86)
namespace avx512bf16 {
PostBackwardTokens post_backward_bf16;
}
namespace avx512 {
PostBackwardTokens post_backward_bf16, post_backward_f16, post_backward_f32;
}
namespace avx2 {
PostBackwardTokens post_backward_bf16, post_backward_f16, post_backward_f32;
}
#endif
namespace scalar {
PostBackwardTokens post_backward_bf16, post_backward_f16, post_backward_f32;
}

namespace {

constexpr PostBackwardKernel kKernels[] = {
#if defined(MHC_HAVE_X86)
    {Isa::kAvx512Bf16, DType::kBF16, "post_backward_avx512bf16_bf16",
     avx512bf16::post_backward_bf16},
    {Isa::kAvx512, DType::kBF16, "post_backward_avx512_bf16", avx512::post_backward_bf16},
    {Isa::kAvx512, DType::kF16, "post_backward_avx512_f16", avx512::post_backward_f16},
    {Isa::kAvx512, DType::kF32, "post_backward_avx512_f32", avx512::post_backward_f32},
    {Isa::kAvx2, DType::kBF16, "post_backward_avx2_bf16", avx2::post_backward_bf16},
    {Isa::kAvx2, DType::kF16, "post_backward_avx2_f16", avx2::post_backward_f16},
    {Isa::kAvx2, DType::kF32, "post_backward_avx2_f32", avx2::post_backward_f32},
#endif
    {Isa::kScalar, DType::kBF16, "post_backward_scalar_bf16", scalar::post_backward_bf16},
    {Isa::kScalar, DType::kF16, "post_backward_scalar_f16", scalar::post_backward_f16},
    {Isa::kScalar, DType::kF32, "post_backward_scalar_f32", scalar::post_backward_f32},
};

}  // namespace

std::span<const PostBackwardKernel> post_backward_kernels() { return kKernels; }

Status post_backward(const PostBackwardArgs& args, const Runtime& runtime) {
  MHC_RETURN_IF_ERROR(check(args));
  const Tensor& g = args.d_x_next;
  const Dims dims{g.shape[0], g.shape[1], g.shape[2]};
  const DType dtype = g.dtype;
  if (dims.tokens == 0) return {};
  if (dtype == DType::kF64) {
    count_call("post_backward_reference_f64");
    post_backward_reference(args, runtime.executor);
    return {};
  }
  const Cost cost = post_backward_cost(dims, dtype, args.d_x.present());
  const Tuning tuning = runtime.tuning("post_backward", dims.tokens, dims.streams, dims.embedding,
                                       static_cast<int32_t>(dtype));
  const bool streaming = is_streamed(cost.bytes_written, tuning);
  run_tokens(choose_kernel(kKernels, dtype, runtime), args, dims.tokens, cost, streaming, tuning,
             runtime);
  return {};
}

}  // namespace mhc
