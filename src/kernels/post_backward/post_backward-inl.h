// One visit of g = d_x_next, x and layer_output, block by block of features: products, then the
// mixes that may overwrite what the products read.
//
//   [d_h_res; d_h_post] = [x; layer_output] g^T     products, n + 1 rows by n
//   d_layer_output      = h_post g                  mix, n rows to one
//   d_x                 = h_res g                   mix, n rows to n; eager schedule only
//
// Bytes per token of the lazy schedule (2n + 2) D sizeof(A), 20 D for n = 4 and bf16; flops 2 n (n
// + 2) D = 48 D. Eager adds 8 D bytes and 32 D flops. The 9 rows of a block are 9 KiB in bf16, so
// the mixes read g from L1. Included behind one header of base/simd.

#include "kernels/common/chunk-inl.h"
#include "kernels/common/mix-inl.h"
#include "kernels/common/products-inl.h"
#include "kernels/post_backward/post_backward.h"

namespace mhc::MHC_ISA {

// A mix that follows the products block by block.
template <class T>
struct FollowingMix {
  MixRows<T> rows;
  float weight[kMaxStreams * kMaxStreams];
  bool around = false;  // this token's rows are written around the caches
  int64_t done = 0;     // features of this token that are written

  template <bool kPrefetch, int64_t kIn, int64_t kOut>
  MHC_INLINE void follow(int64_t d, int64_t features) {
    const int64_t stop = mix_stop(rows, d, features, around);
    mix<kPrefetch, kIn, kOut>(rows, done, stop, around);
    done = stop;
  }
};

// The operation on one token after another; each part sets up, or stores, what is asked for.
template <class T, int64_t kN>
struct PostBackward {
  const PostBackwardArgs& args;
  const int64_t n;
  const int64_t features;
  ProductRows<T> products;
  FollowingMix<T> to_layer;  // d_layer_output
  FollowingMix<T> to_x;      // d_x
  VF totals[kMaxRows * kMaxStreams];

  MHC_INLINE explicit PostBackward(const PostBackwardArgs& a)
      : args(a), n(a.spec.streams), features(a.d_x_next.shape[2]) {
    products.lefts = (a.d_h_res.present() ? n : 0) + (a.d_h_post.present() ? 1 : 0);
    products.rights = n;
    to_layer.rows.inputs = n;
    to_layer.rows.outputs = a.d_layer_output.present() ? 1 : 0;
    to_layer.rows.weight = to_layer.weight;
    to_x.rows.inputs = n;
    to_x.rows.outputs = a.d_x.present() ? n : 0;
    to_x.rows.weight = to_x.weight;
  }

  // A row that the products read, and the same row of the next token, which they prefetch.
  MHC_INLINE const T* visit(const T* row, int64_t ahead) {
    if (ahead != 0) products.fetch[products.fetches++] = row + ahead;
    return row;
  }

  MHC_INLINE void begin_products(int64_t t, bool last) {
    const Tensor& g = args.d_x_next;
    const Tensor& x = args.x;
    const Tensor& output = args.layer_output;
    // Prefetches in both passes, so that memory is busy all the time: g's in the first mix.
    const bool mix_fetches = to_layer.rows.outputs > 0;
    int64_t row = 0;
    products.fetches = 0;
    for (int64_t j = 0; j < n; ++j) {
      products.right[j] = visit(g.at<T>(t, j), last || mix_fetches ? 0 : g.stride[0]);
    }
    if (args.d_h_res.present()) {
      for (; row < n; ++row) products.left[row] = visit(x.at<T>(t, row), last ? 0 : x.stride[0]);
    }
    if (args.d_h_post.present()) {
      products.left[row] = visit(output.at<T>(t), last ? 0 : output.stride[0]);
    }
    for (int64_t k = 0; k < products.lefts * n; ++k) totals[k] = zero();
  }

