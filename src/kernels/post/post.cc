#include "kernels/post/post.h"

#include "kernels/common/token_tasks.h"
#include "kernels/post/post_reference.h"

namespace mhc {

using PostTokens = void(const PostArgs&, int64_t, int64_t, bool);
#if defined(MHC_HAVE_X86)
namespace avx512bf16 {
PostTokens post_bf16;
}
namespace avx512 {
PostTokens post_bf16, post_f16, post_f32;
}
namespace avx2 {
PostTokens post_bf16, post_f16, post_f32;
}
#endif
namespace scalar {
PostTokens post_bf16, post_f16, post_f32;
}

namespace {

constexpr PostKernel kKernels[] = {
#if defined(MHC_HAVE_X86)
    {Isa::kAvx512Bf16, DType::kBF16, "post_avx512bf16_bf16", avx512bf16::post_bf16},
    {Isa::kAvx512, DType::kBF16, "post_avx512_bf16", avx512::post_bf16},
    {Isa::kAvx512, DType::kF16, "post_avx512_f16", avx512::post_f16},
    {Isa::kAvx512, DType::kF32, "post_avx512_f32", avx512::post_f32},
    {Isa::kAvx2, DType::kBF16, "post_avx2_bf16", avx2::post_bf16},
    {Isa::kAvx2, DType::kF16, "post_avx2_f16", avx2::post_f16},
    {Isa::kAvx2, DType::kF32, "post_avx2_f32", avx2::post_f32},
#endif
    {Isa::kScalar, DType::kBF16, "post_scalar_bf16", scalar::post_bf16},
    {Isa::kScalar, DType::kF16, "post_scalar_f16", scalar::post_f16},
    {Isa::kScalar, DType::kF32, "post_scalar_f32", scalar::post_f32},
};

}  // namespace

std::span<const PostKernel> post_kernels() { return kKernels; }

Status post(const PostArgs& args, const Runtime& runtime) {
  MHC_RETURN_IF_ERROR(check(args));
  const Dims dims{args.x.shape[0], args.x.shape[1], args.x.shape[2]};
  const DType dtype = args.x.dtype;
  if (dims.tokens == 0) return {};
  if (dtype == DType::kF64) {
    count_call("post_reference_f64");
    post_reference(args, runtime.executor);
    return {};
  }
  const Cost cost = post_cost(dims, dtype);
  const Tuning tuning = runtime.tuning("post", dims.tokens, dims.streams, dims.embedding,
                                       static_cast<int32_t>(dtype));
  const bool streaming = args.x_next.data != args.x.data && is_streamed(cost.bytes_written, tuning);
  run_tokens(choose_kernel(kKernels, dtype, runtime), args, dims.tokens, cost, streaming, tuning,
             runtime);
  return {};
}

}  // namespace mhc
