// The mix with one input: out's n rows from source, and beside it the products of x's rows with
// source.
//
// Bytes per token (n + 1) D sizeof(A) without d_weights (expand), (2n + 1) D sizeof(A) with them:
// 10 D and 18 D for n = 4 and bf16; flops n D and 3 n D. The products of a block come first: out
// may be x, and source is then in L1. Included behind one header of base/simd.

#include "kernels/common/chunk-inl.h"
#include "kernels/common/mix-inl.h"
#include "kernels/common/products-inl.h"
#include "kernels/spread/spread.h"

namespace mhc::MHC_ISA {

// kN is n, or 0 when it is known at run time only.
template <class T, int64_t kN>
static void spread_tokens(const SpreadArgs& args, int64_t begin, int64_t end, bool streaming) {
  const int64_t n = args.streams;
  const int64_t features = args.source.shape[1];
  const bool with_products = args.d_weights.present();
  const auto scale = static_cast<float>(args.scale);
  float weight[kMaxStreams];
  VF totals[kMaxStreams];
  MixRows<T> rows;
  rows.inputs = 1;
  rows.outputs = args.out.present() ? n : 0;
  rows.weight = weight;
  ProductRows<T> products;
  products.lefts = with_products ? n : 0;
  products.rights = 1;
  products.fetches = products.lefts;
  for (int64_t t = begin; t < end; ++t) {
    products.right[0] = rows.in[0] = args.source.at<T>(t);
    rows.ahead[0] = t + 1 == end ? 0 : args.source.stride[0];
    for (int64_t i = 0; i < products.lefts; ++i) {
      products.left[i] = args.x.at<T>(t, i);
      products.fetch[i] = products.left[i] + (t + 1 == end ? 0 : args.x.stride[0]);
      totals[i] = zero();
    }
    for (int64_t i = 0; i < rows.outputs; ++i) rows.out[i] = args.out.at<T>(t, i);
    if (rows.outputs > 0) {
      load_scaled_weights<T>(args.weights, t, n, args.weights_precision, scale, weight);
    }
    const bool around = streaming && rows.outputs > 0 && can_stream(rows);
    int64_t mixed = 0;
    for (int64_t d = 0; d < features;) {
      const int64_t stop = with_products ? at_most(d + kFeatureBlock, features) : features;
      add_products<1>(products, d, stop, totals);
      if (rows.outputs > 0) {
        const int64_t mix_end = mix_stop(rows, stop, features, around);
        mix<true, kN == 0 ? 0 : 1, kN>(rows, mixed, mix_end, around);
        mixed = mix_end;
      }
      d = stop;
    }
    for (int64_t i = 0; i < products.lefts; ++i) {
      *args.d_weights.at<float>(t, i) = reduce_add(totals[i]);
    }
  }
  if (streaming) stream_fence();
}

template <class T>
MHC_INLINE void spread_any(const SpreadArgs& args, int64_t begin, int64_t end, bool streaming) {
  if constexpr (VF::kLanes > 1) {
    if (args.streams == 2) return spread_tokens<T, 2>(args, begin, end, streaming);
    if (args.streams == 4) return spread_tokens<T, 4>(args, begin, end, streaming);
    if (args.streams == 8) return spread_tokens<T, 8>(args, begin, end, streaming);
  }
  spread_tokens<T, 0>(args, begin, end, streaming);
}

void spread_bf16(const SpreadArgs& args, int64_t begin, int64_t end, bool streaming) {
  spread_any<BF16>(args, begin, end, streaming);
}
#if !MHC_ISA_HAS_DOT  // the instruction set below does the same
void spread_f16(const SpreadArgs& args, int64_t begin, int64_t end, bool streaming) {
  spread_any<F16>(args, begin, end, streaming);
}
void spread_f32(const SpreadArgs& args, int64_t begin, int64_t end, bool streaming) {
  spread_any<float>(args, begin, end, streaming);
}
#endif

}  // namespace mhc::MHC_ISA