  MHC_INLINE void end_products(int64_t t) {
    const VF* total = totals;
    if (args.d_h_res.present()) {
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = 0; j < n; ++j) *args.d_h_res.at<float>(t, i, j) = reduce_add(*total++);
      }
    }
    if (args.d_h_post.present()) {
      for (int64_t j = 0; j < n; ++j) *args.d_h_post.at<float>(t, j) = reduce_add(*total++);
    }
  }

  MHC_INLINE void begin_mixes(int64_t t, bool last, bool streaming) {
    if (to_layer.rows.outputs > 0) {
      for (int64_t j = 0; j < n; ++j) {
        to_layer.rows.in[j] = products.right[j];
        to_layer.rows.ahead[j] = last ? 0 : args.d_x_next.stride[0];
      }
      to_layer.rows.out[0] = args.d_layer_output.at<T>(t);
      load_weights<T>(args.h_post.at<float>(t), n, args.spec.h_post_precision, to_layer.weight);
      to_layer.done = 0;
      // Streaming stops at whole lines, short of the block's end; d_x in place of g must not get
      // there first.
      const bool g_is_overwritten = to_x.rows.outputs > 0 && args.d_x.data == args.d_x_next.data;
      to_layer.around = streaming && !g_is_overwritten && can_stream(to_layer.rows) &&
                        args.d_layer_output.data != args.layer_output.data;
    }
    if (to_x.rows.outputs > 0) {
      float h_res[kMaxStreams * kMaxStreams];  // as weights inputs come first: transposed
      load_weights<T>(args.h_res.at<float>(t), n * n, args.spec.h_res_precision, h_res);
      for (int64_t i = 0; i < n; ++i) {
        to_x.rows.in[i] = products.right[i];
        to_x.rows.out[i] = args.d_x.at<T>(t, i);
        for (int64_t j = 0; j < n; ++j) to_x.weight[j * n + i] = h_res[i * n + j];
      }
      to_x.done = 0;
      to_x.around = streaming && can_stream(to_x.rows) && args.d_x.data != args.d_x_next.data;
    }
  }

  MHC_INLINE void token(int64_t t, bool last, bool streaming) {
    begin_products(t, last);
    begin_mixes(t, last, streaming);
    for (int64_t d = 0; d < features; d += kFeatureBlock) {
      const int64_t stop = at_most(d + kFeatureBlock, features);
      add_products<kMaxStreams>(products, d, stop, totals);
      if (to_layer.rows.outputs > 0)
        to_layer.template follow<true, kN, kN == 0 ? 0 : 1>(stop, features);
      if (to_x.rows.outputs > 0) to_x.template follow<false, kN, kN>(stop, features);
    }
    end_products(t);
  }
};

// kN is n, or 0 when it is known at run time only.
template <class T, int64_t kN>
static void post_backward_tokens(const PostBackwardArgs& args, int64_t begin, int64_t end,
                                 bool streaming) {
  PostBackward<T, kN> operation(args);
  for (int64_t t = begin; t < end; ++t) operation.token(t, t + 1 == end, streaming);
  if (streaming) stream_fence();
}

template <class T>
MHC_INLINE void post_backward_any(const PostBackwardArgs& args, int64_t begin, int64_t end,
                                  bool streaming) {
  const int64_t n = args.spec.streams;
  if constexpr (VF::kLanes > 1) {
    if (n == 2) return post_backward_tokens<T, 2>(args, begin, end, streaming);
    if (n == 4) return post_backward_tokens<T, 4>(args, begin, end, streaming);
    if (n == 8) return post_backward_tokens<T, 8>(args, begin, end, streaming);
  }
  post_backward_tokens<T, 0>(args, begin, end, streaming);
}

void post_backward_bf16(const PostBackwardArgs& args, int64_t begin, int64_t end, bool streaming) {
  post_backward_any<BF16>(args, begin, end, streaming);
}
#if !MHC_ISA_HAS_DOT  // the instruction set below does the same
void post_backward_f16(const PostBackwardArgs& args, int64_t begin, int64_t end, bool streaming) {
  post_backward_any<F16>(args, begin, end, streaming);
}
void post_backward_f32(const PostBackwardArgs& args, int64_t begin, int64_t end, bool streaming) {
  post_backward_any<float>(args, begin, end, streaming);
}
#endif

}  // namespace mhc::MHC_ISA
