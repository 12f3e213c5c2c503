// First phase of pre_backward: from x, du and the gates' cotangents to what the second phase
// multiplies by. Reads (n + 1) D elements per token and leaves x in the last cache for the second
// phase. Compiled once per ISA.

#include "kernels/common/chunk-inl.h"
#include "kernels/common/gates_calls-inl.h"
#include "kernels/common/mix-inl.h"
#include "kernels/pre_backward/pre_backward_order-inl.h"

namespace mhc::MHC_ISA {

// sums[i] += sum_d x[i][d] du[d], block by block of kFeatureBlock features.
template <class T, int kStreams>
MHC_INLINE void dot_streams(const T* x, int64_t stream_stride, const T* du, int64_t embedding,
                            float* sums) {
  constexpr int64_t kL = VF::kLanes;
  for (int64_t first = 0; first < embedding; first += kFeatureBlock) {
    const int64_t end = first + kFeatureBlock < embedding ? first + kFeatureBlock : embedding;
    VF s[kStreams], odd[kStreams];
    MHC_UNROLL for (int i = 0; i < kStreams; ++i) s[i] = odd[i] = zero();
    int64_t d = first;
    for (; d + 2 * kL <= end; d += 2 * kL) {
      VF u[2];
      load_mixed(du + d, u, u + 1);
      MHC_UNROLL for (int i = 0; i < kStreams; ++i) {
        VF v[2];
        load_mixed(x + i * stream_stride + d, v, v + 1);
        s[i] = fma(v[0], u[0], s[i]);
        odd[i] = fma(v[1], u[1], odd[i]);
      }
    }
    for (; d < end; d += kL) {
      const int64_t left = end - d < kL ? end - d : kL;
      const VF u = load(du + d, left);
      MHC_UNROLL for (int i = 0; i < kStreams; ++i) {
        s[i] = fma(load(x + i * stream_stride + d, left), u, s[i]);
      }
    }
    MHC_UNROLL for (int i = 0; i < kStreams; ++i) sums[i] += reduce_add(s[i] + odd[i]);
  }
}

template <class T>
MHC_INLINE void dot_all_streams(const T* x, int64_t stream_stride, int64_t streams, const T* du,
                                int64_t embedding, float* sums) {
  int64_t i = 0;
  for (; i + 4 <= streams; i += 4) {
    dot_streams<T, 4>(x + i * stream_stride, stream_stride, du, embedding, sums + i);
  }
  if (i + 2 <= streams) {
    dot_streams<T, 2>(x + i * stream_stride, stream_stride, du, embedding, sums + i);
    i += 2;
  }
  if (i < streams) dot_streams<T, 1>(x + i * stream_stride, stream_stride, du, embedding, sums + i);
}

// Only norm_form "outside" needs it again: 1 / inv_rms - eps would cancel.
template <class T>
MHC_INLINE float sum_of_squares(const PreBackwardPlan& plan, int64_t t) {
  float sum = 0;
  for (int64_t i = 0; i < plan.dims.streams; ++i) {
    const T* x = plan.args->x.at<const T>(t, i);
    dot_streams<T, 1>(x, 0, x, plan.dims.embedding, &sum);
  }
  return sum;
}

// project_partial's backward: the cotangents are given.
MHC_INLINE void given_cotangents(const PreBackwardPlan& plan, int64_t t, int64_t count) {
  const int64_t m = plan.gates.coefficients;
  const int64_t row = t - plan.wave_begin;
  for (int64_t k = 0; k < count * m; ++k) {
    const float q = plan.args->d_q.present() ? plan.args->d_q.at<float>(t)[k] : 0.0f;
    plan.d_q[row * m + k] = plan.gates.round_gradient ? to_float(to_bf16(q)) : q;
  }
  for (int64_t r = 0; r < count; ++r) {
    const bool given = plan.args->d_sum_squares.present();
    plan.norm[row + r] = given ? -2.0f * *plan.args->d_sum_squares.at<float>(t + r) : 0.0f;
  }
}

// Two rounded values in a word; the upper halves of the floats are the bf16.
MHC_INLINE uint32_t bf16_pair(float even, float odd) {
  return __builtin_bit_cast(uint32_t, even) >> 16 |
         (__builtin_bit_cast(uint32_t, odd) & 0xffff0000u);
}

// The rounded d_q of tokens [t, t + count) as pairs, for the dot unit; t - wave_begin is even.
MHC_INLINE void pair_up(const PreBackwardPlan& plan, int64_t t, int64_t count) {
  const int64_t m = plan.gates.coefficients;
  const int64_t row = t - plan.wave_begin;
  for (int64_t r = 0; r < count; ++r) {
    const float* d_q = plan.d_q + (row + r) * m;
    uint32_t* pairs = plan.coefficient_pairs + (row + r) * plan.pairs();
    for (int64_t c = 0; c < m; c += 2)
      pairs[c / 2] = bf16_pair(d_q[c], c + 1 < m ? d_q[c + 1] : 0.0f);
    if (r % 2 != 0) continue;
    uint32_t* tokens = plan.token_pairs + (row + r) / 2 * m;
    for (int64_t c = 0; c < m; ++c)
      tokens[c] = bf16_pair(d_q[c], r + 1 < count ? d_q[m + c] : 0.0f);
  }
}

template <class T>
void backward_gates(const PreBackwardPlan& plan, int64_t begin, int64_t end, float* scratch) {
  const PreBackwardArgs& args = *plan.args;
  const int64_t n = plan.dims.streams;
  const int64_t m = plan.gates.coefficients;
  const bool given = !args.z.present();
  float* d_h_pre = scratch;                                 // [kLanes][n]
  float* sum_squares = d_h_pre + VF::kLanes * kMaxStreams;  // [kLanes], rounded up to 16
  float* work = sum_squares + round_up(VF::kLanes, 16);
  for (int64_t t = begin; t < end; t += VF::kLanes) {
    const int64_t count = end - t < VF::kLanes ? end - t : VF::kLanes;
    if (given) {
      given_cotangents(plan, t, count);
      clean_row(plan.d_q + (t - plan.wave_begin) * m, count * m);
      clean_row(plan.norm + (t - plan.wave_begin), count);
      if (plan.dot) pair_up(plan, t, count);
      continue;
    }
    const int64_t row = t - plan.wave_begin;
    for (int64_t r = 0; r < count; ++r) {
      float* sums = d_h_pre + r * n;
      for (int64_t i = 0; i < n; ++i) sums[i] = 0.0f;
      if (args.d_layer_input.present()) {
        dot_all_streams(args.x.at<const T>(t + r), args.x.stride[1], n,
                        args.d_layer_input.at<const T>(t + r), plan.dims.embedding, sums);
      }
      if (args.d_h_pre.present()) {
        for (int64_t i = 0; i < n; ++i) sums[i] += args.d_h_pre.at<float>(t + r)[i];
      }
      if (plan.gates.norm_outside) sum_squares[r] = sum_of_squares<T>(plan, t + r);
    }
    const GateCotangents in{args.z.at<const float>(t),
                            args.inv_rms.at<const float>(t),
                            sum_squares,
                            d_h_pre,
                            args.d_h_post.at_or_null<const float>(t),
                            args.d_h_res.at_or_null<const float>(t)};
    const bool mixes = args.d_x.present() && args.d_x_next.present();
    float* sums = plan.need_sums ? plan.sums + row / VF::kLanes * (m + kMaxGroups) : nullptr;
    const GateGradients out{plan.d_q + row * m,
                            plan.norm + row,
                            plan.h_pre + row * n,
                            mixes ? plan.h_res + row * n * n : nullptr,
                            sums,
                            sums == nullptr ? nullptr : sums + m};
    gates_backward(plan.gates, count, in, out, work);
    clean_row(out.d_q, count * m);
    clean_row(out.norm, count);
    load_weights<T>(out.h_pre, count * n, args.spec.h_pre_precision, out.h_pre);
    if (mixes) load_weights<T>(out.h_res, count * n * n, args.spec.h_res_precision, out.h_res);
    if (plan.dot) pair_up(plan, t, count);
  }
}

}  // namespace mhc::MHC_ISA
