// The mix with one output: n rows in, one out. Bytes per token (n + 1) D sizeof(A), 10 D for n = 4
// and bf16; flops 2 n D. The scale is folded into the weights. Included behind one header of
// base/simd.

#include "kernels/collapse/collapse.h"
#include "kernels/common/chunk-inl.h"
#include "kernels/common/mix-inl.h"

namespace mhc::MHC_ISA {

// kN is n, or 0 when it is known at run time only.
template <class T, int64_t kN>
static void collapse_tokens(const CollapseArgs& args, int64_t begin, int64_t end, bool streaming) {
  const int64_t n = args.x.shape[1];
  const auto scale = static_cast<float>(args.scale);
  float weight[kMaxStreams];
  MixRows<T> rows;
  rows.inputs = n;
  rows.outputs = 1;
  rows.weight = weight;
  for (int64_t t = begin; t < end; ++t) {
    load_scaled_weights<T>(args.weights, t, n, args.weights_precision, scale, weight);
    for (int64_t i = 0; i < n; ++i) {
      rows.in[i] = args.x.at<T>(t, i);
      rows.ahead[i] = t + 1 == end ? 0 : args.x.stride[0];
    }
    rows.out[0] = args.out.at<T>(t);
    const bool around = streaming && can_stream(rows);
    mix<true, kN, kN == 0 ? 0 : 1>(rows, 0, args.x.shape[2], around);
  }
  if (streaming) stream_fence();
}

template <class T>
MHC_INLINE void collapse_any(const CollapseArgs& args, int64_t begin, int64_t end, bool streaming) {
  if constexpr (VF::kLanes > 1) {
    if (args.x.shape[1] == 2) return collapse_tokens<T, 2>(args, begin, end, streaming);
    if (args.x.shape[1] == 4) return collapse_tokens<T, 4>(args, begin, end, streaming);
    if (args.x.shape[1] == 8) return collapse_tokens<T, 8>(args, begin, end, streaming);
  }
  collapse_tokens<T, 0>(args, begin, end, streaming);
}

void collapse_bf16(const CollapseArgs& args, int64_t begin, int64_t end, bool streaming) {
  collapse_any<BF16>(args, begin, end, streaming);
}
#if !MHC_ISA_HAS_DOT  // the instruction set below does the same
void collapse_f16(const CollapseArgs& args, int64_t begin, int64_t end, bool streaming) {
  collapse_any<F16>(args, begin, end, streaming);
}
void collapse_f32(const CollapseArgs& args, int64_t begin, int64_t end, bool streaming) {
  collapse_any<float>(args, begin, end, streaming);
}
#endif

}  // namespace mhc::MHC_ISA
