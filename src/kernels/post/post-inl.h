// The mix of one token after another, whole rows: n + 1 rows in, n out, [h_res; h_post] as one
// matrix.
//
// Bytes per token (2n + 1) D sizeof(A), 18 D for n = 4 and bf16; flops 2 n (n + 1) D = 40 D. 32
// features with AVX-512 are 9 lines from or to memory, 40 multiply-adds, 10 operations to widen and
// 40 to round and pack (8 with BF16): from L2 all that takes 0.6 of memory's time, so the mix is at
// memory's limit when enough lines are on their way (mix-inl.h). Included behind one header of
// base/simd.

#include "kernels/common/chunk-inl.h"
#include "kernels/common/mix-inl.h"
#include "kernels/post/post.h"

namespace mhc::MHC_ISA {

// kN is n, or 0 when it is known at run time only.
template <class T, int64_t kN>
static void post_tokens(const PostArgs& args, int64_t begin, int64_t end, bool streaming) {
  const int64_t n = args.spec.streams;
  float weight[kMaxRows * kMaxStreams];
  MixRows<T> rows;
  rows.inputs = n + 1;
  rows.outputs = n;
  rows.weight = weight;
  for (int64_t t = begin; t < end; ++t) {
    const bool last = t + 1 == end;
    load_weights<T>(args.h_res.at<float>(t), n * n, args.spec.h_res_precision, weight);
    load_weights<T>(args.h_post.at<float>(t), n, args.spec.h_post_precision, weight + n * n);
    for (int64_t i = 0; i < n; ++i) {
      rows.in[i] = args.x.at<T>(t, i);
      rows.ahead[i] = last ? 0 : args.x.stride[0];
      rows.out[i] = args.x_next.at<T>(t, i);
    }
    rows.in[n] = args.layer_output.at<T>(t);
    rows.ahead[n] = last ? 0 : args.layer_output.stride[0];
    const bool around = streaming && can_stream(rows);
    mix<true, kN == 0 ? 0 : kN + 1, kN>(rows, 0, args.x.shape[2], around);
  }
  if (streaming) stream_fence();
}

template <class T>
MHC_INLINE void post_any(const PostArgs& args, int64_t begin, int64_t end, bool streaming) {
  const int64_t n = args.spec.streams;
  if constexpr (VF::kLanes > 1) {
    if (n == 2) return post_tokens<T, 2>(args, begin, end, streaming);
    if (n == 4) return post_tokens<T, 4>(args, begin, end, streaming);
    if (n == 8) return post_tokens<T, 8>(args, begin, end, streaming);
  }
  post_tokens<T, 0>(args, begin, end, streaming);
}

void post_bf16(const PostArgs& args, int64_t begin, int64_t end, bool streaming) {
  post_any<BF16>(args, begin, end, streaming);
}
#if !MHC_ISA_HAS_DOT  // the instruction set below does the same
void post_f16(const PostArgs& args, int64_t begin, int64_t end, bool streaming) {
  post_any<F16>(args, begin, end, streaming);
}
void post_f32(const PostArgs& args, int64_t begin, int64_t end, bool streaming) {
  post_any<float>(args, begin, end, streaming);
}
#endif

}  // namespace mhc::MHC_ISA
